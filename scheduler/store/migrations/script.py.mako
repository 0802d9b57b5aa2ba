"""${message}."""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Each step can be run again: MariaDB keeps the steps before one that failed."""
    ${upgrades if upgrades else "raise NotImplementedError"}
