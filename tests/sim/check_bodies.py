"""What really ran: one body a take, none beside another that may not, and each end in the ledger as it was (I2 I16 I17)."""

from .check_ends import EndsCheck
from .check_nodes import NodesCheck
from .chronicle import Body, Commit, clock
from .mirror import Check, Moved, Story
from .oracle import SECOND, job_rules
from .wellness import Wellness

_SLACK = 30 * SECOND
_ROUNDING = 1000


class BodiesCheck(Check):
    """Compares the bodies with each other, and with the rows, when the history is over."""

    def __init__(
        self, story: Story, ends: EndsCheck, nodes: NodesCheck, wellness: Wellness, bound: int
    ) -> None:
        super().__init__(story)
        self._ends = ends
        self._nodes = nodes
        self._wellness = wellness
        self._bound = bound
        self._taken_at: dict[tuple[int, int], int] = {}
        """{(firing, fence): when it was taken}"""

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        for move in moves:
            if move.table == "firings" and move.new is not None and move.new.state == "running":
                key = (move.new.id, move.new.fence)
                self._taken_at.setdefault(key, commit.at)

    def finish(self) -> None:
        by_job: dict[str, list[Body]] = {}
        by_firing: dict[int, list[Body]] = {}
        for body in self.story.history.bodies:
            by_job.setdefault(body.job, []).append(body)
            by_firing.setdefault(body.firing, []).append(body)
            self._end(body)
            self._begin(body)
            self._told(body)
        exclusive = {job.name for job in self.mirror.jobs.values() if job_rules(job.spec).overlap != "allow"}
        for job, bodies in by_job.items():
            if job in exclusive:
                self._apart(bodies, exclusive=True)
        for bodies in by_firing.values():
            self._apart(bodies, exclusive=False)

    def _begin(self, body: Body) -> None:
        """No body begins under a take that has ended (I16)."""
        ended = self._ends.ended.get((body.firing, body.fence))
        if ended is None or ended[0].at >= body.began:
            return
        # Its own monotonic clock stood still with its machine: no last look can tell. Known, and told in the guarantees.
        if self._blindly(body):
            self.story.history.seen["begun after a suspension"] += 1
            return
        text = f"its body began at {clock(body.began)}, after its take had ended at {clock(ended[0].at)}"
        self.complain("I16", text, firing=body.firing)

    def _told(self, body: Body) -> None:
        """A body whose node was declared dead is told, as soon as its node knows (I6 of the promises)."""
        back = self._wellness.registered_after(body.process, body.incarnation)
        if back is None or body.began > back:
            return
        until = back + self._bound
        if (body.ended is not None and body.ended <= until) or self._wellness.end <= until:
            return
        gone = self._wellness.gone_at(body.incarnation)
        if gone is not None and gone <= until:
            return
        if body.told is None or body.told[0] > until:
            self.complain(
                "I3", f"its node came back at {clock(back)} and did not tell it", firing=body.firing
            )
        else:
            self.story.history.seen["told that its lease was lost"] += 1

    def _blindly(self, body: Body) -> bool:
        """Whether its machine was suspended between its take and its begin."""
        taken = self._taken_at[body.firing, body.fence]
        return self._wellness.suspended_between(body.process, taken, body.began)

    def _apart(self, bodies: list[Body], *, exclusive: bool) -> None:
        """Two overlap only where the older one's node had been declared dead, and so could not know (I16)."""
        ordered = sorted(bodies, key=lambda body: body.began)
        for place, newer in enumerate(ordered):
            for older in ordered[:place]:
                if older.ended is not None and older.ended <= newer.began:
                    continue
                why = self._why_beside(older, newer, exclusive=exclusive)
                if why is None:
                    self.story.history.seen["bodies beside a fenced one"] += 1
                    continue
                text = f"its body (fence {newer.fence}) began beside that of firing {older.firing} fence {older.fence}"
                self.complain("I16", f"{text}: {why}", firing=newer.firing)

    def _why_beside(self, older: Body, newer: Body, *, exclusive: bool) -> str | None:
        """What is wrong with two bodies at once; None where the older one's node could not know any better."""
        if any(self._blindly(each) for each in (older, newer)):
            return None
        left = self._ends.ended.get((older.firing, older.fence))
        if left is not None and left[0].name == "abandon" and newer.began >= left[0].at + SECOND - _ROUNDING:
            self.story.history.seen["body beside one that was left"] += (
                1  # until its process hears of its own COMMIT
            )
            return None
        dead = self._nodes.dead_at.get(older.incarnation)
        if dead is None or dead > newer.began:
            return f"node {older.incarnation} was not declared dead"
        lease = self._nodes.lease_over[older.incarnation]
        if exclusive and self._taken_at[newer.firing, newer.fence] < lease:
            return f"the lease of node {older.incarnation} lasts until {clock(lease)}"
        return None

    def _end(self, body: Body) -> None:
        """A body that ended on a node that was never fenced has its true end in the ledger (I17)."""
        if body.ended is None or body.outcome == "vanished":
            return
        ended = self._ends.ended.get((body.firing, body.fence))
        if ended is not None and ended[0].actor == body.process and ended[0].name.startswith("settle"):
            self._same(body, ended[1].outcome if ended[2] is None else ended[2].outcome)
            return
        dead = self._nodes.dead_at.get(body.incarnation)
        if dead is not None:
            self.story.history.seen["fenced completion"] += 1
            return
        gone = self._wellness.gone_at(body.incarnation)
        if gone is not None:  # before it could say so
            return
        if ended is not None or body.ended + _SLACK < self._wellness.end:
            told = "nothing" if ended is None else f"{ended[0].name!r} of {ended[0].actor}"
            self.complain(
                "I17",
                f"its body ended {body.outcome} on a node that lives, and {told} ended it",
                firing=body.firing,
            )

    def _same(self, body: Body, outcome: str | None) -> None:
        firing = self.mirror.firings[body.firing]
        cancelled = (
            outcome == "cancelled" and body.outcome != "succeeded" and firing.cancel_requested_at is not None
        )
        if outcome != body.outcome and not cancelled:
            self.complain(
                "I17", f"its body ended {body.outcome}, and the ledger says {outcome}", firing=body.firing
            )
