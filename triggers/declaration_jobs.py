"""Jobs of a declaration: what to run and how, declared under `jobs` or by the trigger that runs it."""

import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from .declaration_fields import Wrong, name_fault, nearest
from .declaration_files import Source
from .declaration_keys import KINDS, POLICIES_OF_JOBS, JobKeys
from .declaration_merge import job_policies, merged
from .declaration_shape import read_shape
from .declaration_variables import unset
from .job import JobDefinition
from .yaml_tree import Mapped, Path

_SUGGESTED = 50
"""For so many unknown jobs the nearest known one is looked for; the search looks at every name there is."""
_NO_USE = {
    "python": ("env", "cwd"),
    "command": ("run_in", "persist_data"),
    "http": ("env", "cwd", "run_in", "persist_data"),
}
"""Keys that a kind of job has no use for."""
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "fish")


@dataclass(eq=False)
class Jobs:
    """All jobs of one declaration; `known` are the names that exist elsewhere, in code or in the store."""

    known: Collection[str] = ()
    environ: Mapping[str, str] | None = None
    declared: dict[str, JobDefinition] = field(default_factory=dict)
    places: dict[str, tuple[Source, Path]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Every name that was given, broken ones too: a job in error is not also an unknown one."""
    unknown: int = 0
    out_of_reach: dict[Source, set[str]] = field(default_factory=dict)

    def read_section(self, source: Source) -> None:
        """Read `jobs` of one file."""
        section = source.section("jobs")
        for name, raw in (section or {}).items():
            path: Path = ("jobs", name)
            if (fault := name_fault(name)) is not None:
                complain(source, path, fault._replace(on_key=True))
            said = read_shape(JobKeys, raw, source.document, path)
            job = self.build(name, said, source, path)
            self.place(name, job, source, path)

    def place(self, name: str, job: JobDefinition | None, source: Source, path: Path) -> None:
        """Keep a job under its name, which must be free."""
        if name in self.places:
            other, there = self.places[name]
            first = other.document.at_path(there, "E025", "", key=True)
            message = f"the job `{name}` is also declared in {other.file}, line {first.line}"
            complain(source, path, Wrong("E025", message, "keep one, or rename one", on_key=True))
            return
        self.names.add(name)
        self.places[name] = (source, path)
        if job is not None:
            self.declared[name] = job

    def build(self, name: str, said: Mapping[str, Any], source: Source, path: Path) -> JobDefinition | None:
        """The job that `said` means; None when it cannot be made, with the reason among the problems."""
        kind = self._kind(said, source, path)
        if kind is None:
            return None
        _check(kind, said, source, path)
        self.check_variables(said, source, path)
        defaults = {key: source.defaults[key] for key in POLICIES_OF_JOBS if key in source.defaults}
        if kind != "python":
            defaults.pop("run_in", None)
        target, request = said[kind], {}
        if kind == "http":
            if "url" not in target:
                return None
            request = {key: value for key, value in target.items() if key != "url"}
            target = target["url"]
        return JobDefinition(
            name=name,
            kind=kind,
            target=tuple(target) if isinstance(target, list) else target,
            request=request,
            data=said.get("data", {}),
            policies=job_policies(merged(defaults, said), source.document, path),
            env=said.get("env", {}),
            cwd=said.get("cwd"),
            group=said.get("group", "default"),
            description=said.get("description"),
            tags=tuple(said.get("tags", ())),
        )

    def _kind(self, said: Mapping[str, Any], source: Source, path: Path) -> str | None:
        raw = raw_at(source, path)
        kinds = [kind for kind in raw if kind in KINDS]
        if len(kinds) > 1:
            wrong = Wrong(
                "E021", f"both `{kinds[0]}` and `{kinds[1]}` are given", "keep one", (kinds[1],), True
            )
            complain(source, path, wrong)
            return None
        if not kinds:
            hint = "add `python: module:function`, `command: …` or `http: …`"
            wrong = Wrong("E013", f"the job `{path[-1]}` has nothing to run", hint, on_key=True)
            complain(source, path, wrong)
            return None
        return kinds[0] if kinds[0] in said else None

    def from_target(self, target: str, source: Source, path: Path) -> None:
        """`job: module:function`: a job of that name, with the defaults of the file."""
        policies = {key: source.defaults[key] for key in POLICIES_OF_JOBS if key in source.defaults}
        job = JobDefinition(target, "python", target, policies=job_policies(policies, source.document, path))
        if target not in self.places:
            self.place(target, job, source, path)
        elif self.declared.get(target, job) != job:
            message = f"`{target}` gets other defaults here than in {self.places[target][0].file}"
            complain(source, path, Wrong("E025", message, "declare it once, under `jobs`", ("job",)))

    def refer(self, name: str, source: Source, path: Path, at: Path = ("job",)) -> bool:
        """Whether a trigger's `job:` names a job there is; one of the code is out of reach of defaults."""
        if name in self.names:
            return True
        if name in self.known:
            self.out_of_reach.setdefault(source, set()).add(name)
            return True
        self.unknown += 1
        meant = nearest(name, [*self.names, *self.known]) if self.unknown <= _SUGGESTED else None
        hint = f"did you mean `{meant}`?" if meant else "declare it under `jobs`, or write module:function"
        complain(source, path, Wrong("E024", f"there is no job `{name}`", hint, at))
        return False

    def check_variables(self, said: Mapping[str, Any], source: Source, path: Path) -> None:
        """Note each `${VAR}` without a default that the given environment does not have."""
        if self.environ is None:
            return
        for section in ("env", "http", "data"):
            for at, text in texts(said.get(section), (section,)):
                for name in unset(text, self.environ):
                    hint = f"set it, or write ${{{name}:-default}}"
                    complain(source, path, Wrong("E029", f"the variable {name} is not set", hint, at))


def _check(kind: str, said: Mapping[str, Any], source: Source, path: Path) -> None:
    """Keys that the kind of job has no use for, and texts that cannot work."""
    for key in _NO_USE[kind]:
        if key in said:
            message = f"`{key}` has no meaning for a `{kind}` job"
            complain(source, path, Wrong("E026", message, "remove it", (key,), True))
    if "key" in said and not _is_template(said["key"]):
        wrong = Wrong(
            "E010", "this is not a template over data", "write it as in invoice:{order_id}", ("key",)
        )
        complain(source, path, wrong)
    target = said[kind]
    if kind == "http":
        _check_request(target, source, path)
    elif isinstance(target, list) and not (target[0].rpartition("/")[2] in _SHELLS and "-c" in target):
        for index, part in enumerate(target):
            if "${" in part:
                hint = "write the command as one text, or pass the value by env"
                complain(
                    source, path, Wrong("W007", "no shell reads a list of arguments", hint, (kind, index))
                )


def _check_request(target: Mapping[str, Any], source: Source, path: Path) -> None:
    if "url" not in target:
        complain(source, path, Wrong("E013", "this request has no `url`", "add one", ("http",), True))
    if "json" in target and "body" in target:
        wrong = Wrong("E021", "both `json` and `body` are given", "keep one", ("http", "body"), True)
        complain(source, path, wrong)


def _is_template(text: str) -> bool:
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        return False
    return all(
        name is None or (name.isidentifier() and not form and not turn) for _, name, form, turn in parts
    )


def complain(source: Source, path: Path, wrong: Wrong) -> None:
    """Note what is wrong at `path` (and further, at `wrong.at`) in a file."""
    document = source.document
    at = (*path, *wrong.at)
    document.problems.append(
        document.at_path(at, wrong.code, wrong.message, hint=wrong.hint, key=wrong.on_key)
    )


def raw_at(source: Source, path: Path) -> Mapping[str, Any]:
    """The mapping that stands at `path` as it was written."""
    value: Any = source.document.tree
    for part in path:
        value = value[part]
    return value if isinstance(value, Mapped) else {}


def texts(value: Any, at: Path) -> list[tuple[Path, str]]:
    """Every text within a value, with the way to it."""
    if isinstance(value, str):
        return [(at, value)]
    items: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [found for name, item in items for found in texts(item, (*at, name))]
