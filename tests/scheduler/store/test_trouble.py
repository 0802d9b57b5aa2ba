"""What each error of each database means: repeated, lost for now, a conflict, refused; and the one next step it asks for."""

import re
import sqlite3

import psycopg
import pymysql
import pytest
from qsched.scheduler.store.trouble import Trouble, hint_of, trouble_of
from sqlalchemy import exc


def _postgresql_error(state: str, kind: type[psycopg.Error] = psycopg.OperationalError) -> psycopg.Error:
    error = kind("said")
    error.sqlstate = state
    return error


STATES = {
    Trouble.REPEAT: ["40001", "40P01", "55P03", "57014"],
    Trouble.LOST: [
        *("08000", "08001", "08003", "08004", "08006", "08007", "40003"),  # the connection
        *(
            "57P01",
            "57P02",
            "57P03",
            "57P04",
            "57P05",
            "25P03",
            "25P04",
        ),  # ended by an administrator, a crash, a time-out
        *(
            "25006",
            "53300",
            "53100",
            "53200",
            "58030",
        ),  # read-only, full, out of disk or memory, an I/O error
    ],
    Trouble.CONFLICT: ["23505", "23502", "23514", "23P01"],
    Trouble.MISSING: ["42P01"],
    Trouble.REFUSED: ["28P01", "3D000", "42501"],
    Trouble.OTHER: ["42601", "22P02", "22001"],
}
CODES = {
    Trouble.REPEAT: [1205, 1213, 1020, 1317, 1969],
    Trouble.LOST: [
        *(0, 2003, 2006, 2013, 1927, 1053, 1080),  # the connection, or the server leaves
        *(1040, 1129, 1203, 1226, 1135),  # full
        *(1290, 1792, 1836, 1047),  # read-only, or not (yet) part of its cluster
        *(1021, 1114, 1041),  # out of disk or memory
    ],
    Trouble.CONFLICT: [1062, 1048],
    Trouble.MISSING: [1146],
    Trouble.REFUSED: [1044, 1045, 1049, 1046, 1142],
    Trouble.OTHER: [1064, 1406, 1366],
}


@pytest.mark.parametrize("trouble", list(Trouble))
def test_what_each_error_means(trouble: Trouble) -> None:
    for state in STATES[trouble]:
        assert trouble_of(_postgresql_error(state)) is trouble, state
    for code in CODES[trouble]:
        kind = pymysql.err.IntegrityError if code in (1062, 1048) else pymysql.err.OperationalError
        assert trouble_of(exc.DBAPIError("s", (), kind(code, "said"))) is trouble, code


SQLITE = {
    Trouble.REPEAT: [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_BUSY_SNAPSHOT],
    Trouble.LOST: [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM],
    Trouble.REFUSED: [sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB],
}


@pytest.mark.parametrize("trouble", list(SQLITE))
def test_what_each_error_of_sqlite_means(trouble: Trouble) -> None:
    for code in SQLITE[trouble]:
        error = sqlite3.OperationalError("said")
        error.sqlite_errorcode = code
        assert trouble_of(exc.DBAPIError("s", (), error)) is trouble, code


def test_words_without_a_code_are_a_lost_connection_unless_they_say_who_was_not_let_in() -> None:
    lost = [
        "server closed the connection unexpectedly",
        "the connection is lost",
        "connection refused",
        "FATAL:  the database system is starting up",
        "FATAL:  the database system is shutting down",
        "FATAL:  the database system is not yet accepting connections",
        "FATAL:  sorry, too many clients already",
        "FATAL:  remaining connection slots are reserved for non-replication superuser connections",
        "session is read-only",
        "the server did not answer for 3.8 s: timed out",
    ]
    assert {trouble_of(psycopg.OperationalError(text)) for text in lost} == {Trouble.LOST}
    refused = 'connection failed: FATAL:  password authentication failed for user "x"'
    assert trouble_of(psycopg.OperationalError(refused)) is Trouble.REFUSED
    assert trouble_of(pymysql.err.InterfaceError(0, "")) is Trouble.LOST
    torn = pymysql.err.InternalError("Packet sequence number wrong - got 1 expected 2")
    assert trouble_of(exc.DBAPIError("s", (), torn)) is Trouble.LOST
    pooler = psycopg.OperationalError("connection failed: FATAL:  unsupported startup parameter: options")
    assert trouble_of(pooler) is Trouble.REFUSED
    assert re.search("connect directly, or through a pooler that keeps sessions", str(hint_of(pooler)))


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (psycopg.OperationalError("cannot execute UPDATE in a read-only transaction"), "takes writes again"),
        (psycopg.OperationalError("connection failed: session is read-only"), "takes writes again"),
        (
            pymysql.err.OperationalError(1290, "The MariaDB server is running with the --read-only option"),
            "takes writes again",
        ),
        (sqlite3.OperationalError("attempt to write a readonly database"), "may read and write the file"),
        (psycopg.OperationalError("FATAL:  sorry, too many clients already"), "limit of connections"),
        (pymysql.err.OperationalError(1040, "Too many connections"), "limit of connections"),
        (psycopg.OperationalError("the server did not answer for 3.8 s: timed out"), "the server runs"),
        (sqlite3.OperationalError("database or disk is full"), "free space"),
    ],
)
def test_the_next_step_fits_the_database(error: Exception, hint: str) -> None:
    assert hint in str(hint_of(error))
