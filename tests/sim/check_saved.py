"""What a job keeps is what the last run left whose end landed: nobody else writes it, and none is passed over (I24)."""

import json
from collections import Counter

from .chronicle import Body, Commit
from .mirror import Check, Moved, Story
from .rows import FiringRow, JobRow


class SavedCheck(Check):
    """Compares what is kept with what the bodies found and left."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self._bodies = {(body.firing, body.fence): body for body in story.history.bodies}
        self._at_take: dict[tuple[int, int], str | None] = {}
        """{(firing, fence): what its job kept when it was taken}"""
        self._landed: Counter[int] = Counter()
        """{job: how many ends that left something}"""
        self._writer: dict[int, str] = {}
        """{job: the node whose body left what it keeps}"""

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        left: dict[int, Body] = {}
        for move in moves:
            if move.table != "firings" or move.new is None:
                continue
            old, new = move.old, move.new
            if new.state == "running" and (old is None or old.state != "running"):
                self._at_take[new.id, new.fence] = self.mirror.jobs[new.job_id].saved_data
            elif old is not None and old.state == "running" and new.state != "running":
                body = self._left_by(commit, old)
                if body is not None:
                    if old.job_id in left:
                        self.complain("I24", "two ends of one commit left something", firing=old.id)
                    left[old.job_id] = body
        for move in moves:
            if move.table == "jobs" and move.old is not None and move.new is not None:
                self._kept(commit, move.old, move.new, left.get(move.new.id))
        for job_id, body in sorted(left.items()):
            self._lands(job_id, body)

    def _left_by(self, commit: Commit, old: FiringRow) -> Body | None:
        """The body whose end was just written by its own process, if it left something."""
        body = self._bodies.get((old.id, old.fence))
        if body is None or body.saved is None:
            return None
        if commit.actor == body.process and commit.name.startswith("settle"):
            return body
        self.story.history.seen["kept data of a fenced body was refused"] += 1
        return None

    def _kept(self, commit: Commit, old: JobRow, new: JobRow, body: Body | None) -> None:
        if old.saved_data != new.saved_data and (body is None or new.saved_data != body.saved):
            text = f"{commit.name!r} of {commit.actor} made job {new.name} keep {new.saved_data}"
            self.complain("I24", f"{text}, which no end that landed with it has left")

    def _lands(self, job_id: int, body: Body) -> None:
        self._landed[job_id] += 1
        kept = self.mirror.jobs[job_id].saved_data
        if kept != body.saved:
            self.complain("I24", f"it left {body.saved}, and its job keeps {kept}", firing=body.firing)
        elif kept is not None and json.loads(kept)["runs"] != self._landed[job_id]:
            self.complain("I24", f"{kept} after {self._landed[job_id]} ends that count", firing=body.firing)
        node = body.process.partition(".")[0]
        if self._writer.get(job_id, node) != node:
            self.story.history.seen["kept data changed hands between nodes"] += 1
        self._writer[job_id] = node

    def finish(self) -> None:
        """Each body found what was kept when it was taken."""
        for key, body in sorted(self._bodies.items()):
            if body.found is None or key not in self._at_take:
                continue
            kept = self._at_take[key] or "{}"
            if body.found != kept:
                self.complain("I24", f"its body found {body.found}, and {kept} was kept", firing=body.firing)
