"""Starting firings on this node: the free places it has, what just was decided, and what was due already."""

from typing import Any

from .definitions import CompiledTrigger
from .desk import Case, Desk, run_on
from .errors import SchedulerError
from .firing import FAILED, RUNNING, NewFiring
from .loaded_job import LoadedJob
from .store import job_rows, take_rows
from .store.followers import End, follow_found
from .store.take_rows import DueFiring
from .taken import Late, Runs, Starting, request_again, start_row


class Places:
    """This node's free places, for new firings and due ones alike; what is started here has its job loaded here."""

    born = RUNNING

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._left = desk.order.capacity
        self._loaded: dict[int, LoadedJob] = {}
        self._starting: dict[int, Starting] = {}
        self._started: list[tuple[Any, ...]] = []
        self._unreadable: list[End] = []

    # -- new ones ----------------------------------------------------------------------------------------------------

    def admits(self, case: Case) -> bool:
        """Whether this node may run it, and can: loading is user code and waits until this transaction is over."""
        taken = self._desk.taken
        if not self._desk.who.tags.issuperset(run_on(case.trigger, case.job)):
            taken.elsewhere.add(case.clock.id)
            return False
        loaded = self._desk.definitions.loaded(case.job)
        if loaded is None:
            taken.to_load.add(case.job.id)
            taken.left += 1
            return False
        self._loaded[case.job.id] = loaded
        return True

    def free(self, case: Case) -> int:  # noqa: ARG002  (a place here is as good for one as for the other)
        return self._left

    def take(self, case: Case) -> bool:  # noqa: ARG002
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def seated(self, case: Case, place: int, firing: NewFiring, n: int | None) -> None:
        self._starting[place] = Starting(firing, self._loaded[case.job.id], case.trigger, case.job, n)

    # -- due ones ----------------------------------------------------------------------------------------------------

    def start(self, firing: DueFiring) -> None:
        """Start one due firing here, if its permit is free, its job is loaded and there is a place."""
        desk, taken = self._desk, self._desk.taken
        job = desk.jobs.get(firing.job_id)
        if job is None or job.problem is not None:
            # Left to others for a while: what cannot run must not stand before what can, at every look.
            taken.unreadable[firing.job_id] = "its row is missing" if job is None else str(job.problem)
            return
        if self._left < 1:
            taken.left += 1
            return
        loaded = desk.definitions.loaded(job)
        if loaded is None:
            taken.to_load.add(job.id)
            taken.left += 1
            return
        key, group = firing.permit_key, firing.limit_key
        if not desk.permits.admit(key, group):
            taken.left += 1
            return
        trigger_id = firing.trigger_id or firing.requested_trigger_id
        trigger = None if trigger_id is None else desk.definitions.trigger(desk.tx, trigger_id)
        if not desk.who.tags.issuperset(run_on(trigger, job)):
            taken.firings_elsewhere.add(firing.id)
            return
        if trigger is not None and self._is_late(firing, trigger):
            taken.late.setdefault(trigger.id, Late(trigger)).job_ids.add(firing.job_id)
            return
        try:
            request = request_again(firing, Runs(loaded, job, trigger), desk.who, desk.tx.now())
        except ValueError as error:
            taken.failed[firing.id] = f"its data cannot be read: {error}"
            self._unreadable.append(End(firing.id, job.id, FAILED))
            return
        self._left -= 1
        n = desk.permits.occupy(key, group)
        self._give(firing, firing.id, firing.fence + 1, n)
        self._started.append(start_row(firing, desk.who.incarnation, desk.order.take_no, desk.tx.now()))
        taken.requests.append(request)

    def _is_late(self, firing: DueFiring, trigger: CompiledTrigger) -> bool:
        """A slot that was decided in time and never begun until it is older than the threshold is judged again."""
        fresh = firing.reason == "schedule" and firing.first_started_at is None
        return fresh and self._desk.tx.now() - firing.run_at > trigger.definition.misfire.threshold

    # -- writing -----------------------------------------------------------------------------------------------------

    def fail(self) -> None:
        """Write the ends of due firings that can never run."""
        for firing_id, reason in self._desk.taken.failed.items():
            take_rows.fail_due(self._desk.tx, firing_id, reason)
        follow_found(self._desk.tx, self._unreadable)

    def write(self, ids: list[int]) -> None:
        """Write what was started; `ids` are the new rows'."""
        desk = self._desk
        for place, starting in self._starting.items():
            desk.taken.requests.append(starting.request(ids[place], desk.who))
            self._give(starting.firing, ids[place], 1, starting.n)
        if take_rows.start_due(desk.tx, self._started) != len(self._started):
            raise SchedulerError("a locked firing moved: the take is undone")
        desk.permits.write()
        self._read_saved()

    def _give(self, firing: DueFiring | NewFiring, firing_id: int, fence: int, n: int | None) -> None:
        permits = self._desk.permits
        if firing.permit_key is not None:
            permits.give(firing.permit_key, 0, firing_id, fence)
        if firing.limit_key is not None and n is not None:
            permits.give(firing.limit_key, n, firing_id, fence)

    def _read_saved(self) -> None:
        """What jobs keep between their runs. The permit is locked by now: whoever held it has written, or never will."""
        keeping = [request for request in self._desk.taken.requests if request.saved is not None]
        if not keeping:
            return
        found = job_rows.read_saved(self._desk.tx, {request.job_id for request in keeping})
        for request in keeping:
            request.saved = found.get(request.job_id, {})
