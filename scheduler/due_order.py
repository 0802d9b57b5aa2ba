"""In which order what is due is served: oldest first, but a backlog leaves half of the places to what is on time."""

from collections.abc import Iterable

from .firing import BACKFILL
from .store import take_rows
from .store.take_rows import DueClock, DueFiring, Wanted
from .store.tx import Tx

Due = DueClock | DueFiring


def by_place(each: Due) -> tuple[int, int, int]:
    """Run at, precedence, id: the order of the indexes too."""
    run_at = each.next_run_at if isinstance(each, DueClock) else each.run_at
    return run_at, each.precedence, each.id


def reserve(wanted: Wanted, since: int, turn: bool) -> Wanted | None:
    """The half of what is wanted that serves what became due after `since`; of a single place each gets it in turn."""
    if wanted.limit == 1:
        return wanted._replace(since=since) if turn else None
    return wanted._replace(limit=-(-wanted.limit // 2), since=since)


def in_order(together: Iterable[Due], kept: Wanted | None) -> list[Due]:
    """Oldest first, backfills last; with a backlog what is on time comes before it, as far as places are kept for that."""
    ordered = sorted(together, key=lambda each: (_is_backfill(each), by_place(each)))
    if kept is None or kept.since is None:
        return ordered
    since = kept.since
    first = [each for each in ordered if _is_newcomer(each, since)][: kept.limit]
    chosen = {id(each) for each in first}
    return first + [each for each in ordered if id(each) not in chosen]


def lock_clocks(tx: Tx, on_time: Wanted | None, wanted: Wanted) -> list[DueClock]:
    """Lock due triggers: those that are on time, as far as places are kept for them, and the oldest."""
    found: dict[int, DueClock] = {}
    for each in (on_time, wanted):
        if each is not None:
            found |= {clock.id: clock for clock in take_rows.lock_due_clocks(tx, tx.now(), each)}
    return sorted(found.values(), key=by_place)


def lock_startless(tx: Tx, window: Wanted) -> tuple[list[DueClock], tuple[int, int, int] | None]:
    """Lock what surely starts nothing, and a window of all that is due: poison and the like is known only by trying.

    Answers also where the next window begins (`Wanted.after`), None: at the head again.
    """
    asked = take_rows.lock_due_clocks(tx, tx.now(), window)
    resume = by_place(asked[-1]) if len(asked) >= window.limit else None
    sure = take_rows.lock_startless_clocks(tx, tx.now(), window._replace(after=None))
    return sorted({clock.id: clock for clock in (*asked, *sure)}.values(), key=by_place), resume


def _is_backfill(each: Due) -> bool:
    return isinstance(each, DueFiring) and each.reason == BACKFILL


def _is_newcomer(each: Due, since: int) -> bool:
    """Whether it became due after `since` and waits for no turn of its own."""
    return by_place(each)[0] > since and (isinstance(each, DueClock) or each.permit_key is None)
