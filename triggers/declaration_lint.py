"""What is allowed and seldom meant: schedules that are over, retries that never fit, old booleans."""

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

from .cron import Cron
from .declaration_fields import Wrong
from .declaration_files import Source
from .declaration_jobs import Jobs, complain, raw_at
from .declaration_keys import POLICIES_OF_JOBS
from .declaration_triggers import Declared
from .duration import format_duration
from .errors import TriggerError
from .instant import HOUR, MINUTE, SECOND, rfc3339
from .retry import MARGIN, RetryPolicy
from .retry_lint import discards_important, lint_names
from .schedule import Schedule, innermost
from .yaml_scalars import OLD_BOOLEANS, Plain
from .yaml_tree import Path

_SAMPLE, _LEAST_SAMPLE = 24, 4
_DAY_AND_MORE = 25 * HOUR
"""The shortest gap is looked for in the slots of a day from now on, or in a few where a day has fewer."""
_LEAST_GAP = {"cron": MINUTE, "quartz": SECOND}


class Lint:
    """Looks over the triggers and files of one declaration at the instant `now`."""

    def __init__(self, jobs: Jobs, cluster: Mapping[str, Any], now: int) -> None:
        self.jobs, self.now = jobs, now
        self.cluster_retry: RetryPolicy | None = cluster.get("retry")
        self._cluster = cluster
        self._piling: set[str] = set()
        self._gaps: dict[Schedule, int | None] = {}

    def trigger(self, declared: Declared) -> None:
        """Note what is doubtful about one trigger, and refuse one that never fires."""
        kind = next(iter(declared.definition.schedule))
        inner = innermost(declared.schedule)
        for at, remark in _remarks(inner, (kind,)):
            code = "W003" if " is read as " in remark else "W002"
            message, _, hint = remark.partition("; ")
            complain(declared.source, declared.path, Wrong(code, message, hint, at))
        if kind == "after":
            return
        if not self._can_be_asked(declared, kind):
            return
        if kind == "delay" and declared.schedule.slot_after(self.now) is not None:
            return  # no slot comes while it runs or waits for its retry: nothing to fit between
        if declared.schedule.slot_after(self.now) is None:
            self._over(declared, kind)
        self._retry(declared, inner, kind)
        self._overlap(declared, inner, kind)

    def _can_be_asked(self, declared: Declared, kind: str) -> bool:
        """Whether a next slot can be found: a search that finds nothing but left-out time is given up with an error."""
        try:
            declared.schedule.slot_after(self.now)
        except TriggerError as error:
            message, _, hint = str(error).rpartition("; ")
            wrong = Wrong("E022", message or hint, hint if message else "correct it", (kind,))
            complain(declared.source, declared.path, wrong)
            return False
        return True

    def _over(self, declared: Declared, kind: str) -> None:
        start_at, end_at = declared.definition.start_at, declared.definition.end_at
        if start_at is not None and end_at is not None and start_at > end_at:
            return  # an error of its own
        last = declared.schedule.latest_before(self.now)
        if last is None and kind == "delay":
            last = end_at  # when it has run is in the ledger only
        if last is None:
            hint = "correct start_at or end_at"
            message = f"no slot of `{kind}` lies within start_at and end_at, so it can never fire"
            complain(declared.source, declared.path, Wrong("E022", message, hint, (kind,)))
            return
        key = kind if kind == "at" or declared.definition.end_at is None else "end_at"
        message = f"the last slot was {rfc3339(last)}: the trigger is stored as done"
        complain(
            declared.source, declared.path, Wrong("W001", message, "remove it, or give a later time", (key,))
        )

    def _retry(self, declared: Declared, inner: Schedule, kind: str) -> None:
        policy = declared.definition.retry
        job = self.jobs.declared.get(declared.definition.job)
        if policy is None and job is not None:
            policy = job.policies.retry
        if policy is None:
            policy = self.cluster_retry
        if policy is None:
            return
        said = "retry" in raw_at(declared.source, declared.path)
        if (wrong := discards_important(policy, job)) is not None:
            complain(declared.source, declared.path, wrong if said else wrong._replace(at=(kind,)))
        if not policy.max_retries:
            return
        delay = policy.shortest_delay()
        if delay + MARGIN < _LEAST_GAP.get(kind, 0):
            return  # it fits, whatever the fields say
        gap = self._gap_of(inner)
        if gap is None or delay + MARGIN < gap:
            return
        message = (
            f"the first retry comes {format_duration(delay)} after a failure, and the next slot may be"
            f" {format_duration(gap)} after the last: it is dropped then"
        )
        hint = "retry sooner, or write `retry: none`"
        complain(declared.source, declared.path, Wrong("W004", message, hint, ("retry" if said else kind,)))

    def _overlap(self, declared: Declared, inner: Schedule, kind: str) -> None:
        """A job of the file whose runs may pile up without bound: nothing says how they overlap, nor how long one may last.

        Not for what the trigger declares itself in a line, nor for Python, whose decorator may say it.
        """
        job = self.jobs.declared.get(declared.definition.job)
        if job is None or job.kind == "python" or self.jobs.places[job.name][1][0] != "jobs":
            return
        said = (job.policies.overlap, job.policies.timeout, *map(self._cluster.get, ("overlap", "timeout")))
        if any(each is not None for each in said) or job.name in self._piling:
            return
        gap = self._gap_of(inner)
        if gap is None or gap >= MINUTE:
            return
        self._piling.add(job.name)
        message = f"a slot comes each {format_duration(gap)}, and nothing bounds how many runs of `{job.name}` there are at once"
        hint = "give the job a timeout, or say its overlap: queue, skip, cancel, or allow"
        complain(declared.source, declared.path, Wrong("W012", message, hint, (kind,)))

    def _gap_of(self, inner: Schedule) -> int | None:
        if inner not in self._gaps:
            self._gaps[inner] = self._shortest_gap(inner)
        return self._gaps[inner]

    def _shortest_gap(self, schedule: Schedule) -> int | None:
        slots: list[int] = []
        slot = schedule.slot_after(self.now)
        while slot is not None and len(slots) < _SAMPLE:
            if len(slots) >= _LEAST_SAMPLE and slot - slots[0] > _DAY_AND_MORE:
                break
            slots.append(slot)
            slot = schedule.slot_after(slot)
        return min((later - sooner for sooner, later in pairwise(slots)), default=None)

    def circles(self, triggers: Collection[Declared]) -> None:
        """Refuse continuations that lead back to themselves: they would run for ever."""
        leads: dict[str, list[Declared]] = {}
        for declared in triggers:
            if declared.definition.after is not None:
                leads.setdefault(declared.definition.after[0], []).append(declared)
        for declared in triggers:
            if declared.definition.after is not None and _leads_to(leads, declared):
                message = f"{declared.definition.key} follows, in the end, itself: it would run for ever"
                complain(
                    declared.source, declared.path, Wrong("E026", message, "break the circle", ("after",))
                )

    def file(self, source: Source) -> None:
        """Note old booleans in data, names of no exception, and defaults that cannot reach jobs of the code."""
        lint_names(source)
        for section in ("jobs", "triggers"):
            tree = source.document.tree
            mapping = tree.get(section) if isinstance(tree, dict) else None
            for name, raw in mapping.items() if isinstance(mapping, dict) else ():
                if isinstance(raw, dict) and isinstance(raw.get("data"), dict):
                    self._old_booleans(raw["data"], source, (section, name, "data"))
        unreached = [
            key for key in POLICIES_OF_JOBS if key in source.own_defaults and key not in ("retry", "run_on")
        ]
        if unreached and (names := sorted(self.jobs.out_of_reach.get(source, ()))):
            listed = ", ".join(f"`{name}`" for name in names[:5]) + (" and others" if len(names) > 5 else "")
            for key in unreached:
                message = f"`defaults.{key}` does not reach jobs declared in code: {listed}"
                hint = "set it on the function, or declare the job here"
                complain(source, ("defaults", key), Wrong("W006", message, hint, on_key=True))

    def _old_booleans(self, value: Any, source: Source, path: Path) -> None:
        if isinstance(value, Plain) and value in OLD_BOOLEANS:
            hint = f'write true or false, or "{value}" if text is meant'
            complain(source, path, Wrong("W005", f"`{value}` is the text {str(value)!r} here", hint))
        items: Any = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for name, item in items:
            self._old_booleans(item, source, (*path, name))


def _remarks(schedule: Schedule, at: Path) -> Iterator[tuple[Path, str]]:
    """What a reader of an expression, also of one in a combination, may misread; each with its place."""
    if isinstance(schedule, Cron):
        yield from ((at, remark) for remark in schedule.remarks)
    parts: tuple[Schedule, ...] = getattr(schedule, "parts", ())
    for index, part in enumerate(parts):
        kind = getattr(part, "kind", "quartz" if getattr(part, "dialect", "") == "quartz" else "cron")
        yield from _remarks(part, (*at, index, kind))


def _leads_to(leads: Mapping[str, list[Declared]], start: Declared) -> bool:
    """Whether the job that a continuation runs is followed, by whatever way, by that continuation."""
    seen: set[str] = set()
    ahead = [start.definition.job]
    while ahead:
        job = ahead.pop()
        if job in seen:
            continue
        seen.add(job)
        for follower in leads.get(job, ()):
            if follower is start:
                return True
            ahead.append(follower.definition.job)
    return False
