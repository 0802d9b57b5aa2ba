"""Who waits for a lock right now, asked of the server itself; and servers that forget what a power cut would cost."""

import re
from collections.abc import Callable, Collection
from typing import Any, Protocol

import psycopg
import pymysql
from sqlalchemy.engine import make_url

from support.servers import MariaServer, PostgresServer


class Waiters(Protocol):
    """A connection of its own that sees who waits."""

    def among(self, sessions: Collection[int]) -> set[int]:
        """Of these sessions, those whose statement waits for a lock of another one."""
        ...

    def close(self) -> None: ...


class PostgresWaiters:
    """pg_blocking_pids: asks the lock table."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def among(self, sessions: Collection[int]) -> set[int]:
        rows = self._connection.execute(
            "SELECT pid FROM unnest(%s::int[]) AS pid WHERE cardinality(pg_blocking_pids(pid)) > 0",
            [list(sessions)],
        )
        return {row[0] for row in rows}

    def close(self) -> None:
        self._connection.close()


class MariaWaiters:
    """InnoDB's own report. (information_schema's INNODB_TRX is a copy, which is not made anew while it is asked often.)"""

    _WAITS = re.compile(r"^LOCK WAIT .*\nMariaDB thread id (\d+),", re.M)

    def __init__(self, url: str) -> None:
        self._connection = pymysql.connect(**maria_arguments(url), autocommit=True)

    def among(self, sessions: Collection[int]) -> set[int]:
        with self._connection.cursor() as cursor:
            cursor.execute("SHOW ENGINE INNODB STATUS")
            row = cursor.fetchone()
        assert row is not None
        _, _, now = row[2].partition("LIST OF TRANSACTIONS")  # before it stands the last deadlock, long over
        return set(sessions) & {int(found) for found in self._WAITS.findall(now)}

    def close(self) -> None:
        self._connection.close()


def waiters_of(url: str) -> Waiters:
    """Whoever can see the waiters of this store's server."""
    return PostgresWaiters(url) if url.startswith("postgresql") else MariaWaiters(url)


def maria_arguments(url: str) -> dict[str, Any]:
    """How PyMySQL connects to a store of ours."""
    parts = make_url(url)
    given = {"host": parts.host, "port": parts.port, "user": parts.username, "password": parts.password}
    return {**given, "database": parts.database, "ssl_disabled": True, "charset": "utf8mb4"}


class ForgetfulPostgres(PostgresServer):
    """No fsync: nobody cuts its power, and thousands of commits cost a tenth. Deadlocks are looked for at once."""

    def _command(self) -> list[str]:
        settings = ("fsync=off", "full_page_writes=off", "deadlock_timeout=10ms", "autovacuum=off")
        return [*super()._command(), *(word for each in settings for word in ("-c", each))]


class ForgetfulMaria(MariaServer):
    """No fsync."""

    def _command(self) -> list[str]:
        return [*super()._command(), "--innodb-flush-method=nosync", "--skip-log-bin"]


SERVERS: dict[str, Callable[[], PostgresServer | MariaServer]] = {
    "postgresql": ForgetfulPostgres,
    "mariadb": ForgetfulMaria,
}
