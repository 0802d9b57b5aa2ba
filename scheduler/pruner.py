"""The pruner: history that is older, or more, than the cluster keeps goes; once per cluster, in short transactions.

A service of every node. Each minute the first that comes claims the chore and walks: the ledger from its old end (by age),
the triggers and the jobs (by number). A walk goes on where the last one stopped, on whatever node, and rests for twenty times
as long as its looks took, so that a large ledger is not read for ever.

It is not fenced. A claimant that was slow, or declared dead meanwhile, ends its chunk beside its successor: what it deletes is
final, too old whoever says so, compared again in the DELETE, and counted in the transaction that deletes it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any

from ..triggers.errors import TriggerError
from ..triggers.instant import DAY, MINUTE, SECOND
from ..triggers.retention import Retention
from .deleting import MOST_ROWS, Deletion, Done
from .parts import Parts
from .store import prune_rows
from .store.chore_rows import Claim, chore_done, claim_chore, due_in
from .store.definition_rows import read_defaults
from .store.prune_rows import ENQUEUED, HEAVY, LIGHT, REQUESTS, SLOTS, Old
from .store.tx import Tx
from .tidying import tidy

PRUNE, TIDY = "prune", "tidy"
EVERY = MINUTE
TIDY_EVERY = 60 * MINUTE
YOUNG = 10 * MINUTE
"""What ended so lately stays, whatever retention says: a settle in doubt, or a node that reconciles, may still ask for it."""

_PAGE = 2000
_BUDGET = 2.0
"""Seconds for which one walk goes on at a time; what is left is gone on with a second later."""
_AGAIN = SECOND
_REST = 20
_LOOK = 0.05
"""Seconds that one look at counts is to take."""
_MOST_COUNTED = 5000

log = logging.getLogger("qsched.pruner")


class Pruner:
    """One per node."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._deletion = Deletion(parts)
        self._done = Done()
        self._counted = 200

    def step(self) -> float:
        """Do what is due and nobody has claimed; answers the seconds after which to come again."""
        if self._parts.who.draining:
            return 1.0
        return min(self._do(PRUNE, EVERY, self._prune), self._do(TIDY, TIDY_EVERY, self._tidy))

    def _do(self, name: str, every: int, work: Callable[[Claim], tuple[dict[str, Any], int]]) -> float:
        store, who = self._parts.store, self._parts.who
        wait = store.read(name, lambda tx: due_in(tx, name, every))
        if wait:
            return min(max(wait / SECOND, 0.1), every / SECOND)
        claim = store.transaction(name, lambda tx: claim_chore(tx, name, who.incarnation, every))
        if claim is None:
            return 1.0
        said, again = work(claim)
        store.transaction(name, lambda tx: chore_done(tx, claim, tx.now() + again, said))
        return again / SECOND

    # -- history -------------------------------------------------------------------------------------------------------

    def _prune(self, claim: Claim) -> tuple[dict[str, Any], int]:
        defaults, now = self._parts.store.read("prune", lambda tx: (read_defaults(tx)[0], tx.now()))
        try:
            keep = Retention.from_spec(defaults.get("retention"))
        except TriggerError as error:  # broken by a hand: nothing is deleted by what cannot be read
            log.error("prune.refused reason=%s", error)
            return claim.said, EVERY
        places = claim.said.get("places")
        walks = [Walk(name, (places or {}).get(name)) for name in ("age", "triggers", "jobs")]
        done = self._done = Done()
        for walk, go in zip(walks, (self._by_age, self._by_trigger, self._by_job), strict=True):
            if walk.resting(now):
                continue
            with self._looking(walk):
                go(walk, keep)
            walk.stop(now)
        self._log(done)
        said = _told(done, claim.said) | {"places": {walk.name: walk.place() for walk in walks}}
        return said, EVERY if all(walk.resting(now) for walk in walks) else _AGAIN

    @contextmanager
    def _looking(self, walk: "Walk") -> Iterator[None]:
        before = self._done.read
        walk.until = self._parts.clock.monotonic() + _BUDGET
        yield
        walk.spent += self._done.read - before

    def _look(self, work: Callable[[Tx], Any]) -> Any:
        """Read something that may be large; what it takes is counted."""
        began = self._parts.clock.monotonic()
        found = self._parts.store.read("prune: look", work)
        self._done.read += self._parts.clock.monotonic() - began
        return found

    def _goes_on(self, walk: "Walk") -> bool:
        return not self._parts.stopping.is_set() and self._parts.clock.monotonic() <= walk.until

    def _by_age(self, walk: "Walk", keep: Retention) -> None:
        """Up from the oldest row, until rows are too young for any retention."""
        ages = [(LIGHT, keep.succeeded), (HEAVY, keep.failed)]
        kept_for = {state: max(age, YOUNG) for states, age in ages if age is not None for state in states}
        if not kept_for:
            walk.end()
            return
        while self._goes_on(walk):
            after = walk.after
            rows, now = self._look(partial(_oldest, after=after))
            ripe, young = _ripe(rows, now, kept_for, self._parts.store.cluster_id)
            self._deletion.delete(ripe, self._done)
            if young or len(rows) < _PAGE:
                walk.end()
                return
            walk.after = rows[-1].id

    def _by_trigger(self, walk: "Walk", keep: Retention) -> None:
        self._by_number(walk, keep, prune_rows.count_of_triggers)

    def _by_job(self, walk: "Walk", keep: Retention) -> None:
        self._by_number(walk, keep, prune_rows.count_of_jobs)

    def _by_number(self, walk: "Walk", keep: Retention, count: Callable[..., Any]) -> None:
        names = (ENQUEUED,) if walk.name == "jobs" else (SLOTS, REQUESTS)
        while self._goes_on(walk):
            after, most, spent = walk.after, self._counted, self._done.read
            counts, following = self._look(partial(count, after=after, most=most))
            self._counted = _size_for(most, self._done.read - spent)
            for key, rows in counts.items():
                lines = [(name, key) for name in names]
                if rows > keep.per_trigger and not self._shorten(lines, rows - keep.per_trigger, walk):
                    return  # out of time: these are counted again, and the rest of them goes then
            if following is None:
                walk.end()
                return
            walk.after = following

    def _shorten(self, lines: list[tuple[str, int]], excess: int, walk: "Walk") -> bool:
        """The oldest rows of these lines go, those of failures last; False where there was no time for all."""
        until = self._parts.store.read("prune", Tx.now) - YOUNG
        for states in (LIGHT, HEAVY):
            rows = merge(*(self._rows_of(line, excess, until) for line in lines), key=_noticed)
            going = (row for row in rows if row.state in states and row.ended_at <= until)
            while excess > 0 and (chunk := list(islice(going, min(excess, MOST_ROWS)))):
                excess -= self._deletion.delete(chunk, self._done)
                if not self._goes_on(walk):
                    return False
        return True

    def _rows_of(self, line: tuple[str, int], excess: int, until: int) -> Iterator[Old]:
        after, most = -1, min(excess + 50, _PAGE)
        while True:
            page: list[Old] = self._look(partial(prune_rows.oldest_of, line=line, after=after, most=most))
            for row in page:
                if row.noticed_at > until:
                    return
                yield row
            if len(page) < most:
                return
            after = page[-1].place

    def _log(self, done: Done) -> None:
        if done.rows:
            log.info(
                "history.pruned firings=%s transactions=%s longest=%.0fms",
                *(done.rows, done.transactions, done.longest * 1000),
            )

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _tidy(self, claim: Claim) -> tuple[dict[str, Any], int]:
        del claim
        defaults = self._parts.store.read("tidy", lambda tx: read_defaults(tx)[0])
        try:
            keep = Retention.from_spec(defaults.get("retention"))
        except TriggerError:
            keep = Retention(None, None)
        return tidy(self._parts, keep), TIDY_EVERY


class Walk:
    """One way through the ledger that is gone bit by bit, and begun anew when it has rested."""

    def __init__(self, name: str, place: object) -> None:
        self.name = name
        known = place if isinstance(place, list) and len(place) == 3 else [0, 0, 0.0]
        after, rests_until, spent = (each if isinstance(each, int | float) else 0 for each in known)
        self.after, self._rests_until, self.spent = int(after), int(rests_until), float(spent)
        self.until = 0.0
        self._ended = False

    def resting(self, now: int) -> bool:
        """Whether it has come to its end, and need not begin anew yet."""
        return now < self._rests_until <= now + DAY  # further ahead: by a clock that was set back since

    def end(self) -> None:
        self._ended = True

    def stop(self, now: int) -> None:
        """For this time; at its end it rests."""
        if self._ended:
            rest = max(EVERY - SECOND, min(round(self.spent * _REST * SECOND), DAY // 24))
            self.after, self._rests_until, self.spent = 0, now + rest, 0.0

    def place(self) -> list[float]:
        return [self.after, self._rests_until, round(self.spent, 3)]


def _oldest(tx: Tx, after: int) -> tuple[list[Old], int]:
    return prune_rows.oldest(tx, after, _PAGE), tx.now()


def _ripe(rows: list[Old], now: int, kept_for: dict[str, int], cluster: int | None) -> tuple[list[Old], bool]:
    """(final rows that are kept long enough, whether what follows is too young for any)."""
    ripe: list[Old] = []
    shortest = min(kept_for.values())
    for row in rows:
        # What was noticed in the future was so by a clock that was set back since: it ends no walk.
        if now - shortest < row.noticed_at <= now:
            return ripe, True
        if row.cluster == cluster and row.state in kept_for and row.ended_at <= now - kept_for[row.state]:
            ripe.append(row)
    return ripe, False


def _size_for(most: int, took: float) -> int:
    if took > 2 * _LOOK:
        return max(1, int(most * _LOOK / took))
    return min(_MOST_COUNTED, most * 2) if took < _LOOK / 2 else most


def _noticed(row: Old) -> int:
    return row.noticed_at


def _told(done: Done, before: dict[str, Any]) -> dict[str, Any]:
    """What the chore says of its last run that deleted something, and of all of them."""
    total = before.get("total")
    total = (total if isinstance(total, int) else 0) + done.rows
    if not done.rows:
        return {**before, "total": total}
    return {
        "rows": done.rows,
        "transactions": done.transactions,
        "seconds": round(done.seconds, 3),
        "longest_ms": round(done.longest * 1000, 1),
        "most": done.most,
        "total": total,
    }
