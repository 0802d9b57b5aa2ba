"""A trigger whose slots count from ends: no slot while something of it is open, the next so long after the end (I26)."""

from .check_firings import FINAL
from .chronicle import Commit, clock
from .mirror import Check, Moved, Story
from .oracle import declared
from .rows import FiringRow


class DelaysCheck(Check):
    """Follows the firings of such triggers from end to end."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self._open: dict[int, set[int]] = {}
        """{trigger: firings of its slots that have not ended, of those that were decided while it counted from ends}"""
        self._ended: dict[int, tuple[int, int]] = {}
        """{trigger: (when its last firing ended, its delay then)}, where it has not been declared anew since"""

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        for move in moves:
            if move.table == "triggers" and move.old is not None and move.old.spec != move.new.spec:
                self._ended.pop(move.new.id, None)
                if declared(move.old.spec).delay is None:  # what began on a grid holds nobody up
                    self._open.pop(move.new.id, None)
        for move in moves:
            if move.table == "firings" and move.new is not None and move.new.trigger_id is not None:
                self._firing(commit, move.old, move.new)
        for move in moves:
            if move.table in ("trigger_clocks", "triggers") and move.new is not None:
                self._waits(commit, move.new.id)

    def _delay(self, trigger_id: int) -> int | None:
        return declared(self.mirror.triggers[trigger_id].spec).delay

    def _firing(self, commit: Commit, old: FiringRow | None, new: FiringRow) -> None:
        trigger_id = new.trigger_id
        assert trigger_id is not None
        open_now = self._open.setdefault(trigger_id, set())
        delay = self._delay(trigger_id)
        if old is None and delay is not None and new.state in ("due", "running"):
            self._begins(new, delay, open_now)
        elif old is not None and old.state not in FINAL and new.state in FINAL and new.id in open_now:
            open_now.discard(new.id)
            if delay is not None:
                self._ended[trigger_id] = (new.finished_at or commit.now, delay)

    def _begins(self, new: FiringRow, delay: int, open_now: set[int]) -> None:
        assert new.trigger_id is not None
        if open_now:
            self.complain(
                "I26", f"decided beside {sorted(open_now)}, from whose end it should count", firing=new.id
            )
        ended, before = self._ended.get(new.trigger_id, (None, delay))
        if ended is not None and new.scheduled_at < ended + before:
            text = f"slot {clock(new.scheduled_at)}, and the run before ended at {clock(ended)}"
            self.complain("I26", f"{text}: {before / 1e6:g} s between them are wanted", firing=new.id)
        open_now.add(new.id)
        self.story.history.seen["decided after an end"] += ended is not None

    def _waits(self, commit: Commit, trigger_id: int) -> None:
        """It has a slot ahead, or something of it is open: else it would wait for ever."""
        trigger, clock_row = self.mirror.triggers[trigger_id], self.mirror.clocks.get(trigger_id)
        if clock_row is None or trigger.state != "waiting" or self._delay(trigger_id) is None:
            return
        if clock_row.next_fire_at is None and not self._any_open(trigger_id):
            self.complain("I26", f"trigger {trigger.name}: {commit.name!r} leaves it without a slot")

    def _any_open(self, trigger_id: int) -> bool:
        job = self.mirror.clocks[trigger_id].job_id
        ids = self._open.get(trigger_id, set()) | {
            each
            for each in self.mirror.open_of_job[job]
            if self.mirror.firings[each].trigger_id == trigger_id
        }
        return bool(ids)

    def finish(self) -> None:
        for trigger in self.mirror.triggers.values():
            clock_row = self.mirror.clocks[trigger.id]
            waits = trigger.state == "waiting" and declared(trigger.spec).delay is not None
            if waits and clock_row.next_fire_at is None and not self._any_open(trigger.id):
                self.complain("I26", f"trigger {trigger.name} waits for an end that was long ago")
