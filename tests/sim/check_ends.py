"""How an attempt may end: as its body did, retried by the policy, recovered if asked, each with its record (I5 I7 I16 I17)."""

from collections import Counter
from typing import Any

from .check_firings import FINAL, FiringsCheck
from .chronicle import Body, Commit
from .mirror import Check, Moved, Story
from .oracle import SECOND, declared, job_rules
from .rows import AttemptRow, FiringRow


class EndsCheck(Check):
    """Compares what was settled with what the bodies really did, and with the policies' arithmetic."""

    def __init__(self, story: Story, firings: FiringsCheck) -> None:
        super().__init__(story)
        self._firings = firings
        self._bodies: dict[tuple[int, int], Body] = {}
        self.ended: dict[tuple[int, int], tuple[Commit, FiringRow, AttemptRow | None]] = {}
        """{(firing, fence): the commit that ended it, the row then, its attempts row if it goes on}"""
        for body in story.history.bodies:
            key = (body.firing, body.fence)
            if key in self._bodies:
                self.complain("I2", f"two bodies of one take (fence {body.fence})", firing=body.firing)
            self._bodies[key] = body

    def commit(self, commit: Commit, moves: list[Moved]) -> None:
        for move in moves:
            old, new = move.old, move.new
            if (
                move.table != "firings"
                or old is None
                or new is None
                or old.state != "running"
                or new.state == "running"
            ):
                continue
            key = (old.id, old.fence)
            attempt = self.mirror.attempts.get(key)
            self.ended[key] = (commit, new, attempt)
            if attempt is not None or new.state in FINAL:
                self._judge(commit, old, new, attempt)

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def _judge(self, commit: Commit, old: FiringRow, new: FiringRow, attempt: AttemptRow | None) -> None:
        outcome = new.outcome if attempt is None else attempt.outcome
        if attempt is not None and (attempt.attempt, attempt.incarnation) != (old.attempt, old.incarnation):
            self.complain("I4", f"its attempt's record says {attempt}", firing=new.id)
        if outcome == "succeeded":
            self._expect(new, new.state == "succeeded", "a success is no success")
        elif outcome == "cancelled":
            self._expect(new, new.state == "cancelled", f"cancelled, and {new.state}")
        elif outcome == "interrupted":
            asked = old.request_recovery and not self._gone(old)
            self._expect(
                new, (new.state == "due") == bool(asked), f"interrupted, recovery={asked}, and {new.state}"
            )
            self._expect(new, new.recoveries == old.recoveries, "an interruption counted as a recovery")
        elif outcome == "lost":
            self._lost(commit, old, new)
        else:
            self._failed(commit, old, new, attempt)

    def _gone(self, row: FiringRow) -> bool:
        trigger = self.mirror.triggers.get(row.slot_of or 0)
        return trigger is None or trigger.state == "retired"

    def _expect(self, row: FiringRow, true: bool, text: str, code: str = "I7") -> None:
        if not true:
            self.complain(code, text, firing=row.id)

    def _lost(self, commit: Commit, old: FiringRow, new: FiringRow) -> None:
        """Due again if and only if it was asked for and its recoveries are not used up (I5)."""
        if old.cancel_requested_at is not None or (old.trigger_id is not None and self._gone(old)):
            return
        again = bool(old.request_recovery) and old.recoveries < old.max_recoveries
        if commit.name == "abandon":
            again = False
        self._expect(new, (new.state == "due") == again, f"lost, recovery={again}, and {new.state}", "I5")
        if new.state == "due":
            self.story.history.seen["recovery"] += 1
            self._expect(new, new.recoveries == old.recoveries + 1, "a recovery was not counted", "I5")
            self._expect(new, new.attempt == old.attempt, "a recovery burnt a retry", "I5")

    def _failed(self, commit: Commit, old: FiringRow, new: FiringRow, attempt: AttemptRow | None) -> None:
        """Failed or timed out: what the retry policy says, no more and no less (I7)."""
        body = self._bodies.get((old.id, old.fence))
        policy = self._policy(old)
        retries = 0 if policy is None else policy["max_retries"]
        if new.state == "due" and attempt is not None:
            wait = new.run_at - attempt.finished_at
            if new.refires == old.refires + 1:
                self._expect(new, body is not None and body.retry_now, "run again at once, unasked")
                self._expect(
                    new,
                    new.refires <= 10 and wait == 0 and new.attempt == old.attempt,
                    "a refire out of line",
                )
                return
            least, most = _delays(policy, old.attempt + 1)
            self._expect(new, new.attempt == old.attempt + 1 <= retries, f"retry {new.attempt} of {retries}")
            self._expect(new, least <= wait <= most, f"a retry {wait / 1e6:.3f} s after the failure")
            fits = old.next_at is None or new.run_at + SECOND < old.next_at
            self._expect(new, fits, "a retry that the next slot overtakes")
            self.story.history.seen["retry"] += 1
            return
        if body is None or body.ended is None:
            return
        if body.permanent or (body.retry_now and old.refires < 10):
            asked_not_to = self._gone(old) or old.cancel_requested_at is not None
            self._expect(new, body.permanent or asked_not_to, "RetryNow was not heard")
        elif old.attempt >= retries:
            self.story.history.seen["retry exhausted"] += retries > 0
        else:
            self._expect(
                new,
                self._may_drop(old, new, policy, commit),
                f"a retry that was due was not made ({new.retry_dropped})",
            )

    def _may_drop(self, old: FiringRow, new: FiringRow, policy: Any, commit: Commit) -> bool:
        if self._gone(old) or old.cancel_requested_at is not None:
            return True
        if old.next_at is None:
            return False
        clock_row = self.mirror.clocks.get(old.trigger_id or 0)
        if clock_row is not None and (clock_row.watermark or 0) >= old.next_at:
            return True
        return (new.finished_at or commit.now) + _delays(policy, old.attempt + 1)[1] + SECOND >= old.next_at

    def _policy(self, row: FiringRow) -> dict[str, Any] | None:
        trigger = self.mirror.triggers.get(row.slot_of or 0)
        if trigger is not None and (said := declared(trigger.spec).retry) is not None:
            return said
        return job_rules(self.mirror.jobs[row.job_id].spec).retry

    # -- bodies --------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        self._each_release_unbegun()
        self._attempts_add_up()

    def _each_release_unbegun(self) -> None:
        for key in self._firings.released:
            if key in self._bodies:
                self.complain(
                    "I4", f"released under fence {key[1]} although its body had begun", firing=key[0]
                )

    def _attempts_add_up(self) -> None:
        """A firing's counters are what its attempts' records say."""
        lost: Counter[int] = Counter()
        failed: Counter[int] = Counter()
        for row in self.mirror.attempts.values():
            lost[row.firing_id] += row.outcome == "lost"
            failed[row.firing_id] += row.outcome in ("failed", "timed_out")
        for firing in self.mirror.firings.values():
            if firing.recoveries != lost[firing.id]:
                self.complain(
                    "I4",
                    f"{firing.recoveries} recoveries, and {lost[firing.id]} lost attempts",
                    firing=firing.id,
                )
            if firing.attempt + firing.refires != failed[firing.id]:
                self.complain(
                    "I4", f"attempt {firing.attempt}, and {failed[firing.id]} failed ones", firing=firing.id
                )


def _delays(policy: Any, number: int) -> tuple[int, int]:
    """The least and the most that may lie between a failure and its retry number `number`, µs."""
    if policy is None:
        return 0, 0
    delay = policy.get("delay", 10 * SECOND) * policy.get("multiplier", 1) ** (number - 1)
    jitter, cap = policy.get("jitter", 0), policy.get("max_delay") or (1 << 60)
    delay = min(delay, cap)
    return int(delay * (1 - jitter)) - 1, min(int(delay * (1 + jitter)) + 1, cap)
