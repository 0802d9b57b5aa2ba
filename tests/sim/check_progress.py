"""Nothing waits for ever: what is due and free to start does so while somebody is there for it (I10 I20)."""

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from .chronicle import Commit, clock
from .health import Span, longest, overlap, rest
from .mirror import Check, Moved, Story
from .oracle import job_rules
from .rows import ClockRow, FiringRow
from .timeline import START
from .wellness import Wellness

if TYPE_CHECKING:
    from .world import World


class Waited(NamedTuple):
    """What waited: in words, its trigger, its permit and its group's, its job, the firing if it is one."""

    what: str
    trigger: int | None
    permits: tuple[str | None, str]
    job: int
    firing: int


class Since:
    """Spans in which something was so, put together from when it began and ended to be so."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._since: int | None = None

    def be(self, so: bool, at: int) -> None:
        if so and self._since is None:
            self._since = at
        elif not so and self._since is not None:
            self.spans.append((self._since, at))
            self._since = None

    def until(self, at: int) -> list[Span]:
        return self.spans if self._since is None else [*self.spans, (self._since, at)]


class ProgressCheck(Check):
    """Waits are measured where a place was free on a well node and nothing held the firing or trigger back."""

    def __init__(self, story: Story, wellness: Wellness, world: "World", bound: int) -> None:
        super().__init__(story)
        self._wellness = wellness
        self._world = world
        self._bound = bound
        self._full: dict[int, Since] = defaultdict(Since)
        """{incarnation: when all its places were taken}"""
        self._held: dict[int, Since] = defaultdict(Since)
        self._busy: dict[str, Since] = defaultdict(Since)
        self._running: dict[int, set[int]] = defaultdict(set)
        self._places: dict[int, int] = {}
        self._due_since: dict[int, int] = {}
        self._clock_since: dict[int, int] = {}
        """{firing, or trigger: since when (true time) its row says when it is due}"""
        self._late: list[tuple[int, Span, Waited]] = []
        """(due by the database's clock, true time it waited, what) of each that waited for longer than the bound"""

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        for move in moves:
            if move.table == "firings" and move.new is not None:
                self._firing(commit, move.old, move.new)
            elif move.table == "trigger_clocks" and self._moves(move, "next_run_at"):
                self._clock_since[move.new.id] = commit.at
            elif move.table == "nodes" and move.new is not None:
                self._places[move.new.incarnation] = move.new.capacity
            elif move.table == "permits" and move.new is not None:
                if not move.new.permit_key.startswith("group:"):
                    self._busy[move.new.permit_key].be(move.new.firing_id is not None, commit.at)
            elif move.table in ("triggers", "paused_groups"):
                for trigger_id in sorted(self.mirror.triggers):
                    self._held[trigger_id].be(self.mirror.held(trigger_id), commit.at)
        if any(move.table in ("permits", "group_limits") for move in moves):
            self._look_at_groups(commit.at)

    def _look_at_groups(self, at: int) -> None:
        """By their names: a limit that comes back is another one, and what waits is the same."""
        for limit in self.mirror.limits.values():
            places = [permit for permit in self.mirror.permits_of(limit.key) if permit.n >= 0]
            self._busy[f"in {limit.name}"].be(all(each.firing_id is not None for each in places), at)
        limited = {f"in {limit.name}" for limit in self.mirror.limits.values()}
        for name in [each for each in self._busy if each.startswith("in ") and each not in limited]:
            self._busy[name].be(False, at)

    @staticmethod
    def _moves(move: Moved, name: str) -> bool:
        return move.old is None or getattr(move.old, name) != getattr(move.new, name)

    def _firing(self, commit: Commit, old: FiringRow | None, new: FiringRow) -> None:
        ends = old is not None and old.state == "running" and new.state != "running"
        if ends and old is not None and old.incarnation is not None:
            self._count(old.incarnation, old.id, commit.at, runs=False)
        starts = new.state == "running" and (old is None or old.state == "due")
        if starts and new.incarnation is not None:
            self._count(new.incarnation, new.id, commit.at, runs=True)
            permits = (new.permit_key, self._group(new.job_id))
            what = Waited("started", new.stops_with, permits, new.job_id, new.id)
            if old is not None:
                self._look(old.run_at, self._due_since[old.id], commit.at, what)
            else:
                since = self._clock_before.get(new.trigger_id or 0, commit.at)
                self._look(new.first_scheduled_at, since, commit.at, what)
        if new.state == "due" and (old is None or (old.state, old.run_at) != (new.state, new.run_at)):
            self._due_since[new.id] = commit.at

    def before(self, commit: Commit) -> None:
        self._clock_before = dict(self._clock_since)

    def _count(self, incarnation: int, firing: int, at: int, *, runs: bool) -> None:
        running = self._running[incarnation]
        if runs:
            running.add(firing)
        else:
            running.discard(firing)
        self._full[incarnation].be(len(running) >= self._places.get(incarnation, 0), at)

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        end = self._wellness.end
        self._free = [self._free_on(node) for node in range(self._world.plan.nodes)]
        for firing in self.mirror.firings.values():
            if firing.state == "due":
                permits = (firing.permit_key, self._group(firing.job_id))
                what = Waited("is still due", firing.stops_with, permits, firing.job_id, firing.id)
                self._look(firing.run_at, self._due_since[firing.id], end, what)
            elif firing.state == "running":
                self._is_known(firing)
        for row in self.mirror.clocks.values():
            if row.next_run_at is not None:
                self._look(
                    row.next_run_at,
                    self._clock_since.get(row.id, START),
                    end,
                    Waited(
                        self._name(row), row.id, (self._permit(row), self._group(row.job_id)), row.job_id, 0
                    ),
                )
        for due, span, waited in self._late:
            self._judge(span, self._world.database.before(due), waited)

    def _look(self, due: int, since: int, until: int, what: Waited) -> None:
        """Note what waited from `due` (the database's clock), at the earliest `since`, until then, if it was for long."""
        first = max(self._world.database.came(due), since)
        if until - first > self._bound:
            self._late.append((due, (first, until), what))

    def _name(self, row: ClockRow) -> str:
        return f"trigger {self.mirror.triggers[row.id].name} is still due"

    def _permit(self, row: ClockRow) -> str | None:
        return None if row.overlap in ("allow", "skip") else f"job:{row.job_id}"

    def _group(self, job: int) -> str:
        """What is full when the job's group is."""
        return f"in {job_rules(self.mirror.jobs[job].spec).group}"

    def _free_for(self, job: int) -> list[Span]:
        """When some node that can load this job was well and had a place."""
        name, cannot = self.mirror.jobs[job].name, self._world.plan.cannot
        return [span for node, spans in enumerate(self._free) if (node, name) not in cannot for span in spans]

    def _free_on(self, node: int) -> list[Span]:
        """When this node was well and had a place."""
        full: list[Span] = []
        for incarnation, since in self._full.items():
            if (process := self._wellness.process_of(incarnation)) is not None and process.startswith(
                f"n{node}."
            ):
                full += since.until(self._wellness.end)
        end = self._wellness.end
        return overlap(self._wellness.well(node, end), rest(full, START, end))

    def _judge(self, span: Span, blocked: list[Span], waited: Waited) -> None:
        """The longest time in which nothing stood between it and its start."""
        first, last = span
        trigger, firing = waited.trigger, waited.firing
        if trigger is not None and trigger in self._held:
            blocked += self._held[trigger].until(last)
        for permit in filter(None, waited.permits):
            blocked += self._busy[permit].until(last)
        free = longest(overlap(self._free_for(waited.job), rest(blocked, first, last)))
        if free > self._bound:
            self.complain(
                "I20",
                f"{waited.what} {(last - first) / 1e6:.1f} s late at {clock(last)}, {free / 1e6:.1f} s of it on end with a free"
                f" place on a well node and nothing in its way; at most {self._bound / 1e6:.1f} s",
                firing=firing or None,
            )

    def _is_known(self, firing: FiringRow) -> None:
        """What runs at the end runs under a process that has it in hand (I10)."""
        for process in self._world.processes:
            if process is not None and process.parts.hand.holds(firing.id, firing.fence):
                return
        age = self._wellness.end - max(firing.started_at or 0, 0)
        if age > self._bound + self._world.plan.timing.lease:
            self.complain(
                "I10",
                f"runs under incarnation {firing.incarnation}, and nobody has it in hand",
                firing=firing.id,
            )
