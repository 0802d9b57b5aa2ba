"""The edge of a job's body: what goes in as arguments, and how whatever comes out becomes an outcome."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import CoroutineType, TracebackType
from typing import Any, Final

from ..around.scope import Values
from ..clock import Clock
from ..context import JobContext, RunRequest
from ..errors import TIMEOUT, PermanentError
from ..loaded_job import describe
from ..outcome import MESSAGE_BYTES, SUCCEEDED, Outcome
from .deadlines import Deadlines

_ROOMS: Final = (__name__, __name__.partition(".running.")[0] + ".around.")
_NOTHING_RETURNED = Outcome.success()
"""One value for the commonest end of all: making it costs as much as the rest of a run that does nothing."""


class BodyTime:
    """How long one body may run: its context is told at the time-out, and `over` says if it was kept."""

    __slots__ = ("_clock", "_ctx", "_deadlines", "_until", "timeout")

    def __init__(self, ctx: JobContext, clock: Clock, deadlines: Deadlines) -> None:
        self.timeout = ctx.request.timeout
        self._until: float | None = None
        if self.timeout is not None:
            self._ctx, self._clock, self._deadlines = ctx, clock, deadlines
            self._until = clock.monotonic() + self.timeout / 1_000_000
            deadlines.watch(ctx, self._until)

    def over(self) -> bool:
        """The body has ended: whether after its time, with nothing but the time-out to stop it before."""
        if self._until is None:
            return False
        self._deadlines.forget(self._ctx)
        return self._clock.monotonic() >= self._until and self._ctx.cancel_reason in (None, TIMEOUT)


def arguments_of(request: RunRequest, ctx: JobContext) -> Mapping[str, Any]:
    """The data as keyword arguments, with the context where wanted; raises PermanentError naming misfits."""
    data = ctx.data
    arguments = request.job.arguments
    if problems := arguments.problems(data):
        raise _misfit(request, problems)
    if arguments.context is None:
        return data
    return {**data, arguments.context: ctx}


def body_of(ctx: JobContext) -> Callable[[Values], Any]:
    """The function as its chain calls it: with what scopes have given, of which it gets what it asks for."""
    request = ctx.request
    function, arguments = request.job.function, request.job.arguments
    assert function is not None

    def body(given: Values) -> Any:
        if problems := arguments.problems(ctx.data, given.keys()):
            raise _misfit(request, problems)
        asked = given if arguments.known is None else {n: given[n] for n in given.keys() & arguments.known}
        itself = {} if arguments.context is None else {arguments.context: ctx}
        return function(**ctx.data, **asked, **itself)

    return body


def _misfit(request: RunRequest, problems: Sequence[str]) -> PermanentError:
    return PermanentError(f"{describe(request.job)}: {'; '.join(problems)}: correct its data")


def outcome_of_value(value: object) -> Outcome:
    """A body that returned `value`; a coroutine that nobody awaited is no success."""
    if value is None:
        return _NOTHING_RETURNED
    if isinstance(value, CoroutineType):
        value.close()
        return Outcome.failure(
            "PermanentError",
            "the function returned a coroutine that nothing awaits: mark the async function itself with @job,"
            " or make the decorator around it async",
            permanent=True,
        )
    return Outcome.success(_result_text(value))


def with_saved(ctx: JobContext, outcome: Outcome) -> Outcome:
    """The outcome, with what the job is to keep; what cannot be kept is a success no more."""
    if ctx.request.saved is None:
        return outcome
    try:
        saved = ctx.saved_text()
    except BaseException as error:  # the body may have put anything in there
        ctx.log.error("ctx.saved is not kept: %s", error)
        return Outcome.of_exception(PermanentError(str(error))) if outcome.kind == SUCCEEDED else outcome
    return outcome if saved is None else replace(outcome, saved=saved)


def outcome_of_error(error: BaseException, ctx: JobContext) -> Outcome:
    """A body that raised `error`, whatever it is; never raises."""
    try:
        # what the reader wants to see begins in the job's own code, not in the frame that called it
        if error.__traceback__ is not None:
            error.__traceback__ = _inner(error.__traceback__)
        return Outcome.of_exception(error, cancel_reason=ctx.cancel_reason)
    except BaseException:  # MemoryError and the like may strike twice
        return Outcome.failure(type(error).__name__, "the error could not be read")


def _inner(trace: TracebackType) -> TracebackType:
    """Where it goes on without the frame that called the body, or the frames that called what is around it."""
    inner = trace.tb_next
    while inner is not None and inner.tb_frame.f_globals.get("__name__", "").startswith(_ROOMS):
        inner = inner.tb_next
    return inner or trace.tb_next or trace


def _result_text(value: object) -> str:
    """What a job gave back, as text that costs no more than its beginning."""
    if isinstance(value, str):
        return value[: MESSAGE_BYTES + 1]
    text = ""
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            text += piece
            if len(text) > MESSAGE_BYTES:
                break
    except Exception:
        return f"<{type(value).__qualname__}: not stored, JSON cannot carry it>"
    return text
