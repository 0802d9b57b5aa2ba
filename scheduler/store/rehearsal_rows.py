"""What a rehearsal's ledger adds up to, per trigger."""

from typing import NamedTuple

from .tx import Tx


class Sum(NamedTuple):
    """So many rows of a trigger have the same fate; `late` is the longest (µs)."""

    trigger: str
    reason: str
    state: str
    cause: str | None
    policy: str | None
    rows: int
    slots: int
    late: int


def sums(tx: Tx) -> list[Sum]:
    """The ledger, summed."""
    rows = tx.rows(
        "SELECT trigger_name, reason, state, misfire_cause, misfire_policy, COUNT(*), SUM(covers),"
        " MAX(COALESCE(first_started_at, noticed_at) - first_scheduled_at) FROM qsched_firings"
        " WHERE cluster = ? AND trigger_name IS NOT NULL GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5",
        tx.cluster,
    )
    return [Sum._make(row) for row in rows]


def busiest_minutes(tx: Tx) -> dict[str, tuple[int, int]]:
    """{trigger, or "" for all: (the minute in which most of it began, how many)}; the first of several."""
    found: dict[str, tuple[int, int]] = {}
    for name in ("trigger_name", "''"):
        rows = tx.rows(
            f"SELECT {name}, first_started_at / 60000000, COUNT(*) FROM qsched_firings"
            " WHERE cluster = ? AND first_started_at IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 2",
            tx.cluster,
        )
        for key, minute, count in rows:
            found.setdefault(str(key), (int(minute) * 60_000_000, int(count)))
    return found
