"""A job this node can run: its definition, the code behind it, and what the two say together."""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from ..triggers.declaration_variables import expand
from ..triggers.job import JobDefinition, JobPolicies
from ..triggers.request_template import names_in
from .around.chain import Chain
from .key_template import has_name, missing_names

NO_NAMES: Set[str] = frozenset()

_CONTEXT = re.compile(r"\bJobContext\b")


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function can be given by name."""

    context: str | None = None
    """The parameter that takes the JobContext."""
    known: frozenset[str] | None = frozenset()
    """Names it takes; None where `**anything` takes all."""
    required: frozenset[str] = frozenset()

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Arguments":
        """Read a function's parameters: `ctx`, or whatever is annotated JobContext, takes the context."""
        context, known, required, anything = None, set(), set(), False
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                anything = True
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                if context is None and _takes_context(parameter):
                    context = parameter.name
                    continue
                known.add(parameter.name)
                if parameter.default is parameter.empty:
                    required.add(parameter.name)
        return cls(context, None if anything else frozenset(known), frozenset(required))

    def problems(self, data: Mapping[str, Any], given: Set[str] = NO_NAMES) -> list[str]:
        """Each way in which these data do not fit, beside the names that scopes have given; it names the argument."""
        names = data.keys()
        if (
            not given
            and names >= self.required
            and (self.known is None or names <= self.known)
            and self.context not in names
        ):
            return []
        found = [f"{name!r} is needed and not in data" for name in sorted(self.required - names - given)]
        found += [f"{name!r} is given by a scope and cannot be in data" for name in sorted(given & names)]
        if self.context in names:
            found.append(f"{self.context!r} is given by qsched and cannot be in data")
        if self.context in given:
            found.append(f"{self.context!r} is given by qsched and cannot be a scope's")
        if self.known is not None:
            for name in sorted(names - given - self.known - {self.context}):
                close = get_close_matches(name, self.known, 1)
                found.append(
                    f"it does not know {name!r}" + (f" (did you mean {close[0]!r}?)" if close else "")
                )
        return found


class Allowed(NamedTuple):
    """What a node lets its processes load, by name: the --app modules, and single ones that its own file names."""

    apps: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


NOTHING = Allowed()


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job as this node runs it. Make it once per definition and keep it: loading takes its time."""

    definition: JobDefinition
    function: Callable[..., Any] | None
    """None for a command or a request."""
    policies: JobPolicies
    """What YAML says, completed by the decorator; what neither says is None (the cluster's default)."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The decorator's, overlaid by YAML's; `${VAR}` unexpanded."""
    is_async: bool = False
    arguments: Arguments = field(default_factory=Arguments)
    place: str | None = None
    """`module:function`, by which another process finds the function."""
    allowed: Allowed = NOTHING
    chain: Chain | None = None
    """What is around its bodies; None where nothing is."""

    @property
    def in_process(self) -> bool:
        """Whether its bodies run in worker processes."""
        return self.policies.run_in == "process" and self.function is not None

    @property
    def on_loop(self) -> bool:
        """Whether its bodies are tasks of the node's event loop."""
        return self.is_async and not self.in_process

    def by_default(self, defaults: Mapping[str, Any]) -> "LoadedJob":
        """This job where the cluster says of it what neither file nor decorator does, as far as running it depends on that.

        A command's way to run is its own, and between thread and loop a function itself decides.
        """
        policies = self.policies
        if policies.request_recovery is None and defaults.get("request_recovery"):
            policies = replace(policies, request_recovery=True)
        if policies.run_in is None and defaults.get("run_in") == "process" and self.function is not None:
            policies = replace(policies, run_in="process")
        return self if policies is self.policies else replace(self, policies=policies)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def wants_ctx(self) -> bool:
        return self.arguments.context is not None

    def run_data(
        self, trigger_data: Mapping[str, Any] | None, fire_data: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        """The data of one run: the job's, overlaid by the trigger's, overlaid by the fire's.

        `${VAR}` is expanded in what was declared, never in what a fire brings: that may come from anybody.
        """
        declared = {**self.data, **trigger_data} if trigger_data else self.data
        if declared:
            declared = expand(declared, os.environ)
        return {**declared, **fire_data} if fire_data else declared


def check_arguments(loaded: LoadedJob, data: Mapping[str, Any]) -> list[str]:
    """What `qsched check --app` says of a trigger's data, laid over the job's: one text per problem."""
    merged = {**loaded.data, **data}
    found = []
    if loaded.function is not None:
        # Which names a scope gives is seen when it is opened: it may give whatever is lacking here.
        scoped = loaded.chain is not None and loaded.chain.scopes
        given = loaded.arguments.required - merged.keys() if scoped else NO_NAMES
        found += [f"{describe(loaded)}: {problem}" for problem in loaded.arguments.problems(merged, given)]
    if loaded.policies.key is not None:
        found += [
            f"job {loaded.name!r}: key {loaded.policies.key!r} names {name}, which the data do not have"
            for name in missing_names(loaded.policies.key, merged)
        ]
    for name in _names_of_request(loaded.definition):
        if not has_name(name, merged):
            found.append(f"job {loaded.name!r}: its request names {name}, which the data do not have")
    return found


def _names_of_request(definition: JobDefinition) -> list[str]:
    """The names of data that an http job's url and headers use."""
    if definition.kind != "http":
        return []
    texts = (str(definition.target), *definition.request.get("headers", {}).values())
    return list(dict.fromkeys(name for text in texts for name in names_in(text)))


def describe(loaded: LoadedJob) -> str:
    """`job 'rates' (bookstore.jobs:fetch_rates)`, for errors about a Python job."""
    function = loaded.function
    where = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', '?')}"
    return f"job {loaded.name!r} ({where})"


def _takes_context(parameter: inspect.Parameter) -> bool:
    if parameter.name == "ctx":
        return True
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return False
    return bool(_CONTEXT.search(annotation if isinstance(annotation, str) else _named(annotation)))


def _named(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
