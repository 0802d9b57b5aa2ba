"""The row of a cluster: its name among several in one database, and the uuid of its idempotency keys."""

import uuid

from ..errors import StoreError
from .tx import Tx


def find_cluster(tx: Tx, name: str) -> int | None:
    """The id of the cluster called `name`, if there is one."""
    found = tx.run("SELECT id FROM qsched_clusters WHERE name = ?", name).scalar()
    return None if found is None else int(found)


def make_cluster(tx: Tx, name: str) -> int:
    """The id of the cluster called `name`, made now if there is none; whoever else makes it gets the same."""
    if not 1 <= len(name) <= 200 or not name.isprintable() or name != name.strip():
        raise StoreError(
            f"{name!r} cannot name a cluster", hint="use 1 to 200 printable characters, no blank at the ends"
        )
    from .tables import clusters  # imported late: readers need no tables

    # A random uuid: ids begin at 1 in every database, and two that share a mail provider must not share keys.
    row = (name, str(uuid.uuid4()), tx.now())
    tx.insert_missing(clusters, ("name", "uuid", "created_at"), [row])
    return int(tx.run("SELECT id FROM qsched_clusters WHERE name = ?", name).scalar_one())


def cluster_names(tx: Tx) -> list[str]:
    """The clusters of this database."""
    return sorted(row[0] for row in tx.run("SELECT name FROM qsched_clusters"))
