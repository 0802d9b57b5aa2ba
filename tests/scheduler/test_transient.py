"""What `transient` means: each error that passes by itself is one, and what stays wrong is none."""

import asyncio
import concurrent.futures
import errno
import http.client
import smtplib
import socket
import sqlite3
import ssl
import subprocess
import urllib.error
from email.message import Message
from typing import Any

import httpx
import psycopg
import pymysql
import pytest
import redis
import requests
import urllib3.exceptions
from qsched.scheduler.errors import PermanentError, StoreUnavailable
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.process_words import outcome_of, outcome_said
from qsched.scheduler.transient import is_transient
from qsched.scheduler.verdict import EndedAttempt, judge
from qsched.triggers.retry import RetryPolicy
from sqlalchemy import exc

TRANSIENT_ONLY = RetryPolicy.fixed(1, "1s", retry_on=["transient"])
REQUEST = httpx.Request("GET", "http://127.0.0.1/")


def of_status(status: int) -> list[Exception]:
    """The error that each library makes of an answer with this status."""
    answer = requests.Response()
    answer.status_code = status
    generic = type("ApiError", (Exception,), {"status_code": status})
    aiohttp_like = type(
        "ClientResponseError", (Exception,), {"__module__": "aiohttp.client_exceptions", "status": status}
    )
    return [
        httpx.HTTPStatusError("no", request=REQUEST, response=httpx.Response(status, request=REQUEST)),
        requests.HTTPError(response=answer),
        urllib.error.HTTPError("http://127.0.0.1/", status, "no", Message(), None),
        generic(),
        aiohttp_like(),
    ]


def aiohttp_error(name: str, *bases: type[BaseException]) -> BaseException:
    """A class of aiohttp's, by its name: nothing else of it is asked for."""
    return type(name, bases or (Exception,), {"__module__": "aiohttp.client_exceptions"})("no")  # type: ignore[no-any-return]


def of_postgresql(state: str | None, text: str = "said") -> psycopg.Error:
    error = psycopg.OperationalError(text)
    error.sqlstate = state
    return error


def of_driver(module: str, name: str, *args: object, **fields: object) -> Exception:
    return type(name, (Exception,), {"__module__": module, **fields})(*args)  # type: ignore[no-any-return]


def in_sqlalchemy(orig: BaseException, kind: type[exc.DBAPIError] = exc.OperationalError) -> exc.DBAPIError:
    return kind("SELECT 1", {}, orig)


def locked(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("said")
    error.sqlite_errorcode = code
    return error


PASSING = [
    TimeoutError(),
    socket.timeout(),  # noqa: UP041
    asyncio.TimeoutError(),  # noqa: UP041
    concurrent.futures.TimeoutError(),
    subprocess.TimeoutExpired("ls", 3),
    ConnectionResetError(),
    ConnectionRefusedError(),
    BrokenPipeError(),
    http.client.RemoteDisconnected("no"),
    http.client.IncompleteRead(b""),
    smtplib.SMTPServerDisconnected(),
    ssl.SSLEOFError(),
    OSError(errno.EHOSTUNREACH, "no route"),
    socket.gaierror(socket.EAI_AGAIN, "later"),
    urllib.error.URLError(TimeoutError()),
    urllib.error.URLError(ConnectionRefusedError()),
    urllib.error.URLError(urllib.error.URLError(ConnectionResetError())),
    httpx.ReadTimeout("no"),
    httpx.ConnectError("no"),
    httpx.RemoteProtocolError("no"),
    httpx.PoolTimeout("no"),
    requests.Timeout(),
    requests.ConnectionError(),
    requests.exceptions.ConnectTimeout(),
    requests.exceptions.ChunkedEncodingError(),
    urllib3.exceptions.ReadTimeoutError(None, "/", "no"),  # type: ignore[arg-type]
    urllib3.exceptions.ProtocolError("aborted"),
    urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.ProtocolError("aborted")),  # type: ignore[arg-type]
    aiohttp_error("ServerDisconnectedError", type(aiohttp_error("ClientConnectionError"))),
    aiohttp_error("ServerTimeoutError", TimeoutError),
    redis.ConnectionError(),
    redis.TimeoutError(),
    StoreUnavailable("it is away"),
    exc.TimeoutError("QueuePool limit reached"),
    *(
        of_postgresql(s)
        for s in ("40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "08006", "08003")
    ),
    of_postgresql(None, "server closed the connection unexpectedly"),
    of_driver("psycopg2.errors", "SerializationFailure", "said", pgcode="40001"),
    of_driver("asyncpg.exceptions", "DeadlockDetectedError", "said", sqlstate="40P01"),
    of_driver("pg8000.exceptions", "DatabaseError", {"C": "40001", "M": "said"}),
    *(
        pymysql.err.OperationalError(code, "said")
        for code in (1205, 1213, 1020, 2003, 2006, 2013, 2055, 4031, 1053)
    ),
    pymysql.err.InterfaceError(0, ""),
    of_driver("MySQLdb", "OperationalError", 1213, "said"),
    of_driver("mysql.connector.errors", "InternalError", "said", errno=1213, sqlstate="40001"),
    sqlite3.OperationalError("database is locked"),
    sqlite3.OperationalError("database table is locked: t"),
    locked(sqlite3.SQLITE_BUSY),
    locked(sqlite3.SQLITE_BUSY_SNAPSHOT),
    locked(sqlite3.SQLITE_LOCKED_SHAREDCACHE),
    in_sqlalchemy(of_postgresql("40P01")),
    in_sqlalchemy(pymysql.err.OperationalError(1213, "said")),
    in_sqlalchemy(locked(sqlite3.SQLITE_BUSY)),
    exc.DBAPIError("SELECT 1", {}, Exception("said"), connection_invalidated=True),
    ExceptionGroup("tasks", [ExceptionGroup("more", [TimeoutError()])]),
    *(error for status in (429, 502, 503, 504) for error in of_status(status)),
]

STAYING = [
    ValueError(),
    KeyError(1205),
    FileNotFoundError(2, "no"),
    PermissionError(errno.EACCES, "no"),
    PermanentError("no"),
    Exception(503),
    socket.gaierror(socket.EAI_NONAME, "unknown"),
    ssl.SSLCertVerificationError(),
    urllib.error.URLError("unknown url type"),
    urllib.error.URLError(socket.gaierror(socket.EAI_NONAME, "unknown")),
    httpx.UnsupportedProtocol("no"),
    httpx.LocalProtocolError("no"),
    httpx.InvalidURL("no"),
    httpx.DecodingError("no"),
    requests.exceptions.SSLError(),
    requests.exceptions.InvalidURL(),
    requests.HTTPError(),  # without an answer
    urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.SSLError("no")),  # type: ignore[arg-type]
    redis.AuthenticationError(),
    *(of_postgresql(state) for state in ("23505", "42P01", "42601", "28P01", "22P02", "42501")),
    of_postgresql("57014", "canceling statement due to user request"),
    of_postgresql(None, 'connection failed: FATAL:  password authentication failed for user "x"'),
    psycopg.ProgrammingError("no"),
    of_driver("asyncpg.exceptions", "UniqueViolationError", "said", sqlstate="23505"),
    *(pymysql.err.OperationalError(code, "said") for code in (1044, 1045, 1049)),
    pymysql.err.IntegrityError(1062, "said"),
    pymysql.err.ProgrammingError(1064, "said"),
    of_driver("mysql.connector.errors", "IntegrityError", "said", errno=1062, sqlstate="23000"),
    sqlite3.IntegrityError("UNIQUE constraint failed"),
    sqlite3.OperationalError("no such table: t"),
    locked(sqlite3.SQLITE_READONLY),
    in_sqlalchemy(of_postgresql("23505"), exc.IntegrityError),
    in_sqlalchemy(pymysql.err.IntegrityError(1062, "said"), exc.IntegrityError),
    exc.NoResultFound(),
    exc.ArgumentError(),
    ExceptionGroup("tasks", [TimeoutError(), ValueError()]),
    *(error for status in (200, 400, 401, 403, 404, 409, 422, 500) for error in of_status(status)),
]


def named(error: BaseException) -> str:
    return f"{type(error).__name__} {str(error)[:40]}"


@pytest.mark.parametrize("error", PASSING, ids=named)
def test_what_passes_by_itself_is_transient(error: BaseException) -> None:
    outcome = Outcome.of_exception(error)
    assert outcome.error_classes[-1] == "transient"
    assert judge(outcome, EndedAttempt(0, 0), policy=TRANSIENT_ONLY, random=lambda: 0.5).retry


@pytest.mark.parametrize("error", STAYING, ids=named)
def test_what_stays_wrong_is_not(error: BaseException) -> None:
    outcome = Outcome.of_exception(error)
    assert "transient" not in outcome.error_classes
    assert not judge(outcome, EndedAttempt(0, 0), policy=TRANSIENT_ONLY, random=lambda: 0.5).retry


def test_an_attempt_that_ran_out_of_its_time_is_transient() -> None:
    assert "transient" in Outcome.timeout(5_000_000).error_classes
    assert "transient" in Outcome.cancelled("timeout").error_classes
    assert "transient" not in Outcome.cancelled("by ada").error_classes


@pytest.mark.parametrize(("name", "passes"), [("http.503", True), ("http.429", True), ("http.404", False),
                                              ("http.²", False), ("ExitCode", False), ("smtp.503", False)])  # fmt: skip
def test_a_failure_without_an_exception_passes_by_its_status(name: str, passes: bool) -> None:
    assert ("transient" in Outcome.failure(name, "no").error_classes) is passes


def test_no_retry_on_knows_the_word_too() -> None:
    policy = RetryPolicy.fixed(1, "1s", no_retry_on=["transient"])
    for error, retried in ((TimeoutError(), False), (ValueError(), True)):
        verdict = judge(Outcome.of_exception(error), EndedAttempt(0, 0), policy=policy, random=lambda: 0.5)
        assert verdict.retry is retried


def test_the_word_stands_beside_names() -> None:
    policy = RetryPolicy.from_declaration({"max_retries": 1, "retry_on": ["transient", "KeyError"]})
    retried = [
        policy.retries(Outcome.of_exception(e).error_classes)
        for e in (KeyError(), TimeoutError(), ValueError())
    ]
    assert retried == [True, True, False]


def test_what_a_worker_process_found_transient_is_so_on_its_node() -> None:
    outcome = Outcome.of_exception(in_sqlalchemy(of_postgresql("40P01")))
    assert outcome_of(outcome_said(outcome)).error_classes == outcome.error_classes


class Hostile(Exception):
    """Whatever is asked of it raises, and not only an Exception."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(3)


class Echo(urllib.error.URLError):
    """Its reason is itself."""

    def __init__(self) -> None:
        super().__init__("x")
        self.reason = self


def test_an_error_whose_attributes_raise_is_not_transient_and_raises_nothing() -> None:
    raising = property(lambda self: (_ for _ in ()).throw(RuntimeError("no")))
    for name in ("status_code", "response", "sqlstate", "errno"):
        assert not is_transient(type("Odd", (Exception,), {name: raising})())
    assert not is_transient(Hostile())
    assert not is_transient(Echo())
    assert not is_transient(type("Odd", (Exception,), {"status_code": [], "sqlstate": 5, "args": 3})())
