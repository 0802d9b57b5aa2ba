"""The first schema.

It makes the tables as they are declared today. Before the first release it becomes a frozen copy: from
then on every change of tables.py needs a revision of its own.
"""

from alembic import op
from qsched.scheduler.store.tables import metadata
from qsched.scheduler.store.views import view_statements
from sqlalchemy.schema import CreateIndex, CreateTable

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Each step can be run again: MariaDB keeps the steps before one that failed."""
    for table in metadata.sorted_tables:
        op.execute(CreateTable(table, if_not_exists=True))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            op.execute(CreateIndex(index, if_not_exists=True))
    for statement in view_statements(op.get_context().dialect.name):
        op.execute(statement)
