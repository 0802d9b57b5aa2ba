"""Runs an http job: one request, its redirects, and what the answer means."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from ...triggers.declaration_http import MOST_REDIRECTS, SUCCESS
from ...triggers.request_template import method_of
from ..clock import Clock
from ..context import JobContext
from ..errors import JobCancelled, PermanentError
from ..outcome import FAILED, Outcome
from ..transient import named
from .body import BodyTime, outcome_of_error
from .deadlines import Deadlines
from .http_address import HttpAllow
from .http_answer import MOST_READ, REDIRECTS, Answer, is_expected, read_answer
from .http_line import Line
from .http_request import HttpRequest, request_of
from .http_secrets import Secrets

_LONGEST_CAUSE: Final = 500


def run_http(ctx: JobContext, clock: Clock, deadlines: Deadlines, allow: HttpAllow) -> Outcome:
    """Make the request and answer how it ended; never raises.

    A time-out, a cancel and a lost lease end it wherever it is. Nothing that was expanded from the environment is in the
    outcome or in the log.
    """
    definition = ctx.request.job.definition
    job_data = (ctx.request.job.data, ctx.request.trigger_data or {})
    secrets = Secrets.of((definition.target, definition.request, *job_data), os.environ)
    line = Line(clock, allow)
    time = BodyTime(ctx, clock, deadlines)
    try:
        ctx.when_cancelled(line.cut)
        try:
            outcome = _Exchange(definition.request, line, secrets, clock).outcome(request_of(ctx))
        except BaseException as error:
            outcome = _of_error(error, ctx, line)
    finally:
        ctx.when_cancelled(None)
        over = time.over()
        line.close()
    if over and time.timeout is not None:
        outcome = Outcome.timeout(time.timeout)
    outcome = _hidden(outcome, secrets)
    ctx.log.info("%s: %s", _said(ctx), outcome.kind)
    return outcome


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A request and its redirects, over one line."""

    declared: Mapping[str, Any]
    line: Line
    secrets: Secrets
    clock: Clock

    def outcome(self, request: HttpRequest) -> Outcome:
        expected = self.declared.get("expected_status", SUCCESS)
        left = self.declared.get("follow_redirects", MOST_REDIRECTS)
        while True:
            answer, location = self._ask(request)
            if is_expected(answer.status, expected):
                return answer.success(self.secrets)
            if answer.status not in REDIRECTS or location is None or left == 0:
                return answer.failure(self.secrets)
            request = request.redirected(answer.status, location)
            left -= 1

    def _ask(self, request: HttpRequest) -> tuple[Answer, str | None]:
        """One request, and its answer with the place that it points to."""
        server = request.server
        connection = HTTPConnection(server.host, server.port)
        connection.sock = self.line.open(server)
        connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
        headers = {
            "Host": server.name,
            "Accept-Encoding": "identity",
            "Connection": "close",
            **request.headers,
        }
        if request.body is not None:
            headers["Content-Length"] = str(len(request.body))
        for name, text in headers.items():
            connection.putheader(name, text.encode("latin-1"))
        connection.endheaders(request.body)
        with connection.getresponse() as response:
            most = self.declared.get("max_response", MOST_READ)
            return read_answer(response, most, self.clock.wall()), response.getheader("Location")


def _of_error(error: BaseException, ctx: JobContext, line: Line) -> Outcome:
    """What a request that raised ended as; a traceback through http.client tells nobody anything."""
    if line.was_cut and ctx.cancel_reason is not None:
        return outcome_of_error(JobCancelled(ctx.cancel_reason), ctx)
    if isinstance(error, OSError | HTTPException):
        cause = " ".join(str(error).split())[:_LONGEST_CAUSE] or "the server closed the connection"
        return Outcome(FAILED, type(error).__name__, f"{_said(ctx)}: {cause}", error_classes=named(error))
    if isinstance(error, PermanentError):
        return Outcome.failure("PermanentError", f"{_said(ctx)}: {error}", permanent=True)
    return outcome_of_error(error, ctx)


def _said(ctx: JobContext) -> str:
    """The request as it was declared, without what it was expanded to."""
    definition = ctx.request.job.definition
    return f"{method_of(definition.request)} {definition.target}"


def _hidden(outcome: Outcome, secrets: Secrets) -> Outcome:
    def hidden(text: str | None) -> str | None:
        return None if text is None else secrets.hide(text)

    return replace(
        outcome,
        error_message=hidden(outcome.error_message),
        traceback=hidden(outcome.traceback),
        result=hidden(outcome.result),
    )
