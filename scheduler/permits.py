"""The permits that one take has locked: which are free, which it gives away, and which jobs are busy without one."""

from collections.abc import Collection

from .firing import permit_key, serial_key
from .store import take_rows
from .store.take_rows import DueClock, DueFiring
from .store.tx import Tx


class Permits:
    """For one transaction. A permit that somebody else is changing right now is not known, and so not free."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._holders: dict[str, int | None] = {}
        self._occupied: set[str] = set()
        self._busy_jobs: set[int] = set()
        self._held: list[tuple[str, int, int]] = []

    def look(self, clocks: Collection[DueClock], firings: Collection[DueFiring]) -> None:
        """Lock the permits that may be needed, and see which jobs have a firing that goes first."""
        exclusive = {clock.job_id for clock in clocks if clock.overlap != "allow"}
        keys = {permit_key(job_id) for job_id in exclusive}
        keys |= {firing.permit_key for firing in firings if firing.permit_key is not None}
        if keys:
            self._holders = take_rows.lock_permits(self._tx, keys)
        if exclusive:
            self._busy_jobs = take_rows.jobs_with_due_firings(self._tx, exclusive, self._tx.now())

    def known(self, key: str) -> bool:
        """Whether it is locked here."""
        return key in self._holders

    def free(self, key: str) -> bool:
        return self._holders.get(key, 0) is None and key not in self._occupied

    def busy(self, job_id: int) -> bool:
        """Whether a no-overlap job may not start another firing now."""
        return not self.free(permit_key(job_id)) or job_id in self._busy_jobs

    def serial(self, trigger_id: int) -> str:
        """The permit of a trigger's backlog that runs one by one; made when it is first needed."""
        key = serial_key(trigger_id)
        take_rows.make_permits(self._tx, {key})
        self._holders |= take_rows.lock_permits(self._tx, {key})
        return key

    def occupy(self, key: str) -> None:
        """One firing of this take has it: at most one of a batch."""
        self._occupied.add(key)

    def give(self, key: str, firing_id: int, fence: int) -> None:
        """This firing holds it from the commit on."""
        self._held.append((key, firing_id, fence))

    def write(self) -> None:
        take_rows.hold_permits(self._tx, self._held)
