"""The first schema. Frozen: a change of tables.py is a later revision, and nothing here follows it."""

import sqlalchemy as sa
from qsched.scheduler.store.migrations import ledger_0001, views_0001
from qsched.scheduler.store.migrations.steps import BIG, JSON, index, table

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table, its indexes, and the views, as far as they are not there."""
    _clusters()
    _nodes()
    _jobs()
    _triggers()
    _trigger_clocks()
    ledger_0001.make()
    _paused_groups()
    _declarations()
    _revisions()
    _calendars()
    _audit()
    views_0001.make()


def _clusters() -> None:
    table(
        "qsched_clusters",
        sa.Column("id", BIG, autoincrement=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("coordination", sa.String(20)),
        sa.Column("epoch", BIG, nullable=False, server_default="0"),
        sa.Column("leader_incarnation", BIG),
        sa.Column("leader_until", BIG),
        sa.Column("tzdata", sa.String(20)),
        sa.Column("defaults", JSON),
        sa.Column("defaults_namespace", sa.String(200)),
        sa.Column("created_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qsched_clusters"),
        sa.UniqueConstraint("name", name="uq_qsched_clusters_name"),
        sqlite_autoincrement=True,
    )


def _nodes() -> None:
    table(
        "qsched_nodes",
        sa.Column("incarnation", BIG, autoincrement=True),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", BIG, nullable=False),
        sa.Column("pid_started_at", BIG),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("started_at", BIG, nullable=False),
        sa.Column("checked_in_at", BIG, nullable=False),
        sa.Column("lease_until", BIG, nullable=False),
        sa.Column("renew_seq", BIG, nullable=False),
        sa.Column("suspected_seq", BIG),
        sa.Column("suspected_at", BIG),
        sa.Column("ended_at", BIG),
        sa.Column("capacity", sa.Integer(), nullable=False),
        sa.Column("running", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("clock_offset", BIG, nullable=False, server_default="0"),
        sa.Column("version", sa.String(40), nullable=False),
        sa.Column("tzdata", sa.String(20)),
        sa.Column("revision", BIG),
        sa.Column("tags", JSON),
        sa.Column("undecidable", JSON),
        sa.Column("unloadable", JSON),
        sa.PrimaryKeyConstraint("incarnation", name="pk_qsched_nodes"),
        sqlite_autoincrement=True,
    )
    index("ix_qsched_nodes_cluster_state", "qsched_nodes", "cluster", "state")


def _jobs() -> None:
    table(
        "qsched_jobs",
        sa.Column("id", BIG, autoincrement=True),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("namespace", sa.String(200), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("definition_digest", sa.String(64), nullable=False),
        sa.Column("loaded", JSON),
        sa.Column("saved_data", JSON),
        sa.Column("created_at", BIG, nullable=False),
        sa.Column("updated_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qsched_jobs"),
        sa.UniqueConstraint("cluster", "name", name="uq_qsched_jobs_cluster_name"),
        sqlite_autoincrement=True,
    )


def _triggers() -> None:
    table(
        "qsched_triggers",
        sa.Column("id", BIG, autoincrement=True),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("group_name", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("namespace", sa.String(200), nullable=False),
        sa.Column("job_id", BIG, nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("spec_version", sa.Integer(), nullable=False),
        sa.Column("definition_digest", sa.String(64), nullable=False),
        sa.Column("schedule_digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("error_kind", sa.String(20)),
        sa.Column("error", sa.Text()),
        sa.Column("error_at", BIG),
        sa.Column("paused_at", BIG),
        sa.Column("paused_by", sa.String(200)),
        sa.Column("paused_until", BIG),
        sa.Column("paused_reason", sa.String(1000)),
        sa.Column("revision", BIG),
        sa.Column("created_at", BIG, nullable=False),
        sa.Column("updated_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qsched_triggers"),
        sa.UniqueConstraint(
            "cluster", "group_name", "name", name="uq_qsched_triggers_cluster_group_name_name"
        ),
        sqlite_autoincrement=True,
    )
    index("ix_qsched_triggers_cluster_namespace", "qsched_triggers", "cluster", "namespace")
    index(
        "ix_qsched_triggers_error", "qsched_triggers", "cluster", "error_kind", where="error_kind IS NOT NULL"
    )
    index("ix_qsched_triggers_job_id", "qsched_triggers", "job_id")
    index(
        "ix_qsched_triggers_paused_until",
        "qsched_triggers",
        "cluster",
        "paused_until",
        where="paused_until IS NOT NULL",
    )


def _trigger_clocks() -> None:
    table(
        "qsched_trigger_clocks",
        sa.Column("id", BIG, autoincrement=False),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("job_id", BIG, nullable=False),
        sa.Column("precedence", sa.SmallInteger(), nullable=False),
        sa.Column("overlap", sa.String(6), nullable=False),
        sa.Column("definition_hash", BIG),
        sa.Column("skip_after", BIG),
        sa.Column("next_fire_at", BIG),
        sa.Column("next_run_at", BIG),
        sa.Column("watermark", BIG),
        sa.Column("version", BIG, nullable=False),
        sa.Column("fires", BIG, nullable=False),
        sa.Column("misfires", BIG, nullable=False),
        sa.Column("last_fire_at", BIG),
        sa.Column("last_misfire_at", BIG),
        sa.Column("retrying", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qsched_trigger_clocks"),
        postgresql_with={
            "fillfactor": "60",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_threshold": "200",
        },
    )
    index(
        "ix_qsched_trigger_clocks_due",
        "qsched_trigger_clocks",
        "cluster",
        "next_run_at",
        "precedence",
        "id",
        where="next_run_at IS NOT NULL",
    )


def _paused_groups() -> None:
    table(
        "qsched_paused_groups",
        sa.Column("cluster", sa.Integer()),
        sa.Column("group_name", sa.String(200)),
        sa.Column("paused_at", BIG, nullable=False),
        sa.Column("paused_by", sa.String(200)),
        sa.Column("paused_until", BIG),
        sa.Column("paused_reason", sa.String(1000)),
        sa.PrimaryKeyConstraint("cluster", "group_name", name="pk_qsched_paused_groups"),
    )


def _declarations() -> None:
    table(
        "qsched_declarations",
        sa.Column("cluster", sa.Integer()),
        sa.Column("namespace", sa.String(200)),
        sa.Column("revision", BIG, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("applied_at", BIG, nullable=False),
        sa.Column("applied_by", sa.String(200)),
        sa.PrimaryKeyConstraint("cluster", "namespace", name="pk_qsched_declarations"),
    )


def _revisions() -> None:
    table(
        "qsched_revisions",
        sa.Column("cluster", sa.Integer()),
        sa.Column("namespace", sa.String(200)),
        sa.Column("digest", sa.String(64)),
        sa.Column("revision", BIG, nullable=False),
        sa.Column("applied_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "namespace", "digest", name="pk_qsched_revisions"),
    )


def _calendars() -> None:
    table(
        "qsched_calendars",
        sa.Column("id", BIG, autoincrement=True),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("namespace", sa.String(200), nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("definition_digest", sa.String(64), nullable=False),
        sa.Column("updated_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qsched_calendars"),
        sa.UniqueConstraint("cluster", "name", name="uq_qsched_calendars_cluster_name"),
        sqlite_autoincrement=True,
    )


def _audit() -> None:
    table(
        "qsched_audit",
        sa.Column("id", BIG, autoincrement=True),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("at", BIG, nullable=False),
        sa.Column("who", sa.String(200)),
        sa.Column("verb", sa.String(40), nullable=False),
        sa.Column("object", sa.String(450), nullable=False),
        sa.Column("detail", JSON),
        sa.PrimaryKeyConstraint("id", name="pk_qsched_audit"),
        sqlite_autoincrement=True,
    )
    index("ix_qsched_audit_cluster_at", "qsched_audit", "cluster", "at")
