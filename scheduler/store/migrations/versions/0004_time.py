"""More ways to say when: jitter behind a slot, slots that count from the end of the run before, calendars by namespace."""

import sqlalchemy as sa
from alembic import op
from qsched.scheduler.store.migrations.steps import BIG, JSON, column, table

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns that are not there, and make the table of calendars anew."""
    column("qsched_trigger_clocks", sa.Column("jitter", BIG))
    column("qsched_trigger_clocks", sa.Column("delay", BIG))
    _calendars()


def _calendars() -> None:
    # Nothing has ever been written to it: no version before this one knows calendars. What it holds when this is run again
    # is a register that the next apply writes anew.
    op.execute("DROP TABLE IF EXISTS qsched_calendars")
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
        sa.UniqueConstraint(
            "cluster", "namespace", "name", name="uq_qsched_calendars_cluster_namespace_name"
        ),
        sqlite_autoincrement=True,
    )
