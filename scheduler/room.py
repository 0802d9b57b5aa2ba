"""The room of a cluster: what the live nodes can start now. A leader makes no more due than that; the rest stays undecided."""

import json
from collections.abc import Collection

from .store.room_rows import LiveNode


class _Node:
    """One live node: its free places, the tags it bears, the jobs it says it cannot load."""

    def __init__(self, row: LiveNode) -> None:
        self.free = max(0, row.capacity - row.running)
        self.tags = frozenset(map(str, _read(row.tags, list)))
        self._unloadable = frozenset(_read(row.unloadable, dict))

    def can(self, tags: Collection[str], job_id: int) -> bool:
        return self.tags.issuperset(tags) and str(job_id) not in self._unloadable


class Room:
    """Of one planning transaction. A place that is given away is gone, on a node that could use it.

    `kept` places are for what is on time alone, although a backlog of firings that wait already could use them.
    """

    def __init__(self, rows: Collection[LiveNode]) -> None:
        self._nodes = [_Node(row) for row in rows]
        self.kept = 0

    def free(self) -> int:
        """How many places are free in all."""
        return sum(node.free for node in self._nodes)

    def keep(self, places: int) -> None:
        """Keep so many for what is on time."""
        self.kept = max(0, places)

    def has_any(self, tags: Collection[str], job_id: int) -> bool:
        """Whether some node could run this, now or when it has a place."""
        return any(node.can(tags, job_id) for node in self._nodes)

    def free_for(self, tags: Collection[str], job_id: int, *, on_time: bool = False) -> int:
        """How many free places could run this."""
        free = sum(node.free for node in self._nodes if node.can(tags, job_id))
        return free + self.kept if on_time else free

    def take(self, tags: Collection[str], job_id: int, *, on_time: bool = False) -> bool:
        """Give a place away: on a node with as few tags as will do, for those with many may be wanted by others."""
        able = [node for node in self._nodes if node.free and node.can(tags, job_id)]
        if able:
            min(able, key=lambda node: (len(node.tags), -node.free)).free -= 1
            return True
        if on_time and self.kept:
            self.kept -= 1
            return True
        return False


def _read(text: str | None, kind: type[list[object]] | type[dict[str, object]]) -> Collection[object]:
    """What a node row says, in JSON; what cannot be read says nothing."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return ()
    return found if isinstance(found, kind) else ()
