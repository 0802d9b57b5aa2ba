"""Every slot of a live trigger is decided exactly once, in order, never early, as its misfire rule says (I1 I8 I13 I15)."""

from .chronicle import Commit, clock
from .mirror import Check, Moved, Story
from .oracle import END, Declared, declared
from .rows import ClockRow, FiringRow, TriggerRow
from .shapes import Asked, allowed_shapes, shape_of

DECIDING = ("take", "plan")


class SlotsCheck(Check):
    """Walks along each trigger's slots with the decisions, by its own arithmetic."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self._expected: dict[int, int] = {}
        """{trigger: the slot that must be decided next}; END where there is none."""
        self._running_by_now: dict[int, set[int]] = {}
        """{job: the triggers of which this commit lets something run}"""
        self._open_before: dict[int, set[int]] = {}
        self._busy_before: set[int] = set()
        self._held_before: set[int | None] = set()

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        rows: dict[int, list[FiringRow]] = {}
        clocks: dict[int, Moved] = {}
        triggers: dict[int, Moved] = {}
        for move in moves:
            if move.table == "firings" and move.old is None and move.new.trigger_id is not None:
                rows.setdefault(move.new.trigger_id, []).append(move.new)
            elif move.table == "trigger_clocks":
                clocks[move.new.id] = move
            elif move.table == "triggers":
                triggers[move.new.id] = move
        self._running_by_now = {}
        for row in (row for each in rows.values() for row in each if row.state != "skipped"):
            self._running_by_now.setdefault(row.job_id, set()).add(row.trigger_id or 0)
        for trigger_id in sorted({*rows, *clocks, *triggers}):
            new = self.mirror.triggers[trigger_id]
            trigger = triggers.get(trigger_id)
            old = new if trigger is None else trigger.old
            moved = clocks.get(trigger_id)
            self._look(commit, old, new, moved, rows.get(trigger_id, []))

    def _look(
        self,
        commit: Commit,
        old: TriggerRow | None,
        new: TriggerRow,
        moved: Moved | None,
        rows: list[FiringRow],
    ) -> None:
        definition = declared(new.spec)
        clock_row = self.mirror.clocks[new.id]
        before: ClockRow | None = clock_row if moved is None else moved.old
        if definition.delay is not None or (old is not None and declared(old.spec).delay is not None):
            self._counted_from_ends(commit, old, new, moved, rows)
        elif old is None or before is None:
            self._expected[new.id] = definition.slots.after(commit.now)
        else:
            self._decided(commit, old, before, sorted(rows, key=lambda row: row.first_scheduled_at))
            self._restarted(commit, old, new, definition, clock_row)
            self._grows(new, before, clock_row)
            self._counts(commit, before, clock_row, rows)
        self._agrees(new, clock_row)

    def _counted_from_ends(
        self,
        commit: Commit,
        old: TriggerRow | None,
        new: TriggerRow,
        moved: Moved | None,
        rows: list[FiringRow],
    ) -> None:
        """DelaysCheck says when its slots are; they are decided one by one, and counted as all others."""
        definition, after = declared(new.spec), self.mirror.clocks[new.id]
        self._expected[new.id] = after.next_fire_at or END
        if old is None or moved is None or moved.old is None:
            return
        if definition.delay is None:
            self._restarted(commit, old, new, definition, after)
        self._grows(new, moved.old, after)
        self._counts(commit, moved.old, after, rows)

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _decided(self, commit: Commit, trigger: TriggerRow, before: ClockRow, rows: list[FiringRow]) -> None:
        """Rows that stand for slots begin where the last ones ended, and leave none out."""
        definition = declared(trigger.spec)
        began = expected = self._expected.get(trigger.id, END)
        for row in rows:
            if row.first_scheduled_at != expected:
                self.complain(
                    "I1",
                    f"trigger {trigger.name}: a row begins at slot {clock(row.first_scheduled_at)},"
                    f" and {clock(expected)} was to be decided next",
                    firing=row.id,
                )
            slots = definition.slots.between(row.first_scheduled_at, row.scheduled_at)
            if not slots or slots[-1] != row.scheduled_at or len(slots) != row.covers:
                self.complain(
                    "I1",
                    f"trigger {trigger.name}: a row covers {row.covers} slots up to {clock(row.scheduled_at)},"
                    f" and there are {len(slots)}",
                    firing=row.id,
                )
            if row.scheduled_at > commit.now:
                self.complain("I13", f"trigger {trigger.name}: decided before it was due", firing=row.id)
            expected = definition.slots.after(row.scheduled_at)
        self._expected[trigger.id] = expected
        if not rows:
            return
        if commit.name in DECIDING:
            self._judge(commit, before, definition, began, rows)
        elif any(row.state != "skipped" for row in rows) or expected <= commit.now:
            self.complain("I15", f"trigger {trigger.name}: {commit.name!r} does not close all that was owed")

    def _judge(
        self, commit: Commit, before: ClockRow, definition: Declared, began: int, rows: list[FiringRow]
    ) -> None:
        """What was decided is one of the shapes that the rules allow for this lateness."""
        if before.next_run_at is None:
            self.complain("I21", f"trigger {before.id}: decided although it was stopped", firing=rows[0].id)
        left = None if definition.max_fires is None else definition.max_fires - before.fires
        asked = Asked(
            definition.rule, before.overlap, definition.slots.between(began, commit.now), commit.now, left
        )
        seen = shape_of(rows)
        shapes = allowed_shapes(asked)
        name = next((name for name, shape in shapes.items() if shape == seen), None)
        if name is None:
            self.complain(
                "I15",
                f"trigger {before.id} ({before.overlap}, {definition.rule.policy}): decided {seen}"
                f" {(commit.now - began) / 1e6:.3f} s after its oldest slot; allowed {shapes}",
                firing=rows[0].id,
            )
            return
        self.story.history.seen[f"decided {name}"] += 1
        runs = any(part[0] == "runs" for part in seen)
        if before.overlap != "allow":
            self._overlaps(before, name, rows[0].id, runs=runs)

    def _overlaps(self, before: ClockRow, name: str, firing: int, *, runs: bool) -> None:
        """A busy job's slots are skipped or wait, as its overlap says; of a free one at most one trigger's run at a time."""
        job = before.job_id
        if name.endswith("while busy"):
            # What a node has left running keeps the permit until its process must be gone.
            open_or_left = self._open_before.get(job) or job in self._held_before
            if not open_or_left and not self._running_by_now.get(job):
                self.complain(
                    "I15", f"trigger {before.id}: skipped as overlapping, and its job was free", firing=firing
                )
        elif runs and (job in self._busy_before or len(self._running_by_now[job]) > 1):
            self.complain(
                "I15", f"trigger {before.id} ({before.overlap}): it runs, and its job was busy", firing=firing
            )

    def before(self, commit: Commit) -> None:
        if commit.name not in DECIDING:
            return
        firings = self.mirror.firings
        self._open_before = {job: set(ids) for job, ids in self.mirror.open_of_job.items()}
        self._held_before = {
            permit.job_id for permit in self.mirror.permits.values() if permit.firing_id is not None
        }
        self._busy_before = {
            job
            for job, ids in self._open_before.items()
            if any(self._busies(firings[each], commit.now) for each in ids)
        }

    def _busies(self, firing: FiringRow, now: int) -> bool:
        """Whether a job is surely busy with this: it runs, or may, and is no retry that a later slot overtakes."""
        if firing.state == "running":
            return firing.permit_key is not None
        first = firing.attempt == 0 and firing.run_at <= now and firing.permit_key is not None
        return first and not (firing.stops_with is not None and self.mirror.held(firing.stops_with))

    # -- the clock -----------------------------------------------------------------------------------------------------

    def _restarted(
        self, commit: Commit, old: TriggerRow, new: TriggerRow, definition: Declared, clock_row: ClockRow
    ) -> None:
        """An edit or a return from retirement goes on with the first slot after now, an ended trigger with none."""
        if new.state == "retired":
            self._expected[new.id] = END
        elif old.state == "retired" or declared(old.spec).schedule != definition.schedule:
            self._expected[new.id] = definition.slots.after(max(commit.now, clock_row.watermark or 0))
        if definition.max_fires is not None and clock_row.fires >= definition.max_fires:
            self._expected[new.id] = END

    def _grows(self, trigger: TriggerRow, before: ClockRow, after: ClockRow) -> None:
        if (after.watermark or 0) < (before.watermark or 0):
            self.complain("I8", f"trigger {trigger.name}: its watermark went back")
        if after.version < before.version or (
            after.version == before.version and after.next_fire_at != before.next_fire_at
        ):
            self.complain("I8", f"trigger {trigger.name}: its clock moved without a new version")
        if after.fires < before.fires or after.misfires < before.misfires:
            self.complain("I8", f"trigger {trigger.name}: its counters went back")

    def _counts(self, commit: Commit, before: ClockRow, after: ClockRow, rows: list[FiringRow]) -> None:
        """What a decision adds to its trigger's counters is what its rows say, and its rows say what comes next."""
        if commit.name not in DECIDING or not rows:
            return
        fires = sum(row.state != "skipped" for row in rows)
        misfires = sum(row.covers for row in rows if row.reason == "misfire")
        if (after.fires - before.fires, after.misfires - before.misfires) != (fires, misfires):
            said = f"{after.fires - before.fires} fires and {after.misfires - before.misfires} misfires"
            self.complain("I15", f"trigger {after.id}: counted {said}, and decided {fires} and {misfires}")
        for row in rows:
            if (row.noticed_at, row.next_at) != (commit.now, after.next_fire_at):
                text = f"noticed at {clock(row.noticed_at)}, next at {clock(row.next_at or 0)}"
                self.complain("I13", f"trigger {after.id}: its row says {text}", firing=row.id)

    def _agrees(self, trigger: TriggerRow, clock_row: ClockRow) -> None:
        """The clock names the slot that is next by arithmetic, and is due only where the trigger may start something."""
        expected = self._expected[trigger.id]
        wanted = None if expected == END else expected
        if clock_row.next_fire_at != wanted:
            shown = clock(clock_row.next_fire_at or 0)
            self.complain(
                "I1", f"trigger {trigger.name}: its next slot is {shown}, and should be {clock(wanted or 0)}"
            )
            self._expected[trigger.id] = clock_row.next_fire_at or END
        if clock_row.next_fire_at is not None and clock_row.next_fire_at <= (clock_row.watermark or 0):
            self.complain("I8", f"trigger {trigger.name}: its next slot is not after its watermark")
        if trigger.state == "error":
            self.complain(
                "error", f"trigger {trigger.name} is in error: {trigger.error_kind} {trigger.error}"
            )
        run_at = clock_row.next_run_at
        stopped = trigger.paused_at is not None or trigger.state == "retired"
        in_paused_group = trigger.group_name in self.mirror.groups  # stopped a moment later than its group
        if run_at not in (None, clock_row.next_fire_at) or (run_at is not None and stopped):
            self.complain("I21", f"trigger {trigger.name}: stopped={stopped}, and its clock would run it")
        if run_at is None and clock_row.next_fire_at is not None and not (stopped or in_paused_group):
            self.complain("I20", f"trigger {trigger.name} waits, is not paused, and would never run")

    def finish(self) -> None:
        """A waiting trigger's oldest undecided slot is for the progress check; here only that nobody forgot one."""
        for trigger_id, clock_row in self.mirror.clocks.items():
            trigger = self.mirror.triggers[trigger_id]
            delay = declared(trigger.spec).delay
            if trigger.state == "waiting" and clock_row.next_fire_at is None and delay is None:
                self.complain("I1", f"trigger {trigger.name} waits for no slot")
