"""The last transaction of a node that leaves although bodies still run: settles them, gives back the rest, says it stopped."""

from collections.abc import Collection
from typing import NamedTuple

from .errors import SHUTDOWN
from .firing import CANCELLED, DUE, LOST
from .outcome import INTERRUPTED
from .store.finish import Ending, finish_ours
from .store.firing_rows import OpenFiring, running_here
from .store.followers import followers
from .store.node_rows import STOPPED, lock_own, set_state
from .store.release import release
from .store.sweep_rows import LEFT_FOR
from .store.take_rows import lock_clocks, lock_firings
from .store.tx import Tx


class Left(NamedTuple):
    """What became of what ran."""

    broken_off: int
    released: int
    unsettled: int
    """Ended here, and the store has not heard how: the others will take them for lost."""


def leave(
    tx: Tx,
    incarnation: int,
    begun: Collection[tuple[int, int]],
    ended: Collection[tuple[int, int]],
    before: int,
) -> Left | None:
    """Settle the bodies that have begun and not ended; None when this incarnation was declared dead: others have it all.

    `begun` and `ended` are (firing id, fence), the latter bodies whose end has not landed; `before` counts those that this
    drain broke off earlier. Nothing of the process may run for long after the commit: a body that cannot be stopped must
    not run beside its successor, which is not due before a second has passed (LEFT_FOR), nor beside another firing of its
    no-overlap job: the permit is left where it is, and a sweep of the others frees it then.
    """
    # The node's row first, as everywhere, and for writing: a take in flight shares it, so its rows are seen below or never.
    if not lock_own(tx, incarnation):
        return None
    seen = running_here(tx, incarnation)
    # All of their triggers' clocks before the first of the firings, in the order of the house; and all before the first look
    # at the clock, so that what is due a second later is so a second after the commit, and not after the waiting.
    following = followers(tx, {row.job_id for row in seen})
    lock_clocks(tx, following | {each for row in seen if (each := row.stops_with) is not None})
    lock_firings(tx, {row.id for row in seen})
    # Read again: whoever held them may have asked for a cancel.
    rows = {(row.id, row.fence): row for row in running_here(tx, incarnation)}
    broken_off = [row for key, row in rows.items() if key in begun]
    if broken_off:
        finish_ours(tx, [_ending(row, incarnation, tx.now()) for row in broken_off])
    unsettled = rows.keys() & set(ended)
    released = release(tx, incarnation, rows.keys() - set(begun) - unsettled)
    set_state(tx, incarnation, STOPPED, handed_over=before + len(broken_off))
    return Left(len(broken_off), released, len(unsettled))


def _ending(row: OpenFiring, incarnation: int, now: int) -> Ending:
    state, outcome, what = LOST, LOST, ""
    if (
        row.cancel_requested_at is not None
    ):  # somebody wanted it to end anyway: it does not begin anew elsewhere
        state, outcome, what = CANCELLED, CANCELLED, "; its cancel was requested"
    elif row.request_recovery:
        state, outcome, what = DUE, INTERRUPTED, "; due again for any node"
    return Ending(
        row.id,
        incarnation,
        row.fence,
        row.stops_with,
        None,  # its permit is kept: see `leave`
        state,
        outcome,
        now,
        note=f"{SHUTDOWN}: its body did not end{what}",
        run_at=now + LEFT_FOR if state == DUE else None,
        attempt=row.attempt,
        next_attempt=row.attempt,
        refires=row.refires,
        recoveries=row.recoveries,
        recovering=row.recoveries > 0,
        started_at=row.started_at,
        job_id=row.job_id,
        followed=True,
        delayed=True,
    )
