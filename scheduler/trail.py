"""The trail of a firing: the facts of its life in order, read from what the ledger keeps of it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..triggers.instant import rfc3339
from .events import Event, Fact
from .firing import CANCELLED, DUE, RUNNING, SKIPPED
from .outcome import INTERRUPTED, LOST, SUCCEEDED
from .verdict import EXHAUSTED

_BRIEF = 200


class FiringRow(NamedTuple):
    """What a trail needs of a firing's row."""

    id: int
    trigger: str | None
    job: str
    scheduled_at: int
    covers: int
    noticed_at: int
    reason: str
    state: str
    outcome: str | None
    attempt: int
    fence: int
    started_at: int | None
    finished_at: int | None
    error: str | None
    note: str | None
    retry_dropped: str | None
    cause: str | None
    policy: str | None
    decision: str | None
    cancel_requested_at: int | None
    cancel_requested_by: str | None
    of_firing: int | None
    node: str | None


class AttemptRow(NamedTuple):
    """An ended attempt that was followed by another."""

    firing: int
    fence: int
    attempt: int
    started_at: int | None
    finished_at: int
    outcome: str
    error: str | None
    note: str | None
    next_run_at: int
    node: str | None


class End(NamedTuple):
    """How an attempt ended, and what its firing became of it."""

    outcome: str
    state: str
    at: int
    error: str | None
    note: str | None
    attempt: int
    dropped: str | None = None
    run_at: int | None = None


def trail(row: FiringRow, attempts: Sequence[AttemptRow]) -> list[Event]:
    """Every fact that the ledger tells of a firing, in order; `attempts` are the ended ones, by fence.

    They may have been read after the row: what ended since then is not told yet.
    """
    attempts = [
        each
        for each in attempts
        if each.fence < row.fence or (each.fence == row.fence and row.started_at is None)
    ]
    about = Event(
        fact=Fact.PLANNED, at=row.noticed_at, trigger=row.trigger, job=row.job, firing=row.id, attempt=0
    )
    events = [*_planned(row, about), *_attempts(row, attempts, about)]
    if row.cancel_requested_at is not None:
        asked = replace(
            about,
            fact=Fact.CANCEL_REQUESTED,
            at=row.cancel_requested_at,
            state=None,
            attempt=row.attempt,
            reason=f"by {row.cancel_requested_by}" if row.cancel_requested_by else None,
        )
        place = next((n for n, event in enumerate(events) if event.at > asked.at), len(events))
        before = events[max(place - 1, 0)]
        events.insert(max(place, 1), replace(asked, state=before.state, fence=before.fence, node=before.node))
    return events


_STATES = {
    Fact.PLANNED: DUE,
    Fact.RETRIED: DUE,
    Fact.HANDED_OVER: DUE,
    Fact.RECOVERED: DUE,
    Fact.STARTED: RUNNING,
    Fact.MISFIRED: None,
}


def shown_state(event: Event) -> str | None:
    """What a trail shows a fact as: the firing's state, or how an attempt ended; None for what is no state of its own."""
    if event.fact in (Fact.RETRY_DROPPED, Fact.EXHAUSTED, Fact.DISCARDED):
        return event.state
    return _STATES.get(event.fact, str(event.fact))


def facts_of_end(end: End, about: Event) -> Iterator[Event]:
    """What the end of an attempt is told as: how it ended, and what follows. `about` says whose it is."""
    head = brief(end.error)
    note = end.note or ""
    here = replace(about, at=end.at, attempt=end.attempt, state=end.state)
    if end.state == DUE:
        was, then = _apart(end.outcome, head, note)
        yield replace(here, fact=Fact(end.outcome), reason=was)
        when = f"{then}, at {rfc3339(end.run_at)}" if end.run_at is not None and end.run_at > end.at else then
        yield replace(here, fact=_FOLLOWS.get(end.outcome, Fact.RETRIED), node=None, reason=when or None)
        return
    verdict = _verdict(end, note)
    if verdict is None and end.state == CANCELLED and end.outcome in (INTERRUPTED, LOST):
        verdict = Fact.CANCELLED
    if verdict is None:
        yield replace(here, fact=Fact(end.outcome), reason=_whole(end, head, note))
        return
    was, then = _apart(end.outcome, head, note)
    yield replace(here, fact=Fact(end.outcome), state=RUNNING, reason=was)
    yield replace(here, fact=verdict, node=None, reason=then or note or None)


_FOLLOWS = {INTERRUPTED: Fact.HANDED_OVER, LOST: Fact.RECOVERED}


def brief(error: str | None) -> str | None:
    """`ValueError: boom` of an error's JSON text: its first line, as the notes of the ledger say it."""
    if error is None:
        return None
    said = _read(error)
    lines = str(said.get("message") or "").strip().splitlines()
    text = lines[0] if lines else ""
    if len(text) > _BRIEF:
        text = f"{text[:_BRIEF]}…"
    kind = said.get("type")
    return f"{kind}: {text}" if kind and text else str(kind or text or "") or None


def unbegun(row: FiringRow, attempts: Sequence[AttemptRow]) -> int:
    """How often a due firing was taken since its last attempt, and given back before its body began."""
    last = attempts[-1].fence if attempts else 0
    return max(0, row.fence - last) if row.state == DUE else 0


# -- what was planned ------------------------------------------------------------------------------------------------------


def _planned(row: FiringRow, about: Event) -> Iterator[Event]:
    skipped = row.state == SKIPPED
    # One whose slot was decided in time and judged again, because nobody had begun it.
    at = row.noticed_at if row.finished_at is None or not skipped else row.finished_at
    if at > row.noticed_at:
        yield replace(about, fact=Fact.PLANNED, state=DUE, reason=f"its slot {rfc3339(row.scheduled_at)}")
    late = replace(about, at=at, cause=row.cause, policy=row.policy, decision=row.decision)
    if row.policy is not None:
        yield replace(late, fact=Fact.MISFIRED, state=DUE, reason=_misfire(row))
    if not skipped:
        yield replace(about, fact=Fact.PLANNED, state=DUE, reason=_why_planned(row))
        return
    reason = _misfire(row) if row.decision else row.note or row.reason
    yield replace(late, fact=Fact.SKIPPED, attempt=None, state=SKIPPED, reason=reason)


def _misfire(row: FiringRow) -> str:
    of = [f"{name} {value}" for name, value in (("policy", row.policy), ("cause", row.cause)) if value]
    return f"{row.decision} ({', '.join(of)})" if of else str(row.decision)


def _why_planned(row: FiringRow) -> str:
    slot = rfc3339(row.scheduled_at)
    if row.reason == "schedule":
        return f"its slot {slot}"
    if row.reason == "misfire":
        return f"misfire, its slot {slot}: {_misfire(row)}"
    of = "" if row.of_firing is None else f", of firing {row.of_firing}"
    later = f", at {slot}" if row.scheduled_at > row.noticed_at else ""
    return f"{row.reason}{of}{later}"


# -- what ran --------------------------------------------------------------------------------------------------------------


def _attempts(row: FiringRow, attempts: Sequence[AttemptRow], about: Event) -> Iterator[Event]:
    before = 0
    for each in attempts:
        here = replace(about, fence=each.fence, node=each.node)
        yield from _started(here, each.started_at, each.attempt, each.fence - before)
        end = End(
            each.outcome, DUE, each.finished_at, each.error, each.note, each.attempt, run_at=each.next_run_at
        )
        yield from facts_of_end(end, here)
        before = each.fence
    if row.state == SKIPPED:
        return
    here = replace(about, fence=row.fence, node=row.node)
    yield from _started(here, row.started_at, row.attempt, row.fence - before)
    if row.finished_at is None or row.state in (DUE, RUNNING):
        return
    if row.started_at is not None:
        outcome = row.outcome or row.state
        yield from facts_of_end(
            End(
                outcome,
                row.state,
                row.finished_at,
                row.error,
                row.note,
                row.attempt,
                dropped=row.retry_dropped,
            ),
            here,
        )
        return
    fact = Fact.RETRY_DROPPED if row.retry_dropped is not None else Fact(row.state)
    yield replace(
        here, fact=fact, at=row.finished_at, attempt=row.attempt, state=row.state, node=None, reason=row.note
    )


def _started(here: Event, at: int | None, attempt: int, takes: int) -> Iterator[Event]:
    if at is None:
        return
    vain = takes - 1
    reason = f"released {vain} time{'s' if vain > 1 else ''} before" if vain > 0 else None
    yield replace(here, fact=Fact.STARTED, at=at, attempt=attempt, state=RUNNING, reason=reason)


# -- an end in words -------------------------------------------------------------------------------------------------------


def _verdict(end: End, note: str) -> Fact | None:
    """What is told beside the outcome of an attempt that was the last: that no retry follows, where one could have."""
    if note.startswith("discarded:"):
        return Fact.DISCARDED
    if end.dropped is not None:
        return Fact.RETRY_DROPPED
    return Fact.EXHAUSTED if end.attempt > 0 and note.startswith(EXHAUSTED) else None


def _apart(outcome: str, head: str | None, note: str) -> tuple[str | None, str]:
    """(how it ended, what follows) of a note that says both: `retry 1 of 3 in 2s: ValueError: boom`."""
    if outcome in (INTERRUPTED, LOST):
        was, _, then = note.removeprefix(f"{outcome}: ").partition("; ")
        return was or head, then
    return head, note.replace(f": {head}", "", 1) if head else note


def _whole(end: End, head: str | None, note: str) -> str | None:
    if end.outcome == SUCCEEDED:
        return note or None
    known = head is None or f": {head}" in note or f": {head.partition(': ')[2] or head}" in note
    if not note or known or end.outcome in (CANCELLED, INTERRUPTED, LOST):
        return note.removeprefix(f"{end.outcome}: ") or head
    return f"{head} · {note}"


def _read(text: str) -> dict[str, Any]:
    """A broken text is that row's, and shown as it is."""
    try:
        said = json.loads(text)
    except ValueError:
        return {"message": text}
    return said if isinstance(said, dict) else {"message": text}
