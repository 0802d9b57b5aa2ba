"""How Alembic runs here: on the connection it is given or, to print SQL, on none; without an alembic.ini."""

from alembic import context
from qsched.scheduler.store.schema import VERSION_TABLE

_given = context.config.attributes
if "connection" in _given:
    context.configure(connection=_given["connection"], version_table=VERSION_TABLE)
else:
    context.configure(url=_given["url"], version_table=VERSION_TABLE, literal_binds=True)

with context.begin_transaction():
    context.run_migrations()
