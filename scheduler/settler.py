"""The settler: what has ended is judged and written, many in one transaction, a lone one at once; what was not begun is released.

An outcome keeps its place in the node's hand until it has landed or was fenced: the database may be away for as long as
it likes, and nothing is lost or run in its stead.
"""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue

from ..triggers.instant import SECOND
from .context import RunRequest
from .episode import Episode
from .errors import StoreError, StoreUnavailable
from .judging import Ended, Judging, rows_of
from .outcome import INTERRUPTED, Outcome
from .parts import Parts
from .settled import Settled, tell_settled
from .store.finish import NotAllOurs, finish, finish_ours, landed_before
from .store.release import release
from .store.trouble import Trouble, trouble_of
from .store.tx import Tx

_MOST = 500
"""Outcomes settled in one transaction."""
_RETRY = (0.2, 5.0)
"""Seconds between tries while the database is away: first and longest."""
_WAIT = 1.0
"""Seconds for which `step` waits for an outcome: that it returns says that it is not stuck."""
_RETRY_DRAINING = 0.5
_REFUSED = 60.0
"""Seconds until an end that the store refuses is tried again."""

log = logging.getLogger("qsched.settler")


class Settler:
    """Used as the worker pool's owner; `step` runs in one thread of its own."""

    def __init__(self, parts: Parts, freed: Callable[[], None]) -> None:
        self._parts = parts
        self._freed = freed
        self._queue: SimpleQueue[Ended | None] = SimpleQueue()
        self._random = random.Random()
        self._judging = Judging(parts, self._draw)
        self._refused: dict[tuple[int, int], Ended] = {}
        self._refused_again = 0.0
        self._episode = Episode(parts.clock)
        self._refusal = Episode(parts.clock)
        self._again = threading.Event()
        self.trouble: str | None = None
        """What keeps outcomes from landing."""
        self.interrupted = 0
        """Bodies that a shutdown broke off."""

    # -- the pool's owner ----------------------------------------------------------------------------------------------

    def may_begin(self, request: RunRequest) -> bool:
        """The last look before the body: a node that may have been declared dead, or drains, begins nothing.

        Nor does it under a new incarnation begin what the old one took: others may have that by now.
        """
        who = self._parts.who
        return request.incarnation == who.incarnation and who.may_start(self._parts.clock.monotonic())

    def ended(self, request: RunRequest, outcome: Outcome, ended_at: float) -> None:
        self._parts.hand.over(request.firing_id, request.fence)
        self._queue.put(Ended(request, request.incarnation, outcome, ended_at))

    def released(self, request: RunRequest) -> None:
        self._parts.hand.over(request.firing_id, request.fence)
        self._queue.put(Ended(request, request.incarnation, None, self._parts.clock.monotonic()))

    # -- the service ---------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let `step` return, to see that the node stops."""
        self._queue.put(None)
        self._again.set()

    def retry(self) -> None:
        """Try again at once what could not be settled: the database answers."""
        self._refused_again = 0.0
        self._again.set()

    def step(self) -> None:
        """Wait a moment for an outcome, take what else has ended by then, and settle it all; returns when it has landed."""
        self._try_refused()
        try:
            first = self._queue.get(timeout=_WAIT)
        except Empty:
            return
        batch = [] if first is None else [first]
        while len(batch) < _MOST:
            try:
                more = self._queue.get_nowait()
            except Empty:
                break
            if more is not None:
                batch.append(more)
        if batch:
            try:
                self._land(batch)
            except BaseException:
                for each in batch:  # of no step that fails may an outcome be lost
                    self._queue.put(each)
                raise

    def _land(self, batch: list[Ended]) -> None:
        wait, settle = _RETRY[0], self._settle
        while not self._parts.stopping.is_set():
            self._again.clear()
            try:
                settle(batch)
                break
            except StoreUnavailable as error:
                lasted = self._episode.fails()
                if lasted is not None:
                    log.warning("settle.waiting for=%.1fs firings=%s reason=%s", lasted, len(batch), error)
                self.trouble = f"{len(batch)} outcomes wait for the database: {error}"
                self._pause(wait * (0.8 + 0.4 * self._random.random()))
                # A node that drains has no time for long waits: what it cannot settle, others take for lost.
                wait = min(wait * 2, _RETRY_DRAINING if self._parts.who.draining else _RETRY[1])
            except Exception as error:
                if self._refusal.fails() is not None:
                    bug = not isinstance(error, StoreError)
                    log.error(
                        "settle.failed firings=%s reason=%s; repeated one by one",
                        *(len(batch), error),
                        exc_info=bug,
                    )
                settle = self._one_by_one
        else:
            return
        self._works_again()
        self._refuses_nothing()
        landed = {(each.request.firing_id, each.request.fence) for each in batch}
        self._parts.hand.drop(landed - self._refused.keys())
        self._freed()

    def _pause(self, seconds: float) -> None:
        # `stopping` is set before `wake`: whoever is told to stop between the two looks comes back at once.
        if not self._parts.stopping.is_set():
            self._parts.clock.wait(self._again, seconds)

    def _works_again(self) -> None:
        self.trouble = None
        lasted = self._episode.over()
        if lasted is not None:
            log.info("settle.goes_on after=%.1fs", lasted)

    def _one_by_one(self, batch: list[Ended]) -> None:
        for each in batch:
            key = each.request.firing_id, each.request.fence
            if self._settle_alone(each):
                self._refused.pop(key, None)
                continue
            # It keeps its place in the hand: a row that runs here and is in nobody's hand would be given back, and run again.
            fresh = key not in self._refused
            self._refused[key] = each
            self._refused_again = self._parts.clock.monotonic() + _REFUSED
            if fresh:
                log.critical(
                    "settle.refused firing=%s: the store refuses its end; it counts as running, and is tried again each minute",
                    each.request.firing_id,
                )

    def _settle_alone(self, each: Ended) -> bool:
        """Settle one, without its text where the store takes it so and not with it; False where it takes neither.

        Such an outcome would never land. But a database that refuses whatever is said to it gets all of it later.
        """
        try:
            self._settle([each])
            return True
        except StoreUnavailable:
            raise
        except Exception as error:
            log.debug("settle.failed_alone firing=%s reason=%s", each.request.firing_id, error)
            if each.outcome is None:
                return True  # not begun: the next check-in finds its row in nobody's hand, and gives it back
            bare = replace(each.outcome, error_message=None, traceback=None, result=None)
            if _refuses_all(error):
                return False
            reason = str(error)
        try:
            self._settle([each._replace(outcome=bare)])
        except StoreUnavailable:
            raise
        except Exception:
            return False
        log.error(
            "settle.unstorable_outcome firing=%s reason=%s: landed without its text",
            each.request.firing_id,
            reason,
        )
        return True

    def _try_refused(self) -> None:
        """What the store refused it may take later: rights come back, or it was a bug's moment, or a want of memory."""
        if not self._refused or self._parts.clock.monotonic() < self._refused_again:
            return
        self._refused_again = self._parts.clock.monotonic() + _REFUSED
        for key, each in list(self._refused.items()):
            try:
                if not self._settle_alone(each):
                    continue
            except StoreUnavailable:
                return
            del self._refused[key]
            self._parts.hand.drop([key])
            self._freed()
        self._refuses_nothing()

    def _refuses_nothing(self) -> None:
        if self._refused:
            return
        lasted = self._refusal.over()
        if lasted is not None:
            log.info("settle.accepted after=%.1fs", lasted)

    def _settle(self, batch: list[Ended]) -> None:
        unbegun = [each for each in batch if each.outcome is None]
        if unbegun:
            self._release(unbegun)
        ended = [each for each in batch if each.outcome is not None]
        if not ended:
            return
        store = self._parts.store
        try:
            settled = store.transaction("settle", lambda tx: self._write(tx, ended, careful=False))
        except NotAllOurs:
            settled = store.transaction("settle carefully", lambda tx: self._write(tx, ended, careful=True))
        self.interrupted += sum(each.outcome.kind == INTERRUPTED for each in ended if each.outcome)
        tell_settled(self._parts, settled)

    def _release(self, unbegun: list[Ended]) -> None:
        for incarnation in {each.incarnation for each in unbegun}:
            taken = [
                (each.request.firing_id, each.request.fence)
                for each in unbegun
                if each.incarnation == incarnation
            ]
            self._parts.store.transaction("release", lambda tx, i=incarnation, t=taken: release(tx, i, t))  # type: ignore[misc]

    def _draw(self) -> float:
        return self._random.random()

    def _write(self, tx: Tx, ended: list[Ended], *, careful: bool) -> list[Settled]:
        # In this order: what the answer takes makes a retry later. The other way round it would be made early by that.
        monotonic, now = self._parts.clock.monotonic(), tx.now()
        rows = rows_of(tx, ended)
        endings = []
        for each in ended:
            # Failure time is when the body ended, not when the database could hear of it.
            at = now - max(0, int((monotonic - each.at) * SECOND))
            endings.append(self._judging.ending(tx, each, rows.get(each.request.firing_id), at))
        if not careful:
            written = finish(tx, endings)
            return [Settled(each.request, ending, True) for each, ending in zip(ended, written, strict=True)]
        ours = finish_ours(tx, endings)
        return [
            Settled(
                each.request,
                ours.get(ending.firing_id, ending),
                ending.firing_id in ours or landed_before(tx, ending),
            )
            for each, ending in zip(ended, endings, strict=True)
        ]


def _refuses_all(error: Exception) -> bool:
    """Whether no text of an outcome is why: the database lets nobody in, or has not got its tables just now."""
    cause = error.__cause__
    return cause is not None and trouble_of(cause) in (Trouble.REFUSED, Trouble.MISSING)
