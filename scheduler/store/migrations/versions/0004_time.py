"""More ways to say when: jitter behind a slot, slots that count from the end of the run before."""

import sqlalchemy as sa
from qsched.scheduler.store.migrations.steps import BIG, column

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns that are not there."""
    column("qsched_trigger_clocks", sa.Column("jitter", BIG))
    column("qsched_trigger_clocks", sa.Column("delay", BIG))
