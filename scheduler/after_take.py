"""After a take: what it met is told, left to others, judged again, or loaded, each outside of its transaction."""

import logging
from collections.abc import Callable

from ..triggers.instant import SECOND, rfc3339
from .definitions import KnownJob
from .events import Event, Fact
from .loaded_job import LoadedJob
from .parts import Parts
from .store.late_firings import Judged, judge_late_firings
from .taken import Late, Taken

Fresh = list[tuple[KnownJob, LoadedJob]]

log = logging.getLogger("qsched.planner")


class AfterTake:
    """One per node; `loaded` hears of jobs that were loaded for the first time."""

    def __init__(self, parts: Parts, loaded: Callable[[Fresh], None]) -> None:
        self._parts = parts
        self._definitions = parts.definitions
        self._loaded = loaded

    def draw(self, taken: Taken) -> None:
        """Draw the consequences of one take that was committed."""
        _tell(taken)
        self._leave(taken)
        for late in taken.late.values():
            self._judge_again(late)
        self._definitions.decided(taken.decided)
        self.load(taken.to_load, taken.now)

    def load(self, job_ids: set[int], now: int) -> None:
        """Load jobs that this node knows of; importing is user code."""
        fresh = self._definitions.load(job_ids, now) if job_ids else []
        if fresh:
            self._loaded(fresh)

    def _leave(self, taken: Taken) -> None:
        known = self._definitions
        for trigger_id, trouble in taken.undecidable.items():
            known.leave_trigger(trigger_id, taken.now, *trouble)
        known.leave_elsewhere(taken.elsewhere, taken.firings_elsewhere)
        for job_id, reason in taken.unreadable.items():
            known.leave_job(job_id, taken.now, reason)

    def _judge_again(self, late: Late) -> None:
        trigger, rule = late.trigger, late.trigger.definition.misfire
        judged = self._parts.store.transaction(
            "judge again", lambda tx: judge_late_firings(tx, trigger.id, rule, late.job_ids)
        )
        if judged is not None:
            log.warning(
                "misfire trigger=%s due=%s slots=%s cause=%s policy=%s decision=%s",
                trigger.key,
                rfc3339(judged.first),
                judged.slots,
                judged.cause,
                judged.policy,
                judged.decision,
            )
            if self._parts.teller.heard:
                self._parts.teller.tell([_misfired(trigger.key, judged)])


def _misfired(key: str, judged: Judged) -> Event:
    return Event(
        fact=Fact.MISFIRED,
        at=judged.at,
        trigger=key,
        reason=f"{judged.decision}, the first due at {rfc3339(judged.first)}",
        cause=judged.cause,
        policy=judged.policy,
        decision=judged.decision,
    )


def _tell(taken: Taken) -> None:
    for miss in taken.misfired:
        log.warning(
            "misfire trigger=%s due=%s late=%.3fs cause=%s policy=%s decision=%s",
            miss.trigger,
            rfc3339(miss.scheduled_at),
            miss.late / SECOND,
            miss.cause,
            miss.policy,
            miss.decision,
        )
    for trigger_id, reason in taken.poisoned.items():
        log.error("trigger.error trigger_id=%s kind=poison reason=%s", trigger_id, reason)
    for firing_id, reason in taken.failed.items():
        log.error("firing.failed firing=%s reason=%s", firing_id, reason)
