"""Every table of the store, once for all three databases; instants are BIGINT microseconds since the epoch, UTC.

Text columns that hold JSON are TEXT on purpose: a broken one is that row's error, not the query's (DESIGN §4). No foreign
keys from history to definitions: history outlives deletes. Flags are 0/1, so that one set of bound values fits all drivers.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects.mysql import LONGTEXT

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

Big = BigInteger().with_variant(Integer, "sqlite")  # SQLite gives rowids only to INTEGER
Json = Text().with_variant(LONGTEXT, "mysql", "mariadb")

_MARIADB: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_nopad_bin",  # names compare byte for byte, trailing blanks included
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_nopad_bin",
}


def _table(name: str, *parts: Any, **options: Any) -> Table:
    return Table(f"qsched_{name}", metadata, *parts, **_MARIADB, **options)


def _id(name: str = "id") -> Column[int]:
    # Never reused, also on SQLite (AUTOINCREMENT): an incarnation or firing id that comes back would defeat fencing.
    return Column(name, Big, primary_key=True, autoincrement=True)


def _when(condition: str) -> dict[str, Any]:
    """A partial index where the database has them; MariaDB has none and gets the whole one."""
    return {"postgresql_where": sql(condition), "sqlite_where": sql(condition)}


clusters = _table(
    "clusters",
    _id(),
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

nodes = _table(
    "nodes",
    _id("incarnation"),
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

jobs = _table(
    "jobs",
    _id(),
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
    UniqueConstraint("cluster", "name"),
    sqlite_autoincrement=True,
)

triggers = _table(
    "triggers",
    _id(),
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
    UniqueConstraint("cluster", "group_name", "name"),  # survives deletion: a tombstone is revived
    Index(None, "cluster", "namespace"),
    Index(None, "job_id"),
    Index("ix_qsched_triggers_paused_until", "cluster", "paused_until", **_when("paused_until IS NOT NULL")),
    Index("ix_qsched_triggers_error", "cluster", "error_kind", **_when("error_kind IS NOT NULL")),
    sqlite_autoincrement=True,
)

# The narrow, hot row that is locked when a trigger is decided (amendment 22). next_run_at is NULL while nothing of the
# trigger may start (paused, error, done, retired), so that the due index holds only what can be due.
trigger_clocks = _table(
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
    Index(
        "ix_qsched_trigger_clocks_due",
        "cluster",
        "next_run_at",
        "precedence",
        "id",
        **_when("next_run_at IS NOT NULL"),
    ),
    postgresql_with={
        "fillfactor": "60",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "200",
    },
)

firings = _table(
    "firings",
    _id(),
    Column("cluster", Integer, nullable=False),
    Column("trigger_id", Big),  # set where the row decides a slot: then (trigger_id, scheduled_at) is unique
    Column("requested_trigger_id", Big),  # set instead where somebody asked: manual, backfill, after
    Column("job_id", Big, nullable=False),
    Column("trigger_name", String(401)),
    Column("job_name", String(200), nullable=False),
    Column("scheduled_at", Big, nullable=False),
    Column("first_scheduled_at", Big, nullable=False),
    Column("covers", Big, nullable=False),
    Column("reason", String(10), nullable=False),
    Column("state", String(10), nullable=False),
    Column("run_at", Big, nullable=False),
    Column("precedence", SmallInteger, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("take_no", Big),
    Column("attempt", Integer, nullable=False),
    Column("refires", Integer, nullable=False),
    Column("recoveries", Integer, nullable=False),
    Column("incarnation", Big),
    Column("noticed_at", Big, nullable=False),
    Column("first_started_at", Big),
    Column("started_at", Big),
    Column("finished_at", Big),
    Column("outcome", String(12)),
    Column("error", Json),  # {"type", "message", "traceback"}, bounded
    Column("note", Text),  # why the next attempt is due, or why there is none
    Column("retry_dropped", String(20)),
    Column("misfire_cause", String(20)),
    Column("misfire_policy", String(10)),
    Column("misfire_decision", String(60)),
    Column("cancel_requested_at", Big),
    Column("cancel_requested_by", String(200)),
    Column("request_recovery", SmallInteger, nullable=False),
    Column("max_recoveries", Integer, nullable=False),
    Column("permit_key", String(100)),
    Column("timeout", Big),
    Column("next_at", Big),
    Column("retry_until", Big),
    Column("data", Json),
    Column("progress", Json),
    Column("request_key", String(250)),
    Column("unique_key", String(250)),
    Column("of_firing", Big),
    UniqueConstraint("trigger_id", "scheduled_at"),
    Index(
        "uq_qsched_firings_request_key",
        "cluster",
        "request_key",
        unique=True,
        **_when("request_key IS NOT NULL"),
    ),
    Index(
        "uq_qsched_firings_unique_key",
        "cluster",
        "unique_key",
        unique=True,
        **_when("unique_key IS NOT NULL"),
    ),
    Index(
        "ix_qsched_firings_due", "cluster", "state", "run_at", "precedence", "id", **_when("state = 'due'")
    ),
    Index("ix_qsched_firings_running", "incarnation", "state", **_when("state = 'running'")),
    Index("ix_qsched_firings_open_job", "job_id", "state", **_when("state IN ('due', 'running')")),
    Index("ix_qsched_firings_requested", "requested_trigger_id", **_when("requested_trigger_id IS NOT NULL")),
    sqlite_autoincrement=True,
    postgresql_with={"fillfactor": "80"},
)

attempts = _table(
    "attempts",
    Column("firing_id", Big, primary_key=True, autoincrement=False),
    Column("fence", Integer, primary_key=True, autoincrement=False),
    Column("cluster", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("recovering", SmallInteger, nullable=False),
    Column("incarnation", Big),
    Column("started_at", Big),
    Column("finished_at", Big, nullable=False),
    Column("outcome", String(12), nullable=False),
    Column("error", Json),
    Column("note", Text),
    Column("next_run_at", Big, nullable=False),
)

permits = _table(
    "permits",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("permit_key", String(100), primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("job_id", Big),  # of a no-overlap job's permit
    Column("firing_id", Big),
    Column("fence", Integer),
    Index(None, "job_id"),
)

paused_groups = _table(
    "paused_groups",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("group_name", String(200), primary_key=True),
    Column("paused_at", Big, nullable=False),
    Column("paused_by", String(200)),
    Column("paused_until", Big),
    Column("paused_reason", String(1000)),
)

declarations = _table(
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
revisions = _table(
    "revisions",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("namespace", String(200), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("revision", Big, nullable=False),
    Column("applied_at", Big, nullable=False),
)

calendars = _table(
    "calendars",
    _id(),
    Column("cluster", Integer, nullable=False),
    Column("name", String(200), nullable=False),
    Column("namespace", String(200), nullable=False),
    Column("spec", Json, nullable=False),
    Column("definition_digest", String(64), nullable=False),
    Column("updated_at", Big, nullable=False),
    UniqueConstraint("cluster", "name"),
    sqlite_autoincrement=True,
)

rollups = _table(
    "rollups",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("hour", Big, primary_key=True, autoincrement=False),
    Column("trigger_id", Big, primary_key=True, autoincrement=False),
    Column("outcome", String(12), primary_key=True),
    Column("firings", Big, nullable=False),
    Column("slots", Big, nullable=False),
    Column("lateness", Json),
    Column("duration", Json),
)

outputs = _table(
    "outputs",
    Column("firing_id", Big, primary_key=True, autoincrement=False),
    Column("fence", Integer, primary_key=True, autoincrement=False),
    Column("output", Json, nullable=False),
)

audit = _table(
    "audit",
    _id(),
    Column("cluster", Integer, nullable=False),
    Column("at", Big, nullable=False),
    Column("who", String(200)),
    Column("verb", String(40), nullable=False),
    Column("object", String(450), nullable=False),
    Column("detail", Json),
    Index(None, "cluster", "at"),
    sqlite_autoincrement=True,
)
