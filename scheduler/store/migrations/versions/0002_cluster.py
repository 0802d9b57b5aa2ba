"""What a cluster that survives needs to know: its elector, and of each node its session lock, health, drain and verdict."""

import sqlalchemy as sa
from qsched.scheduler.store.migrations.steps import BIG, JSON, column

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns that are not there."""
    column("qsched_clusters", sa.Column("elector", sa.String(10)))
    column("qsched_clusters", sa.Column("fallen_back_at", BIG))
    column("qsched_nodes", sa.Column("check_in", BIG))
    column("qsched_nodes", sa.Column("session_lock", sa.SmallInteger(), nullable=False, server_default="0"))
    column("qsched_nodes", sa.Column("health", JSON))
    column("qsched_nodes", sa.Column("drain_requested_at", BIG))
    column("qsched_nodes", sa.Column("drain_requested_by", sa.String(200)))
    column("qsched_nodes", sa.Column("handed_over", sa.Integer()))
    column("qsched_nodes", sa.Column("dead_verdict", sa.String(10)))
    column("qsched_nodes", sa.Column("marked_by", BIG))
