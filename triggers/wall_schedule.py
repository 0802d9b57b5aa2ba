"""What all schedules of wall-clock times share: their slots by the zone rule, and what to say around changes of offset."""

from datetime import datetime
from typing import NamedTuple, TypedDict
from zoneinfo import ZoneInfo

from .errors import ScheduleError
from .instant import SECOND, from_instant, to_instant
from .schedule import COUNT_LIMIT, Moments
from .wall_slots import Slots, Walls
from .zone import DAY, Zone, find_zone


class Dst(TypedDict, total=False):
    """What becomes of a wall-clock time at a change of offset."""

    gap: str
    """`run_after` (at the first instant after the gap, which is the default) or `skip`."""
    overlap: str
    """`once` (the first time, which is the default) or `twice`."""


class WallSchedule(Moments):
    """A schedule whose slots are walls (local times) of a zone; `_slots` is set by who inherits it."""

    __slots__ = ("_slots", "time_zone")

    _slots: Slots
    time_zone: str

    def slot_after(self, instant: int) -> int | None:
        """The first slot strictly after `instant` (microseconds since the epoch); None when there is none."""
        slot = self._slots.after(instant // SECOND + 1)
        return None if slot is None else slot * SECOND

    def latest_before(self, instant: int) -> int | None:
        """The last slot *not after* `instant`; None when there is none."""
        slot = self._slots.before(instant // SECOND)
        return None if slot is None else slot * SECOND

    def count_between(self, first: int, last: int) -> int:
        """How many slots lie in `first`..`last`, both included; never more than COUNT_LIMIT + 1."""
        return self._slots.count(-(-first // SECOND), last // SECOND, COUNT_LIMIT)

    def notes(self, slot: int) -> str | None:
        """What a change of offset does at `slot`, in words for previews; None on an ordinary slot."""
        from .wall_notes import note

        return note(self._slots, slot // SECOND)

    def _identity(self) -> tuple[object, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        same = type(other) is type(self)
        return (
            self._identity() == other._identity()
            if same and isinstance(other, WallSchedule)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __str__(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self} in {self.time_zone}>"


class Start(NamedTuple):
    """Where a schedule counts from: a local day (days since 1970-01-01) and a second of it."""

    day: int
    time: int

    @property
    def wall(self) -> int:
        return self.day * DAY + self.time


def start_in(zone: Zone, start_at: datetime | int | None) -> Start | None:
    """The wall of `start_at` (aware, or microseconds since the epoch) in `zone`, up to the next whole second."""
    if start_at is None:
        return None
    instant = to_instant(start_at) if isinstance(start_at, datetime) else start_at
    local = from_instant(-(-instant // SECOND) * SECOND).astimezone(zone.tz).replace(tzinfo=None)
    spent = local - datetime(1970, 1, 1)
    return Start(spent.days, spent.seconds)


def zone_name(time_zone: str | ZoneInfo) -> str:
    """The name of a zone that is given by name or as an object."""
    return time_zone.key if isinstance(time_zone, ZoneInfo) else time_zone


def wall_slots(walls: Walls, zone: str, gap: str, overlap: str) -> Slots:
    """The slots of fixed wall-clock times; raises ScheduleError for an answer to changes that there is not."""
    if gap not in ("run_after", "skip"):
        raise ScheduleError(f"dst gap {gap!r} is not known; use 'run_after' or 'skip'")
    if overlap not in ("once", "twice"):
        raise ScheduleError(f"dst overlap {overlap!r} is not known; use 'once' or 'twice'")
    return Slots(walls, find_zone(zone), gap == "run_after", overlap == "once")
