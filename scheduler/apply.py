"""Make a namespace in the store what its declarations say: worked out first, then written in few, short transactions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from ..triggers.trigger import split_key
from .apply_chunk import Chunk, Moved, Prepared, Written, write_chunk
from .changes import (
    ADD,
    CHANGE,
    RENAME,
    RETIRE,
    REVIVE,
    Changes,
    JobChange,
    Seen,
    TriggerChange,
    compare,
    mass_prune,
)
from .desired import CODE, Declared, Wanted, wanted_of
from .errors import Conflict, ConstraintHit, Refused
from .store import calendar_rows, definition_rows, job_rows, limit_rows, trigger_rows
from .store.database import Store
from .store.definition_rows import APPLIED, APPLYING, NamespaceRow
from .store.trigger_rows import TriggerRow
from .store.tx import Tx

CHUNK = 500
"""So many changed rows are one transaction; more are done in chunks that the next apply can finish."""
_TRIES = 50

PRUNES = ("retire", "delete", "keep")


class ApplyOptions(TypedDict, total=False):
    """How to apply.

    `prune`: what becomes of triggers that left the file (retire, delete, keep). `who` did it, for the audit.
    `allow_mass_prune`: more than half of the namespace may go. `if_newer`: what an older replica does at its
    start, which never undoes a newer revision while a live node carries it.
    """

    prune: str
    who: str | None
    allow_mass_prune: bool
    if_newer: bool


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply did. `status`: applied, up_to_date, or older (a newer revision lives on other nodes)."""

    namespace: str
    status: str
    revision: int
    """The revision that these declarations are; a node publishes it as what it carries."""
    current: int
    """The revision that the namespace is at."""
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unchanged: int = 0
    jobs: tuple[str, ...] = ()
    """Jobs that were written."""
    closed: int = 0
    """Slots that old definitions still owed, now recorded as skipped."""
    cancelled: int = 0
    """Waiting firings of retired triggers that were cancelled."""
    warnings: tuple[str, ...] = ()

    @property
    def wrote(self) -> bool:
        """Whether anything changed, so that nodes should look."""
        return self.status == "applied"


@dataclass(slots=True)
class _Done:
    """What the transactions of one apply have done so far."""

    triggers: list[TriggerChange] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    wrote: bool = False
    closed: int = 0
    cancelled: int = 0
    warnings: list[str] = field(default_factory=list)

    def add(self, chunk: Chunk, written: Written) -> None:
        self.wrote = True
        self.triggers += [each.change for each in chunk.triggers]
        self.jobs += [change.name for change in (*chunk.jobs, *chunk.retired_jobs)]
        self.closed += written.closed
        self.cancelled += written.cancelled
        self.warnings += written.warnings

    def keys(self, kind: str) -> tuple[str, ...]:
        return tuple(change.key for change in self.triggers if change.kind == kind)


def apply(store: Store, declared: Declared, **options: Unpack[ApplyOptions]) -> Applied:
    """Make the store say what `declared` says; what is so already is not written, and nothing fires because of it.

    Safe from many replicas at once: they take turns, and all but one find nothing to do. Raises Conflict for what
    another namespace owns, Refused for a mass prune, and what a schedule raises that cannot be compiled.
    """
    prune = options.get("prune", "retire")
    if prune not in PRUNES:
        raise ValueError(f"prune is one of {', '.join(PRUNES)}, not {prune!r}")
    wanted = wanted_of(declared)
    done = _Done()
    for _ in range(_TRIES):
        seen = store.read("apply: look", lambda tx: look(tx, wanted))
        if options.get("if_newer") and is_older(seen):
            return _result(wanted, seen, done, "older")
        changes = compare(wanted, seen, prune=prune)
        if not options.get("allow_mass_prune") and prune != "keep":
            _refuse(mass_prune(wanted, seen, changes))
        if not changes.nothing or _says_new(wanted, seen):
            try:
                _write(store, _Work(wanted, seen, changes, options), done)
            except (Moved, ConstraintHit):
                continue  # somebody was faster: what is left to do is worked out anew
            seen = store.read("apply: look", lambda tx: look(tx, wanted))
        return _result(wanted, seen, done, "applied" if done.wrote else "up_to_date", changes)
    raise Conflict(
        f"namespace {wanted.namespace!r} changes faster than it can be applied", hint="apply again"
    )


def _refuse(why: str | None) -> None:
    if why is not None:
        hint = "if that is what you want, say --allow-mass-prune"
        raise Refused(f"{why}; nothing was applied", hint=hint)


def look(tx: Tx, wanted: Wanted) -> Seen:
    """What the store has of all that `wanted` touches; locks nothing."""
    namespace = definition_rows.read_namespace(tx, wanted.namespace)
    keys = [(each.definition.group, each.definition.name) for each in wanted.triggers.values()]
    keys += [split_key(key) for each in wanted.triggers.values() if (key := each.definition.renamed_from)]
    heads = trigger_rows.trigger_heads(tx, wanted.namespace, keys)
    used = {head.job_name for head in heads.values() if head.job_name is not None}
    jobs = job_rows.job_heads(tx, wanted.namespace, used | wanted.jobs.keys())
    leaving = [
        head.id
        for name, head in jobs.items()
        if name not in wanted.jobs and head.namespace in (wanted.namespace, CODE)
    ]
    defaults, owner = definition_rows.read_defaults(tx)
    return Seen(
        namespace=namespace,
        known_revision=definition_rows.known_revision(tx, wanted.namespace, wanted.digest),
        newer_lives=namespace is not None
        and definition_rows.carried_by_a_live_node(tx, wanted.namespace, namespace.revision),
        triggers=heads,
        jobs=jobs,
        using=job_rows.triggers_using(tx, leaving),
        defaults=defaults,
        defaults_namespace=owner,
        limits=limit_rows.read_limits(tx),
        calendars=calendar_rows.calendar_digests(tx, wanted.namespace),
    )


def is_older(seen: Seen) -> bool:
    """Whether these declarations were replaced by newer ones that a live node carries."""
    if seen.namespace is None or seen.known_revision is None:
        return False
    return seen.known_revision < seen.namespace.revision and seen.newer_lives


def _says_new(wanted: Wanted, seen: Seen) -> bool:
    """Whether the namespace's row has to be written though no definition differs."""
    if wanted.namespace == CODE:
        return False
    row = seen.namespace
    return row is None or row.digest != wanted.digest or row.state == APPLYING


@dataclass(frozen=True, slots=True)
class _Work:
    """The changes that were worked out, and what they were worked out from."""

    wanted: Wanted
    seen: Seen
    changes: Changes
    options: ApplyOptions

    @property
    def who(self) -> str | None:
        return self.options.get("who")

    @property
    def is_revision(self) -> bool:
        """Whether this is a revision of its own, and not the rest of one that was begun."""
        row = self.seen.namespace
        return self.wanted.namespace != CODE and (row is None or row.digest != self.wanted.digest)

    def chunks(self) -> Iterator[tuple[list[JobChange], list[TriggerChange], list[JobChange]]]:
        """At most CHUNK changes each: jobs, then triggers in order of their keys, then jobs that go."""
        parts = (self.changes.jobs, self.changes.triggers, self.changes.retired_jobs)
        every = [(kind, change) for kind, part in enumerate(parts) for change in part]
        for start in range(0, max(len(every), 1), CHUNK):
            chunk: tuple[list[JobChange], list[TriggerChange], list[JobChange]] = ([], [], [])
            for kind, change in every[start : start + CHUNK]:
                chunk[kind].append(change)  # type: ignore[arg-type]
            yield chunk


def _write(store: Store, work: _Work, done: _Done) -> None:
    """Write the changes, chunk by chunk; raises Moved when somebody else changed the namespace meanwhile."""
    expected = work.seen.namespace or NamespaceRow(0, "", APPLIED)
    parts = list(work.chunks())
    for number, (jobs, triggers, retired) in enumerate(parts):
        ids = [change.head.id for change in triggers if change.head is not None]
        before = store.read("apply: read", lambda tx, ids=ids: trigger_rows.read_triggers(tx, ids))  # type: ignore[misc]
        chunk = Chunk(
            namespace=work.wanted.namespace,
            revision=expected.revision,
            who=work.who,
            forget=work.options.get("prune") == "delete",
            keep=work.options.get("prune") == "keep",
            jobs=jobs,
            triggers=[_prepared(change, before) for change in triggers],
            retired_jobs=retired,
            defaults=work.wanted.defaults if number == 0 and work.changes.new_defaults else None,
            limits=work.wanted.limits if number == 0 and work.changes.new_limits else None,
            calendars=work.wanted.calendars if number == 0 and work.changes.calendars else None,
        )
        turn = _Turn(work, chunk, expected, first=number == 0, last=number == len(parts) - 1)
        expected, written = store.transaction("apply", turn.run)
        done.add(chunk, written)


def _prepared(change: TriggerChange, before: Mapping[int, TriggerRow]) -> Prepared:
    if change.head is None:
        return Prepared.of(change, None)
    if change.head.id not in before:
        raise Moved
    return Prepared.of(change, before[change.head.id])


@dataclass(frozen=True, slots=True)
class _Turn:
    """One chunk's transaction, under the namespace's lock."""

    work: _Work
    chunk: Chunk
    expected: NamespaceRow
    first: bool
    last: bool

    def run(self, tx: Tx) -> tuple[NamespaceRow, Written]:
        wanted, namespace = self.work.wanted, self.chunk.namespace
        opens = self.first and self.work.is_revision
        # Alone for what all of the cluster sees; together with others that add triggers, against a group's pause.
        definition_rows.lock_cluster(tx, share=not (opens or self.chunk.for_all))
        if definition_rows.lock_namespace(tx, namespace, self.work.who) != self.expected:
            raise Moved
        self.chunk.revision = definition_rows.next_revision(tx) if opens else self.expected.revision
        written = write_chunk(tx, self.chunk)
        row = NamespaceRow(self.chunk.revision, wanted.digest, APPLIED if self.last else APPLYING)
        if namespace == CODE:
            return self.expected, written
        definition_rows.write_namespace(tx, namespace, row, self.work.who)
        kinds = [each.change.kind for each in self.chunk.triggers]
        detail = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
        detail |= {"revision": row.revision, "jobs": len(self.chunk.jobs) + len(self.chunk.retired_jobs)}
        definition_rows.write_audit(tx, self.work.who, "apply", [namespace], detail)
        return row, written


def _result(wanted: Wanted, seen: Seen, done: _Done, status: str, changes: Changes | None = None) -> Applied:
    current = 0 if seen.namespace is None else seen.namespace.revision
    written = sum(change.wanted is not None for change in done.triggers)
    return Applied(
        namespace=wanted.namespace,
        status=status,
        revision=current if seen.known_revision is None else seen.known_revision,
        current=current,
        added=done.keys(ADD),
        changed=done.keys(CHANGE),
        renamed=done.keys(RENAME),
        revived=done.keys(REVIVE),
        retired=done.keys(RETIRE),
        kept=() if changes is None else changes.kept,
        unchanged=len(wanted.triggers) - written,
        jobs=tuple(done.jobs),
        closed=done.closed,
        cancelled=done.cancelled,
        warnings=(*(() if changes is None else changes.warnings), *done.warnings),
    )
