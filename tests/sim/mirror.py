"""The rows as the history says they are, replayed commit by commit; the checks look at it and never at the product."""

from collections import defaultdict
from typing import Any

from .chronicle import Commit, History
from .rows import (
    RECORDED,
    AttemptRow,
    ClockRow,
    ClusterRow,
    FiringRow,
    GroupRow,
    JobRow,
    LimitRow,
    NodeRow,
    PermitRow,
    TriggerRow,
    key_of,
)


class Mirror:
    """What stands in the tables after so many commits."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[Any, Any]] = {table: {} for table in RECORDED}
        self.firings: dict[int, FiringRow] = self.tables["firings"]
        self.attempts: dict[tuple[int, int], AttemptRow] = self.tables["attempts"]
        self.clocks: dict[int, ClockRow] = self.tables["trigger_clocks"]
        self.triggers: dict[int, TriggerRow] = self.tables["triggers"]
        self.jobs: dict[int, JobRow] = self.tables["jobs"]
        self.nodes: dict[int, NodeRow] = self.tables["nodes"]
        self.clusters: dict[int, ClusterRow] = self.tables["clusters"]
        self.permits: dict[tuple[str, int], PermitRow] = self.tables["permits"]
        self.groups: dict[str, GroupRow] = self.tables["paused_groups"]
        self.limits: dict[int, LimitRow] = self.tables["group_limits"]
        self.open_of_job: dict[int, set[int]] = defaultdict(set)
        """{job: its firings that are due or running}"""

    def set(self, table: str, verb: str, row: tuple[Any, ...]) -> tuple[Any, Any]:
        """Apply one change; answers (old, new), None where there is none."""
        rows, key = self.tables[table], key_of(table, row)
        old = rows.get(key)
        if verb == "DELETE":
            rows.pop(key, None)
            return old, None
        new = rows[key] = RECORDED[table]._make(row)
        if table == "firings":
            if new.state in ("due", "running"):
                self.open_of_job[new.job_id].add(new.id)
            else:
                self.open_of_job[new.job_id].discard(new.id)
        return old, new

    def held(self, trigger_id: int | None) -> bool:
        """Whether nothing of this trigger's slots may start: paused, by itself or with its group, or retired."""
        trigger = None if trigger_id is None else self.triggers.get(trigger_id)
        if trigger is None:
            return False
        return (
            trigger.paused_at is not None or trigger.group_name in self.groups or trigger.state == "retired"
        )

    def permits_of(self, key: str) -> list[PermitRow]:
        """All permits of this name: a limited group has as many as its limit."""
        return [permit for permit in self.permits.values() if permit.permit_key == key]

    def running(self) -> list[FiringRow]:
        """What runs now."""
        ids = [each for job in sorted(self.open_of_job) for each in sorted(self.open_of_job[job])]
        return [row for row in map(self.firings.__getitem__, ids) if row.state == "running"]

    def cluster(self) -> ClusterRow | None:
        return next(iter(self.clusters.values()), None)


class Moved:
    """One row's way in one commit: the last values before it, and the values after it; passing states in between left out."""

    __slots__ = ("new", "old", "table")

    def __init__(self, table: str, old: Any, new: Any) -> None:
        self.table = table
        self.old = old
        self.new = new


class Check:
    """What one group of invariants looks at; `commit` sees the mirror as it is after the commit."""

    def __init__(self, story: "Story") -> None:
        self.story = story
        self.mirror = story.mirror

    def before(self, commit: Commit) -> None:
        """The mirror is still as it was before `commit`."""

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        """`commit` moved these rows."""

    def finish(self) -> None:
        """The history is over."""

    def complain(self, code: str, text: str, *, firing: int | None = None) -> None:
        self.story.complain(code, text, firing)


class Story:
    """A history with its mirror and its complaints, replayed for every check."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.mirror = Mirror()
        self.complaints: list[tuple[str, int, str, int | None]] = []
        self._at = 0

    def replay(self, checks: list[Check]) -> None:
        for commit in self.history.commits:
            self._at = commit.at
            for check in checks:
                check.before(commit)
            moves: dict[tuple[str, Any], Moved] = {}
            for table, verb, row in commit.changes:
                old, new = self.mirror.set(table, verb, row)
                move = moves.setdefault((table, key_of(table, row)), Moved(table, old, new))
                move.new = new
            for check in checks:
                check.commit(commit, list(moves.values()))
        for check in checks:
            check.finish()

    def complain(self, code: str, text: str, firing: int | None = None) -> None:
        self.complaints.append((code, self._at, text, firing))
