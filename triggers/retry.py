"""What follows a failed attempt: how often, how long after, for which errors it is retried (DESIGN §8)."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final, TypedDict, Unpack

from .duration import format_duration, parse_duration
from .error_names import error_name, matches
from .errors import DefinitionError, TriggerError
from .instant import DAY, SECOND

Duration = str | timedelta
"""A duration where people declare one: text (`"2s"`) or a timedelta, never a bare number."""

ErrorFilter = Iterable[str | type[BaseException]]
"""Exceptions by class or by name: `ConnectionError`, `"httpx.TimeoutException"`, `"Timeout"`; `"transient"` is what passes
by itself (docs/retries.md)."""

FAIL: Final = "fail"
DISCARD: Final = "discard"
PAUSE_TRIGGER: Final = "pause_trigger"
ON_EXHAUSTED: Final = (FAIL, DISCARD, PAUSE_TRIGGER)

HANGFIRE: Final = "hangfire"
DEFAULT_DELAY: Final = 10 * SECOND
"""The wait before a retry where only a number of retries was said."""
MOST_RETRIES: Final = 1000
LONGEST_DELAY: Final = 366 * 200 * DAY
"""A grown delay stops here, so that an instant made from it can always be stored and printed."""

MARGIN: Final = SECOND
"""A retry must be due more than this before the next slot."""
SUPERSEDED: Final = "superseded"
AFTER_END: Final = "after end"


class RetryOptions(TypedDict, total=False):
    """What every constructor of a RetryPolicy also takes."""

    max_delay: Duration | None
    jitter: float
    retry_on: ErrorFilter
    no_retry_on: ErrorFilter
    give_up_after: Duration | None
    on_exhausted: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a failed firing is retried. Durations are microseconds here; the constructors take text as well.

    `max_retries=3` is at most four runs. `delays`, where given, stands in place of `delay` and `multiplier`;
    its last value repeats. Raises TriggerError, naming the key, for a value that makes no sense.
    """

    max_retries: int = 0
    delay: int = DEFAULT_DELAY
    multiplier: float = 1.0
    max_delay: int | None = None
    jitter: float = 0.0
    delays: tuple[int, ...] = ()
    retry_on: tuple[str, ...] = ()
    no_retry_on: tuple[str, ...] = ()
    give_up_after: int | None = None
    on_exhausted: str = FAIL
    preset: str | None = None
    """`hangfire` where its formula sets the delays; other presets are only short for plain values."""

    def __post_init__(self) -> None:
        _check_whole("max_retries", self.max_retries, 0, MOST_RETRIES)
        for name in ("delay", "max_delay", "give_up_after"):
            if (value := getattr(self, name)) is not None:
                _check_whole(name, value, 1, LONGEST_DELAY)
        for name in ("delays", "retry_on", "no_retry_on"):
            if not isinstance(getattr(self, name), tuple):
                raise TriggerError(f"retry.{name} must be a list, and {getattr(self, name)!r} is not")
        for value in self.delays:
            _check_whole("delays", value, 1, LONGEST_DELAY)
        for name, least, most in (("multiplier", 1.0, 1e6), ("jitter", 0.0, 1.0)):
            _check_number(name, value := getattr(self, name), least, most)
            object.__setattr__(self, name, float(value))  # 2 and 2.0 are one value with one digest
        for name in ("retry_on", "no_retry_on"):
            for value in getattr(self, name):
                _error_name(name, value)
        if (
            self.max_delay is not None
            and self.max_delay < self.delay
            and not self.delays
            and self.preset is None
        ):
            raise TriggerError(
                f"retry.max_delay {format_duration(self.max_delay)} is less than"
                f" retry.delay {format_duration(self.delay)}: raise it, or lower the delay"
            )
        if self.on_exhausted not in ON_EXHAUSTED:
            raise TriggerError(
                f"retry.on_exhausted {self.on_exhausted!r} is not one of {', '.join(ON_EXHAUSTED)}"
            )
        if self.preset == HANGFIRE and (self.delays or self.multiplier != 1 or self.delay != DEFAULT_DELAY):
            raise TriggerError(
                "retry.preset hangfire has delays of its own: leave out delay, delays and multiplier"
            )
        if self.preset not in (None, HANGFIRE):
            raise TriggerError(f"retry.preset {self.preset!r} is not a stored preset: apply it again")

    @classmethod
    def none(cls) -> "RetryPolicy":
        """No retry, and no further search: stands against a default of the job or of the cluster."""
        return cls()

    @classmethod
    def fixed(cls, max_retries: int, delay: Duration, **options: Unpack[RetryOptions]) -> "RetryPolicy":
        """The same `delay` before each retry."""
        return cls(max_retries=max_retries, delay=as_duration("delay", delay), **_options(options))

    @classmethod
    def exponential(
        cls, max_retries: int, delay: Duration, multiplier: float = 2.0, **options: Unpack[RetryOptions]
    ) -> "RetryPolicy":
        """`delay` before the first retry, then each time `multiplier` times as long."""
        first = as_duration("delay", delay)
        return cls(max_retries=max_retries, delay=first, multiplier=multiplier, **_options(options))

    @classmethod
    def explicit(
        cls, delays: Iterable[Duration], *, max_retries: int | None = None, **options: Unpack[RetryOptions]
    ) -> "RetryPolicy":
        """One retry after each of `delays`; with more `max_retries` than delays the last delay repeats."""
        listed = _delays(delays)
        count = len(listed) if max_retries is None else max_retries
        return cls(max_retries=count, delays=listed, **_options(options))

    @classmethod
    def hangfire(cls, max_retries: int = 10, **options: Unpack[RetryOptions]) -> "RetryPolicy":
        """Hangfire's delays: before retry k, (k−1)⁴ + 15 + 0…29 × k seconds; ten take about 4½ hours."""
        return cls(max_retries=max_retries, preset=HANGFIRE, **_options(options))

    @classmethod
    def order_mail(cls) -> "RetryPolicy":
        """The preset for what a customer waits for: three retries within minutes, spread by jitter."""
        return cls(max_retries=3, delay=15 * SECOND, multiplier=4.0, jitter=0.2)

    @classmethod
    def nightly(cls) -> "RetryPolicy":
        """The preset for nightly work: five retries, first after five minutes, given up after six hours."""
        return cls(
            max_retries=5, delay=300 * SECOND, multiplier=2.0, jitter=0.1, give_up_after=6 * 3600 * SECOND
        )

    @classmethod
    def from_declaration(cls, declared: object) -> "RetryPolicy":
        """Read `retry:` as a file writes it: `none`, a number of retries, a preset's name, or a mapping.

        Raises TriggerError naming the key, the value and what is known.
        """
        if declared == "none":
            return cls.none()
        if isinstance(declared, str):
            return _preset(declared)
        if isinstance(declared, int) and not isinstance(declared, bool):
            return cls(max_retries=declared)
        if isinstance(declared, Mapping):
            return _from_mapping(declared)
        raise TriggerError(
            f"retry {declared!r} is not `none`, a number of retries, a preset"
            f" ({', '.join(PRESETS)}) or a mapping"
        )

    def to_spec(self) -> dict[str, Any]:
        """The stored form: `max_retries` and what differs from its default; durations in microseconds."""
        spec: dict[str, Any] = {"max_retries": self.max_retries}
        for name in _FIELDS:
            if (value := getattr(self, name)) != getattr(_DEFAULT, name):
                spec[name] = list(value) if isinstance(value, tuple) else value
        return spec

    @classmethod
    def from_spec(cls, spec: object) -> "RetryPolicy":
        """Read what `to_spec` wrote; raises DefinitionError with the reason."""
        if not isinstance(spec, Mapping):
            raise DefinitionError(f"the retry policy {spec!r} is not a mapping: apply it again")
        if unknown := sorted(str(name) for name in spec if name not in _FIELDS):
            raise DefinitionError(
                f"the retry policy has unknown keys {', '.join(unknown)}: a newer qsched may know them"
            )
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()
        }
        try:
            return cls(**fields)
        except TriggerError as error:
            raise DefinitionError(f"{error}: apply it again") from error

    def delay_of(self, k: int, *, random: Callable[[], float]) -> int:
        """Microseconds between a failure and its retry number `k` (1 is the first).

        Capped, then jittered, then capped again. `random` gives 0 ≤ x < 1 and is asked once at most.
        """
        cap = LONGEST_DELAY if self.max_delay is None else self.max_delay
        retry = max(k, 1)
        if self.preset == HANGFIRE:
            seconds = (retry - 1) ** 4 + 15 + int(random() * 30) * retry
            return min(seconds * SECOND, cap)
        if self.delays:
            delay = min(self.delays[min(retry, len(self.delays)) - 1], cap)
        else:
            delay = _grown(self.delay, self.multiplier, retry - 1, cap)
        if self.jitter:
            delay = min(max(round(delay * (1 - self.jitter + 2 * self.jitter * random())), 0), cap)
        return delay

    def shortest_delay(self) -> int:
        """The least `delay_of(1)` can give, for `qsched check` to hold against a trigger's shortest gap."""
        return self.delay_of(1, random=lambda: 0.0)

    def retries(self, error_classes: Iterable[str]) -> bool:
        """Whether an error of these classes (dotted names, as outcomes keep them) may be retried at all."""
        raised = tuple(error_classes)
        if matches(self.no_retry_on, raised):
            return False
        return not self.retry_on or matches(self.retry_on, raised)


def retry_fits(retry_at: int, *, next_at: int | None, end_at: int | None) -> str | None:
    """None when a retry due at `retry_at` is kept; else why it is dropped: `superseded` or `after end`.

    `next_at` is the slot after the firing's own, as its decision wrote it; `end_at` is the trigger's.
    """
    if next_at is not None and retry_at + MARGIN >= next_at:
        return SUPERSEDED
    if end_at is not None and retry_at > end_at:
        return AFTER_END
    return None


def as_duration(key: str, value: object) -> int:
    """Microseconds of `value`; raises TriggerError naming `key` unless they are more than zero."""
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except TriggerError as error:
            raise TriggerError(f"retry.{key}: {error}") from error
    if not isinstance(value, timedelta):
        raise TriggerError(f'retry.{key}: {value!r} is not a duration: write it with its unit, as in "30s"')
    micros = value // timedelta(microseconds=1)
    _check_whole(key, micros, 1, LONGEST_DELAY)
    return micros


def _grown(delay: int, multiplier: float, times: int, cap: int) -> int:
    """delay × multiplier^times, never above `cap`, however large it would be."""
    try:
        grown = delay * multiplier**times
    except OverflowError:
        return cap
    return cap if grown >= cap else round(grown)


def _check_whole(key: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TriggerError(f"retry.{key} must be a whole number, and {value!r} is not")
    if not least <= value <= most:
        raise TriggerError(f"retry.{key} must be {least} to {most}, and {value} is not")


def _check_number(key: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TriggerError(f"retry.{key} must be a number, and {value!r} is not")
    if not least <= value <= most:
        raise TriggerError(f"retry.{key} must be {least:g} to {most:g}, and {value:g} is not")


def _delays(delays: object) -> tuple[int, ...]:
    if isinstance(delays, str | bytes) or not isinstance(delays, Iterable):
        raise TriggerError(
            f"retry.delays must be a list of durations, as in [2s, 5s, 10s], and {delays!r} is not"
        )
    listed = tuple(as_duration("delays", delay) for delay in delays)
    if not listed:
        raise TriggerError("retry.delays is empty: give at least one duration, or write `retry: none`")
    return listed


def _names(key: str, given: object) -> tuple[str, ...]:
    """The names of exceptions given by class or by name, one or several."""
    if isinstance(given, str | type):
        given = [given]
    if not isinstance(given, Iterable):
        raise TriggerError(f"retry.{key} must be a list of exception names, and {given!r} is not")
    return tuple(dict.fromkeys(_error_name(key, each) for each in given))


def _error_name(key: str, given: object) -> str:
    if isinstance(given, type) and issubclass(given, BaseException):
        return error_name(given)
    if isinstance(given, str) and all(
        part.isidentifier() for part in given.replace(".<locals>", "").split(".")
    ):
        return given
    if isinstance(given, str) and _STATUS.match(given):
        return given
    raise TriggerError(
        f"retry.{key}: {given!r} is not the name of an exception, as in httpx.TimeoutException"
    )


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword options or declared keys as field values."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if name in ("delay", "max_delay", "give_up_after"):
            fields[name] = None if value is None else as_duration(name, value)
        elif name in ("retry_on", "no_retry_on"):
            fields[name] = _names(name, value)
        elif name == "delays":
            fields[name] = _delays(value)
        else:
            fields[name] = value
    return fields


def _preset(name: object) -> RetryPolicy:
    if not isinstance(name, str) or name not in PRESETS:
        raise TriggerError(f"retry preset {name!r} is not known: write none or one of {', '.join(PRESETS)}")
    return PRESETS[name]()


def _from_mapping(declared: Mapping[Any, Any]) -> RetryPolicy:
    if unknown := [name for name in declared if name not in _FIELDS]:
        close = get_close_matches(str(unknown[0]), _FIELDS, 1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(_FIELDS)}"
        raise TriggerError(f"retry.{unknown[0]} is not known: {hint}")
    if "delays" in declared and ("delay" in declared or "multiplier" in declared):
        raise TriggerError(
            "retry.delays stands in place of retry.delay and retry.multiplier: keep one of the two ways"
        )
    said = {name: value for name, value in declared.items() if name != "preset"}
    fields = _options(said)
    if "delays" in fields:
        fields.setdefault("max_retries", len(fields["delays"]))
    if "preset" in declared:
        return replace(_preset(declared["preset"]), **fields)
    if "max_retries" not in fields:
        raise TriggerError("retry needs max_retries, delays or a preset: say how often, as in max_retries: 3")
    return RetryPolicy(**fields)


PRESETS: Final[Mapping[str, Callable[[], RetryPolicy]]] = {
    HANGFIRE: RetryPolicy.hangfire,
    "order_mail": RetryPolicy.order_mail,
    "nightly": RetryPolicy.nightly,
}
_FIELDS = (
    "max_retries",
    "delay",
    "multiplier",
    "max_delay",
    "jitter",
    "delays",
    "retry_on",
    "no_retry_on",
    "give_up_after",
    "on_exhausted",
    "preset",
)
_STATUS = re.compile(r"http\.[1-5](?:[0-9]{2}|xx)\Z")
"""How the failures of http jobs are named: `http.429`, `http.5xx`."""
_DEFAULT = RetryPolicy()
