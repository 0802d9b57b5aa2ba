"""What differs between PostgreSQL, MariaDB and SQLite: URLs, drivers, session settings, the clock, locks."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from sqlalchemy import exc
from sqlalchemy.engine import URL, make_url

from ...triggers.instant import SECOND
from ..errors import StoreError


@dataclass(frozen=True, slots=True)
class Dialect:
    """One database's ways; `share_alive` holds the own node row against mark-dead, not its check-in (E2)."""

    name: str
    now_sql: str
    skip_locked: str
    share_alive: str
    for_update: str


POSTGRESQL = Dialect(
    name="postgresql",
    now_sql="(extract(epoch from clock_timestamp()) * 1000000)::bigint",  # not now(): that is frozen at BEGIN
    skip_locked=" FOR UPDATE SKIP LOCKED",
    share_alive=" FOR KEY SHARE",  # FOR SHARE would make the check-in's UPDATE wait for seconds
    for_update=" FOR UPDATE",
)
MARIADB = Dialect(
    name="mariadb",
    now_sql="CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
    skip_locked=" FOR UPDATE SKIP LOCKED",
    share_alive=" LOCK IN SHARE MODE",
    for_update=" FOR UPDATE",
)
SQLITE = Dialect(  # one writer at a time: BEGIN IMMEDIATE is the lock
    name="sqlite",
    now_sql="CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",  # Tx has a finer clock
    skip_locked="",
    share_alive="",
    for_update="",
)

_DRIVERS = {
    "postgresql": ("postgresql+psycopg", POSTGRESQL, "psycopg", "postgresql"),
    "mariadb": ("mariadb+pymysql", MARIADB, "pymysql", "mysql"),
    "mysql": ("mariadb+pymysql", MARIADB, "pymysql", "mysql"),
    "sqlite": ("sqlite", SQLITE, "sqlite3", ""),
}


def parse_store_url(text: str) -> tuple[URL, Dialect]:
    """The SQLAlchemy URL and dialect of a store URL as users write it; raises StoreError with one next step.

    The error never repeats the URL: it may hold a password.
    """
    hint = "write sqlite:///qsched.db, postgresql://user@host/database or mariadb://user@host/database"
    try:
        url = make_url(text)
    except (
        exc.ArgumentError,
        ValueError,
    ):  # ValueError: a port that is no number, or an unquoted / or @ in a password
        raise StoreError(
            "the store URL cannot be read", hint=f"{hint}; quote / and @ in a password"
        ) from None
    scheme = url.drivername.partition("+")[0]
    if scheme == "postgres":
        scheme = "postgresql"
    if scheme not in _DRIVERS:
        raise StoreError(f"the store URL has an unknown scheme {scheme!r}", hint=hint)
    drivername, dialect, module, extra = _DRIVERS[scheme]
    if find_spec(module) is None:
        raise StoreError(f"the driver {module!r} is not installed", hint=f"pip install 'qsched[{extra}]'")
    if dialect is SQLITE and (url.host or url.username):
        raise StoreError(
            "the store URL names a host", hint="a file is sqlite:///name.db, or sqlite:////full/path.db"
        )
    if dialect is SQLITE and url.query:
        raise StoreError("the URL of an SQLite file has no options", hint="leave out what follows the ?")
    if dialect is MARIADB:
        url = url.update_query_dict({"charset": "utf8mb4"})
    return url.set(drivername=drivername), dialect


_MIGRATION = 3600.0
"""Seconds that one statement of a migration may take: long, and not for ever."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a connection is for; time-outs follow from the lease (µs), lest a stopped node keep its locks."""

    lease: int
    lane: str = "work"
    """work | check_in (every deadline ≤ lease/4, amendment 17) | schema (may take its time)"""
    read_only: bool = False

    @property
    def statement_within(self) -> float | None:
        """Seconds after which the server breaks a statement off. Sooner than ours: its answer is a plain error."""
        lease = self.lease / SECOND
        return {"work": lease, "check_in": lease / 5}.get(self.lane)

    @property
    def answer_within(self) -> float:
        """Seconds after which a server that does not answer is given up, and the connection with it."""
        lease = self.lease / SECOND
        return {"work": lease * 1.25, "check_in": lease / 4}.get(self.lane, _MIGRATION)

    @property
    def connect_within(self) -> float:
        """Seconds after which a connection that does not come about is given up."""
        quarter = self.lease / SECOND / 4
        return quarter if self.lane == "check_in" else max(2.0, quarter)


_READ_FROM_URL = {"options", "ssl_disabled"}
_LOCAL = {"", "localhost", "127.0.0.1", "::1"}


def connect_arguments(dialect: Dialect, url: URL, session: Session) -> dict[str, Any]:
    """The driver's arguments; what the URL's query says wins, session settings are added to its own."""
    if dialect is POSTGRESQL:
        made = _postgresql_arguments(url, session)
    else:
        made = _mariadb_arguments(session) | _mariadb_tls(url)
    return {name: value for name, value in made.items() if name in _READ_FROM_URL or name not in url.query}


def _postgresql_arguments(url: URL, session: Session) -> dict[str, Any]:
    lease = session.lease // 1000
    patient = session.lane == "schema"
    deadline = lease // 4 if session.lane == "check_in" else lease
    settings: dict[str, object] = {
        "default_transaction_isolation": "read\\ committed",
        "idle_in_transaction_session_timeout": 0 if patient else lease // 2,
        "lock_timeout": 60_000 if patient else lease // 4,
        "statement_timeout": max(1, int((session.statement_within or 0) * 1000)) if not patient else 0,
        "timezone": "UTC",
        # A prepared plan made while the ledger is empty would be a scan for ever (measured 1.2-1.6 times);
        # with scans off their cost is what starts the JIT compiler, for 0.1 s and more.
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "jit": "off",
    }
    if session.read_only:
        settings["default_transaction_read_only"] = "on"
    else:
        # What is due is read in the index's order up to its LIMIT; a bitmap or a sort would read the whole backlog first.
        settings |= {"enable_bitmapscan": "off", "enable_sort": "off"}
    own = " ".join(f"-c {name}={value}" for name, value in settings.items())
    given = url.query.get("options", "")
    seconds = max(1, deadline // 1000)
    return {
        "options": f"{own} {given if isinstance(given, str) else ' '.join(given)}".strip(),
        "connect_timeout": math.ceil(max(2.0, session.connect_within)),  # libpq knows no shorter one
        "application_name": "qsched",
        # A partition must not hold a thread longer than its statement may take.
        "tcp_user_timeout": max(1000, deadline),
        "keepalives_idle": max(1, seconds // 2),
        "keepalives_interval": max(1, seconds // 6),
        "keepalives_count": 3,
    }


def _mariadb_arguments(session: Session) -> dict[str, Any]:
    lease = session.lease / SECOND
    patient = session.lane == "schema"
    settings: dict[str, object] = {
        "time_zone": "'+00:00'",
        "sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        # Whole seconds, both of them.
        "innodb_lock_wait_timeout": 60 if patient else max(1, int(lease / 4)),
        "idle_transaction_timeout": 0 if patient else max(1, int(lease / 2)),
        "max_statement_time": session.statement_within or 0,
    }
    return {
        "init_command": "SET SESSION " + ", ".join(f"{name}={value}" for name, value in settings.items()),
        "connect_timeout": session.connect_within,
        "read_timeout": session.answer_within,
        "write_timeout": session.answer_within,
    }


def _mariadb_tls(url: URL) -> dict[str, Any]:
    """No TLS to this machine itself, unless the URL asks for it with an ssl option.

    There it serves nobody, and before each connect PyMySQL reads the machine's certificates: 50 ms of CPU.
    """
    said = url.query.get("ssl_disabled")
    if said is not None:  # PyMySQL takes any text for a yes
        return {"ssl_disabled": str(said).lower() in {"1", "true", "yes", "on"}}
    asked = any(name.startswith(("ssl", "read_default")) for name in url.query)
    return {"ssl_disabled": True} if (url.host or "") in _LOCAL and not asked else {}
