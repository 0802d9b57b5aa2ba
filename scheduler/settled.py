"""What was settled is told, behind its commit: to the log, to whoever listens, and, where it was fenced, to the audit."""

import logging
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from .context import RunRequest
from .errors import SchedulerError
from .events import Event, Fact
from .firing import CANCELLED, DUE, SUCCEEDED
from .outcome import INTERRUPTED
from .parts import Parts
from .store.definition_rows import write_audit
from .store.finish import Ending
from .store.tx import Tx
from .trail import End, facts_of_end

FENCED: Final = "fenced"
"""The audit's verb for ends that came too late."""
_MOST_AUDITED: Final = 100
_PATIENCE: Final = 1.0
"""Seconds for the audit's transaction: what ended meanwhile waits for it."""

log = logging.getLogger("qsched.settler")


class Settled(NamedTuple):
    """An end that was to be written; `landed`: it was, now or before, and not fenced."""

    request: RunRequest
    ending: Ending
    landed: bool


def tell_settled(parts: Parts, settled: Sequence[Settled]) -> None:
    """Tell what became of a batch whose transaction was committed."""
    for each in settled:
        _log(each)
    if parts.teller.heard:
        parts.teller.tell(event for each in settled for event in _events(each, parts.who.name))
    fenced = [each for each in settled if not each.landed]
    if fenced:
        _audit(parts, fenced[:_MOST_AUDITED])


def _log(each: Settled) -> None:
    ending, trigger = each.ending, each.request.trigger
    if not each.landed:
        log.warning(
            "settle.fenced firing=%s fence=%s: its outcome is discarded", ending.firing_id, ending.fence
        )
    elif ending.state == SUCCEEDED:
        log.debug("firing.succeeded trigger=%s firing=%s", trigger, ending.firing_id)
    else:
        level, event = _said_of(ending)
        log.log(level, "%s trigger=%s firing=%s %s", event, trigger, ending.firing_id, ending.note)


def _said_of(ending: Ending) -> tuple[int, str]:
    """How loud, and the event's name: what somebody wanted to end, or handed over, is nobody's error."""
    if ending.state == DUE:
        return logging.WARNING, "firing.handed_over" if ending.outcome == INTERRUPTED else "firing.retry"
    wanted = ending.state == CANCELLED
    return logging.WARNING if wanted else logging.ERROR, f"firing.{ending.state}"


def _events(each: Settled, node: str) -> Iterator[Event]:
    request, ending = each.request, each.ending
    about = Event(
        fact=Fact.FENCED,
        at=ending.finished_at,
        trigger=request.trigger,
        job=request.job.name,
        firing=ending.firing_id,
        fence=ending.fence,
        attempt=request.attempt,
        node=node,
        reason=f"it ended {ending.outcome}, and others had taken it over: its end was refused",
    )
    if not each.landed:
        yield about
        return
    yield from facts_of_end(end_of(ending, request.attempt), about)
    if ending.pause_trigger and ending.trigger_id is not None:
        reason = f"retries exhausted: {ending.note}"
        yield Event(fact=Fact.PAUSED, at=ending.finished_at, trigger=request.trigger, reason=reason)


def end_of(ending: Ending, attempt: int) -> End:
    """What a trail needs of an end that was written."""
    return End(
        ending.outcome,
        ending.state,
        ending.finished_at,
        ending.error,
        ending.note,
        attempt,
        dropped=ending.retry_dropped,
        run_at=ending.run_at,
    )


def _audit(parts: Parts, fenced: Sequence[Settled]) -> None:
    """Leave a row for each, so that it can be read later; nothing depends on it, and nothing waits long for it."""
    who = parts.who.name

    def write(tx: Tx) -> None:
        for ending in (each.ending for each in fenced):
            detail = {"fence": ending.fence, "outcome": ending.outcome}
            write_audit(tx, who, FENCED, [str(ending.firing_id)], detail)

    try:
        parts.store.transaction("audit fenced", write, patience=_PATIENCE)
    except SchedulerError as error:
        log.debug("settle.fenced_unaudited firings=%s reason=%s", len(fenced), error)
