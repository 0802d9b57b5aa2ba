"""YAML files in, definitions out: jobs, triggers and cluster defaults, or every error of all files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .collector import collector_paused
from .declaration_calendars import Calendars
from .declaration_files import Source, Sources, revision
from .declaration_groups import read_limits
from .declaration_jobs import Jobs
from .declaration_lint import Lint
from .declaration_merge import job_policies
from .declaration_problem import ERROR, DeclarationError, Problem
from .declaration_triggers import Triggers
from .job import JobDefinition, JobPolicies
from .time_lint import TimeLint
from .trigger import TriggerDefinition
from .yaml_scalars import is_null

DEFAULT_NAMESPACE = "default"
DEFAULT_FILE = "qsched.yaml"


@dataclass(frozen=True, slots=True)
class Declarations:
    """What the files of one namespace declare."""

    namespace: str
    jobs: tuple[JobDefinition, ...]
    triggers: tuple[TriggerDefinition, ...]
    cluster_defaults: Mapping[str, Any]
    """The `cluster:` key: policies as `JobPolicies.to_spec()` writes them, and `retention`; empty where it is not given."""
    revision_digest: str
    """Fingerprint of the bytes of all files; variables are in it by name, never by value."""
    warnings: tuple[Problem, ...] = ()
    files: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    """{group: how many firings of its jobs run at once}."""
    calendars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{name: what it leaves out}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    now: int
    known_jobs: Collection[str] = ()
    environ: Mapping[str, str] | None = None
    allow_empty: bool = False


@dataclass(slots=True)
class _Reading:
    """One load, from sources to definitions."""

    sources: Sources
    options: _Options
    namespace: str = DEFAULT_NAMESPACE
    cluster: JobPolicies = field(default_factory=JobPolicies)
    retention: dict[str, Any] = field(default_factory=dict)

    def finish(self) -> Declarations:
        with collector_paused():
            return self._finish()

    def _finish(self) -> Declarations:
        files = list(self.sources.found.values())
        self._one_namespace(files)
        self._one_cluster(files)
        jobs = Jobs(frozenset(self.options.known_jobs), self.options.environ)
        for source in files:
            jobs.read_section(source)
        calendars = Calendars()
        for source in files:
            calendars.read_section(source)
        calendars.resolve_all()
        triggers = Triggers(jobs, calendars)
        shapes = [shape for source in files for shape in triggers.read_section(source)]
        for source, path, said in shapes:
            triggers.build(source, path, said)
        said = {name: getattr(self.cluster, name) for name in ("retry", "overlap", "timeout")}
        cluster = {name: value for name, value in said.items() if value is not None}
        lint, times = Lint(jobs, cluster, self.options.now), TimeLint(self.options.now)
        for declared in triggers.declared.values():
            lint.trigger(declared)
            times.trigger(declared)
        limits = read_limits(files)
        lint.circles(triggers.declared.values())
        times.crowds(triggers.declared.values())
        for source in files:
            lint.file(source)
        if not self.options.allow_empty:
            self._empty(files, declared=bool(shapes))
        problems = self._problems(files)
        if any(problem.severity == ERROR for problem in problems):
            raise DeclarationError(problems)
        return Declarations(
            namespace=self.namespace,
            jobs=tuple(jobs.declared.values()),
            triggers=tuple(declared.definition for declared in triggers.declared.values()),
            cluster_defaults=self.cluster.to_spec() | self.retention,
            revision_digest=revision(files),
            warnings=tuple(problems),
            files=tuple(source.file for source in files),
            limits=limits,
            calendars=calendars.specs,
        )

    def _problems(self, files: Sequence[Source]) -> list[Problem]:
        """All problems, file by file in the order of their lines."""
        problems = list(self.sources.problems)
        for source in files:
            found = source.document.problems
            problems += sorted(found, key=lambda problem: (problem.line, problem.column, problem.code))
        return problems

    def _one_namespace(self, files: Sequence[Source]) -> None:
        first: Source | None = None
        for source in files:
            said = source.said.get("namespace")
            if said is None:
                continue
            if first is None:
                first, self.namespace = source, said
            elif said != self.namespace:
                message = f"namespace `{said}` here, and `{self.namespace}` in {first.file}"
                hint = "apply files of different namespaces one by one"
                source.document.problems.append(
                    source.document.at_path(("namespace",), "E031", message, hint=hint)
                )

    def _one_cluster(self, files: Sequence[Source]) -> None:
        first: Source | None = None
        for source in files:
            if not source.cluster:
                continue
            if first is None:
                first, self.cluster = source, job_policies(source.cluster, source.document, ("cluster",))
                self.retention = {
                    key: source.cluster[key] for key in ("retention",) if source.cluster.get(key)
                }
            else:
                message = f"`cluster` is also given in {first.file}"
                source.document.problems.append(
                    source.document.at_path(("cluster",), "E025", message, hint="keep one", key=True)
                )

    def _empty(self, files: Sequence[Source], *, declared: bool) -> None:
        """An empty file, or no trigger at all, is more often an accident than a wish."""
        hint = "add some under `triggers`, or allow it with --allow-empty"
        broken = bool(self.sources.problems) or any(source.document.problems for source in files)
        for source in files:
            empty = is_null(source.document.tree) and not source.document.problems
            if empty or not (declared or broken):
                problem = Problem(ERROR, "E032", "declares no triggers", source.file, hint=hint)
                source.document.problems.append(problem)


def load(
    paths: Sequence[Path | str],
    *,
    now: int,
    known_jobs: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
    allow_empty: bool = False,
) -> Declarations:
    """Read files and folders of one namespace; raises DeclarationError with every problem of all of them.

    `known_jobs` are names of jobs that exist elsewhere (in code, in the store) and so may be referred to.
    With `environ`, each `${VAR}` in env and data that has no value there and no default is an error too.
    """
    sources = Sources()
    for path in paths:
        sources.add_path(Path(path))
    options = _Options(now=now, known_jobs=known_jobs, environ=environ, allow_empty=allow_empty)
    return _Reading(sources, options).finish()


def load_text(
    text: str,
    *,
    now: int,
    file: str = DEFAULT_FILE,
    known_jobs: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Declarations:
    """As `load`, with one text in place of the content of `file`."""
    sources = Sources()
    sources.add_text(text, file)
    options = _Options(now=now, known_jobs=known_jobs, environ=environ)
    return _Reading(sources, options).finish()


def schema() -> dict[str, Any]:
    """The JSON Schema (draft-07) of a file of declarations: exactly the keys that `load` accepts."""
    from .declaration_schema import json_schema

    return json_schema()
