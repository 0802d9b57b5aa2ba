"""Deleting old rows in short transactions: as many at once as take a tenth of a second, and a pause behind each."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from .parts import Parts
from .store.prune_rows import Gone, Old, delete_firings, dispensable, weights
from .store.status_rows import failing_jobs, fold, last_success, triggers_of
from .store.tx import Tx

MOST_ROWS = 1000
"""Rows that one transaction deletes at most: firings with their attempts and outputs."""
_FIRST = 250
_FEWEST = 25
_AIM = 0.1
"""Seconds that a transaction is to take: half of the bar of 200 ms."""
_MOST_PAUSE = 0.5
_LINES = 50

log = logging.getLogger("qsched.pruner")


@dataclass(slots=True)
class Done:
    """What one run of a chore has deleted so far."""

    rows: int = 0
    transactions: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    most: int = 0
    """Rows of its largest transaction, attempts and outputs with them."""
    read: float = 0.0
    """Seconds that its looks took, outside of the transactions that delete."""
    last_success: dict[int, int] = field(default_factory=dict)
    """{job: its last success in the ledger (0: none)}, as far as it was asked for in this run."""


class Deletion:
    """One per pruner. It learns how many rows a transaction can take."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._size = _FIRST
        self._began = 0.0

    def delete(self, rows: Sequence[Old], done: Done) -> int:
        """Delete those of `rows` that may go, oldest first; answers how many did."""
        deleted, start = 0, 0
        while start < len(rows) and not self._parts.stopping.is_set():
            chunk = rows[start : start + self._size]
            start += len(chunk)
            began = self._parts.clock.monotonic()
            going, weight = self._parts.store.read("prune: choose", partial(_chosen, rows=chunk))
            self._ask_for_successes(failing_jobs([(row.job_id, row.state) for row in going]), done)
            done.read += self._parts.clock.monotonic() - began
            for ids in _packed([row.id for row in going], weight):
                deleted += self._delete_chunk(ids, weight, done)
        return deleted

    def _ask_for_successes(self, jobs: set[int], done: Done) -> None:
        """What these jobs' failures are counted against; in short looks, for a job may have thousands of triggers.

        Asked for once a run: a success that ends after this look makes void what is counted now, whatever it is.
        """
        store = self._parts.store
        for job_id in sorted(jobs - done.last_success.keys()):
            triggers = store.read("prune: triggers", partial(triggers_of, job_id=job_id))
            found = 0
            for start in range(0, max(1, len(triggers)), _LINES):
                look = partial(
                    last_success,
                    job_id=job_id,
                    triggers=triggers[start : start + _LINES],
                    enqueued=start == 0,
                )
                found = max(found, store.read("prune: last success", look))
            done.last_success[job_id] = found

    def _delete_chunk(self, ids: Sequence[int], weight: dict[int, int], done: Done) -> int:
        parts = self._parts
        last_success = {job_id: at for job_id, at in done.last_success.items() if at}

        def work(tx: Tx) -> list[Gone]:
            self._began = parts.clock.monotonic()  # here: waiting for one's turn is nobody's burden
            gone = delete_firings(tx, ids)
            fold(tx, gone, last_success)
            return gone

        gone = parts.store.transaction("prune", work)
        took = parts.clock.monotonic() - self._began
        done.rows += len(gone)
        done.transactions += 1
        done.seconds += took
        done.longest = max(done.longest, took)
        done.most = max(done.most, sum(1 + weight.get(row.id, 0) for row in gone))
        self._learn(len(ids), took)
        # As long as it took, so that half of the time at least is others'.
        parts.pause(min(took, _MOST_PAUSE))
        return len(gone)

    def _learn(self, count: int, took: float) -> None:
        if took > _AIM:
            self._size = max(_FEWEST, int(count * _AIM / took))
        elif count >= self._size and took < _AIM / 3:
            self._size = min(MOST_ROWS, self._size * 2)


def _chosen(tx: Tx, rows: Sequence[Old]) -> tuple[list[Old], dict[int, int]]:
    """(those that may go, what goes with each)."""
    going = dispensable(tx, rows)
    return going, weights(tx, [row.id for row in going]) if going else {}


def _packed(ids: Sequence[int], weight: dict[int, int]) -> Iterator[list[int]]:
    """`ids` in parts of at most MOST_ROWS rows each; what is heavier by itself goes alone."""
    part: list[int] = []
    rows = 0
    for each in ids:
        heavy = 1 + weight.get(each, 0)
        if part and rows + heavy > MOST_ROWS:
            yield part
            part, rows = [], 0
        part.append(each)
        rows += heavy
    if part:
        yield part
