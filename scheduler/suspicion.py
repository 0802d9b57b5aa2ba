"""Who is to be declared dead: what one rescuer has seen of the others, look by look, judged without any database.

Time is this rescuer's own monotonic clock, and a look that comes late counts for no more than two intervals: whoever was
stalled himself has not seen the others silent. So neither a database that was away, nor its clock that jumped, nor a stall
of the whole machine kills anybody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..triggers.instant import DAY, SECOND
from .store.rescue_rows import GONE, SILENT, Observed

LONGEST_LEASE = DAY
"""A lease that claims to last longer was written by no node."""
_ROUNDING = 0.001


class Verdict(NamedTuple):
    """One node is dead: `certain` where its process was seen to be gone."""

    node: Observed
    verdict: str
    certain: bool


@dataclass(slots=True)
class _Seen:
    """One node since its last check-in that was seen; in seconds of this rescuer's own."""

    node: Observed
    looks: int = 1
    silent: float = 0.0
    gone: float | None = None
    """Since the first of an unbroken row of looks that found it gone."""
    certain: bool = False


class Suspicions:
    """What one rescuer holds of the others. `interval` is the time between its looks, in seconds."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._seen: dict[int, _Seen] = {}
        self._at: float | None = None
        self._step = 0.0
        self._now = 0

    def forget(self) -> None:
        """Begin anew with everybody: what was seen cannot be trusted."""
        self._seen = {}
        self._at = None

    def look(self, nodes: Sequence[Observed], *, now: int, between: tuple[float, float]) -> None:
        """These nodes are up or draining, at `now` by the database's clock and by one's own `between` question and answer.

        What was seen last may be as young as its answer, and what is seen now as old as its question: only the time
        between those two is certain.
        """
        asked, answered = between
        self._step = 0.0 if self._at is None else max(0.0, min(asked - self._at, 2 * self._interval))
        self._at, self._now = answered, now
        self._seen = {node.incarnation: self._looked(node) for node in nodes}

    def _looked(self, node: Observed) -> _Seen:
        seen = self._seen.get(node.incarnation)
        if seen is None or seen.node.renew_seq != node.renew_seq:
            return _Seen(node)
        seen.node = node
        seen.looks += 1
        seen.silent += self._step
        return seen

    def suspects(self) -> list[Observed]:
        """Of whom it is worth asking whether they are gone: no check-in since the last look."""
        return [
            seen.node
            for seen in self._seen.values()
            if seen.looks > 1 and seen.silent >= self._check_in(seen.node) - self._interval
        ]

    def found(self, gone: Mapping[int, bool]) -> None:
        """This look found these gone (True: for certain), and nobody else."""
        for incarnation, seen in self._seen.items():
            if incarnation not in gone:
                seen.gone = None
            else:
                seen.gone = 0.0 if seen.gone is None else seen.gone + self._step
                seen.certain = gone[incarnation]

    def newly_silent(self) -> list[Observed]:
        """Nodes whose lease has passed, by the database's clock, without a note of it in their row."""
        return [
            seen.node
            for seen in self._seen.values()
            if seen.looks > 1
            and seen.node.lease_until <= self._now
            and seen.node.suspected_seq != seen.node.renew_seq
        ]

    def verdicts(self) -> list[Verdict]:
        """Who is dead, by what was seen so far."""
        found = []
        for seen in self._seen.values():
            if self._is_gone(seen):
                found.append(Verdict(seen.node, GONE, seen.certain))
            elif self._is_silent(seen):
                found.append(Verdict(seen.node, SILENT, False))
        return found

    def next_look(self) -> float:
        """Seconds from this look to the one that may know more: the interval, or less where a verdict is near."""
        near = [left for seen in self._seen.values() for left in self._left(seen) if left > 0]
        return min(self._interval, min(near, default=self._interval) + _ROUNDING)

    def _left(self, seen: _Seen) -> tuple[float, ...]:
        check_in = self._check_in(seen.node)
        if seen.gone is not None:
            return (max(check_in - seen.gone, 2 * check_in - seen.silent),)
        return (_lease(seen.node) - seen.silent,)

    def _check_in(self, node: Observed) -> float:
        return self._interval if node.check_in is None else node.check_in / SECOND

    def _is_gone(self, seen: _Seen) -> bool:
        """Found gone on two looks that are a check-in of its apart: a connection that was lost is made again within one."""
        check_in = self._check_in(seen.node)
        return seen.gone is not None and seen.gone >= check_in and seen.silent >= 2 * check_in

    def _is_silent(self, seen: _Seen) -> bool:
        node, lease = seen.node, _lease(seen.node)
        if seen.looks < 2:
            return False
        if node.checked_in_at > self._now:
            # The database's clock was set back behind its check-in: only one's own can tell, and it takes its time.
            return seen.silent >= 2 * lease
        if node.lease_until > self._now:
            return False
        if seen.silent >= lease:
            return True
        # Noted by somebody a whole lease ago. A node that is alone and does not live that long rescues all the same. That
        # lease is the database's time, whose clock may have been set forth meanwhile: who lives checks in within two intervals.
        noted = node.suspected_seq == node.renew_seq and node.suspected_at is not None
        long_ago = noted and (self._now - (node.suspected_at or 0)) / SECOND >= lease
        return long_ago and seen.silent >= min(2 * self._check_in(node), lease)


def _lease(node: Observed) -> float:
    """How long its lease is, in seconds, as its row says it."""
    return min(max(node.lease_until - node.checked_in_at, SECOND // 10), LONGEST_LEASE) / SECOND
