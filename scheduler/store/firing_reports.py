"""The ledger, as answers: firings, the misfires among them, and one firing with its attempts; only reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..firing import LARGEST_ID
from .database import Store
from .report_items import Item, error_item, instant, readable, seconds
from .tx import Tx

PAGE = 2000

FIRINGS = """
SELECT f.id, f.trigger_name, f.job_name, f.scheduled_at, f.first_scheduled_at, f.covers, f.noticed_at,
       f.reason, f.state, f.outcome, f.attempt, f.recoveries, n.name, f.started_at, f.finished_at,
       f.first_started_at, f.error, f.misfire_cause, f.misfire_policy, f.misfire_decision, f.run_at,
       f.note, f.fence, f.retry_dropped, f.of_firing
  FROM qsched_firings f LEFT JOIN qsched_nodes n ON n.incarnation = f.incarnation
 WHERE f.cluster = ?"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which firings: of one trigger (its id), in one state, noticed since, misfires only, at most so many."""

    trigger_id: int | None = None
    state: str | None = None
    since: int | None = None
    misfires: bool = False
    limit: int | None = None


def firings(store: Store, wanted: Wanted) -> Iterator[Item]:
    """The firings that are wanted, newest first."""
    where, values = _where(wanted)
    statement = FIRINGS + where + " AND f.id < ? ORDER BY f.id DESC LIMIT ?"
    before, left = 1 << 62, wanted.limit
    while left is None or left > 0:
        page = PAGE if left is None else min(PAGE, left)
        rows = _page(store, statement, (*values, before, page))
        yield from (firing_item(row) for row in rows)
        if len(rows) < page:
            return
        before = rows[-1][0]
        left = None if left is None else left - page


def _where(wanted: Wanted) -> tuple[str, list[Any]]:
    where = ""
    values: list[Any] = []
    if wanted.trigger_id is not None:
        where += " AND (f.trigger_id = ? OR f.requested_trigger_id = ?)"
        values += [wanted.trigger_id, wanted.trigger_id]
    if wanted.state is not None:
        where += " AND f.state = ?"
        values.append(wanted.state)
    if wanted.since is not None:
        where += " AND f.noticed_at >= ?"
        values.append(wanted.since)
    if wanted.misfires:
        where += " AND f.misfire_policy IS NOT NULL"
    return where, values


def _page(store: Store, statement: str, values: tuple[Any, ...]) -> list[Any]:
    return store.read("list firings", lambda tx: list(tx.run(statement, tx.cluster, *values)))


def firing_item(row: Any) -> Item:
    """The answer of one row of FIRINGS."""
    started_at, finished_at = row[13], row[14]
    misfire = None
    if row[18] is not None:
        misfire = {"cause": row[17], "policy": row[18], "decision": row[19]}
    return {
        "id": row[0],
        "trigger": row[1],
        "job": row[2],
        "scheduled_at": instant(row[3]),
        "first_scheduled_at": instant(row[4]),
        "covers": row[5],
        "noticed_at": instant(row[6]),
        "reason": row[7],
        "state": row[8],
        "outcome": row[9],
        "attempt": row[10],
        "recovering": row[11] > 0,
        "node": row[12],
        "started_at": instant(started_at),
        "finished_at": instant(finished_at),
        "late": seconds(_late(row)),
        "duration": None if started_at is None or finished_at is None else seconds(finished_at - started_at),
        "error": error_item(row[16]),
        "misfire": misfire,
        "decision": row[19],
        "run_at": instant(row[20]),
        "note": row[21],
        "retry_dropped": row[23],
        "of_firing": row[24],
    }


def _late(row: Any) -> int | None:
    """How long after its first slot a misfired or skipped firing was noticed, or any other began to run.

    None for one that has not begun.
    """
    scheduled_at, first_at, noticed_at, state, first_started_at, policy = (
        row[3],
        row[4],
        row[6],
        row[8],
        row[15],
        row[18],
    )
    if policy is not None or state == "skipped":
        return max(int(noticed_at - first_at), 0)
    return None if first_started_at is None else max(int(first_started_at - scheduled_at), 0)


_ATTEMPTS = """
SELECT a.attempt, a.fence, a.recovering, n.name, a.started_at, a.finished_at, a.outcome, a.error, a.note,
       a.next_run_at
  FROM qsched_attempts a LEFT JOIN qsched_nodes n ON n.incarnation = a.incarnation
 WHERE a.firing_id = ? ORDER BY a.fence"""


_OUTPUTS = "SELECT fence, output FROM qsched_outputs WHERE firing_id = ?"


def firing(store: Store, number: int) -> Item | None:
    """One firing with all its attempts, the last one included, and its trail; None where there is none of that id.

    Of an attempt whose output its note has no room for, `output` is `{text, size}`: the head and tail that were kept, and
    how many bytes it wrote.
    """

    if number > LARGEST_ID:
        return None

    def work(tx: Tx) -> tuple[Any, list[Any], dict[int, str], list[Item]]:
        found = tx.run(FIRINGS + " AND f.id = ?", tx.cluster, number).first()
        if found is None:
            return None, [], {}, []
        outputs = {row[0]: row[1] for row in tx.rows(_OUTPUTS, number)}
        return found, list(tx.run(_ATTEMPTS, number)), outputs, _trail(tx, number)

    row, ended, outputs, steps = store.read("show firing", work)
    if row is None:
        return None
    item = firing_item(row)
    attempts = [_attempt_item(attempt) for attempt in ended]
    if row[13] is not None:  # the attempt that runs now or was the last one is told by the firing's own row
        last = (row[10], row[22], row[11], row[12], row[13], row[14], row[9], row[16], row[21], None)
        attempts.append(_attempt_item(last))
    for attempt in attempts:
        attempt["output"] = readable(outputs.get(attempt["fence"]))
    return {**item, "attempts": attempts, "trail": steps}


def _trail(tx: Tx, number: int) -> list[Item]:
    """The states that it went through; the last may have no instant, which the ledger does not keep."""
    from ..trail import shown_state, trail, unbegun  # loaded for one firing only: a list is told without
    from .trail_rows import attempt_rows, ledger_rows

    (row,) = ledger_rows(tx, "f.id = ?", number)
    attempts = attempt_rows(tx, [number]).get(number, [])
    steps: list[Item] = [
        {
            "at": instant(event.at),
            "state": state,
            "attempt": event.attempt,
            "node": event.node,
            "reason": event.reason,
            "fact": str(event.fact),
        }
        for event in trail(row, attempts)
        if (state := shown_state(event)) is not None
    ]
    if (times := unbegun(row, attempts)) > 0:
        reason = (
            f"released {times} time{'s' if times > 1 else ''}: taken, and given back before its body began"
        )
        last = {
            "at": None,
            "state": row.state,
            "attempt": row.attempt,
            "node": None,
            "reason": reason,
            "fact": None,
        }
        steps.append(last)
    return steps


def _attempt_item(row: Any) -> Item:
    started_at, finished_at = row[4], row[5]
    return {
        "attempt": row[0],
        "fence": row[1],
        "recovering": bool(row[2]),
        "node": row[3],
        "started_at": instant(started_at),
        "finished_at": instant(finished_at),
        "duration": None if started_at is None or finished_at is None else seconds(finished_at - started_at),
        "outcome": row[6],
        "error": error_item(row[7], traceback=True),
        "note": row[8],
        "next_run_at": instant(row[9]),
    }


def trigger_id(store: Store, group: str, name: str) -> int | None:
    """The id of a trigger, retired ones too: their history stays."""
    statement = "SELECT id FROM qsched_triggers WHERE cluster = ? AND group_name = ? AND name = ?"
    found = store.read("find trigger", lambda tx: tx.run(statement, tx.cluster, group, name).first())
    return None if found is None else int(found[0])
