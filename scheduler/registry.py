"""The jobs a node may run: `@job` functions of the modules its operator named, and its own file's."""

import importlib
import importlib.util
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from ..triggers.errors import DefinitionError
from ..triggers.job import JobDefinition
from .around.chain import Chain, Marked
from .around.marks import LISTENER, SHUTDOWN, STARTUP, mark_of, place_of
from .error_text import one_line
from .errors import AppError, JobUnloadable
from .jobs import JobDeclaration, check_run_in, declaration_of
from .loaded_job import Allowed, Arguments, LoadedJob
from .marked import marked

log = logging.getLogger("qsched.node")

_FLOORS = ("scheduler", "triggers", "cluster", "cli")
_FOREIGN = {"command": ("a command", "run commands"), "http": ("a request", "make requests")}
_HOOKS = (STARTUP, SHUTDOWN)
_HOUSE = Path(__file__).resolve().parent.parent


class JobRegistry:
    """Turns definitions into jobs that can run here. Any thread may ask it.

    `apps` are modules whose `@job` functions may run, with the modules below them; `declared` are the jobs
    that this node's own file declares, which may run as well; `allow` names further kinds: `command`, `http`. In a worker
    process `modules` are those that the node's file names: what may be loaded there is what may be loaded here.
    """

    def __init__(
        self,
        apps: Sequence[str] = (),
        declared: Iterable[JobDefinition] = (),
        allow: Collection[str] = (),
        *,
        modules: Collection[str] = (),
    ) -> None:
        """Import the apps; raises AppError with one line for each that cannot be."""
        self._lock = threading.RLock()
        self._hooks: set[int] | None = None
        self._apps = tuple(dict.fromkeys(apps))
        self._allow = frozenset(allow)
        declared = list(declared)
        self._declared = [_what_runs(definition) for definition in declared]
        self._declared_modules = frozenset(modules) | {
            definition.target.partition(":")[0]
            for definition in declared
            if definition.kind == "python" and isinstance(definition.target, str)
        }
        self._allowed = Allowed(self._apps, tuple(sorted(self._declared_modules)))
        problems = [problem for app in self._apps if (problem := _import_app(app)) is not None]
        if problems:
            raise AppError("\n".join(problems))

    def jobs(self) -> list[JobDeclaration]:
        """What `@job` declares in the apps, and in the modules below them that are imported, by name."""
        with self._lock:
            return sorted((found for found, _ in self._collected()), key=lambda found: found.name)

    def resolve(self, definition: JobDefinition) -> LoadedJob:
        """The job ready to run; raises JobUnloadable with the reason when this node cannot, or may not."""
        with self._lock:
            if definition.kind == "python":
                return self._python(definition)
            if definition.kind in ("command", "http"):
                return self._foreign(definition)
        raise JobUnloadable(
            f"job {definition.name!r} is of kind {definition.kind}, which this version cannot run"
        )

    def around(self) -> list[Marked]:
        """Hooks, scopes and middleware in the apps and in the modules that the node's file names, as its start finds them.

        Those modules are imported for it; what cannot be is an error of its jobs, when they are resolved.
        """
        with self._lock:
            for name in sorted(self._declared_modules):
                try:
                    _import(name, name)
                except JobUnloadable:
                    continue
            found = marked(self._allows, mark_of)
            self._hooks = {mark.number for mark, _ in found if mark.kind in _HOOKS}
            return found

    def listeners(self) -> list[Callable[..., Any]]:
        """The functions that are marked @listener by now, in their order."""
        with self._lock:
            found = sorted(marked(self._allows, mark_of), key=lambda each: each[0].place)
        return [function for mark, function in found if mark.kind == LISTENER]

    def _around(self) -> list[Marked]:
        """What is marked by now; a hook that came too late is told of, once."""
        found = marked(self._allows, mark_of)
        for mark, function in found:
            if mark.kind in _HOOKS and self._hooks is not None and mark.number not in self._hooks:
                self._hooks.add(mark.number)
                log.warning(
                    "hook.late hook=%s: its module was imported after the start; import it from an --app module",
                    place_of(function),
                )
        return found

    def _python(self, definition: JobDefinition) -> LoadedJob:
        target = definition.target
        if not isinstance(target, str):
            raise JobUnloadable(f"job {definition.name!r} must name module:function, and {target!r} does not")
        function, declared = self._by_place(target) if ":" in target else self._by_name(target)
        is_async = inspect.iscoroutinefunction(function)
        policies = definition.policies.over(declared.policies)
        if problem := check_run_in(policies.run_in, is_async=is_async):
            raise JobUnloadable(f"job {definition.name!r} ({target}): {problem}")
        try:
            policies.in_turns(None)
            chain = Chain.of(self._around(), declared.scopes, is_async=is_async)
        except DefinitionError as error:
            raise JobUnloadable(f"job {definition.name!r} ({target}): {error}") from error
        data = {**declared.data, **definition.data}
        place = target if ":" in target else f"{function.__module__}:{function.__qualname__}"
        return LoadedJob(
            definition,
            function,
            policies,
            data,
            is_async,
            Arguments.of(function),
            place=place,
            allowed=self._allowed,
            chain=chain,
        )

    def _foreign(self, definition: JobDefinition) -> LoadedJob:
        """A command or a request: nothing of it is code of the --app modules, so it needs a permission of its own."""
        kind, (one, many) = definition.kind, _FOREIGN[definition.kind]
        if kind not in self._allow and _what_runs(definition) not in self._declared:
            raise JobUnloadable(
                f"job {definition.name!r} is {one}, and this node may not {many} of others:"
                f" start it with --allow {kind}, or with the -f file that declares it"
            )
        if definition.policies.run_in is not None:
            raise JobUnloadable(f"job {definition.name!r} is {one}, which has no run_in: leave it out")
        return LoadedJob(definition, None, definition.policies, definition.data)

    def _by_place(self, target: str) -> tuple[Callable[..., Any], JobDeclaration]:
        """The marked function at `module:function`."""
        module_name, _, name = target.partition(":")
        if not self._allows(module_name):
            raise JobUnloadable(
                f"cannot load {target}: module {module_name} is not among --app modules"
                f" ({', '.join(self._apps) or 'none are given'}): add --app {module_name}"
            )
        module = _import(module_name, target)
        if not name.isidentifier():
            raise JobUnloadable(
                f"cannot load {target}: write module:function, with a function at the module's top"
            )
        try:
            function = getattr(module, name)
        except AttributeError:
            close = get_close_matches(
                name, [each for each in vars(module) if declaration_of(vars(module)[each])], 1
            )
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise JobUnloadable(
                f"cannot import {target}: module {module_name!r} has no attribute {name!r}{hint}"
            ) from None
        except BaseException as error:  # a module's own __getattr__ may raise anything
            raise JobUnloadable(f"cannot import {target}: {one_line(error)}") from error
        declared = declaration_of(function)
        if declared is None:
            raise JobUnloadable(f"{target} is not marked @job: add the decorator above its def")
        return function, declared

    def _by_name(self, name: str) -> tuple[Callable[..., Any], JobDeclaration]:
        """The one marked function whose job has this name."""
        collected = self._collected()
        found = [(declared, function) for declared, function in collected if declared.name == name]
        if len(found) > 1:
            places = ", ".join(
                sorted(f"{each.function.__module__}:{each.function.__qualname__}" for each, _ in found)
            )
            raise JobUnloadable(
                f"job name {name!r} is declared more than once ({places}): write module:function"
            )
        if not found:
            close = get_close_matches(name, [declared.name for declared, _ in collected], 1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else "write module:function, or add its module with --app"
            )
            raise JobUnloadable(
                f"no job named {name!r} in the --app modules ({', '.join(self._apps) or 'none'}): {hint}"
            )
        return found[0][1], found[0][0]

    def _collected(self) -> list[tuple[JobDeclaration, Callable[..., Any]]]:
        """Every function that is marked @job."""
        return marked(self._allows, declaration_of)

    def _allows(self, module_name: str) -> bool:
        if module_name in self._declared_modules:
            return True
        return any(module_name == app or module_name.startswith(f"{app}.") for app in self._apps)


def _what_runs(definition: JobDefinition) -> tuple[object, ...]:
    """What makes two definitions the same permission: the program and its surroundings, not the policies."""
    return (
        definition.kind,
        definition.target,
        dict(definition.env),
        definition.cwd,
        dict(definition.request),
    )


def _import_app(name: str) -> str | None:
    """Import an app; answers on one line why it cannot be."""
    if not name or not all(part.isidentifier() for part in name.split(".")):
        hint = f": did you mean {name.partition(':')[0]}?" if ":" in name else ""
        return f"--app {name!r} is not the name of a module, as in bookstore.jobs{hint}"
    top = name.partition(".")[0]
    if top in _FLOORS and _is_own_floor(top):
        return f"--app {name} would load qsched's own source a second time: did you mean qsched.{name}?"
    try:
        _import(name, name)
    except JobUnloadable as error:
        return f"--app {name}: {error}"
    return None


def _is_own_floor(top: str) -> bool:
    """Whether `import scheduler` would find this house's folder here, and not somebody else's module."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve().parent == _HOUSE / top


def _import(name: str, target: str) -> ModuleType:
    """The module; whatever its import raises, SystemExit and KeyboardInterrupt too, becomes JobUnloadable."""
    try:
        if name not in sys.modules:
            importlib.invalidate_caches()  # a file that came a moment ago must be seen
        return importlib.import_module(name)
    except BaseException as error:
        raise JobUnloadable(f"cannot import {target}: {one_line(error)}") from error
