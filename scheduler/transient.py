"""Which errors pass by themselves: the one word `transient` that `retry_on` knows beside names of exceptions.

Time-outs, lost connections, answers 429, 502, 503 and 504, and what databases say of deadlocks, lock time-outs and
serialization failures. No library is imported for it: classes are known by their dotted names, the rest by attributes.
"""

import errno
import socket
from collections.abc import Iterable
from typing import Final

from ..triggers.error_names import TRANSIENT, error_classes, matches
from .transient_database import says_transient

STATUSES: Final = frozenset({429, 502, 503, 504})
"""Answers of a server that is busy, or is not there just now."""
_STATUS_NAMES: Final = frozenset(f"http.{status}" for status in STATUSES)

_PASSING: Final = (
    "builtins.TimeoutError",  # also what socket, asyncio and concurrent.futures raise, since Python 3.11
    "builtins.ConnectionError",
    "subprocess.TimeoutExpired",
    "http.client.IncompleteRead",
    "ssl.SSLEOFError",
    "ssl.SSLZeroReturnError",
    "smtplib.SMTPServerDisconnected",
    "qsched.StoreUnavailable",
    "sqlalchemy.exc.TimeoutError",  # no connection of the pool was free in time
    "httpx.TransportError",  # its time-outs are among these
    "httpcore.TimeoutException",
    "httpcore.NetworkError",
    "httpcore.RemoteProtocolError",
    "requests.Timeout",
    "requests.ConnectionError",
    "requests.ChunkedEncodingError",
    "urllib3.TimeoutError",
    "urllib3.ProtocolError",
    "urllib3.NewConnectionError",
    "aiohttp.ClientConnectionError",
    "aiohttp.ClientPayloadError",
    "redis.ConnectionError",
    "redis.TimeoutError",
)
_STAYING: Final = (
    "httpx.UnsupportedProtocol",
    "httpx.LocalProtocolError",
    "requests.SSLError",
    "aiohttp.ClientConnectorCertificateError",
    "redis.AuthenticationError",
    "redis.AuthorizationError",
    "ssl.SSLCertVerificationError",
)
"""Made of one of the above, and yet the same at the next try."""
_UNREACHABLE: Final = {
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.EHOSTDOWN,
    errno.ENETUNREACH,
    errno.ENETDOWN,
    errno.ENETRESET,
}
_WRAPPERS: Final = ("urllib.error.URLError", "urllib3.MaxRetryError")
_DEEPEST: Final = 4
"""A wrapper's reason may be a wrapper; one that is its own reason ends here."""


def named(error: BaseException) -> tuple[str, ...]:
    """The dotted names of an error's classes, and behind them the word `transient` where it passes by itself."""
    classes = error_classes(error)
    return (*classes, TRANSIENT) if is_transient(error) else classes


def named_failure(*names: str) -> tuple[str, ...]:
    """The names of a failure that is no exception; of an HTTP status (`http.503`) that passes by itself, `transient` too."""
    return (*names, TRANSIENT) if any(name in _STATUS_NAMES for name in names) else names


def is_transient(error: BaseException) -> bool:
    """Whether trying again later may help. Never raises, whatever the error's own attributes do; in doubt it is False.

    Of what an error was caused by, only SQLAlchemy's `orig`, and the `reason` of urllib's and urllib3's wrappers, are looked at.
    """
    try:
        return _passes(error, _DEEPEST)
    except BaseException:  # a property of somebody's class may raise anything
        return False


def _passes(error: BaseException, depth: int) -> bool:
    classes = error_classes(error)
    if matches(_STAYING, classes):
        return False
    if matches(_PASSING, classes) or _unreachable(error):
        return True
    if _status(error, classes) in STATUSES:
        return True
    if depth and matches(_WRAPPERS, classes):
        reason = getattr(error, "reason", None)
        return isinstance(reason, BaseException) and _passes(reason, depth - 1)
    if matches(("sqlalchemy.DBAPIError",), classes):
        return _of_sqlalchemy(error, depth)
    return says_transient(error)


def _unreachable(error: BaseException) -> bool:
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, OSError) and error.errno in _UNREACHABLE


def _status(error: BaseException, classes: Iterable[str]) -> object:
    """The status of the answer that an error was made from: an int, or whatever stands in its place."""
    if matches(("urllib.error.HTTPError",), classes):
        return _whole(getattr(error, "code", None))
    if matches(("aiohttp.ClientResponseError",), classes):
        return _whole(getattr(error, "status", None))
    found = getattr(error, "status_code", None)
    if found is None:
        found = getattr(getattr(error, "response", None), "status_code", None)
    return _whole(found)


def _whole(value: object) -> int | None:
    """`value` where it is a number (and can be looked for in a set)."""
    return int(value) if isinstance(value, int) else None


def _of_sqlalchemy(error: BaseException, depth: int) -> bool:
    if getattr(error, "connection_invalidated", False) is True:
        return True
    orig = getattr(error, "orig", None)
    return isinstance(orig, BaseException) and depth > 0 and _passes(orig, depth - 1)
