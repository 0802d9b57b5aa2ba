"""The permits that one take has locked: which are free, which it gives away, and which jobs are busy without one."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from .firing import permit_key, serial_key
from .store import permit_rows, take_rows
from .store.take_rows import DueClock, DueFiring
from .store.tx import Tx


class Permits:
    """For one transaction. A permit that somebody else is changing right now is not known, and so not free."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._holders: dict[str, int | None] = {}
        self._occupied: set[str] = set()
        self._busy_jobs: set[int] = set()
        self._of_groups: dict[str, list[int]] = {}
        self._held: list[tuple[str, int, int, int]] = []

    def look(
        self,
        clocks: Collection[DueClock],
        firings: Collection[DueFiring],
        *,
        spoken_for: Callable[[Collection[str]], Mapping[str, int]] | None = None,
    ) -> None:
        """Lock the permits that may be needed, and see which jobs have a firing that goes first.

        Who plans starts nothing himself: `spoken_for` says how many permits of limited groups what is due already will have.
        """
        exclusive = {clock.job_id for clock in clocks if clock.overlap != "allow"}
        keys = {permit_key(job_id) for job_id in exclusive}
        keys |= {firing.permit_key for firing in firings if firing.permit_key is not None}
        if keys:
            self._holders = permit_rows.lock_permits(self._tx, keys)
        if exclusive:
            self._busy_jobs = take_rows.jobs_with_due_firings(self._tx, exclusive, self._tx.now())
        limited = Counter(clock.limit_key for clock in clocks if clock.limit_key is not None)
        limited.update(firing.limit_key for firing in firings if firing.limit_key is not None)
        if limited:
            self._look_at_groups(limited, {} if spoken_for is None else spoken_for(limited))

    def _look_at_groups(self, limited: Counter[str], spoken_for: Mapping[str, int]) -> None:
        wanted = {key: max(most, _BACKLOG) + spoken_for.get(key, 0) for key, most in limited.items()}
        for key, free in permit_rows.lock_limits(self._tx, wanted).items():
            self._of_groups[key] = free[: max(0, len(free) - spoken_for.get(key, 0))]

    def known(self, key: str) -> bool:
        """Whether it is locked here."""
        return key in self._holders

    def free(self, key: str) -> bool:
        return self._holders.get(key, 0) is None and key not in self._occupied

    def busy(self, job_id: int) -> bool:
        """Whether a no-overlap job may not start another firing now."""
        return not self.free(permit_key(job_id)) or job_id in self._busy_jobs

    def left_of_group(self, key: str) -> int:
        """How many firings of a limited group this take may still start."""
        return len(self._of_groups.get(key, ()))

    def serial(self, trigger_id: int) -> str:
        """The permit of a trigger's backlog that runs one by one; made when it is first needed."""
        key = serial_key(trigger_id)
        permit_rows.make_permits(self._tx, {key})
        self._holders |= permit_rows.lock_permits(self._tx, {key})
        return key

    def admit(self, key: str | None, group: str | None) -> bool:
        """Whether a firing that needs these may start by what is free."""
        return (key is None or self.free(key)) and (group is None or self.left_of_group(group) > 0)

    def occupy(self, key: str | None, group: str | None) -> int | None:
        """One firing of this take has them: at most one of a batch its job's; answers which of its group's."""
        if key is not None:
            self._occupied.add(key)
        return None if group is None else self._of_groups[group].pop(0)

    def give(self, key: str, n: int, firing_id: int, fence: int) -> None:
        """This firing holds it from the commit on."""
        self._held.append((key, n, firing_id, fence))

    def write(self) -> None:
        permit_rows.hold_permits(self._tx, self._held)


_BACKLOG = 20
"""Permits of a limited group that a take locks at least, where they are free: one trigger may start several slots."""
