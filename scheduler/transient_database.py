"""Which errors of database drivers pass by themselves: deadlocks, lock time-outs, serialization failures, lost connections."""

import re
from collections.abc import Iterator
from typing import Final

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_STATES: Final = frozenset(
    {
        *("40001", "40P01", "55P03"),  # serialization failure, deadlock, lock not available
        *(
            "57014",
            "57P01",
            "57P02",
            "57P03",
            "57P05",
        ),  # statement time-out; shutdown, crash, starting; idle for too long
        *("25P03", "25P04"),  # idle in a transaction, or in it, for too long: the connection is closed
        "53300",  # too many connections
    }
)
_CONNECTION_CLASS: Final = "08"
_CANCELLED: Final = "57014"
_BY_SOMEBODY: Final = "user request"

# https://mariadb.com/kb/en/mariadb-error-code-reference/
_CODES: Final = frozenset(
    {
        *(1205, 1213, 1020, 1412),  # lock time-out, deadlock, the record or its table changed under us
        *(1969, 3024),  # the statement's time is over: MariaDB, MySQL
        *(2002, 2003, 2006, 2013, 2055, 4031, 1927),  # the connection
        *(1152, 1158, 1159, 1160, 1161, 1184),  # the network under it
        *(1040, 1203, 1053, 1077, 1079, 1080),  # too many connections; the server leaves
    }
)
_CLOSED: Final = 0
"""PyMySQL's InterfaceError on a connection that is gone."""

_BUSY: Final = frozenset({5, 6, 15})
"""SQLite: BUSY, LOCKED, PROTOCOL (its locks could not be had)."""
_LOCKED: Final = re.compile(r"database( table| schema)? is locked")

_POSTGRESQL: Final = frozenset({"psycopg", "psycopg2", "asyncpg", "pg8000"})
_MYSQL: Final = frozenset({"pymysql", "MySQLdb", "mysql", "mariadb", "asyncmy", "aiomysql"})
_SQLITE: Final = frozenset({"sqlite3", "pysqlite3", "_sqlite3", "aiosqlite", "sqlcipher3"})

NOT_LET_IN: Final = re.compile(
    r"authentication failed|no password supplied|role \".*\" does not exist|database \".*\" does not exist"
    r"|no pg_hba.conf entry|unsupported startup parameter|permission denied for database"
    r"|is not permitted to log in|does not support SSL",
)
"""Before PostgreSQL has let somebody in, its driver gives words and no code."""


def says_transient(error: BaseException) -> bool:
    """Whether a driver's error says so by its code; False for what comes from no driver. May raise what attributes raise."""
    names = {kind.__name__ for kind in type(error).__mro__}
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if "IntegrityError" in names:
        return False
    state = _state(error)
    if state is not None:
        return state.startswith(_CONNECTION_CLASS) or (state in _STATES and not _by_somebody(state, error))
    if packages & _POSTGRESQL:
        return "OperationalError" in names and not NOT_LET_IN.search(str(error))
    if packages & _MYSQL:
        code = _code(error)
        return code in _CODES or (code == _CLOSED and "InterfaceError" in names)
    if packages & _SQLITE and "OperationalError" in names:
        code = getattr(error, "sqlite_errorcode", None)
        return (code & 0xFF) in _BUSY if isinstance(code, int) else bool(_LOCKED.search(str(error)))
    return False


def _by_somebody(state: str, error: BaseException) -> bool:
    """A statement that somebody cancelled has the state of one whose time is over."""
    return state == _CANCELLED and _BY_SOMEBODY in str(error)


def _state(error: BaseException) -> str | None:
    """PostgreSQL's five characters. MySQL's own drivers have a state too: there the code says more."""
    if _code(error) is not None:
        return None
    return next((each for each in _states(error) if isinstance(each, str) and len(each) == 5), None)


def _states(error: BaseException) -> Iterator[object]:
    yield getattr(error, "sqlstate", None)
    yield getattr(error, "pgcode", None)
    first = error.args[0] if error.args else None
    yield first.get("C") if isinstance(first, dict) else None


def _code(error: BaseException) -> int | None:
    for found in (getattr(error, "errno", None), error.args[0] if error.args else None):
        if type(found) is int:
            return found
    return None
