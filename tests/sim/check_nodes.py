"""Who is declared dead and when, who leads, and that numbers only grow (I8 I11 I14 I19)."""

from collections.abc import Callable

from .chronicle import Commit, clock
from .health import longest
from .mirror import Check, Moved, Story
from .rows import ClusterRow, NodeRow
from .wellness import Wellness

SLACK = 600_000
"""Two looks are timed where they are sent, and seen here where they arrive."""


class NodesCheck(Check):
    """Nodes and leadership, commit by commit."""

    def __init__(
        self,
        story: Story,
        wellness: Wellness,
        sensed: dict[tuple[str, int], list[int]],
        lease: int,
        came: Callable[[int], int],
    ) -> None:
        super().__init__(story)
        self._lease = lease
        self._sensed = sensed
        self._wellness = wellness
        self._came = came
        self._renewed: dict[int, int] = {}
        """{incarnation: true time of its last committed check-in}"""
        self.dead_at: dict[int, int] = {}
        self.lease_over: dict[int, int] = {}
        """{dead incarnation: when its lease is over: true time at which the database's clock first shows its end}"""
        self._newest = 0

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        for move in moves:
            if move.table == "nodes":
                self._node(commit, move.old, move.new)
            elif move.table == "clusters" and move.old is not None:
                self._cluster(commit, move.old, move.new)
        if commit.name == "plan":
            self._plan(commit)

    def _node(self, commit: Commit, old: NodeRow | None, new: NodeRow) -> None:
        if old is None:
            if new.incarnation <= self._newest:
                self.complain("I8", f"incarnation {new.incarnation} was given again")
            self._newest = new.incarnation
            self._renewed[new.incarnation] = commit.at
            self._wellness.registered(commit.actor, new.incarnation, commit.at)
            return
        if new.renew_seq < old.renew_seq:
            self.complain("I8", f"node {new.incarnation}: its renewals went back")
        if new.renew_seq > old.renew_seq:
            self._renewed[new.incarnation] = commit.at
            if (new.checked_in_at, new.lease_until - new.checked_in_at) != (commit.now, self._lease):
                self.complain("I14", f"incarnation {new.incarnation} renewed from {clock(new.checked_in_at)}")
            if old.state not in ("up", "draining"):
                self.complain(
                    "I3", f"incarnation {new.incarnation} renewed its lease though it is {old.state}"
                )
        if new.state == "dead" and old.state != "dead":
            self._dead(commit, old, new)
        if old.state in ("dead", "stopped") and new.state != old.state:
            self.complain("I8", f"incarnation {new.incarnation} came back from {old.state}")

    def _dead(self, commit: Commit, old: NodeRow, new: NodeRow) -> None:
        """Silent for a whole lease, or really gone (I14)."""
        self.dead_at[new.incarnation] = commit.at
        self.lease_over[new.incarnation] = (
            self._came(new.lease_until) if new.checked_in_at <= commit.now else 0
        )
        self._wellness.fenced(new.incarnation, commit.at)
        self.story.history.seen[f"dead {new.dead_verdict}"] += 1
        silent = commit.at - self._renewed[new.incarnation]
        lease = old.lease_until - old.checked_in_at
        if new.dead_verdict == "gone":
            self._gone(commit, old, silent)
        elif silent < lease and not self._was_set_forth(commit, new, silent):
            self.complain(
                "I14",
                f"incarnation {new.incarnation} was declared dead {silent / 1e6:.2f} s after its last check-in"
                f" at {clock(self._renewed[new.incarnation])}; its lease is {lease / 1e6:.0f} s",
            )

    def _was_set_forth(self, commit: Commit, node: NodeRow, silent: int) -> bool:
        """Whether the database's clock was, since the last check-in: a lease that was noted by it may be short by that, but
        not below two check-ins, in which whoever lives is heard."""
        forth = commit.now - node.checked_in_at - silent
        if forth < SLACK or silent < 2 * (node.check_in or 0) - SLACK:
            return False
        self.story.history.seen["silent by a clock that was set forth"] += 1
        return True

    def _gone(self, commit: Commit, node: NodeRow, silent: int) -> None:
        """Sensed to be gone by who says so, over a check-in at least, and silent for two."""
        times = self._sensed.get((commit.actor, node.incarnation), [])
        check_in = node.check_in or 0
        # A look is timed where it was sent: while the database does not answer, two of them may see it at one moment.
        hung = self._wellness.was_ill(commit.incarnation, commit.at - check_in)
        close = times[-1] - times[0] < check_in - SLACK and not hung if times else True
        if close or silent < 2 * check_in - SLACK:
            seconds = [f"{(commit.at - each) / 1e6:.2f}" for each in times]
            text = (
                f"incarnation {node.incarnation} was called gone {silent / 1e6:.2f} s after its last check-in"
            )
            self.complain("I14", f"{text}; sensed so {seconds} s before")

    # -- leadership ----------------------------------------------------------------------------------------------------

    def _cluster(self, commit: Commit, old: ClusterRow, new: ClusterRow) -> None:
        if new.epoch < old.epoch:
            self.complain("I8", "the epoch went back")
        changed = (new.leader_incarnation, new.fallen_back_at is None) != (
            old.leader_incarnation,
            old.fallen_back_at is None,
        )
        if changed and new.leader_incarnation is not None and new.epoch == old.epoch:
            self.complain("I19", f"incarnation {new.leader_incarnation} leads under the epoch of another")
        if new.epoch > old.epoch:
            self.story.history.seen["epochs"] += 1
        if new.fallen_back_at is not None and old.fallen_back_at is None:
            self.story.history.seen["fell back"] += 1
        if new.fallen_back_at is None and old.fallen_back_at is not None:
            self.story.history.seen["came back"] += 1

    def _plan(self, commit: Commit) -> None:
        cluster = self.mirror.cluster()
        if cluster is None or cluster.leader_incarnation != commit.incarnation:
            leader = None if cluster is None else cluster.leader_incarnation
            self.complain("I19", f"incarnation {commit.incarnation} planned while {leader} led")


class TakeoverCheck(Check):
    """What a dead or vanished node ran is ended by others within the formula (I5 I11)."""

    def __init__(self, story: Story, wellness: Wellness, nodes: NodesCheck, bound: tuple[int, bool]) -> None:
        super().__init__(story)
        self._wellness = wellness
        self._nodes = nodes
        self._bound, self._sensed = bound
        self._running: dict[tuple[int, int], tuple[int, int]] = {}
        """{(firing, fence): (incarnation, since)}"""

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        for move in moves:
            if move.table != "firings" or move.new is None:
                continue
            old, new = move.old, move.new
            if (
                old is not None
                and old.state == "running"
                and (new.state != "running" or new.fence != old.fence)
            ):
                incarnation, since = self._running.pop((old.id, old.fence), (0, 0))
                self._judge(old.id, incarnation, since, commit.at)
            if new.state == "running":
                self._running.setdefault((new.id, new.fence), (new.incarnation or 0, commit.at))

    def finish(self) -> None:
        for (firing, _), (incarnation, since) in self._running.items():
            self._judge(firing, incarnation, since, self._wellness.end)

    def _judge(self, firing: int, incarnation: int, since: int, until: int) -> None:
        gone = self._wellness.gone_at(incarnation)
        if gone is None or gone >= until:
            return
        known = gone if self._sensed else self._nodes._renewed.get(incarnation, 0)
        last = max(known, since)
        waited = longest(
            (max(first, last), end) for first, end in self._wellness.any_well(until) if end > last
        )
        if waited > self._bound:
            self.complain(
                "I11",
                f"its process was gone at {clock(gone)}, and it was taken over after {waited / 1e6:.1f} s in which"
                f" somebody was there to do it; at most {self._bound / 1e6:.1f} s",
                firing=firing,
            )
