"""The rows whose every change is recorded: which columns, and what they are called afterwards."""

from typing import Any, NamedTuple


class FiringRow(NamedTuple):
    id: int
    trigger_id: int | None
    requested_trigger_id: int | None
    job_id: int
    scheduled_at: int
    first_scheduled_at: int
    covers: int
    reason: str
    state: str
    run_at: int
    fence: int
    take_no: int | None
    attempt: int
    refires: int
    recoveries: int
    incarnation: int | None
    noticed_at: int
    first_started_at: int | None
    started_at: int | None
    finished_at: int | None
    outcome: str | None
    misfire_policy: str | None
    misfire_cause: str | None
    misfire_decision: str | None
    cancel_requested_at: int | None
    request_recovery: int
    max_recoveries: int
    permit_key: str | None
    next_at: int | None
    request_key: str | None
    retry_dropped: str | None
    note: str | None
    limit_key: str | None
    of_firing: int | None

    @property
    def slot_of(self) -> int | None:
        """The trigger that it fires for, whether by its schedule or because somebody asked."""
        return self.trigger_id or self.requested_trigger_id

    @property
    def stops_with(self) -> int | None:
        """The trigger whose pause holds it: that of its slot, or the continuation; none of what people asked for."""
        return self.requested_trigger_id if self.reason == "after" else self.trigger_id


class AttemptRow(NamedTuple):
    firing_id: int
    fence: int
    attempt: int
    recovering: int
    incarnation: int | None
    started_at: int | None
    finished_at: int
    outcome: str
    next_run_at: int


class ClockRow(NamedTuple):
    id: int
    job_id: int
    overlap: str
    next_fire_at: int | None
    next_run_at: int | None
    watermark: int | None
    version: int
    fires: int
    misfires: int
    retrying: int
    limit_key: str | None


class TriggerRow(NamedTuple):
    id: int
    job_id: int
    group_name: str
    name: str
    state: str
    paused_at: int | None
    paused_until: int | None
    error_kind: str | None
    error: str | None
    spec: str
    after_job_id: int | None
    after_on: str | None


class JobRow(NamedTuple):
    id: int
    name: str
    spec: str
    saved_data: str | None


class NodeRow(NamedTuple):
    incarnation: int
    name: str
    state: str
    started_at: int
    checked_in_at: int
    lease_until: int
    renew_seq: int
    suspected_seq: int | None
    suspected_at: int | None
    ended_at: int | None
    capacity: int
    running: int
    check_in: int | None
    dead_verdict: str | None
    marked_by: int | None


class ClusterRow(NamedTuple):
    id: int
    coordination: str | None
    elector: str | None
    epoch: int
    leader_incarnation: int | None
    leader_until: int | None
    fallen_back_at: int | None


class PermitRow(NamedTuple):
    permit_key: str
    n: int
    job_id: int | None
    firing_id: int | None
    fence: int | None


class LimitRow(NamedTuple):
    id: int
    name: str
    most: int

    @property
    def key(self) -> str:
        """What its permits are called."""
        return f"group:{self.id}"


class GroupRow(NamedTuple):
    group_name: str
    paused_at: int
    paused_until: int | None


RECORDED: dict[str, type[Any]] = {
    "firings": FiringRow,
    "attempts": AttemptRow,
    "trigger_clocks": ClockRow,
    "triggers": TriggerRow,
    "jobs": JobRow,
    "nodes": NodeRow,
    "clusters": ClusterRow,
    "permits": PermitRow,
    "paused_groups": GroupRow,
    "group_limits": LimitRow,
}

KEYS: dict[str, int] = {"attempts": 2, "permits": 2}
"""How many leading columns are the key; one where nothing is said."""


def key_of(table: str, row: tuple[Any, ...]) -> Any:
    """What names a row in its table."""
    return row[0] if table not in KEYS else row[: KEYS[table]]


def triggers_sql() -> list[str]:
    """SQLite triggers that tell `sim_saw` of every row that is inserted, updated or deleted."""
    made = []
    for table, kind in RECORDED.items():
        for verb, which in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            values = ",".join(f"{which}.{name}" for name in kind._fields)
            made.append(
                f"CREATE TRIGGER sim_{table}_{verb} AFTER {verb} ON qsched_{table}"
                f" BEGIN SELECT sim_saw('{table}','{verb}',{values}); END"
            )
        if table in KEYS:  # a row whose key changes is another one from then on
            keys = kind._fields[: KEYS[table]]
            gone = ",".join(f"OLD.{name}" for name in kind._fields)
            differs = " OR ".join(f"OLD.{name} <> NEW.{name}" for name in keys)
            made.append(
                f"CREATE TRIGGER sim_{table}_MOVED AFTER UPDATE ON qsched_{table} WHEN {differs}"
                f" BEGIN SELECT sim_saw('{table}','DELETE',{gone}); END"
            )
    return made
