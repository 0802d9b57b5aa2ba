"""What a server answered: its status and whether that is a success, its body in bounded memory, when to come again."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import HTTPResponse
from typing import Final

from ...triggers.instant import SECOND, to_instant
from ..outcome import FAILED, MESSAGE_BYTES, Outcome
from ..transient import named_failure
from .command_output import CommandOutput
from .http_secrets import Secrets

MOST_READ: Final = 16 * 1024 * 1024
"""Bytes of a body that are read where `max_response` says nothing else."""
LONGEST_RETRY_AFTER: Final = 3600 * SECOND
REDIRECTS: Final = (301, 302, 303, 307, 308)

_PIECE: Final = 64 * 1024
_SAY_WHEN: Final = (429, 503)
_LONGEST_REASON: Final = 100
_ROOM: Final = 300
"""Bytes of an outcome's text for what is not the body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status with what came with it."""

    status: int
    reason: str
    body: CommandOutput
    """Its beginning and its end."""
    whole: bool
    """False when there was more than was to be read."""
    retry_after: int | None = None
    """Microseconds."""

    def text(self, secrets: Secrets, most: int = MESSAGE_BYTES) -> str:
        """Status and body, in about `most` bytes, without the secrets that the server may have sent back."""
        line = f"{self.status} {secrets.hide(self.reason)}".rstrip()
        rest = "" if self.whole else f"\n… {self.body.size:,} bytes were read, and no more …"
        return f"{line}\n{self.body.shortened(most - _ROOM, secrets.hide).strip()}{rest}".rstrip()

    def success(self, secrets: Secrets) -> Outcome:
        """A status that was expected."""
        return replace(Outcome.success(self.text(secrets)), output=self._kept(secrets))

    def failure(self, secrets: Secrets) -> Outcome:
        """A status that was not expected, under names that `retry_on` can say: `http.503`, `http.5xx`, `HttpStatus`."""
        classes = named_failure(f"http.{self.status}", f"http.{self.status // 100}xx", "qsched.HttpStatus")
        return Outcome(
            FAILED,
            "HttpStatus",
            self.text(secrets),
            error_classes=classes,
            retry_after=self.retry_after,
            output=self._kept(secrets),
        )

    def _kept(self, secrets: Secrets) -> str | None:
        """The body, as far as it was kept, where the outcome's text has no room for it."""
        return None if self.body.size <= MESSAGE_BYTES - _ROOM else self.body.said(secrets.hide)


def is_expected(status: int, statuses: Iterable[str]) -> bool:
    """Whether a status is among `200-299`, `304` and the like."""
    for said in statuses:
        least, _, most = said.partition("-")
        if int(least) <= status <= int(most or least):
            return True
    return False


def read_answer(response: HTTPResponse, most: int, now: int) -> Answer:
    """Read a response to its end, or until `most` bytes were read; raises what the connection raises.

    `now` is this host's time, against which a Retry-After date is read where the server does not say its own.
    """
    body = CommandOutput()
    whole = True
    while piece := response.read1(_PIECE):
        body.add(piece)
        if body.size >= most:
            whole = response.isclosed() or response.length == 0
            break
    if whole and response.length:
        raise ConnectionResetError(f"the answer ended {response.length:,} bytes too early")
    after = _retry_after(response, now) if response.status in _SAY_WHEN else None
    return Answer(response.status, response.reason[:_LONGEST_REASON], body, whole, after)


def _retry_after(response: HTTPResponse, now: int) -> int | None:
    """What the server said, in microseconds, an hour at most; None where it said nothing, or that there is no wait."""
    said = (response.getheader("Retry-After") or "").strip()
    if said.isascii() and said.isdigit():
        wait = int(said[:9]) * SECOND
    elif (at := _date(said)) is not None:
        wait = at - (_date(response.getheader("Date") or "") or now)
    else:
        return None
    return min(wait, LONGEST_RETRY_AFTER) if wait > 0 else None


def _date(text: str) -> int | None:
    try:
        moment = parsedate_to_datetime(text)
        return to_instant(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
