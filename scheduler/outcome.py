"""How one attempt ended, as a value any database can store: its texts are cleaned and cut when it is made."""

import asyncio
import re
import traceback
from dataclasses import dataclass
from typing import Final

from ..triggers.duration import format_duration
from ..triggers.instant import SECOND
from ..triggers.retry import LONGEST_DELAY
from .errors import LEASE_LOST, SHUTDOWN, TIMEOUT, JobCancelled, PermanentError, RetryAfter, RetryNow
from .transient import named, named_failure

SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
TIMED_OUT: Final = "timed_out"
CANCELLED: Final = "cancelled"
INTERRUPTED: Final = "interrupted"
LOST: Final = "lost"
KINDS: Final = (SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, INTERRUPTED, LOST)

MESSAGE_BYTES: Final = 4096
TRACEBACK_BYTES: Final = 16384
NAME_BYTES: Final = 200
_HEADS: Final = {"error_type": NAME_BYTES, "error_message": MESSAGE_BYTES, "result": MESSAGE_BYTES}

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

_KIND_OF_REASON: Final = {SHUTDOWN: INTERRUPTED, TIMEOUT: TIMED_OUT, LEASE_LOST: LOST}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt ended; use the constructors below. Texts are cleaned and cut in any case."""

    kind: str
    """succeeded, failed, timed_out, cancelled, interrupted (by a shutdown) or lost."""
    error_type: str | None = None
    """The bare name of the error's class: `ValueError`."""
    error_message: str | None = None
    traceback: str | None = None
    error_classes: tuple[str, ...] = ()
    """The dotted names of the error's class and its ancestors, and `transient` where it passes by itself: for a
    policy's retry_on and no_retry_on."""
    retry_after: int | None = None
    """Microseconds, where the job raised RetryAfter."""
    retry_now: bool = False
    permanent: bool = False
    result: str | None = None
    """What a successful job gave back, as text."""
    saved: str | None = None
    """What the job keeps for its next run, where this one changed it: a JSON object."""
    output: str | None = None
    """What it wrote, where `result` or `error_message` hold only a part of that: a JSON object."""

    def __post_init__(self) -> None:
        for name, most in _HEADS.items():
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, cut(text, most))
        if self.traceback is not None:
            object.__setattr__(self, "traceback", middle_cut(self.traceback, TRACEBACK_BYTES))

    @classmethod
    def success(cls, result: str | None = None) -> "Outcome":
        return cls(SUCCEEDED, result=result)

    @classmethod
    def failure(cls, error_type: str, message: str, *, permanent: bool = False) -> "Outcome":
        """A failure without an exception, such as a command's exit status."""
        return cls(FAILED, error_type, message, error_classes=named_failure(error_type), permanent=permanent)

    @classmethod
    def timeout(cls, after: int) -> "Outcome":
        """An attempt that ran longer than its `timeout` (microseconds); retried like a TimeoutError."""
        message = f"ran longer than its timeout of {format_duration(after)}"
        return cls(TIMED_OUT, "TimeoutError", message, error_classes=named(TimeoutError()))

    @classmethod
    def cancelled(cls, reason: str) -> "Outcome":
        """An attempt told to stop that did: interrupted, timed out, lost or cancelled, by `reason`."""
        kind = _KIND_OF_REASON.get(reason, CANCELLED)
        classes = named(TimeoutError()) if kind == TIMED_OUT else ()
        return cls(kind, "JobCancelled", reason, error_classes=classes)

    @classmethod
    def lost(cls, reason: str) -> "Outcome":
        """An attempt whose end nobody saw: its node or process is gone."""
        return cls(LOST, None, reason)

    @classmethod
    def of_exception(cls, error: BaseException, *, cancel_reason: str | None = None) -> "Outcome":
        """What a body that raised `error` ended as; never raises, whatever the error's own methods do.

        `cancel_reason` is why the body had been told to stop, if it had. An asyncio cancellation that nobody
        asked for (a task the body awaited was cancelled) is a failure like any other.
        """
        word = _inner(error)
        if isinstance(word, JobCancelled):
            return cls.cancelled(cancel_reason or _text(word.reason))
        if isinstance(word, asyncio.CancelledError) and cancel_reason is not None:
            return cls.cancelled(cancel_reason)
        after = word.seconds if isinstance(word, RetryAfter) else None
        return cls(
            kind=FAILED,
            error_type=type(word).__name__,
            error_message=_text(word),
            traceback=_traceback(error),
            error_classes=named(word),
            retry_after=None if after is None else min(round(after * SECOND), LONGEST_DELAY),
            retry_now=isinstance(word, RetryNow),
            permanent=isinstance(word, PermanentError),
        )


def clean(text: str) -> str:
    """`text` as every database takes it: NUL and lone surrogates become �."""
    return _UNSTORABLE.sub("\ufffd", text)


def cut(text: str, most: int) -> str:
    """The cleaned head of `text` in at most `most` bytes of UTF-8; … stands where something is missing."""
    data = clean(text[:most]).encode()  # a character has at least one byte
    if len(data) <= most and len(text) <= most:
        return data.decode()
    return data[: most - len("…".encode())].decode("utf-8", "ignore") + "…"


def middle_cut(text: str, most: int) -> str:
    """Head and tail of `text`, cleaned, in at most `most` bytes of UTF-8: of a traceback both ends matter."""
    if len(text) <= most:
        text = clean(text)
        if len(text.encode()) <= most:
            return text
    room = most - 64  # for the line between
    head = clean(text[:room]).encode()[: room // 3].decode("utf-8", "ignore")
    tail = clean(text[-room:]).encode()[-(room - room // 3) :].decode("utf-8", "ignore")
    return f"{head}\n… {len(text) - len(head) - len(tail)} characters left out …\n{tail}"


def _inner(error: BaseException) -> BaseException:
    """The one error in a group of one, as a task group raises it; else the error itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _text(value: object) -> str:
    """str(value), or what can be said where that raises."""
    try:
        return str(value)
    except Exception as broken:
        return f"<its text cannot be shown: __str__ raised {type(broken).__name__}>"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as broken:
        return f"<the traceback cannot be shown: formatting it raised {type(broken).__name__}>"
