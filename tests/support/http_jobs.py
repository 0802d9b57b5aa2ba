"""What tests of http jobs are made of: runs of declared requests, and servers with one answer."""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.http_address import HttpAllow
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import request_for
from qsched.triggers.job import JobDefinition

from .http_server import HttpServer, serving

HERE = HttpAllow.of(["127.0.0.1", "localhost"])


def context(
    url: str, *, timeout: int | None = None, fire: Mapping[str, Any] | None = None, **said: Any
) -> JobContext:
    """A run of an http job; `said` is its request."""
    fields = {name: said.pop(name) for name in ("data", "policies") if name in said}
    definition = JobDefinition(name="call", kind="http", target=url, request=said, **fields)
    asked = replace(request_for(definition), timeout=timeout, fire_data=fire)
    return JobContext(asked, SystemClock())


def answering(status: int = 200, body: str = "", **headers: str) -> AbstractContextManager[HttpServer]:
    """A server that always answers so."""
    return serving(lambda asked: asked.answer(status, body, **headers))


def run_in_background(runner: Runner, ctx: JobContext) -> tuple[threading.Thread, list[Outcome]]:
    """Run it in a thread; what it ended as is in the list then."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(runner.run(ctx)))
    thread.start()
    return thread, outcomes
