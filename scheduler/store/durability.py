"""Whether the server still has after a crash what it confirmed: asked once, when a store is opened to be written."""

import logging

from .database import Store
from .dialects import MARIADB, POSTGRESQL
from .tx import Tx

log = logging.getLogger("qsched.store")

_QUESTIONS = {
    POSTGRESQL: "SELECT current_setting('synchronous_commit'), current_setting('fsync')",
    MARIADB: "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit",
}
"""SQLite needs none: sqlite_file.py sets it for each connection."""

_SETTINGS = {
    POSTGRESQL: (("synchronous_commit", {"off"}, "on"), ("fsync", {"off"}, "on")),
    MARIADB: (("innodb_flush_log_at_trx_commit", {"0", "2"}, "1"),),
}


def warn_of_lost_commits(store: Store) -> None:
    """Log each setting by which the server may forget at a crash what it had confirmed."""
    question = _QUESTIONS.get(store.dialect)
    if question is None:
        return

    def ask(tx: Tx) -> list[str]:
        return [str(value) for value in tx.run(question).one()]

    found = store.read("ask for the server's durability", ask)
    for (setting, weak, right), value in zip(_SETTINGS[store.dialect], found, strict=True):
        if value in weak:
            log.warning(
                "store.durability setting=%s value=%s: after a crash of the server a slot may run twice; set it to %s",
                setting,
                value,
                right,
            )
