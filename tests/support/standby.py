"""A PostgreSQL standby: a streaming copy of another private server, which takes no writes until it is promoted."""

import psycopg

from .postgres import PostgresServer
from .processes import run
from .waiting import wait_until


class Standby(PostgresServer):
    """A hot standby of `primary`, which must run when it is first started."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary

    def _prepare(self) -> None:
        command = [
            str(self.binaries / "pg_basebackup"),
            "-D",
            str(self.folder / "data"),
            "-R",
            "-X",
            "stream",
        ]
        where = ["-h", "127.0.0.1", "-p", str(self._primary.port), "-U", "qsched", "-c", "fast"]
        run([*command, *where], self.account, self.folder)

    def wait_in_step(self) -> None:
        """From now on the primary answers a COMMIT only when this standby has it on disk too."""
        self._primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")  # type: ignore[arg-type]
        self._primary.execute("SELECT pg_reload_conf()")  # type: ignore[arg-type]
        wait_until(self._is_synchronous, "the standby to be in step")

    def _is_synchronous(self) -> bool:
        with psycopg.connect(self._primary.url, autocommit=True) as connection:
            found = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall()
        return found == [("sync",)]

    def promote(self) -> None:
        """From now on it is a primary, which waits for no standby of its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
