"""Of a limited group no more firings run than its limit, each of them with one permit of the group (I6)."""

from .chronicle import Commit
from .mirror import Check, Moved, Story
from .rows import LimitRow


class LimitsCheck(Check):
    """Looks at a group's permits after each commit that touched them, or what runs by them."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self._left: set[tuple[int | None, int | None]] = set()
        """(firing, fence) that a node left although it ran: its permit is kept until a sweep sees that it is gone"""

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        keys: set[str] = set()
        for move in moves:
            row = move.new or move.old
            if move.table == "permits" and row.permit_key.startswith("group:"):
                keys.add(row.permit_key)
                self._moved(commit, move)
            elif move.table == "group_limits":
                keys.add(row.key)
            elif move.table == "firings":
                keys.update(
                    each.limit_key for each in (move.old, move.new) if each is not None and each.limit_key
                )
                if commit.name == "abandon" and move.old is not None and move.old.state == "running":
                    self._left.add((move.old.id, move.old.fence))
        for key in sorted(keys):
            self._look(commit, key)

    def _moved(self, commit: Commit, move: Moved) -> None:
        """A take has none of those that a lowered limit left over."""
        if (
            commit.name == "take"
            and move.new is not None
            and move.new.n < 0
            and move.new.firing_id is not None
        ):
            self.complain("I6", f"took {move.new.permit_key} {move.new.n}", firing=move.new.firing_id)

    def _look(self, commit: Commit, key: str) -> None:
        permits = self.mirror.permits_of(key)
        limit = next((each for each in self.mirror.limits.values() if each.key == key), None)
        self._numbers(key, limit, sorted(each.n for each in permits if each.n >= 0))
        running = {(row.id, row.fence): row for row in self.mirror.running() if row.limit_key == key}
        held: set[tuple[int, int | None]] = set()
        for permit in permits:
            if permit.firing_id is None:
                continue
            holder = (permit.firing_id, permit.fence)
            if holder in held:
                self.complain("I6", f"it holds two permits of {key}", firing=permit.firing_id)
            held.add(holder)
            if holder not in running and holder not in self._left:
                text = f"{commit.name!r}: it holds permit {permit.n} of {key} and does not run under fence {permit.fence}"
                self.complain("I6", text, firing=permit.firing_id)
        for name in sorted(running.keys() - held):
            self.complain("I6", f"{commit.name!r}: it runs without a permit of {key}", firing=name[0])
        self._see(commit, limit, [each.n for each in permits if each.firing_id is not None])

    def _numbers(self, key: str, limit: LimitRow | None, numbers: list[int]) -> None:
        wanted = 0 if limit is None else limit.most
        if numbers != list(range(wanted)):
            self.complain("I6", f"{key} is limited to {wanted}, and its permits are {numbers}")

    def _see(self, commit: Commit, limit: LimitRow | None, held: list[int]) -> None:
        seen = self.story.history.seen
        if limit is not None and commit.name == "take" and sum(n >= 0 for n in held) == limit.most:
            seen["a group was full"] += 1
        if commit.name == "apply" and any(n < 0 for n in held):
            seen["a limit was lowered below what ran"] += 1
