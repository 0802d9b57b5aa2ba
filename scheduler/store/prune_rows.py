"""Old rows of the ledger: found by walking what is indexed, compared again where they are deleted, with all that hangs on them.

No index serves the pruner alone. By age it walks the primary key from the old end, for rows are noticed in the order of their
ids; by number it counts along the keys by which a trigger's rows, or a job's enqueued ones, are found anyway.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..firing import CANCELLED, FAILED, LOST, SKIPPED, SUCCEEDED
from .dialects import MARIADB
from .tx import Tx

LIGHT = (SUCCEEDED, SKIPPED, CANCELLED)
"""Final states whose rows go first."""
HEAVY = (FAILED, LOST)

_FINAL = "('succeeded', 'skipped', 'cancelled', 'failed', 'lost')"


class Old(NamedTuple):
    """A row as the pruner looks at it; instants in µs."""

    id: int
    cluster: int
    trigger_id: int | None
    requested_trigger_id: int | None
    job_id: int
    scheduled_at: int
    state: str
    noticed_at: int
    ended_at: int

    @property
    def line(self) -> tuple[str, int]:
        """What it is a row of: a trigger's slots, the requests of a trigger, or what was enqueued of a job."""
        if self.trigger_id is not None:
            return SLOTS, self.trigger_id
        if self.requested_trigger_id is not None:
            return REQUESTS, self.requested_trigger_id
        return ENQUEUED, self.job_id

    @property
    def place(self) -> int:
        """Where it stands in its line."""
        return self.scheduled_at if self.trigger_id is not None else self.id


class Gone(NamedTuple):
    """What a job's status must know of a deleted row."""

    id: int
    job_id: int
    state: str
    attempt: int
    ended_at: int


SLOTS, REQUESTS, ENQUEUED = "slots", "requests", "enqueued"
_OF_LINE = {
    SLOTS: ("trigger_id = ?", "scheduled_at"),
    REQUESTS: (
        "requested_trigger_id = ?",
        "id + 0",
    ),  # else PostgreSQL would walk the primary key for them (measured)
    ENQUEUED: ("job_id = ? AND trigger_id IS NULL AND requested_trigger_id IS NULL", "id"),
}
_OLD = (
    "SELECT id, cluster, trigger_id, requested_trigger_id, job_id, scheduled_at, state, noticed_at,"
    " COALESCE(finished_at, noticed_at) FROM qsched_firings"
)


def oldest(tx: Tx, after: int, most: int) -> list[Old]:
    """The next rows of the ledger behind an id, of whatever cluster: so each look costs the same."""
    return [Old._make(row) for row in tx.rows(_OLD + " WHERE id > ? ORDER BY id LIMIT ?", after, most)]


def oldest_of(tx: Tx, line: tuple[str, int], after: int, most: int) -> list[Old]:
    """The next rows of a line behind a place in it."""
    condition, place = _OF_LINE[line[0]]
    statement = f"{_OLD} WHERE {condition} AND {place} > ? ORDER BY {place} LIMIT ?"
    return [Old._make(row) for row in tx.rows(statement, line[1], after, most)]


def count_of_triggers(tx: Tx, after: int, most: int) -> tuple[dict[int, int], int | None]:
    """({trigger: how many rows, requested ones with them}, where to go on; None at the end) of the next triggers."""
    ids = _next_ids(tx, "qsched_triggers", after, most)
    counts: Counter[int] = Counter()
    if ids:
        for column in ("trigger_id", "requested_trigger_id"):
            condition, values = tx.among(column, ids)
            text = f"SELECT {column}, COUNT(*) FROM qsched_firings WHERE {condition} GROUP BY {column}"
            counts.update(dict(tx.rows(text, *values)))
    return dict(counts), ids[-1] if len(ids) == most else None


def count_of_jobs(tx: Tx, after: int, most: int) -> tuple[dict[int, int], int | None]:
    """The same of jobs and their enqueued rows."""
    ids = _next_ids(tx, "qsched_jobs", after, most)
    counts: Mapping[int, int] = {}
    if ids:
        condition, values = tx.among("job_id", ids)
        # MariaDB has no index of these rows alone, but one in which those that belong to no slot stand together.
        hint = " FORCE INDEX (uq_qsched_firings_trigger_id_scheduled_at)" if tx.dialect is MARIADB else ""
        text = (
            f"SELECT job_id, COUNT(*) FROM qsched_firings{hint} WHERE trigger_id IS NULL"
            f" AND requested_trigger_id IS NULL AND {condition} GROUP BY job_id"
        )
        counts = dict(tx.rows(text, *values))
    return dict(counts), ids[-1] if len(ids) == most else None


def _next_ids(tx: Tx, table: str, after: int, most: int) -> list[int]:
    text = f"SELECT id FROM {table} WHERE cluster = ? AND id > ? ORDER BY id LIMIT ?"
    return [row[0] for row in tx.rows(text, tx.cluster, after, most)]


def dispensable(tx: Tx, rows: Sequence[Old]) -> list[Old]:
    """Those of `rows` (final ones) that are not the last of their kind in their line (amendment 35).

    The newest final, the newest succeeded and the newest failed or lost one of a line stay. That needs no lock: a row that is
    newer is itself only deleted where a still newer one is, so that the newest of all is never.
    """
    newest: dict[tuple[object, ...], Old] = {}
    finals: dict[tuple[str, int], int] = {}
    for row in rows:
        finals[row.line] = max(row.place, finals.get(row.line, row.place))
        key = (row.line, _kind(row.state))
        if key not in newest or newest[key].place < row.place:
            newest[key] = row
    doubtful = {row.id: row for row in newest.values() if _kind(row.state) or row.place == finals[row.line]}
    kept = doubtful.keys() - _outdone(tx, doubtful.values())
    return [row for row in rows if row.id not in kept]


def _kind(state: str) -> str:
    return SUCCEEDED if state == SUCCEEDED else FAILED if state in HEAVY else ""


_NEWER = (
    "SELECT f.id FROM qsched_firings f WHERE {ids} AND EXISTS (SELECT 1 FROM qsched_firings n WHERE {line}"
    f" AND n.{{place}} > f.{{place}} AND n.state IN {_FINAL} AND (f.state NOT IN ('succeeded', 'failed', 'lost')"
    " OR (f.state = 'succeeded' AND n.state = 'succeeded')"
    " OR (f.state IN ('failed', 'lost') AND n.state IN ('failed', 'lost'))))"
)
_SAME_LINE = {
    SLOTS: "n.trigger_id = f.trigger_id",
    REQUESTS: "n.requested_trigger_id = f.requested_trigger_id",
    ENQUEUED: "n.job_id = f.job_id AND n.trigger_id IS NULL AND n.requested_trigger_id IS NULL",
}


def _outdone(tx: Tx, rows: Iterable[Old]) -> set[int]:
    """Those behind which their line has a newer row of their kind."""
    found: set[int] = set()
    by_line: dict[str, list[int]] = {}
    for row in rows:
        by_line.setdefault(row.line[0], []).append(row.id)
    for line, ids in by_line.items():
        condition, values = tx.among("f.id", sorted(ids))
        text = _NEWER.format(ids=condition, line=_SAME_LINE[line], place=_OF_LINE[line][1])
        found.update(row[0] for row in tx.rows(text, *values))
    return found


def weights(tx: Tx, ids: Collection[int]) -> dict[int, int]:
    """{firing: how many rows go with it}: its ended attempts and outputs."""
    counts: Counter[int] = Counter()
    condition, values = tx.among("firing_id", sorted(ids))
    for table in ("qsched_attempts", "qsched_outputs"):
        text = f"SELECT firing_id, COUNT(*) FROM {table} WHERE {condition} GROUP BY firing_id"
        counts.update(dict(tx.rows(text, *values)))
    return dict(counts)


def delete_firings(tx: Tx, ids: Collection[int]) -> list[Gone]:
    """Delete those of these rows that are final still and whose unique key is given up, with attempts and outputs."""
    condition, values = tx.among("id", sorted(ids))
    gone = [
        Gone._make(row)
        for row in tx.rows(
            f"DELETE FROM qsched_firings WHERE {condition} AND cluster = ? AND state IN {_FINAL}"
            " AND (unique_key IS NULL OR unique_until IS NULL OR unique_until <= ?)"
            " RETURNING id, job_id, state, attempt, COALESCE(finished_at, noticed_at)",
            *(*values, tx.cluster, tx.now()),
        )
    ]
    if gone:
        condition, values = tx.among("firing_id", sorted(row.id for row in gone))
        for table in ("qsched_attempts", "qsched_outputs"):
            tx.run(f"DELETE FROM {table} WHERE {condition}", *values)
    return gone
