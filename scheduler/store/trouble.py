"""What a database error means for whoever met it, and the one next step for a person who reads it."""

import enum
import re
import sqlite3

from sqlalchemy import exc

from ..transient_database import NOT_LET_IN


class Trouble(enum.Enum):
    """What a database error means."""

    REPEAT = "repeat"  # deadlock victim, lock time-out, busy: normal, run the transaction again
    LOST = "lost"  # out of reach, full or read-only for now: it may come back, and what it did is unknown
    CONFLICT = "conflict"  # a constraint said no
    MISSING = "missing"  # there is no such table
    REFUSED = "refused"  # the server understood, and says no until somebody changes something
    OTHER = "other"


# 57014 is the statement time-out; 55P03 the lock time-out; 40xxx serialisation and deadlocks.
_REPEAT_STATES = {"40001", "40P01", "55P03", "57014"}
# Read-only (25006) is a demoted server: the next connection may reach the new one. 25P03: idle for too long. 40003: nobody
# knows whether it was committed.
_LOST_CLASSES = ("08", "53", "57P", "58")
_LOST_STATES = {"25006", "25P03", "25P04", "40003"}
_REFUSED_CLASSES = ("28", "3D", "42501", "3F")

_REPEAT_CODES = {1205, 1213, 1020, 1317, 1412, 1969, 3024}
_CONFLICT_CODES = {1062, 1048, 1452, 4025}
_REFUSED_CODES = {1044, 1045, 1046, 1049, 1142, 1227, 1370, 1698, 1130}
_LOST_CODES = {
    *(0, 2002, 2003, 2006, 2013, 2014, 2045, 2055, 1927, 4031),  # the connection
    *(1152, 1156, 1158, 1159, 1160, 1161, 1184, 1835),  # the network under it
    *(1040, 1129, 1203, 1226, 1047, 1053, 1077, 1079, 1080, 1290, 1836, 1792),  # full, leaving, read-only
    *(1021, 1030, 1114, 1180),  # the disk
    *(1037, 1038, 1041, 1135, 1206, 1637),  # memory, threads, transactions
}

_BUSY = {5, 6, 9, 15, 17}  # BUSY, LOCKED, INTERRUPT, PROTOCOL, SCHEMA
_FOR_NOW = {7, 10, 13, 14}  # NOMEM, IOERR, FULL, CANTOPEN (also: no file descriptor left)
_NO = {3, 8, 11, 23, 26}  # PERM, READONLY, CORRUPT, AUTH, NOTADB

_OUT_OF_STEP = "Packet sequence number wrong"
"""PyMySQL, without a code, on a connection on which an answer was not read to its end."""


def trouble_of(error: BaseException) -> Trouble:
    """What `error`, raised by SQLAlchemy or a driver, means."""
    cause: BaseException | None = error.orig if isinstance(error, exc.DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause)
    if type(cause).__module__.startswith("psycopg"):
        state = getattr(cause, "sqlstate", None)
        return _of_state(state) if isinstance(state, str) else _of_words(cause)
    code = _code(cause)
    if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
        return Trouble.LOST
    if code is None and _OUT_OF_STEP in str(cause):
        return Trouble.LOST
    return _of_code(code, type(cause).__name__)


def words_of(error: BaseException) -> str:
    """What the driver said, on one line; never a row's or statement's values, which may hold a secret."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    said = getattr(getattr(cause, "diag", None), "message_primary", None)
    if said is None and isinstance(cause, Exception):
        said = cause.args[1] if len(cause.args) > 1 and isinstance(cause.args[0], int) else str(cause)
    return " ".join(str(said).split())[:300]


def _of_state(state: str) -> Trouble:
    if state in _REPEAT_STATES:
        return Trouble.REPEAT
    if state.startswith("23"):
        return Trouble.CONFLICT
    if state in _LOST_STATES or state.startswith(_LOST_CLASSES):
        return Trouble.LOST
    if state == "42P01":
        return Trouble.MISSING
    return Trouble.REFUSED if state.startswith(_REFUSED_CLASSES) else Trouble.OTHER


def _of_words(cause: BaseException | None) -> Trouble:
    if type(cause).__name__ not in ("OperationalError", "InterfaceError", "ConnectionTimeout"):
        return Trouble.OTHER
    return Trouble.REFUSED if NOT_LET_IN.search(str(cause)) else Trouble.LOST


def _of_code(code: int | None, name: str) -> Trouble:
    if code in _REPEAT_CODES:
        return Trouble.REPEAT
    if code in _CONFLICT_CODES or name == "IntegrityError":
        return Trouble.CONFLICT
    if code == 1146:
        return Trouble.MISSING
    if code in _REFUSED_CODES:
        return Trouble.REFUSED
    return Trouble.LOST if code in _LOST_CODES or name == "InterfaceError" else Trouble.OTHER


def _of_sqlite(cause: sqlite3.Error) -> Trouble:
    if isinstance(cause, sqlite3.IntegrityError):
        return Trouble.CONFLICT
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        return Trouble.REPEAT
    if str(cause).startswith("no such table"):
        return Trouble.MISSING
    if code in _NO:
        return Trouble.REFUSED
    return Trouble.LOST if code in _FOR_NOW else Trouble.OTHER


def _code(cause: BaseException | None) -> int | None:
    first = cause.args[0] if cause is not None and cause.args else None
    return first if isinstance(first, int) else None


POOLER_HINT = "connect directly, or through a pooler that keeps sessions (its session mode) and passes a session's settings"
"""A node's time-outs are session settings."""

_HINTS = (
    (
        r"password authentication failed|no password supplied|Access denied for user .*\(using password",
        "check user and password of the store URL; special characters in a password are written as %XX",
    ),
    (r"role \".*\" does not exist", "create the user, or name another in the store URL"),
    (
        r"database \".*\" does not exist|Unknown database",
        "create the database first (CREATE DATABASE …): qsched makes tables, not databases",
    ),
    (r"No database selected", "name the database at the end of the store URL"),
    (
        r"denied for user .* to database|permission denied for (schema|database)|command denied|no schema has been",
        "let this user create tables there, or let somebody who may run what `qsched db sql` prints",
    ),
    (r"no pg_hba.conf entry|Host .* is not allowed", "let the server accept this host and user"),
    (
        r"unsupported startup parameter",
        # To have the pooler ignore them would let it in, and a stopped node keep its locks for ever.
        POOLER_HINT,
    ),
    (
        r"resolve|Name or service not known|nodename nor servname|getaddrinfo",
        "check the host name of the store URL",
    ),
    (
        r"refused|timeout|timed out|No route|unreachable|No such file or directory",
        "check that the server runs, and host and port of the store URL",
    ),
    (r"disk is full|No space left|could not extend", "free space on the database's disk"),
    (r"not a database", "the file is something else: name another in the store URL"),
    (r"malformed", "restore the file from a backup; `sqlite3 FILE .recover` saves what is left"),
    (
        r"read-only transaction|--read-only|READ ONLY transaction|session is read-only|not accept.* writes",
        "wait until it takes writes again, or name the server that does: this is a standby, or one that was demoted",
    ),
    (
        r"readonly database|read-only|unable to open database file",
        "check that this user may read and write the file and its folder",
    ),
    (
        r"too many|connection slots|exceeded the '\w*connections",
        "raise the server's limit of connections, or let fewer processes use it",
    ),
)


def hint_of(error: BaseException) -> str | None:
    """The one next step that the driver's words ask for, where they are known."""
    said = words_of(error)
    return next((hint for pattern, hint in _HINTS if re.search(pattern, said, re.I)), None)
