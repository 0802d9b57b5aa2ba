"""What jobs need beyond their runs: group limits, continuations, unique keys, a status that outlives history, chores."""

import sqlalchemy as sa
from alembic import op
from qsched.scheduler.store.migrations.steps import BIG, JSON, column, index, table

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, indexes and tables that are not there."""
    column("qsched_jobs", sa.Column("followed", sa.SmallInteger(), nullable=False, server_default="0"))
    column("qsched_triggers", sa.Column("after_job_id", BIG))
    column("qsched_triggers", sa.Column("after_on", sa.String(10)))
    column("qsched_trigger_clocks", sa.Column("limit_key", sa.String(100)))
    column("qsched_firings", sa.Column("limit_key", sa.String(100)))
    column("qsched_firings", sa.Column("unique_until", BIG))
    column("qsched_firings", sa.Column("idempotency_key", sa.String(250)))
    index(
        "ix_qsched_triggers_after",
        "qsched_triggers",
        "after_job_id",
        where="after_job_id IS NOT NULL",
    )
    if op.get_context().dialect.name != "mariadb":  # its index of open firings holds all states, and serves
        index(
            "ix_qsched_firings_enqueued",
            "qsched_firings",
            "job_id",
            "id",
            where="trigger_id IS NULL AND requested_trigger_id IS NULL",
        )
    _group_limits()
    _job_status()
    _chores()


def _group_limits() -> None:
    table(
        "qsched_group_limits",
        sa.Column("id", BIG, autoincrement=True),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("namespace", sa.String(200), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.Column("updated_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qsched_group_limits"),
        sa.UniqueConstraint("cluster", "name", name="uq_qsched_group_limits_cluster_name"),
        sqlite_autoincrement=True,
    )


def _job_status() -> None:
    table(
        "qsched_job_status",
        sa.Column("job_id", BIG, autoincrement=False),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("last_success_at", BIG),
        sa.Column("last_failure_at", BIG),
        sa.Column("failures", BIG, nullable=False),
        sa.Column("successes", JSON, nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_qsched_job_status"),
    )


def _chores() -> None:
    table(
        "qsched_chores",
        sa.Column("cluster", sa.Integer(), autoincrement=False),
        sa.Column("name", sa.String(40)),
        sa.Column("due_at", BIG, nullable=False),
        sa.Column("incarnation", BIG),
        sa.Column("done_at", BIG),
        sa.Column("said", JSON),
        sa.PrimaryKeyConstraint("cluster", "name", name="pk_qsched_chores"),
    )
