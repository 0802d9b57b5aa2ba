"""Which slots a schedule has, by arithmetic of its own: nothing of the product's schedules is used here."""

import json
from functools import lru_cache
from typing import Any, NamedTuple

SECOND = 1_000_000
_MINUTE = 60 * SECOND
END = 1 << 62


class Rule(NamedTuple):
    """A trigger's misfire rule, durations in µs."""

    policy: str = "fire_once"
    threshold: int = _MINUTE
    window: int = 24 * 3600 * SECOND
    limit: int = 100


class Slots:
    """The slots of one schedule: `every` from an anchor, seconds of each minute, one instant, or none of what
    follows an end."""

    def __init__(self, schedule: dict[str, Any]) -> None:
        self._once: int | None = None
        self._gap = self._anchor = 0
        self._offsets: tuple[int, ...] = ()
        if "after" in schedule or "delay" in schedule:
            self._once = 0  # long ago: no instant is before it
        elif "at" in schedule:
            self._once = schedule["at"]
        elif "every" in schedule:
            self._gap, self._anchor = schedule["every"], schedule.get("anchor", 0)
        else:
            seconds, _, rest = schedule["quartz"].partition(" ")
            assert rest == "* * * * ?", f"the oracle does not know {schedule}"
            self._offsets = tuple(sorted(int(each) * SECOND for each in seconds.split(",")))

    def after(self, instant: int) -> int:
        """The first slot after `instant`; END where there is none."""
        if self._once is not None:
            return self._once if self._once > instant else END
        if self._gap:
            steps = (instant - self._anchor) // self._gap + 1
            return self._anchor + max(steps, 0) * self._gap
        minute = instant - instant % _MINUTE
        for offset in self._offsets:
            if minute + offset > instant:
                return minute + offset
        return minute + _MINUTE + self._offsets[0]

    def between(self, first: int, last: int) -> list[int]:
        """Every slot from `first` to `last`, both included."""
        found = []
        slot = self.after(first - 1)
        while slot <= last:
            found.append(slot)
            slot = self.after(slot)
        return found


class Declared(NamedTuple):
    """What a trigger's stored spec says, as far as it is checked."""

    slots: Slots
    rule: Rule
    max_fires: int | None
    schedule: str
    """The schedule as text, to see whether an edit changed it."""
    retry: dict[str, Any] | None
    delay: int | None
    """How long (µs) after an end its next slot comes, of a trigger that has none by itself."""


@lru_cache(maxsize=10_000)
def declared(spec: str) -> Declared:
    """Read a trigger's spec."""
    said = json.loads(spec)
    when = json.dumps([said["schedule"], said.get("max_fires")], sort_keys=True)
    return Declared(
        Slots(said["schedule"]),
        Rule(**said.get("misfire", {})),
        said.get("max_fires"),
        when,
        said.get("retry"),
        said["schedule"].get("delay"),
    )


class JobRules(NamedTuple):
    """What a job's stored spec says, as far as it is checked."""

    overlap: str
    request_recovery: bool
    max_recoveries: int
    retry: dict[str, Any] | None
    group: str


@lru_cache(maxsize=10_000)
def job_rules(spec: str) -> JobRules:
    said = json.loads(spec)
    return JobRules(
        said.get("overlap") or "allow",
        bool(said.get("request_recovery")),
        3 if said.get("max_recoveries") is None else said["max_recoveries"],
        said.get("retry"),
        said.get("group", "default"),
    )
