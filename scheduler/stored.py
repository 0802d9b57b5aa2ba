"""A stored trigger made whole again, and what becomes of the slots it owes when somebody stops or moves it."""

import json
from dataclasses import dataclass
from typing import Protocol

from ..triggers.decide import Due, counted, owed
from ..triggers.delay import Delay
from ..triggers.errors import QschedError
from ..triggers.jitter import run_time
from ..triggers.misfire import MisfireRule
from ..triggers.schedule import Schedule, innermost
from ..triggers.trigger import TriggerDefinition
from .firing import SKIPPED, NewFiring

PAUSED = "paused"
EDITED = "edited"
ERROR = "error"


class Row(Protocol):
    """What is asked of a trigger's row (the store's TriggerRow is one)."""

    @property
    def id(self) -> int: ...
    @property
    def group(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def spec(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def job_id(self) -> int: ...
    @property
    def job_name(self) -> str: ...
    @property
    def precedence(self) -> int: ...
    @property
    def overlap(self) -> str: ...
    @property
    def next_fire_at(self) -> int | None: ...
    @property
    def next_run_at(self) -> int | None: ...
    @property
    def fires(self) -> int: ...
    @property
    def held(self) -> bool: ...
    @property
    def awaits(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """What a trigger's row says; a part that this version cannot read is None, and `problem` says why."""

    definition: TriggerDefinition | None = None
    schedule: Schedule | None = None
    problem: str | None = None

    @classmethod
    def of(cls, row: Row) -> "Stored":
        """Read and compile a row's definition; never raises for what is wrong with it."""
        return cls.of_definition(row.group, row.name, row.spec)

    @classmethod
    def of_definition(cls, group: str, name: str, spec: str) -> "Stored":
        """The same of a definition's JSON text."""
        try:
            definition = TriggerDefinition.from_spec(group, name, json.loads(spec))
        except (ValueError, TypeError, KeyError, QschedError) as error:
            return cls(problem=str(error))
        try:
            return cls(definition, definition.compile())
        except (ValueError, TypeError, KeyError, QschedError) as error:
            return cls(definition, problem=str(error))

    @property
    def max_fires(self) -> int | None:
        return None if self.definition is None else self.definition.max_fires

    def run_time(self, slot: int | None, *, held: bool = False) -> int | None:
        """When the slot may run, with its jitter; None for none, and of what is held."""
        if slot is None or held:
            return None
        if self.definition is None or self.schedule is None:
            return slot
        return run_time(self.definition.key, slot, self.definition.jitter, self.schedule)


@dataclass(frozen=True, slots=True)
class Span:
    """Slots that were due and not decided."""

    first: int
    last: int
    slots: int


def span_owed(row: Row, stored: Stored, *, now: int) -> Span | None:
    """What the trigger still owes at `now`; of a definition that cannot be read any more only the oldest slot is known."""
    if row.next_fire_at is None or row.next_fire_at > now:
        return None
    if stored.schedule is None:
        return Span(row.next_fire_at, row.next_fire_at, 1)
    due = Due(
        schedule=stored.schedule,
        rule=MisfireRule(),
        overlap=row.overlap,
        next_fire_at=row.next_fire_at,
        next_run_at=row.next_run_at or row.next_fire_at,
        max_fires=stored.max_fires,
        fires=row.fires,
    )
    found = owed(due, now=now)
    return None if found is None else Span(*found)


def closing_row(row: Row, span: Span, *, now: int, reason: str, cluster: int) -> NewFiring:
    """The one `skipped` row that stands for `span`; `reason` is paused, edited or error."""
    return NewFiring(
        cluster=cluster,
        trigger_id=row.id,
        requested_trigger_id=None,
        job_id=row.job_id,
        trigger_name=row.key,
        job_name=row.job_name,
        scheduled_at=span.last,
        first_scheduled_at=span.first,
        covers=span.slots,
        reason=reason,
        state=SKIPPED,
        run_at=span.last,
        precedence=row.precedence,
        noticed_at=now,
        finished_at=now,
        misfire_decision=f"skipped {counted(span.slots)}: {_WHY[reason]}",
    )


def next_slot(schedule: Schedule, max_fires: int | None, row: Row, *, after: int) -> int | None:
    """The first slot after `after` of a trigger that may still fire; None when it is done, or `waits_for_end`."""
    if (max_fires is not None and row.fires >= max_fires) or waits_for_end(schedule, row):
        return None
    return schedule.slot_after(after)


def waits_for_end(schedule: Schedule, row: Row) -> bool:
    """Whether the trigger's next slot counts from the end of a firing that has not ended: whoever ends it will set it."""
    return row.awaits and isinstance(innermost(schedule), Delay)


def reason_for(row: Row) -> str:
    """Why the slots that a trigger owes have not run, when somebody moves it now."""
    if row.state == ERROR:
        return ERROR
    return PAUSED if row.held else EDITED


_WHY = {
    PAUSED: "the trigger was paused",
    EDITED: "the trigger was changed",
    ERROR: "the trigger was in error",
}
