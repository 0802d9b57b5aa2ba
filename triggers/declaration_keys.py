"""Every key of a declaration, place by place; the readers and the JSON Schema are both made from these."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, ConfigDict, Field
from typing_extensions import TypedDict

from .after import CONDITIONS
from .declaration_fields import whole, word_of
from .declaration_http import METHODS, MOST_REDIRECTS
from .declaration_schedules import CalendarIntervalKeys, DailyWindowKeys, PartKeys
from .declaration_types import (
    Body,
    Boolean,
    CalendarDates,
    Command,
    Country,
    Data,
    Duration,
    DurationOrForever,
    DurationOrZero,
    DurationText,
    DurationTexts,
    Environment,
    Headers,
    Hours,
    JsonBody,
    Key,
    Name,
    Names,
    Number,
    Read,
    Statuses,
    Target,
    Text,
    Texts,
    Time,
    Url,
    Version,
    Weekdays,
    Zone,
)
from .job import OVERLAPS
from .misfire import MOST_LIMIT, POLICIES
from .misfire_words import HINTS
from .retention import MOST_ROWS
from .retry import MOST_RETRIES, ON_EXHAUSTED, PRESETS
from .yaml_scalars import Plain

_ONLY_THESE = ConfigDict(extra="forbid")

_QUARTZ_WORDS = {
    prefix + word: ours for word, ours in HINTS.items() for prefix in ("", "MISFIRE_INSTRUCTION_")
}
_OVERLAP_WORDS = {"forbid": "skip", "replace": "cancel", "disallow": "queue", "buffer": "queue"}
GAPS: Final = ("run_after", "skip")
REPEATS: Final = ("once", "twice")
RUN_IN: Final = ("thread", "async", "process")


def _words(*words: str, aliases: Mapping[str, str] | None = None) -> Read:
    return Read(word_of(*words, aliases=aliases), {"type": "string", "enum": list(words)})


def _whole(least: int, most: int) -> Read:
    return Read(whole(least, most), {"type": "integer", "minimum": least, "maximum": most})


def _short_misfire(value: object) -> object:
    return {"policy": value} if isinstance(value, str) else value


def _short_http(value: object) -> object:
    """`http: https://…` in the long form."""
    return {"url": value} if isinstance(value, str) else value


def _short_retry(value: object) -> object:
    """`retry: 3`, `retry: none`, `retry: hangfire` in the long form."""
    if isinstance(value, Plain) and value.isascii() and value.lstrip("+-").isdigit():
        return {"max_retries": value}
    if isinstance(value, str):
        return {"preset": value}
    return value


NO_RETRY: Final = "none"
_RETRY_ON: Final = (
    "only these exceptions and what is made of them; transient: time-outs, lost connections,"
    " HTTP 429/502/503/504, deadlocks and lock time-outs"
)


class MisfireKeys(TypedDict, total=False):
    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    policy: Annotated[
        str, _words(*POLICIES, aliases=_QUARTZ_WORDS), Field(description="what happens to the missed slots")
    ]
    threshold: Annotated[
        DurationOrZero, Field(description="how late a slot may be noticed and still be on time")
    ]
    window: Annotated[Duration, Field(description="fire_all: how far back")]
    limit: Annotated[int, _whole(1, MOST_LIMIT), Field(description="fire_all: how many at most, the newest")]


class DstKeys(TypedDict, total=False):
    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    gap: Annotated[str, _words(*GAPS), Field(description="a local time that does not exist")]
    overlap: Annotated[str, _words(*REPEATS), Field(description="a local time that comes twice")]


class RetryKeys(TypedDict, total=False):
    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    max_retries: Annotated[int, _whole(0, MOST_RETRIES), Field(description="3 means at most four runs")]
    delay: DurationText
    multiplier: Number
    max_delay: DurationText
    jitter: Annotated[Number, Field(description="share of the delay, 0 to 1")]
    delays: Annotated[DurationTexts, Field(description="stands in place of delay and multiplier")]
    preset: Annotated[str, _words(NO_RETRY, *PRESETS)]
    retry_on: Annotated[Texts, Field(description=_RETRY_ON)]
    no_retry_on: Annotated[Texts, Field(description="never these, nor what is made of them")]
    give_up_after: DurationText
    on_exhausted: Annotated[str, _words(*ON_EXHAUSTED)]


Misfire = Annotated[MisfireKeys, BeforeValidator(_short_misfire)]
Retry = Annotated[RetryKeys, BeforeValidator(_short_retry)]


class HttpKeys(TypedDict, total=False):
    """A request. `${VAR}` is expanded where it is made; `{name}` in url and headers stands for data."""

    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    url: Annotated[Url, Field(description="http or https; {name} in path and query stands for data")]
    method: Annotated[str, _words(*METHODS, aliases={word.lower(): word for word in METHODS})]
    headers: Annotated[Headers, Field(description="{name} stands for data")]
    json: Annotated[JsonBody, Field(description="the body; else POST, PUT and PATCH send the data")]
    body: Annotated[Body, Field(description="the body, as text, in place of json")]
    expected_status: Annotated[Statuses, Field(description="what means success: [200-299]")]
    follow_redirects: Annotated[int, _whole(0, MOST_REDIRECTS)]
    max_response: Annotated[int, _whole(1, 2**40), Field(description="bytes after which reading stops")]


Http = Annotated[HttpKeys, BeforeValidator(_short_http)]


class PolicyKeys(TypedDict, total=False):
    """What a job, `defaults` and `cluster` may all say about how jobs run."""

    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    request_recovery: Annotated[Boolean, Field(description="run again elsewhere when the node dies")]
    max_recoveries: Annotated[int, _whole(0, 1000)]
    overlap: Annotated[
        str,
        _words(*OVERLAPS, aliases=_OVERLAP_WORDS),
        Field(description="when a slot comes while the job is still running"),
    ]
    timeout: Annotated[Duration, Field(description="per attempt")]
    retry: Retry
    run_in: Annotated[str, _words(*RUN_IN)]
    run_on: Annotated[Names, Field(description="only on nodes with all of these tags")]


class RetentionKeys(TypedDict, total=False):
    """How long history is kept."""

    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    succeeded: Annotated[
        int | str, DurationOrForever, Field(description="since the end; skipped and cancelled ones, too: 7d")
    ]
    failed: Annotated[int | str, DurationOrForever, Field(description="since the end; lost ones, too: 30d")]
    per_trigger: Annotated[int, _whole(1, MOST_ROWS), Field(description="rows of one trigger: 10000")]


class ClusterKeys(PolicyKeys, total=False):
    """Defaults of the whole cluster, for what neither a file nor a decorator says."""

    retention: Annotated[RetentionKeys, Field(description="how long history is kept")]


class DefaultsKeys(PolicyKeys, total=False):
    """What jobs and triggers of this file, and of the files it includes, say unless they say otherwise."""

    time_zone: Zone
    dst: DstKeys
    misfire: Misfire
    priority: Annotated[int, _whole(-1_000_000, 1_000_000)]


class JobKeys(PolicyKeys, total=False):
    """A job: what to run."""

    python: Annotated[Target, Field(description="module:function")]
    command: Annotated[Command, Field(description="a text for /bin/sh, or a list of arguments")]
    http: Annotated[Http, Field(description="a request: a url, or its parts")]
    env: Annotated[Environment, Field(description="of a command; ${VAR} is expanded where it runs")]
    cwd: Text
    key: Annotated[Text, Field(description="idempotency key over data, as in invoice:{order_id}")]
    persist_data: Annotated[
        Boolean, Field(description="keep ctx.saved from run to run; its runs take turns (overlap: queue)")
    ]
    data: Annotated[Data, Field(description="keyword arguments")]
    group: Name
    tags: Names
    description: Text


def _short_after(value: object) -> object:
    return {"job": value} if isinstance(value, str) else value


class AfterKeys(TypedDict, total=False):
    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    job: Annotated[
        Text, Field(description="the job that is followed: of the files or of the code, or module:function")
    ]
    on: Annotated[
        str, _words(*CONDITIONS), Field(description="which of its ends: succeeded, unless said otherwise")
    ]


class GroupKeys(TypedDict, total=False):
    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    limit: Annotated[
        int,
        _whole(1, 10_000),
        Field(description="how many firings of the group's jobs run at once, in the cluster"),
    ]


class TriggerKeys(JobKeys, total=False):
    """A trigger: when to run which job; or, with `command`, `python` or `http`, a job of its own."""

    cron: Annotated[Text, Field(description="five fields, or @daily and the like; quote it")]
    quartz: Annotated[Text, Field(description="six or seven fields, seconds first; quote it")]
    every: Annotated[Duration, Field(description="a fixed interval")]
    anchor: Annotated[Time, Field(description="where `every` counts from; else start_at, else the epoch")]
    at: Annotated[Time, Field(description="once")]
    calendar_interval: Annotated[
        CalendarIntervalKeys, Field(description="every n years, months, weeks or days at a time of day")
    ]
    daily_window: Annotated[DailyWindowKeys, Field(description="every so often between two times of day")]
    rrule: Annotated[Text, Field(description="an RFC 5545 rule, as in FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18")]
    any: Annotated[list[PartKeys], Field(description="schedules, each of whose slots is one")]
    all: Annotated[list[PartKeys], Field(description="schedules; a slot is what all of them name")]
    delay: Annotated[Duration, Field(description="so long after the end of the run before")]
    after: Annotated[
        AfterKeys,
        BeforeValidator(_short_after),
        Field(description="a continuation: when a firing of this job has ended"),
    ]
    exclude: Annotated[Names, Field(description="calendars whose time is left out")]
    on_excluded: Annotated[
        str,
        _words("skip", "next", "previous"),
        Field(description="a slot that is left out: skip, or the next or previous day that is not"),
    ]
    job: Annotated[Text, Field(description="a job of the files or of the code, or module:function")]
    start_at: Time
    end_at: Annotated[Time, Field(description="inclusive")]
    max_fires: Annotated[int, _whole(1, 2**53)]
    jitter: Annotated[
        Duration,
        Field(description="each firing runs up to this much later than its slot; drawn anew each time"),
    ]
    splay: Annotated[
        Duration, Field(description="all slots are moved by one amount below this, which the key decides")
    ]
    time_zone: Zone
    dst: DstKeys
    misfire: Misfire
    priority: Annotated[
        int, _whole(-1_000_000, 1_000_000), Field(description="5; higher first among what is due together")
    ]
    paused: Annotated[Boolean, Field(description="the state it is created in")]
    renamed_from: Annotated[Key, Field(description="the key it had before: keeps state and history")]


class HolidayKeys(TypedDict, total=False):
    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    country: Annotated[Country, Field(description="its ISO code: TR")]
    subdivision: Annotated[Country, Field(description="a part of it: BY")]


def _short_holidays(value: object) -> object:
    return {"country": value} if isinstance(value, str) else value


class CalendarKeys(TypedDict, total=False):
    """Time that is left out of a trigger's schedule: whatever one of its keys says."""

    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    dates: Annotated[
        CalendarDates, Field(description="2026-12-24, 2026-12-24..2027-01-02, 12-25 (every year)")
    ]
    weekly: Annotated[Weekdays, Field(description="days of the week: [sat, sun], mon-fri")]
    daily: Annotated[Hours, Field(description="hours of every day: 22:00-06:00")]
    cron: Annotated[Text, Field(description="the minutes that match; quote it")]
    quartz: Annotated[Text, Field(description="the seconds that match; quote it")]
    holidays: Annotated[
        HolidayKeys,
        BeforeValidator(_short_holidays),
        Field(description="public holidays of a country, by the holidays package"),
    ]
    ics: Annotated[Text, Field(description="a file of events, beside this one; read when it is applied")]
    any: Annotated[Names, Field(description="other calendars of the files")]
    time_zone: Zone


class FileKeys(TypedDict, total=False):
    """A file of declarations."""

    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    qsched: Annotated[Version, Field(description="format version")]
    namespace: Annotated[Name, Field(description="what apply and prune may touch")]
    include: Annotated[Texts, Field(description="files or globs, relative to this file")]
    defaults: DefaultsKeys
    cluster: ClusterKeys
    groups: Annotated[dict[str, GroupKeys], Field(description="limits of the groups that jobs name")]
    calendars: Annotated[dict[str, CalendarKeys], Field(description="time that triggers leave out, by name")]
    jobs: dict[str, JobKeys]
    triggers: dict[str, TriggerKeys]


SCHEDULES: Final = (
    *("cron", "quartz", "every", "at", "calendar_interval", "daily_window", "rrule", "any", "all"),
    *("delay", "after"),
)
KINDS: Final = ("python", "command", "http")
POLICIES_OF_JOBS: Final = tuple(PolicyKeys.__annotations__)
ONLY_OF_JOBS: Final = (
    "request_recovery",
    "max_recoveries",
    "overlap",
    "timeout",
    "run_in",
    "key",
    "persist_data",
    "env",
    "cwd",
)
"""What a trigger may say only when it declares its own job."""

LATER: Final = frozenset(("unique_key",))
"""Keys of the format that this version refuses instead of ignoring."""

OTHER_WORDS: Final = {
    "tz": "time_zone",
    "timezone": "time_zone",
    "shell": "command",
    "cmd": "command",
    "script": "command",
    "kwargs": "data",
    "args": "data",
    "params": "data",
    "schedule": "cron",
    "crontab": "cron",
    "interval": "every",
    "starts_at": "start_at",
    "ends_at": "end_at",
    "enabled": "paused",
    "suspend": "paused",
    "concurrency": "overlap",
    "max_instances": "overlap",
    "misfire_grace": "misfire",
    "misfire_grace_time": "misfire",
    "catchup": "misfire",
    "max_attempts": "max_retries",
    "attempts": "max_retries",
    "backoff": "multiplier",
    "environment": "env",
    "working_dir": "cwd",
    "uri": "url",
    "endpoint": "url",
    "status": "expected_status",
    "verb": "method",
    "func": "python",
    "function": "python",
    "callable": "python",
}
"""What other schedulers call our keys."""
