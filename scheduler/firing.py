"""A firing: the recorded decision for a slot (or for somebody's request), and its states."""

from typing import Final, NamedTuple

DUE = "due"
RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
LOST = "lost"
CANCELLED = "cancelled"
SKIPPED = "skipped"

BACKFILL = "backfill"
"""The reason of a firing of a slot that passed, asked for by somebody."""

MAX_RECOVERIES = 3
"""How often a firing may be recovered where its job does not say."""
LARGEST_ID: Final = 2**63 - 1
"""No row has a larger one."""


def precedence(priority: int) -> int:
    """Order among what is due at one instant: a higher priority comes first in an index that only ascends."""
    return 100 - priority


def permit_key(job_id: int) -> str:
    """The permit of a no-overlap job."""
    return f"job:{job_id}"


def serial_key(trigger_id: int) -> str:
    """The permit of a trigger whose missed slots run one at a time (`fire_all`)."""
    return f"trigger:{trigger_id}"


def limit_key(group_id: int) -> str:
    """The permits of a limited group."""
    return f"group:{group_id}"


def stops_with(reason: str, trigger_id: int | None, requested_trigger_id: int | None) -> int | None:
    """The trigger whose pause holds a firing, and without which it ends: that of its slot, or the one that follows; of what
    people asked for, none."""
    return requested_trigger_id if reason == "after" else trigger_id


class NewFiring(NamedTuple):
    """A ledger row about to be inserted; the fields are the columns of qsched_firings, instants in µs."""

    cluster: int
    trigger_id: int | None
    requested_trigger_id: int | None
    job_id: int
    trigger_name: str | None
    job_name: str
    scheduled_at: int
    first_scheduled_at: int
    covers: int
    reason: str
    state: str
    run_at: int
    precedence: int
    noticed_at: int
    fence: int = 0
    take_no: int | None = None
    attempt: int = 0
    refires: int = 0
    recoveries: int = 0
    incarnation: int | None = None
    first_started_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    misfire_cause: str | None = None
    misfire_policy: str | None = None
    misfire_decision: str | None = None
    request_recovery: int = 0
    max_recoveries: int = 3
    permit_key: str | None = None
    timeout: int | None = None
    next_at: int | None = None
    retry_until: int | None = None
    note: str | None = None
    data: str | None = None
    request_key: str | None = None
    of_firing: int | None = None
    limit_key: str | None = None
    """The permits of its job's limited group, of which it needs one."""
