"""A trigger's firings that have not ended, as apply and the control verbs touch them: cancelled, skipped, told a new next slot.

Found by state, never by trigger: a trigger's history may be millions of rows, what waits is little.
"""

from collections.abc import Collection, Mapping, Sequence

from ..firing import CANCELLED, SKIPPED
from .ledger_tables import firings
from .tx import Tx


def cancel_waiting(tx: Tx, ids: Collection[int], why: str) -> int:
    """Cancel what waits of these (locked) triggers, requests too; what runs goes on. Answers how many."""
    wanted = set(ids)
    rows = [row[0] for row in _due(tx) if row[1] in wanted or row[2] in wanted]
    return end_waiting(tx, rows, CANCELLED, why)


def skip_waiting(tx: Tx, ids: Collection[int], why: str) -> dict[int, int]:
    """Skip the slots that wait of these (locked) triggers, retries too; requests stay. Answers {trigger id: how many}."""
    wanted = set(ids)
    held = [(row[0], row[1]) for row in _due(tx) if row[1] in wanted]
    end_waiting(tx, [row[0] for row in held], SKIPPED, why)
    return _counted(held)


def lock_waiting(tx: Tx, ids: Collection[int]) -> None:
    """Wait for whoever is starting a slot of these (locked) triggers right now: afterwards nobody is."""
    wanted = set(ids)
    waiting = sorted(row[0] for row in _due(tx) if row[1] in wanted)
    for start in range(0, len(waiting), 500):
        condition, values = tx.among("id", waiting[start : start + 500])
        tx.run(
            f"SELECT id FROM qsched_firings WHERE {condition} ORDER BY id{tx.dialect.for_update}", *values
        ).all()


def waiting_slots(tx: Tx, ids: Collection[int]) -> dict[int, int]:
    """{trigger id: how many of its slots wait as due firings}."""
    wanted = set(ids)
    return _counted([(row[0], row[1]) for row in _due(tx) if row[1] in wanted])


def rewrite_next(tx: Tx, next_of: Mapping[int, int | None], job_ids: Collection[int]) -> None:
    """Tell the unfinished firings of these (locked) triggers which slot is now next, for their retries' sake."""
    if not next_of:
        return
    condition, values = tx.among("job_id", sorted(set(job_ids)))
    rows = tx.run(
        f"SELECT id, trigger_id, state FROM qsched_firings WHERE {condition} AND state IN ('due', 'running')"
        f" AND trigger_id IS NOT NULL ORDER BY id{tx.dialect.for_update}",
        *values,
    ).all()
    changed = [(row[0], row[2], next_of[row[1]]) for row in rows if row[1] in next_of]
    tx.update(firings, ("id", "state"), ("next_at",), changed)


def _due(tx: Tx) -> list[tuple[int, int | None, int | None]]:
    """(firing, the trigger with which it stops, the trigger for which it was asked) of all that is due.

    A continuation stops with the trigger that follows, as a slot does with its own.
    """
    rows = tx.run(
        "SELECT id, CASE WHEN reason = 'after' THEN requested_trigger_id ELSE trigger_id END, requested_trigger_id"
        " FROM qsched_firings WHERE cluster = ? AND state = 'due'",
        tx.cluster,
    )
    return [(row[0], row[1], row[2]) for row in rows]


def end_waiting(tx: Tx, ids: Collection[int], state: str, why: str) -> int:
    """End these firings where they still wait, locked in ascending order first."""
    ended = 0
    ordered = sorted(ids)
    for start in range(0, len(ordered), 500):
        condition, values = tx.among("id", ordered[start : start + 500])
        locked = tx.run(
            f"SELECT id FROM qsched_firings WHERE {condition} AND state = 'due' ORDER BY id{tx.dialect.for_update}",
            *values,
        ).all()
        ended += tx.update(
            firings,
            ("id", "state"),
            ("state", "outcome", "finished_at", "note"),
            [
                (row[0], "due", state, CANCELLED if state == CANCELLED else None, tx.now(), why)
                for row in locked
            ],
        )
    return ended


def _counted(pairs: Sequence[tuple[int, int | None]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for _, trigger_id in pairs:
        if trigger_id is not None:
            counts[trigger_id] = counts.get(trigger_id, 0) + 1
    return counts
