"""Every table of the store but the ledger's: who there is, what is declared, and what was done about it.

Text columns that hold JSON are TEXT on purpose: a broken one is that row's error, not the query's (DESIGN §4). No foreign
keys from history to definitions: history outlives deletes. Flags are 0/1, so that one set of bound values fits all drivers.
"""

from sqlalchemy import Column, Index, Integer, SmallInteger, String, Text, UniqueConstraint

from . import ledger_tables
from .table_parts import Big, Json, id_column, metadata, table, when

__all__ = [
    "audit", "calendars", "chores", "clusters", "declarations", "group_limits", "job_status", "jobs", "ledger_tables",
    "metadata", "nodes", "paused_groups", "revisions", "trigger_clocks", "triggers",
]  # fmt: skip

clusters = table(
    "clusters",
    id_column(),
    Column("name", String(200), nullable=False),
    Column("uuid", String(36), nullable=False),  # part of default idempotency keys (amendment 10)
    Column("coordination", String(20)),  # unset until the first node starts
    Column("epoch", Big, nullable=False, server_default="0"),
    Column("leader_incarnation", Big),
    Column("leader_until", Big),
    Column("tzdata", String(20)),  # the newest zone data that next fires were computed with
    Column("defaults", Json),  # cluster-wide retry, overlap, …
    Column("defaults_namespace", String(200)),
    Column("created_at", Big, nullable=False),
    Column("elector", String(10)),  # of leader mode: sql | redis
    Column("fallen_back_at", Big),  # row locks for the time being: the elector's Redis is lost
    UniqueConstraint("name"),
    sqlite_autoincrement=True,
)

nodes = table(
    "nodes",
    id_column("incarnation"),
    Column("cluster", Integer, nullable=False),
    Column("name", String(200), nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Big, nullable=False),
    Column("pid_started_at", Big),
    Column("state", String(12), nullable=False),  # up | draining | stopped | dead
    Column("started_at", Big, nullable=False),
    Column("checked_in_at", Big, nullable=False),
    Column("lease_until", Big, nullable=False),
    Column("renew_seq", Big, nullable=False),
    Column("suspected_seq", Big),
    Column("suspected_at", Big),
    Column("ended_at", Big),
    Column("capacity", Integer, nullable=False),
    Column("running", Integer, nullable=False, server_default="0"),
    Column("clock_offset", Big, nullable=False, server_default="0"),
    Column("version", String(40), nullable=False),
    Column("tzdata", String(20)),
    Column("revision", Big),
    Column("tags", Json),
    Column("undecidable", Json),  # {trigger id: [since, reason]}: this node could not decide them
    Column("unloadable", Json),  # {job id: [since, reason]}: this node could not load them
    Column("check_in", Big),  # µs between check-ins: two of them silent, and a freed session lock counts
    Column(
        "session_lock", SmallInteger, nullable=False, server_default="0"
    ),  # the check-in's connection has it
    Column("health", Json),  # {loop: reason}: what is red on this node
    Column("drain_requested_at", Big),
    Column("drain_requested_by", String(200)),
    Column("handed_over", Integer),  # of a stopped one: how many bodies its drain broke off
    Column("dead_verdict", String(10)),  # silent | gone, of a dead one
    Column("marked_by", Big),  # the incarnation that wrote the verdict
    Index(None, "cluster", "state"),
    sqlite_autoincrement=True,
)

jobs = table(
    "jobs",
    id_column(),
    Column("cluster", Integer, nullable=False),
    Column("name", String(200), nullable=False),
    Column("namespace", String(200), nullable=False),
    Column("state", String(12), nullable=False),  # active | retired
    Column("spec", Json, nullable=False),
    Column("definition_digest", String(64), nullable=False),
    Column("loaded", Json),  # the decorator's policies, from the first node that loaded the function
    Column("saved_data", Json),
    Column("created_at", Big, nullable=False),
    Column("updated_at", Big, nullable=False),
    Column("followed", SmallInteger, nullable=False, server_default="0"),  # some trigger runs after it
    UniqueConstraint("cluster", "name"),
    sqlite_autoincrement=True,
)

triggers = table(
    "triggers",
    id_column(),
    Column("cluster", Integer, nullable=False),
    Column("group_name", String(200), nullable=False),
    Column("name", String(200), nullable=False),
    Column("namespace", String(200), nullable=False),
    Column("job_id", Big, nullable=False),
    Column("spec", Json, nullable=False),
    Column("spec_version", Integer, nullable=False),
    Column("definition_digest", String(64), nullable=False),
    Column("schedule_digest", String(64), nullable=False),
    Column("state", String(12), nullable=False),  # waiting | done | error | retired
    Column("error_kind", String(20)),  # poison | undecidable | unloadable
    Column("error", Text),
    Column("error_at", Big),
    Column("paused_at", Big),
    Column("paused_by", String(200)),
    Column("paused_until", Big),
    Column("paused_reason", String(1000)),
    Column("revision", Big),
    Column("created_at", Big, nullable=False),
    Column("updated_at", Big, nullable=False),
    Column("after_job_id", Big),  # of a continuation: it has no slots, but follows this job's ends
    Column("after_on", String(10)),  # succeeded | failed | any
    UniqueConstraint("cluster", "group_name", "name"),  # survives deletion: a tombstone is revived
    Index(None, "cluster", "namespace"),
    Index(None, "job_id"),
    Index("ix_qsched_triggers_paused_until", "cluster", "paused_until", **when("paused_until IS NOT NULL")),
    Index("ix_qsched_triggers_error", "cluster", "error_kind", **when("error_kind IS NOT NULL")),
    Index("ix_qsched_triggers_after", "after_job_id", **when("after_job_id IS NOT NULL")),
    sqlite_autoincrement=True,
)

# The narrow, hot row that is locked when a trigger is decided (amendment 22). next_run_at is NULL while nothing of the
# trigger may start (paused, error, done, retired), so that the due index holds only what can be due.
trigger_clocks = table(
    "trigger_clocks",
    Column("id", Big, primary_key=True, autoincrement=False),  # the trigger's
    Column("cluster", Integer, nullable=False),
    Column("job_id", Big, nullable=False),
    Column("precedence", SmallInteger, nullable=False),  # 100 - priority: an index ordered one way only
    Column("overlap", String(6), nullable=False),  # the job's effective one
    Column(
        "definition_hash", Big
    ),  # of definition_digest: a node that knows it need not read the definition again
    Column("skip_after", Big),  # threshold of a trigger whose misfires are skipped: decided without capacity
    Column("next_fire_at", Big),
    Column("next_run_at", Big),
    Column("watermark", Big),
    Column("version", Big, nullable=False),
    Column("fires", Big, nullable=False),
    Column("misfires", Big, nullable=False),
    Column("last_fire_at", Big),
    Column("last_misfire_at", Big),
    Column("retrying", SmallInteger, nullable=False),  # a retry of an earlier slot may be waiting
    Column("limit_key", String(100)),  # the permits of its job's limited group
    Column("jitter", Big),  # how far next_run_at may lie behind next_fire_at
    Column("delay", Big),  # its next slot counts from the end of its firing, whoever writes that
    Index(
        "ix_qsched_trigger_clocks_due",
        "cluster",
        "next_run_at",
        "precedence",
        "id",
        **when("next_run_at IS NOT NULL"),
    ),
    postgresql_with={
        "fillfactor": "60",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "200",
    },
)

group_limits = table(
    "group_limits",
    id_column(),  # permits are named by it
    Column("cluster", Integer, nullable=False),
    Column("name", String(200), nullable=False),
    Column("namespace", String(200), nullable=False),
    Column("most", Integer, nullable=False),  # firings of the group's jobs that run at once
    Column("updated_at", Big, nullable=False),
    UniqueConstraint("cluster", "name"),
    sqlite_autoincrement=True,
)

# What pruned firings of a job left behind; the rest of a job's status is read from the ledger.
job_status = table(
    "job_status",
    Column("job_id", Big, primary_key=True, autoincrement=False),
    Column("cluster", Integer, nullable=False),
    Column("last_success_at", Big),
    Column("last_failure_at", Big),
    Column("failures", Big, nullable=False),  # pruned ones since the last success
    Column("successes", Json, nullable=False),  # {attempt: how many pruned firings succeeded with it}
)

# What one node of the cluster does for all, from time to time: whoever moves `due_at` on does it.
chores = table(
    "chores",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("name", String(40), primary_key=True),
    Column("due_at", Big, nullable=False),
    Column("incarnation", Big),
    Column("done_at", Big),
    Column("said", Json),  # what was done last, for people
)

paused_groups = table(
    "paused_groups",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("group_name", String(200), primary_key=True),
    Column("paused_at", Big, nullable=False),
    Column("paused_by", String(200)),
    Column("paused_until", Big),
    Column("paused_reason", String(1000)),
)

declarations = table(
    "declarations",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("namespace", String(200), primary_key=True),
    Column("revision", Big, nullable=False),
    Column("digest", String(64), nullable=False),  # of the definitions that were applied
    Column("state", String(12), nullable=False),  # applying | applied
    Column("applied_at", Big, nullable=False),
    Column("applied_by", String(200)),
)

# Every revision a namespace ever had, so that an older replica is known for what it carries.
revisions = table(
    "revisions",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("namespace", String(200), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("revision", Big, nullable=False),
    Column("applied_at", Big, nullable=False),
)

calendars = table(
    "calendars",
    id_column(),
    Column("cluster", Integer, nullable=False),
    Column("name", String(200), nullable=False),
    Column("namespace", String(200), nullable=False),
    Column("spec", Json, nullable=False),
    Column("definition_digest", String(64), nullable=False),
    Column("updated_at", Big, nullable=False),
    UniqueConstraint("cluster", "namespace", "name"),  # namespaces may include one shared file
    sqlite_autoincrement=True,
)

audit = table(
    "audit",
    id_column(),
    Column("cluster", Integer, nullable=False),
    Column("at", Big, nullable=False),
    Column("who", String(200)),
    Column("verb", String(40), nullable=False),
    Column("object", String(450), nullable=False),
    Column("detail", Json),
    Index(None, "cluster", "at"),
    sqlite_autoincrement=True,
)
