"""What somebody asks to be run, checked before any transaction begins: which job, with which data, when, and how often."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, NamedTuple, TypedDict

from ..triggers.duration import parse_duration
from ..triggers.errors import DefinitionError
from ..triggers.instant import DAY, to_instant
from ..triggers.job import canonical
from ..triggers.trigger import DEFAULT_PRIORITY
from .jobs import declaration_of, target_of
from .payload import checked_data

LONGEST_KEY = 250
UNFINISHED = "unfinished"
_OUR_OWN = ("after:", "backfill:")
_LOWEST, _HIGHEST = -30_000, 30_000
_LONGEST = 366 * 200 * DAY
_MICROSECOND = timedelta(microseconds=1)


class Enqueued(NamedTuple):
    """What became of an order: the firing it is, and whether it was made now.

    `created` is False where its `request_key` or `unique_key` had a firing already, whose `id` is answered; None where the
    caller's own transaction cannot see that firing yet.
    """

    id: int | None
    created: bool


class EnqueueOptions(TypedDict, total=False):
    """When, and how often. `delay` (text with a unit, or a timedelta) or `at` (an aware datetime); neither: now.

    `unique_key`: at most one firing has it, until that has ended (`unique_for` "unfinished") or for a duration from now.
    `request_key`: said again, it answers the same firing for as long as that is kept.
    """

    delay: str | timedelta | None
    at: datetime | None
    unique_key: str | None
    unique_for: str | timedelta
    request_key: str | None
    priority: int | None


@dataclass(frozen=True, slots=True)
class EnqueueOrder:
    """One order; instants and durations in µs. `loaded` is what the code at hand says of the job, for a new job row."""

    job: str
    data: Mapping[str, Any]
    loaded: str | None = None
    delay: int | None = None
    at: int | None = None
    unique_key: str | None = None
    unique_for: int | None = None
    request_key: str | None = None
    priority: int = DEFAULT_PRIORITY


Asking = Callable[[EnqueueOrder, Any], Enqueued]
"""Who carries an order out, in the transaction of the connection that is given or in one of its own (None)."""


def order_of(job: str | Callable[..., Any], data: Mapping[str, Any] | None, options: Any) -> EnqueueOrder:
    """The order that was meant; raises DefinitionError (or TriggerError, for a moment or a duration) naming what is wrong.

    `job` is a function marked @job, `module:function`, or a job's name.
    """
    if unknown := sorted(options.keys() - EnqueueOptions.__annotations__.keys()):
        close = get_close_matches(unknown[0], EnqueueOptions.__annotations__, 1)
        hint = (
            f"did you mean {close[0]}?" if close else f"known are {', '.join(EnqueueOptions.__annotations__)}"
        )
        raise DefinitionError(f"enqueue does not know {unknown[0]}: {hint} (a job's arguments are its data)")
    name = _job_name(job)
    delay, at = options.get("delay"), options.get("at")
    if delay is not None and at is not None:
        raise DefinitionError("enqueue takes delay or at, not both")
    unique_key = checked_key("unique_key", options.get("unique_key"))
    if unique_key is None and "unique_for" in options:
        raise DefinitionError("enqueue: unique_for says how long a unique_key is held: give unique_key too")
    return EnqueueOrder(
        name,
        checked_data({} if data is None else data, of=f"the enqueue of {name!r}"),
        loaded=None if isinstance(job, str) else said_by(job),
        delay=None if delay is None else _duration("delay", delay, zero=True),
        at=None if at is None else _moment(at),
        unique_key=unique_key,
        unique_for=_held_for(options.get("unique_for", UNFINISHED)),
        request_key=checked_key("request_key", options.get("request_key")),
        priority=_priority(options.get("priority")),
    )


def said_by(function: Callable[..., Any]) -> str | None:
    """What the decorator of a function says, as its job's row keeps it; None for what is not marked."""
    declared = declaration_of(function)
    if declared is None:
        return None
    said = declared.policies.to_spec()
    if declared.data:
        said["data"] = dict(declared.data)
    return canonical(said)


def checked_key(what: str, key: object) -> str | None:
    """A request key or unique key, or None; raises DefinitionError for what no database could compare."""
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise DefinitionError(f"{what} must be 1 to {LONGEST_KEY} printable characters, and {key!r} is not")
    if what == "request_key" and key.startswith(_OUR_OWN):
        whose = "continuations" if key.startswith(_OUR_OWN[0]) else "backfills"
        raise DefinitionError(f"request_key {key!r} begins as those of {whose} do: begin it otherwise")
    return key


def _job_name(job: object) -> str:
    if not isinstance(job, str):
        if not callable(job):
            raise DefinitionError(
                f"enqueue takes a function marked @job, module:function or a job's name, not {job!r}"
            )
        return target_of(job)
    module, colon, function = job.partition(":")
    if colon and not (function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise DefinitionError(f"{job!r} is no module:function, as in bookstore.jobs:fetch_rates")
    return job


def _moment(at: object) -> int:
    if not isinstance(at, datetime):
        raise DefinitionError(f"enqueue: at must be an aware datetime, and {at!r} is not")
    return to_instant(at)


def _duration(what: str, value: object, *, zero: bool = False) -> int:
    if isinstance(value, str):
        return parse_duration(value, zero=zero)
    if not isinstance(value, timedelta):
        raise DefinitionError(
            f"enqueue: {what} must be text with a unit, as in '10m', or a timedelta, not {value!r}"
        )
    micros = value // _MICROSECOND
    if micros < 0 or (micros == 0 and not zero):
        raise DefinitionError(f"enqueue: {what} must not be in the past, and {value!r} is")
    if micros > _LONGEST:
        raise DefinitionError(f"enqueue: {what} {value!r} is longer than 200 years")
    return micros


def _held_for(value: object) -> int | None:
    return None if value == UNFINISHED else _duration("unique_for (or 'unfinished')", value)


def _priority(value: object) -> int:
    if value is None:
        return DEFAULT_PRIORITY
    if not isinstance(value, int) or isinstance(value, bool) or not _LOWEST <= value <= _HIGHEST:
        raise DefinitionError(
            f"enqueue: priority must be a whole number from {_LOWEST} to {_HIGHEST}, and {value!r} is not"
        )
    return value
