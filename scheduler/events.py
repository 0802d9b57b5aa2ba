"""Facts: everything that can become of a firing, a trigger or a node, and the event that tells one of them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ..triggers.instant import from_instant
from .firing import CANCELLED, FAILED, LOST, SKIPPED, SUCCEEDED

_FINAL = frozenset((SUCCEEDED, FAILED, LOST, CANCELLED, SKIPPED))


class Fact(StrEnum):
    """What happened. Each is told once, after the transaction that made it true; the words are the glossary's."""

    PLANNED = "planned"
    """A firing that is to run was entered in the ledger: for a slot, or because somebody asked."""
    SKIPPED = "skipped"
    """Slots were decided that do not run; the firing says why."""
    MISFIRED = "misfired"
    """The firing's slots were noticed too late, and its trigger's misfire policy decided over them."""
    STARTED = "started"
    """A node took the firing to run it."""
    SUCCEEDED = "succeeded"
    """An attempt ended well, and the firing with it."""
    FAILED = "failed"
    """An attempt raised, or exited with an error; what follows is told by the next fact, or the firing ends so."""
    TIMED_OUT = "timed_out"
    """An attempt ran longer than its time-out."""
    CANCELLED = "cancelled"
    """A firing ended because that was asked for, or because it may not begin anew."""
    INTERRUPTED = "interrupted"
    """The node's shutdown broke an attempt off."""
    LOST = "lost"
    """The node of an attempt is gone, or had to let go of it."""
    RETRIED = "retried"
    """The firing is due again, after a failure: as a retry, or at once by RetryNow."""
    HANDED_OVER = "handed_over"
    """The firing is due again for any node, after a shutdown."""
    RECOVERED = "recovered"
    """The firing is due again for any node, after its attempt was lost."""
    RETRY_DROPPED = "retry_dropped"
    """A retry that was left was not made: superseded by the next slot, after the trigger's end, or too late."""
    EXHAUSTED = "exhausted"
    """The firing failed for good: its retries are used up."""
    DISCARDED = "discarded"
    """The firing ended cancelled with its retries used up, as `on_exhausted: discard` has it."""
    CANCEL_REQUESTED = "cancel_requested"
    """Somebody, or the next slot, asked a firing to stop."""
    FENCED = "fenced"
    """A late end was refused: others had taken the firing over, and nothing of that end was written."""
    TRIGGER_ERROR = "trigger_error"
    """A trigger is in error: it cannot be decided, or no node can load its job."""
    TRIGGER_ERROR_CLEARED = "trigger_error_cleared"
    """A trigger is in error no more."""
    PAUSED = "paused"
    """A trigger, or a group of them, was paused."""
    RESUMED = "resumed"
    """The pause of a trigger, or of a group, ended."""
    APPLIED = "applied"
    """Declarations of a namespace were applied."""
    OPERATED = "operated"
    """Another act of an operator, as the audit has it: fire, reset, delete, drain, and so on."""
    NODE_UP = "node_up"
    """A node, or a new incarnation of one, began."""
    NODE_LEFT = "node_left"
    """A node stopped of its own accord."""
    NODE_DEAD = "node_dead"
    """A node was declared dead by another."""
    LEADER_CHANGED = "leader_changed"
    """Another node leads, or none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact about one thing. What does not apply is None; instants are microseconds since the epoch, UTC."""

    fact: Fact
    at: int
    trigger: str | None = None
    """The trigger's key; of a paused or resumed group `group/*`."""
    job: str | None = None
    firing: int | None = None
    fence: int = 0
    """Which take of the firing it belongs to; 0: none yet."""
    attempt: int | None = None
    state: str | None = None
    """The firing's state when this had happened."""
    node: str | None = None
    reason: str | None = None
    """In words."""
    cause: str | None = None
    """Of a misfire, with the `policy` that decided and what it `decision` was."""
    policy: str | None = None
    decision: str | None = None

    @property
    def datetime(self) -> datetime:
        """`at` as an aware datetime, UTC."""
        return from_instant(self.at)

    @property
    def final(self) -> bool:
        """Whether the firing has ended with this."""
        return self.state in _FINAL
