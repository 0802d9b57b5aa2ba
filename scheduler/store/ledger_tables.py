"""The tables of the ledger: firings, their attempts and outputs, the permits that running ones hold, and counts of them all."""

from sqlalchemy import Column, Index, Integer, SmallInteger, String, Text, UniqueConstraint

from .table_parts import Big, Json, id_column, table, when

firings = table(
    "firings",
    id_column(),
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
    Column("limit_key", String(100)),  # the permits of a limited group, of which it needs one beside its own
    Column("unique_until", Big),  # its unique_key is given up then; NULL: when it has ended
    Column("idempotency_key", String(250)),  # the unique key it was enqueued with, kept when that is given up
    UniqueConstraint("trigger_id", "scheduled_at"),
    Index(
        "uq_qsched_firings_request_key",
        "cluster",
        "request_key",
        unique=True,
        **when("request_key IS NOT NULL"),
    ),
    Index(
        "uq_qsched_firings_unique_key",
        "cluster",
        "unique_key",
        unique=True,
        **when("unique_key IS NOT NULL"),
    ),
    Index("ix_qsched_firings_due", "cluster", "state", "run_at", "precedence", "id", **when("state = 'due'")),
    Index("ix_qsched_firings_running", "incarnation", "state", **when("state = 'running'")),
    Index("ix_qsched_firings_open_job", "job_id", "state", **when("state IN ('due', 'running')")),
    Index("ix_qsched_firings_requested", "requested_trigger_id", **when("requested_trigger_id IS NOT NULL")),
    Index(
        "ix_qsched_firings_enqueued",
        "job_id",
        "id",
        **when("trigger_id IS NULL AND requested_trigger_id IS NULL"),
    ).ddl_if(dialect=("postgresql", "sqlite")),  # type: ignore[arg-type]  # several names are documented
    sqlite_autoincrement=True,
    postgresql_with={"fillfactor": "80"},
)

attempts = table(
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

permits = table(
    "permits",
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("permit_key", String(100), primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("job_id", Big),  # of a no-overlap job's permit
    Column("firing_id", Big),
    Column("fence", Integer),
    Index(None, "job_id"),
)

rollups = table(
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

outputs = table(
    "outputs",
    Column("firing_id", Big, primary_key=True, autoincrement=False),
    Column("fence", Integer, primary_key=True, autoincrement=False),
    Column("output", Json, nullable=False),
)
