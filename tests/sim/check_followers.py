"""Each end that a trigger waits for has its one continuation, written in the commit that ends it, and nothing else has (I25)."""

from .check_firings import FINAL
from .chronicle import Commit
from .mirror import Check, Moved, Story
from .rows import FiringRow, TriggerRow

_WAITED_FOR = {
    "succeeded": ("succeeded",),
    "failed": ("failed", "lost"),
    "any": ("succeeded", "failed", "lost", "cancelled"),
}


class FollowersCheck(Check):
    """Works out for each end who follows it, and compares."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self._bodies = {(body.firing, body.fence) for body in story.history.bodies}
        self._known: dict[tuple[int, int], set[int]] = {}
        """{(firing, fence): the triggers that followed its job when it was taken}"""
        self._before: dict[int, set[int]] = {}

    def before(self, commit: Commit) -> None:
        self._before = {}
        for trigger in self.mirror.triggers.values():
            if trigger.after_job_id is not None and trigger.state != "retired":
                self._before.setdefault(trigger.after_job_id, set()).add(trigger.id)

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        made: dict[tuple[int, int], FiringRow] = {}
        ends: list[Moved] = []
        for move in moves:
            if move.table != "firings" or move.new is None:
                continue
            old, new = move.old, move.new
            if new.state == "running" and (old is None or old.state != "running"):
                self._known[new.id, new.fence] = self._before.get(new.job_id, set())
            if old is None and (new.request_key or "").startswith("after:"):
                _, firing, trigger = str(new.request_key).split(":")
                made[int(firing), int(trigger)] = new
            elif old is None and new.reason == "after":
                self.complain("I25", f"a continuation with request key {new.request_key}", firing=new.id)
            elif old is not None and old.state not in FINAL and new.state in FINAL:
                ends.append(move)
        for end in ends:
            self._follows(commit, end.old, end.new, made)
        for (followed, follower), row in sorted(made.items()):
            text = f"{commit.name!r}: it follows {followed} for trigger {follower}, which nothing asked for"
            self.complain("I25", text, firing=row.id)

    def _follows(
        self, commit: Commit, old: FiringRow, new: FiringRow, made: dict[tuple[int, int], FiringRow]
    ) -> None:
        """Take the continuations of this end out of `made`."""
        for trigger in self.mirror.triggers.values():
            if trigger.after_job_id != new.job_id or trigger.state == "retired":
                continue
            if new.state not in _WAITED_FOR[trigger.after_on or "?"] or not self._has_run(old, new):
                continue
            row = made.pop((new.id, trigger.id), None)
            if row is not None:
                self._is_right(new, trigger, row)
            elif self._must(old, new, trigger.id):
                text = f"{commit.name!r}: {old.state} to {new.state}, and {trigger.name} ({trigger.after_on}) does not follow"
                self.complain("I25", text, firing=new.id)

    @staticmethod
    def _has_run(old: FiringRow, new: FiringRow) -> bool:
        """It was taken; or it waits to be run again, and is given up."""
        return old.state == "running" or (new.state == "failed" and old.attempt > 0)

    def _must(self, old: FiringRow, new: FiringRow, trigger: int) -> bool:
        """Who came when it ran already may follow it or not; nor need a cancelled one whose body never began be followed."""
        if new.state == "cancelled" and (old.id, old.fence) not in self._bodies:
            return False
        if old.state == "running":
            return trigger in self._known.get((old.id, old.fence), set())
        return trigger in self._before.get(new.job_id, set())

    def _is_right(self, end: FiringRow, trigger: TriggerRow, row: FiringRow) -> None:
        seen = self.story.history.seen
        seen["a continuation"] += 1
        seen["a continuation of a lost firing"] += end.state == "lost"
        held = self.mirror.held(trigger.id)
        seen["a continuation was skipped"] += held
        wanted = ("skipped", "paused") if held else ("due", "after")
        if (row.state, row.reason) != wanted:
            self.complain("I25", f"it is {row.state} ({row.reason}), and should be {wanted}", firing=row.id)
        names = (row.of_firing, row.requested_trigger_id, row.trigger_id, row.job_id)
        if names != (end.id, trigger.id, None, trigger.job_id):
            self.complain("I25", f"it says that it is of {names}", firing=row.id)
