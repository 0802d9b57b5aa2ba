"""The first schema's ledger: firings, their attempts and outputs, the permits to run, and counts of the past."""

from typing import Any

import sqlalchemy as sa
from qsched.scheduler.store.migrations.steps import BIG, JSON, index, table


def make() -> None:
    """Make the ledger's tables and their indexes, as far as they are not there."""
    _firings()
    _attempts()
    _permits()
    _rollups()
    _outputs()


def _firings_identity() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", BIG, autoincrement=True),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("trigger_id", BIG),
        sa.Column("requested_trigger_id", BIG),
        sa.Column("job_id", BIG, nullable=False),
        sa.Column("trigger_name", sa.String(401)),
        sa.Column("job_name", sa.String(200), nullable=False),
        sa.Column("scheduled_at", BIG, nullable=False),
        sa.Column("first_scheduled_at", BIG, nullable=False),
        sa.Column("covers", BIG, nullable=False),
        sa.Column("reason", sa.String(10), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
    ]


def _firings_run() -> list[sa.Column[Any]]:
    return [
        sa.Column("run_at", BIG, nullable=False),
        sa.Column("precedence", sa.SmallInteger(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("take_no", BIG),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("refires", sa.Integer(), nullable=False),
        sa.Column("recoveries", sa.Integer(), nullable=False),
        sa.Column("incarnation", BIG),
        sa.Column("noticed_at", BIG, nullable=False),
        sa.Column("first_started_at", BIG),
        sa.Column("started_at", BIG),
        sa.Column("finished_at", BIG),
        sa.Column("outcome", sa.String(12)),
        sa.Column("error", JSON),
    ]


def _firings_misfire() -> list[sa.Column[Any]]:
    return [
        sa.Column("note", sa.Text()),
        sa.Column("retry_dropped", sa.String(20)),
        sa.Column("misfire_cause", sa.String(20)),
        sa.Column("misfire_policy", sa.String(10)),
        sa.Column("misfire_decision", sa.String(60)),
        sa.Column("cancel_requested_at", BIG),
        sa.Column("cancel_requested_by", sa.String(200)),
        sa.Column("request_recovery", sa.SmallInteger(), nullable=False),
        sa.Column("max_recoveries", sa.Integer(), nullable=False),
        sa.Column("permit_key", sa.String(100)),
        sa.Column("timeout", BIG),
        sa.Column("next_at", BIG),
        sa.Column("retry_until", BIG),
        sa.Column("data", JSON),
        sa.Column("progress", JSON),
        sa.Column("request_key", sa.String(250)),
        sa.Column("unique_key", sa.String(250)),
        sa.Column("of_firing", BIG),
    ]


def _firings() -> None:
    table(
        "qsched_firings",
        *_firings_identity(),
        *_firings_run(),
        *_firings_misfire(),
        sa.PrimaryKeyConstraint("id", name="pk_qsched_firings"),
        sa.UniqueConstraint("trigger_id", "scheduled_at", name="uq_qsched_firings_trigger_id_scheduled_at"),
        sqlite_autoincrement=True,
        postgresql_with={"fillfactor": "80"},
    )
    index(
        "ix_qsched_firings_due",
        "qsched_firings",
        "cluster",
        "state",
        "run_at",
        "precedence",
        "id",
        where="state = 'due'",
    )
    index(
        "ix_qsched_firings_open_job", "qsched_firings", "job_id", "state", where="state IN ('due', 'running')"
    )
    index(
        "ix_qsched_firings_requested",
        "qsched_firings",
        "requested_trigger_id",
        where="requested_trigger_id IS NOT NULL",
    )
    index("ix_qsched_firings_running", "qsched_firings", "incarnation", "state", where="state = 'running'")
    index(
        "uq_qsched_firings_request_key",
        "qsched_firings",
        "cluster",
        "request_key",
        unique=True,
        where="request_key IS NOT NULL",
    )
    index(
        "uq_qsched_firings_unique_key",
        "qsched_firings",
        "cluster",
        "unique_key",
        unique=True,
        where="unique_key IS NOT NULL",
    )


def _attempts() -> None:
    table(
        "qsched_attempts",
        sa.Column("firing_id", BIG),
        sa.Column("fence", sa.Integer()),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("recovering", sa.SmallInteger(), nullable=False),
        sa.Column("incarnation", BIG),
        sa.Column("started_at", BIG),
        sa.Column("finished_at", BIG, nullable=False),
        sa.Column("outcome", sa.String(12), nullable=False),
        sa.Column("error", JSON),
        sa.Column("note", sa.Text()),
        sa.Column("next_run_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("firing_id", "fence", name="pk_qsched_attempts"),
    )


def _permits() -> None:
    table(
        "qsched_permits",
        sa.Column("cluster", sa.Integer()),
        sa.Column("permit_key", sa.String(100)),
        sa.Column("n", sa.Integer()),
        sa.Column("job_id", BIG),
        sa.Column("firing_id", BIG),
        sa.Column("fence", sa.Integer()),
        sa.PrimaryKeyConstraint("cluster", "permit_key", "n", name="pk_qsched_permits"),
    )
    index("ix_qsched_permits_job_id", "qsched_permits", "job_id")


def _rollups() -> None:
    table(
        "qsched_rollups",
        sa.Column("cluster", sa.Integer()),
        sa.Column("hour", BIG),
        sa.Column("trigger_id", BIG),
        sa.Column("outcome", sa.String(12)),
        sa.Column("firings", BIG, nullable=False),
        sa.Column("slots", BIG, nullable=False),
        sa.Column("lateness", JSON),
        sa.Column("duration", JSON),
        sa.PrimaryKeyConstraint("cluster", "hour", "trigger_id", "outcome", name="pk_qsched_rollups"),
    )


def _outputs() -> None:
    table(
        "qsched_outputs",
        sa.Column("firing_id", BIG),
        sa.Column("fence", sa.Integer()),
        sa.Column("output", JSON, nullable=False),
        sa.PrimaryKeyConstraint("firing_id", "fence", name="pk_qsched_outputs"),
    )
