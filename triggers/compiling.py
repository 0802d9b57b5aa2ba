"""From a definition to its schedule: its kind, then its splay, its calendars and its bounds around that."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .errors import DefinitionError, ScheduleError
from .schedule import Bounded, Schedule

MOST_NESTED = 2
"""A combination, and combinations in it."""


class Frame(NamedTuple):
    """What a kind of schedule may need beside its own words: whose it is, and in which zone and from when it counts."""

    key: str
    time_zone: str = "UTC"
    gap: str = "run_after"
    overlap: str = "once"
    start_at: int | None = None
    end_at: int | None = None


class Shift(NamedTuple):
    """What moves or leaves out slots that a kind of schedule names."""

    splay: int | None = None
    calendars: Mapping[str, Mapping[str, Any]] = {}
    """{name: what it says} of those that are left out."""
    on_excluded: str = "skip"


def compile_whole(said: Mapping[str, Any], frame: Frame, shift: Shift) -> Schedule:
    """The schedule of a definition; see `TriggerDefinition.compile`."""
    schedule = compile_schedule(said, frame)
    if shift.splay is not None:
        from .splay import Splayed

        schedule = Splayed.of(schedule, frame.key, shift.splay)
    if shift.calendars:
        from .calendars.excluding import exclude

        schedule = exclude(schedule, shift.calendars, shift.on_excluded, frame.time_zone)
    if frame.start_at is None and frame.end_at is None:
        return schedule
    return Bounded(schedule, frame.start_at, frame.end_at)


def compile_schedule(said: Mapping[str, Any], frame: Frame) -> Schedule:
    """The schedule of one kind, as a definition's `schedule` says it (and each part of a combination)."""
    kinds = [kind for kind in said if kind in _COMPILERS]
    if len(kinds) != 1:
        raise DefinitionError(
            f"trigger {frame.key!r}: unknown schedule {sorted(said)}: a newer qsched may know it"
        )
    return _COMPILERS[kinds[0]](said, frame)


def _cron(said: Mapping[str, Any], frame: Frame) -> Schedule:
    from .cron import Cron

    kind = "cron" if "cron" in said else "quartz"
    return Cron(
        said[kind],
        "unix" if kind == "cron" else "quartz",
        frame.time_zone,
        key=frame.key,
        gap=frame.gap,
        overlap=frame.overlap,
    )


def _every(said: Mapping[str, Any], frame: Frame) -> Schedule:
    from .interval import Every

    anchor = said.get("anchor")
    return Every(said["every"], frame.start_at or 0 if anchor is None else anchor)


def _at(said: Mapping[str, Any], _frame: Frame) -> Schedule:
    from .once import At

    return At(said["at"])


def _delay(said: Mapping[str, Any], frame: Frame) -> Schedule:
    from .delay import Delay

    return Delay(said["delay"], frame.start_at)


def _after(said: Mapping[str, Any], _frame: Frame) -> Schedule:
    from .after import After

    return After(said["after"], said.get("on", "succeeded"))


def _calendar_interval(said: Mapping[str, Any], frame: Frame) -> Schedule:
    from .calendar_interval import CalendarInterval

    step = {**said["calendar_interval"], "gap": frame.gap, "overlap": frame.overlap}
    return CalendarInterval(frame.time_zone, frame.start_at, **step)


def _daily_window(said: Mapping[str, Any], frame: Frame) -> Schedule:
    from .daily_window import DailyWindow

    window = dict(said["daily_window"])
    if missing := [name for name in ("every", "from", "to") if name not in window]:
        raise ScheduleError(f"daily_window: {' and '.join(missing)} is missing; write every, from and to")
    every, begin, end = (window.pop(name) for name in ("every", "from", "to"))
    return DailyWindow(every, begin, end, frame.time_zone, **window)


def _rrule(said: Mapping[str, Any], frame: Frame) -> Schedule:
    from .recurrence import Recurrence

    return Recurrence(said["rrule"], frame.time_zone, frame.start_at, gap=frame.gap, overlap=frame.overlap)


def _combined(said: Mapping[str, Any], frame: Frame) -> Schedule:
    from .combined import AllOf, AnyOf

    kind = "any" if "any" in said else "all"
    if _depth(said) > MOST_NESTED:
        raise ScheduleError(f"{kind}: more than {MOST_NESTED} lists within each other; write it flatter")
    parts = [_part(part, kind, frame) for part in said[kind]]
    return AnyOf(parts) if kind == "any" else AllOf(parts)


def _part(part: Mapping[str, Any], kind: str, frame: Frame) -> Schedule:
    if strange := [name for name in ("delay", "after") if name in part]:
        raise ScheduleError(f"{kind}: `{strange[0]}` has no slots to combine; use another schedule")
    return compile_schedule(part, frame)


def _depth(said: Mapping[str, Any]) -> int:
    lists = [said[kind] for kind in ("any", "all") if kind in said]
    return 1 + max(map(_depth, lists[0]), default=0) if lists else 0


_COMPILERS: dict[str, Callable[[Mapping[str, Any], Frame], Schedule]] = {
    "cron": _cron,
    "quartz": _cron,
    "every": _every,
    "at": _at,
    "delay": _delay,
    "after": _after,
    "calendar_interval": _calendar_interval,
    "daily_window": _daily_window,
    "rrule": _rrule,
    "any": _combined,
    "all": _combined,
}
