"""`finish`: the one way in which a running firing ends or becomes due again, with all that follows, in one transaction.

Locks in the order of the house (trigger, then firing), then compares and sets on id, incarnation, fence and state,
and only behind that come the consequences: a writer that was fenced changes nothing.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from ..firing import CANCELLED, DUE, FAILED, LOST, RUNNING
from .after_end import set_next
from .followers import End, follow, followers
from .ledger_tables import attempts, firings, outputs
from .permit_rows import free_permits
from .take_rows import lock_clocks
from .tx import Tx
from .waiting_retries import know_retries, take_turns


class Ending(NamedTuple):
    """How a running firing ends: final, or due again at `run_at`. Instants in µs; `error` is JSON text."""

    firing_id: int
    incarnation: int
    fence: int
    trigger_id: int | None
    """The trigger that it stops with: of its slot, or the one that follows."""
    permit_key: str | None
    state: str
    outcome: str
    finished_at: int
    error: str | None = None
    note: str | None = None
    retry_dropped: str | None = None
    pause_trigger: bool = False
    run_at: int | None = None
    attempt: int = 0
    """The attempt that ended; `next_attempt` is the one that follows."""
    next_attempt: int = 0
    refires: int = 0
    recoveries: int = 0
    recovering: bool = False
    started_at: int | None = None
    next_at: int | None = None
    """The slot after the firing's own: once that is decided, a retry comes too late."""
    limit_key: str | None = None
    job_id: int = 0
    followed: bool = False
    """Triggers may follow its end."""
    delayed: bool = False
    """Its own trigger's next slot may count from its end."""
    saved: str | None = None
    """What its job keeps for its next run, where this one changed it: JSON text."""
    output: str | None = None
    """What it wrote, where its note does not hold all of that: JSON text."""


PAUSED_BY: Final = "qsched:retries-exhausted"
"""Who pauses a trigger whose policy says `on_exhausted: pause_trigger`; the reason is the firing's, error and all."""

_FINAL_OF = {"interrupted": CANCELLED, "cancelled": CANCELLED, "lost": LOST}
_WHO = ("id", "incarnation", "fence", "state")
_FINAL = ("state", "outcome", "finished_at", "error", "note", "retry_dropped")
_AGAIN = ("state", "run_at", "attempt", "refires", "recoveries", "incarnation", "error", "note", "started_at")
_ATTEMPT = (
    "firing_id",
    "fence",
    "cluster",
    "attempt",
    "recovering",
    "incarnation",
    "started_at",
    "finished_at",
    "outcome",
    "error",
    "note",
    "next_run_at",
)


class NotAllOurs(Exception):
    """Some endings of a batch met a firing that is not ours any more: roll back, and repeat with `finish_ours`."""


def finish(tx: Tx, endings: Sequence[Ending]) -> Sequence[Ending]:
    """Write `endings`, all of which must still be ours; raises NotAllOurs when one is not (nothing may be committed then).

    The happy path: one update for a whole batch. Answers what was written, in the same order: some end for good meanwhile.
    """
    following = _lock(tx, endings)
    touched = {each.trigger_id for each in endings if each.trigger_id is not None and _touches(each)}
    endings = _still_due(tx, endings, touched)
    for again in (False, True):
        _compare_and_set(tx, [ending for ending in endings if (ending.state == DUE) is again], again=again)
    _record_attempts(tx, [ending for ending in endings if ending.state == DUE])
    free_permits(tx, [(each.permit_key, each.firing_id, each.fence) for each in endings if each.permit_key])
    free_permits(tx, [(each.limit_key, each.firing_id, each.fence) for each in endings if each.limit_key])
    _touch_triggers(tx, endings)
    _keep_what_they_leave(tx, endings)
    ends = [each for each in endings if each.delayed and each.state != DUE]
    set_next(tx, {each.trigger_id: each.finished_at for each in ends if each.trigger_id is not None})
    follow(
        tx,
        [End(each.firing_id, each.job_id, each.state) for each in endings if _is_followed(each)],
        following,
    )
    return endings


def finish_ours(tx: Tx, endings: Sequence[Ending]) -> dict[int, Ending]:
    """Write those of `endings` that are still ours; answers {firing: what was written}. The others were fenced, or had
    landed before."""
    _lock(tx, endings)
    condition, values = tx.among("id", sorted(ending.firing_id for ending in endings))
    found = {
        (row[0], row[1], row[2])
        for row in tx.run(
            f"SELECT id, incarnation, fence FROM qsched_firings WHERE {condition} AND state = 'running' ORDER BY id"
            + tx.dialect.for_update,
            *values,
        )
    }
    ours = [each for each in endings if (each.firing_id, each.incarnation, each.fence) in found]
    return {ending.firing_id: ending for ending in finish(tx, ours)} if ours else {}


def _lock(tx: Tx, endings: Sequence[Ending]) -> set[int]:
    """Lock what these ends will touch before the firings, in the order of the house; answers the triggers that follow."""
    keeping = sorted({ending.job_id for ending in endings if ending.saved is not None})
    if keeping:
        condition, values = tx.among("id", keeping)
        tx.run(
            f"SELECT id FROM qsched_jobs WHERE {condition} ORDER BY id{tx.dialect.for_update}", *values
        ).all()
    # Of what would be due again, too: it may turn out to be over when its trigger is locked.
    following = followers(tx, {ending.job_id for ending in endings if ending.followed})
    touched = {ending.trigger_id for ending in endings if ending.trigger_id is not None and _touches(ending)}
    lock_clocks(tx, touched | following)
    return following


def _is_followed(ending: Ending) -> bool:
    """Whether triggers may follow: it is over, for good."""
    return ending.followed and ending.state != DUE


def _keep_what_they_leave(tx: Tx, endings: Sequence[Ending]) -> None:
    """What jobs keep for their next runs, and long outputs: only behind the compare-and-set, so of no fenced writer."""
    for ending in endings:
        if ending.saved is not None:
            tx.run("UPDATE qsched_jobs SET saved_data = ? WHERE id = ?", ending.saved, ending.job_id)
    written = [(each.firing_id, each.fence, each.output) for each in endings if each.output is not None]
    tx.insert(outputs, ("firing_id", "fence", "output"), written)


def _still_due(tx: Tx, endings: Sequence[Ending], touched: set[int]) -> Sequence[Ending]:
    """Some that would be due again end for good (their triggers' clocks are locked by the caller): those of a retired
    trigger, retries whose next slot was decided while the end waited to be written, and what somebody has asked to stop."""
    if all(each.state != DUE for each in endings):
        return endings
    states = states_of(tx, touched) if touched else {}
    # An edit may have rewritten which slot is next while the clock was not locked yet, and a cancel may have been asked
    # for since the verdict. One that comes later waits for these locks, and finds what is due: the next take would forget
    # a request that it leaves on what goes on from running to due.
    condition, values = tx.among("id", sorted(each.firing_id for each in endings))
    said = {
        row[0]: (row[1], row[2])
        for row in tx.rows(
            f"SELECT id, next_at, cancel_requested_at FROM qsched_firings WHERE {condition} ORDER BY id"
            + tx.dialect.for_update,
            *values,
        )
    }
    found = []
    for each in endings:
        next_at, cancelled = said.get(each.firing_id, (each.next_at, None))
        now = each._replace(next_at=next_at)
        found.append(
            _cancelled(now)
            if cancelled is not None and each.state == DUE
            else _judged_again(now, *states.get(each.trigger_id or 0, (None, None)))
        )
    return found


def states_of(tx: Tx, trigger_ids: Collection[int]) -> dict[int, tuple[str | None, int | None]]:
    """{trigger: its state, its watermark} of these (locked) triggers; at least one."""
    condition, values = tx.among("t.id", sorted(trigger_ids))
    return {
        row[0]: (row[1], row[2])
        for row in tx.rows(
            "SELECT t.id, t.state, c.watermark FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id"
            f" WHERE {condition}",
            *values,
        )
    }


def _cancelled(ending: Ending) -> Ending:
    note = f"{ending.note or ending.outcome}; its cancel was requested"
    return ending._replace(state=CANCELLED, outcome=CANCELLED, note=note, retry_dropped=None, run_at=None)


def _judged_again(ending: Ending, state: str | None, watermark: int | None) -> Ending:
    if ending.state != DUE:
        return ending
    if state == "retired":
        return _ended(ending, "retired", "the trigger was retired")
    retry = ending.next_attempt > ending.attempt
    if retry and ending.next_at is not None and watermark is not None and watermark >= ending.next_at:
        return _ended(ending, "superseded", "a later slot was decided meanwhile")
    return ending


def _ended(ending: Ending, dropped: str, why: str) -> Ending:
    state = _FINAL_OF.get(ending.outcome, FAILED)
    note = f"{ending.note or ending.outcome}; not again: {why}"
    return ending._replace(state=state, note=note, retry_dropped=dropped, run_at=None)


def _touches(ending: Ending) -> bool:
    return ending.state == DUE or ending.pause_trigger or ending.delayed


def _compare_and_set(tx: Tx, endings: list[Ending], *, again: bool) -> None:
    values, row = (_AGAIN, _again_row) if again else (_FINAL, _final_row)
    rows = [row(ending) for ending in sorted(endings, key=lambda ending: ending.firing_id)]
    if tx.update(firings, _WHO, values, rows) != len(rows):
        raise NotAllOurs


def _final_row(ending: Ending) -> tuple[object, ...]:
    return (
        ending.firing_id,
        ending.incarnation,
        ending.fence,
        RUNNING,
        ending.state,
        ending.outcome,
        ending.finished_at,
        ending.error,
        ending.note,
        ending.retry_dropped,
    )


def _again_row(ending: Ending) -> tuple[object, ...]:
    return (
        ending.firing_id,
        ending.incarnation,
        ending.fence,
        RUNNING,
        DUE,
        ending.run_at,
        ending.next_attempt,
        ending.refires,
        ending.recoveries,
        None,
        ending.error,
        ending.note,
        None,
    )


def _record_attempts(tx: Tx, endings: list[Ending]) -> None:
    tx.insert(
        attempts,
        _ATTEMPT,
        [
            (
                ending.firing_id,
                ending.fence,
                tx.cluster,
                ending.attempt,
                int(ending.recovering),
                ending.incarnation,
                ending.started_at,
                ending.finished_at,
                ending.outcome,
                ending.error,
                ending.note,
                ending.run_at,
            )
            for ending in endings
        ],
    )


def _touch_triggers(tx: Tx, endings: Sequence[Ending]) -> None:
    again = [ending for ending in endings if ending.state == DUE]
    know_retries(tx, {each.firing_id: each.trigger_id for each in again if each.trigger_id is not None})
    take_turns(tx, [each.firing_id for each in again])
    for ending in endings:
        if ending.pause_trigger and ending.trigger_id is not None:
            tx.run(
                "UPDATE qsched_trigger_clocks SET next_run_at = NULL, version = version + 1 WHERE id = ?",
                ending.trigger_id,
            )
            tx.run(
                "UPDATE qsched_triggers SET paused_at = ?, paused_by = ?, paused_reason = ?"
                " WHERE id = ? AND paused_at IS NULL",
                ending.finished_at,
                PAUSED_BY,
                (ending.note or "")[:1000],
                ending.trigger_id,
            )


def landed_before(tx: Tx, ending: Ending) -> bool:
    """Whether an ending of ours that finds nothing to change had landed already (its answer was lost), not been fenced."""
    row = tx.run(
        "SELECT fence, incarnation, outcome, note, state FROM qsched_firings WHERE id = ?"
        + tx.dialect.for_update,
        ending.firing_id,
    ).first()
    ended = [] if row is None or row[4] in (DUE, RUNNING) else [tuple(row[:4])]
    ended += tx.rows(
        "SELECT fence, incarnation, outcome, note FROM qsched_attempts WHERE firing_id = ? AND fence = ?",
        ending.firing_id,
        ending.fence,
    )
    return any(_is_that(ending, *each) for each in ended)


def _is_that(ending: Ending, fence: int, incarnation: int | None, outcome: str, note: str | None) -> bool:
    """Whether an end that is written is this one. A rescue ends a firing under its owner's incarnation and fence too, as
    lost and with a reason of its own."""
    if (fence, incarnation, outcome) != (ending.fence, ending.incarnation, ending.outcome):
        return False
    return outcome != "lost" or (note or "").startswith(ending.note or "")
