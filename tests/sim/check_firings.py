"""A firing's way through its states: who may move it, under which fence, with which permit (I2 I3 I4 I6 I12 I13 I21)."""

from .chronicle import Commit, clock
from .mirror import Check, Moved, Story
from .oracle import SECOND, declared
from .rows import FiringRow

FINAL = ("succeeded", "failed", "lost", "cancelled", "skipped")
SETTLING = ("settle", "settle carefully", "abandon")
RELEASING = ("release", "reconcile", "abandon")
_RECENTLY = 60_000_000
RESCUING = ("rescue", "sweep", "mark dead")


class FiringsCheck(Check):
    """Each move of each firing is one that the protocol knows."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.taker: dict[tuple[int, int], str] = {}
        """{(firing, fence): the process that took it}"""
        self.released: set[tuple[int, int]] = set()
        self._group_moved: dict[str, int] = {}
        """{group: when it was last paused or resumed}"""
        self._half_resumed: set[str] = set()
        """Paused groups of which some triggers run again, and no sweep has come by since: the database may be away for long"""
        self._slots: dict[tuple[int, int], int] = {}
        self._left: dict[tuple[int, int | None], int] = {}
        """{(firing, fence): when a node left it although it ran, by the database's clock}: its permit is kept for a second"""

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        for move in moves:
            if move.table == "paused_groups":
                self._group_moved[(move.new or move.old).group_name] = commit.at
            elif move.table == "trigger_clocks" and commit.name == "control" and move.new is not None:
                group = self.mirror.triggers[move.new.id].group_name
                if group in self.mirror.groups:
                    self._group_moved[group] = commit.at
                    if move.new.next_run_at is not None:
                        self._half_resumed.add(group)
        if commit.name == "sweep" and not all(
            self._is_half_paused(move, commit.at) or self._was_left(move, commit.now) or _is_left_over(move)
            for move in moves
        ):
            self.complain("swept", f"the sweep had to put right: {commit.changes}")
        self._half_resumed &= self.mirror.groups.keys() if commit.name != "sweep" else set()
        touched = set()
        for move in moves:
            if move.table == "permits":
                touched.add(move.new.permit_key if move.new is not None else move.old.permit_key)
            elif move.table == "firings":
                self._firing(commit, move.old, move.new)
                if move.new is not None and move.new.permit_key is not None:
                    touched.add(move.new.permit_key)
        for key in sorted(touched):
            if not key.startswith("group:"):  # those are LimitsCheck's
                self._permit(key)

    def _was_left(self, move: Moved, now: int) -> bool:
        """The permit of a body that a node has left running, once its process must be gone."""
        if move.table != "permits" or move.old is None:
            return False
        left = self._left.get((move.old.firing_id, move.old.fence))
        return left is not None and now >= left + SECOND

    def _is_half_paused(self, move: Moved, at: int) -> bool:
        """Pausing and resuming a group take several transactions: a sweep between them sees their half."""
        if move.table == "trigger_clocks":
            trigger_id = move.new.id
        elif move.table == "firings" and (self._closes(move) or self._learns_its_next(move)):
            trigger_id = move.new.trigger_id
        else:
            return False
        group = self.mirror.triggers[trigger_id].group_name
        return group in self._half_resumed or at - self._group_moved.get(group, -_RECENTLY) < _RECENTLY

    @staticmethod
    def _closes(move: Moved) -> bool:
        return move.old is None and move.new.reason == "paused"

    @staticmethod
    def _learns_its_next(move: Moved) -> bool:
        return move.old is not None and move.old._replace(next_at=move.new.next_at) == move.new

    def _firing(self, commit: Commit, old: FiringRow | None, new: FiringRow | None) -> None:
        if new is None:
            self.complain("I1", f"{commit.name!r} deleted a firing", firing=None if old is None else old.id)
        elif old is None:
            self._born(commit, new)
        elif old.state in FINAL:
            if (old.state, old.outcome, old.fence, old.finished_at) != (
                new.state,
                new.outcome,
                new.fence,
                new.finished_at,
            ):
                self.complain(
                    "I4", f"{commit.name!r} changed a final firing: {old.state} to {new.state}", firing=new.id
                )
        elif old.state == "running":
            self._running(commit, old, new)
        else:
            self._due(commit, old, new)

    def _born(self, commit: Commit, new: FiringRow) -> None:
        if new.trigger_id is not None:
            key = (new.trigger_id, new.scheduled_at)
            if key in self._slots:
                self.complain(
                    "I2",
                    f"slot {clock(new.scheduled_at)} has two rows, {self._slots[key]} and",
                    firing=new.id,
                )
            self._slots[key] = new.id
        if new.state == "running":
            self._taken(commit, new, fence_before=0)
        elif new.fence != 0 or new.incarnation is not None:
            self.complain("I4", f"a {new.state} firing was born with a fence", firing=new.id)

    # -- due -----------------------------------------------------------------------------------------------------------

    def _due(self, commit: Commit, old: FiringRow, new: FiringRow) -> None:
        if new.state == "running":
            if old.run_at > commit.now:
                self.complain("I13", f"taken {(old.run_at - commit.now) / 1e6:.3f} s early", firing=new.id)
            # What nobody asked for does not start while its trigger is stopped.
            if old.stops_with is not None and self.mirror.held(old.stops_with):
                self.complain(
                    "I21", f"taken by {commit.name!r} although its trigger is stopped", firing=new.id
                )
            self._taken(commit, new, fence_before=old.fence)
        elif new.state == "due":
            if (new.fence, new.run_at) != (old.fence, old.run_at):
                self.complain("I4", f"{commit.name!r} moved a due firing to fence {new.fence}", firing=new.id)
            self._judged_again(commit, old, new)
        else:
            self._judged_again(commit, old, new)
            if new.state == "succeeded":
                self.complain("I4", f"{commit.name!r} ended a due firing as succeeded", firing=new.id)

    def _judged_again(self, commit: Commit, old: FiringRow, new: FiringRow) -> None:
        """A due slot becomes a misfire only if it is late and nobody ever ran it."""
        if old.reason == new.reason:
            return
        trigger = self.mirror.triggers[old.trigger_id or 0]
        rule = declared(trigger.spec).rule
        late = commit.now - old.run_at
        self.story.history.seen["judged again"] += 1
        if (old.reason, new.reason) != ("schedule", "misfire") or old.first_started_at is not None:
            self.complain("I15", f"{commit.name!r} turned {old.reason} into {new.reason}", firing=new.id)
        elif late <= rule.threshold:
            self.complain("I15", f"judged again when {late / 1e6:.1f} s late", firing=new.id)
        # By the policy that its finder knew: an edit may have come between, and the row says which it was.
        elif (new.misfire_policy == "skip" and new.state != "skipped") or (
            new.misfire_policy == "fire_all" and new.state != "due"
        ):
            self.complain("I15", f"judged again by {new.misfire_policy}, and is {new.state}", firing=new.id)

    # -- running -------------------------------------------------------------------------------------------------------

    def _taken(self, commit: Commit, new: FiringRow, *, fence_before: int) -> None:
        if new.fence != fence_before + 1:
            self.complain("I4", f"taken under fence {new.fence} after {fence_before}", firing=new.id)
        if commit.name not in ("take",):
            self.complain("I3", f"{commit.name!r} took a firing", firing=new.id)
        if new.incarnation != commit.incarnation:
            self.complain(
                "I3", f"taken under incarnation {new.incarnation} by {commit.incarnation}", firing=new.id
            )
        if (
            new.scheduled_at > commit.now and new.fence == 1
        ):  # later ones may be found after a clock was set back
            self.complain("I13", "started before its slot", firing=new.id)
        if new.started_at != commit.now:
            self.complain(
                "I13", f"taken at {clock(commit.now)}, and says {clock(new.started_at or 0)}", firing=new.id
            )
        node = self.mirror.nodes.get(new.incarnation or 0)
        if node is None or node.state not in ("up", "draining") or node.lease_until <= commit.now:
            self.complain(
                "I3", f"taken by incarnation {new.incarnation}, which may not write any more", firing=new.id
            )
        self.taker[new.id, new.fence] = commit.actor

    def _running(self, commit: Commit, old: FiringRow, new: FiringRow) -> None:
        if new.state == "running":
            if (new.fence, new.incarnation, new.take_no) != (old.fence, old.incarnation, old.take_no):
                self.complain("I4", f"{commit.name!r} changed hands of a running firing", firing=new.id)
            return
        if new.fence != old.fence:
            self.complain("I4", f"{commit.name!r} changed the fence at an end", firing=new.id)
        if commit.name == "abandon":
            self._left[old.id, old.fence] = commit.now
        taker = self.taker.get((old.id, old.fence))
        if commit.name in RESCUING:
            node = self.mirror.nodes.get(old.incarnation or 0)
            if node is not None and node.state in ("up", "draining"):
                self.complain(
                    "I3", f"{commit.name!r} ended what {node.name}/{node.incarnation} runs", firing=new.id
                )
        elif commit.actor != taker:
            self.complain("I3", f"{commit.actor} ended with {commit.name!r} what {taker} runs", firing=new.id)
        elif commit.name not in SETTLING + RELEASING:
            self.complain("I3", f"{commit.name!r} ended a running firing", firing=new.id)
        if new.state == "due" and (old.id, old.fence) not in self.mirror.attempts:
            if commit.name not in RELEASING:
                self.complain("I4", f"{commit.name!r} made it due again without a record", firing=new.id)
            self.released.add((old.id, old.fence))
            self.story.history.seen[f"given back by {commit.name}"] += 1
            if new.run_at != old.run_at:
                self.complain("I4", f"{commit.name!r} released it with another run time", firing=new.id)

    # -- permits -------------------------------------------------------------------------------------------------------

    def _permit(self, key: str) -> None:
        """A permit is held by the one running firing that needs it, under its fence, and by nobody else (I6)."""
        permit = self.mirror.permits.get((key, 0))
        job = permit.job_id if permit is not None else None
        if job is None and key.startswith("job:"):
            job = int(key.partition(":")[2])
        if job is None:
            running = [
                row for row in self._running_of_trigger(int(key.partition(":")[2])) if row.permit_key == key
            ]
        else:
            running = [row for row in self._running_of_job(job) if row.permit_key == key]
        if len(running) > 1:
            self.complain(
                "I6", f"permit {key}: firings {[row.id for row in running]} run at once", firing=running[1].id
            )
        holder = None if permit is None or permit.firing_id is None else (permit.firing_id, permit.fence)
        wanted = (running[0].id, running[0].fence) if running else None
        if holder != wanted and (wanted is not None or holder not in self._left):
            self.complain(
                "I6",
                f"permit {key} is held by {holder}, and {wanted} runs",
                firing=(wanted or holder or (0, 0))[0],
            )

    def _running_of_job(self, job: int) -> list[FiringRow]:
        rows = [self.mirror.firings[each] for each in sorted(self.mirror.open_of_job[job])]
        return [row for row in rows if row.state == "running"]

    def _running_of_trigger(self, trigger: int) -> list[FiringRow]:
        clock_row = self.mirror.clocks.get(trigger)
        rows = [] if clock_row is None else self._running_of_job(clock_row.job_id)
        return [row for row in rows if row.trigger_id == trigger]


def _is_left_over(move: Moved) -> bool:
    """A permit beyond its group's limit that nobody holds any more: nobody but the sweep takes such a one away."""
    return move.table == "permits" and move.new is None and move.old.n < 0 and move.old.firing_id is None
