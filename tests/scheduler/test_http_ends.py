"""Http jobs end when they are to end, wherever they wait."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.running import http_line
from qsched.scheduler.running.runner import Runner
from qsched.triggers.instant import SECOND

from support.http_jobs import HERE, answering, context, run_in_background
from support.http_server import Asked, deaf_port, serving
from support.waiting import wait_until


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), http_allow=HERE)
    yield made
    made.close()


def _silent(asked: Asked) -> None:
    server_over.wait(60)


def _drip(asked: Asked) -> None:
    asked.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not server_over.wait(0.01):
        asked.write(b"x")


server_over = threading.Event()


@pytest.mark.parametrize("answers", [_silent, _drip])
def test_a_time_out_ends_a_request_wherever_it_is(runner: Runner, answers: Any) -> None:
    server_over.clear()
    with serving(answers) as server:
        outcome = runner.run(context(server.url, timeout=SECOND // 5))
        server_over.set()
    assert (outcome.kind, outcome.error_type) == ("timed_out", "TimeoutError")


def test_a_time_out_ends_a_connection_that_is_not_answered(runner: Runner) -> None:
    with deaf_port() as port:
        outcome = runner.run(context(f"http://127.0.0.1:{port}/", timeout=SECOND // 5))
    assert outcome.kind == "timed_out"


def test_a_time_out_ends_a_tls_greeting_that_is_not_answered(runner: Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # it takes the connection, and says nothing
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        assert runner.run(context(url, timeout=SECOND // 5)).kind == "timed_out"


def test_a_cancel_ends_a_name_that_is_not_answered(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    asking, over = threading.Event(), threading.Event()
    real = socket.getaddrinfo

    def resolve(host: str, port: int, flags: int = 0, **said: Any) -> Any:
        if flags:
            return real(host, port, flags=flags, **said)
        asking.set()
        over.wait(60)
        raise OSError("no answer")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    ctx = context("http://shop.example/")
    thread, outcomes = run_in_background(runner, ctx)
    assert asking.wait(30)
    ctx.cancel("lease_lost")
    thread.join(30)
    over.set()
    assert [outcome.kind for outcome in outcomes] == ["lost"]


@pytest.mark.parametrize(
    ("reason", "kind"), [("shutdown", "interrupted"), ("by ada", "cancelled"), ("lease_lost", "lost")]
)
def test_a_cancel_ends_a_request_with_its_reason(runner: Runner, reason: str, kind: str) -> None:
    server_over.clear()
    with serving(_silent) as server:
        ctx = context(server.url)
        thread, outcomes = run_in_background(runner, ctx)
        wait_until(lambda: server.asked, "the request")
        ctx.cancel(reason)
        thread.join(30)
        server_over.set()
    assert [outcome.kind for outcome in outcomes] == [kind]


def test_a_cancel_that_came_before_it_began_sends_nothing(runner: Runner) -> None:
    with answering() as server:
        ctx = context(server.url)
        ctx.cancel("by ada")
        assert runner.run(ctx).kind == "cancelled"
    assert server.asked == []


def test_without_a_time_out_silence_ends_it(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_line.Line.__init__, "__defaults__", (0.1,))
    server_over.clear()
    with serving(_silent) as server:
        outcome = runner.run(context(server.url))
        server_over.set()
    assert (outcome.kind, outcome.error_type) == ("failed", "TimeoutError")


def test_no_open_file_is_left(runner: Runner) -> None:
    with answering() as server:
        runner.run(context(server.url))
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            runner.run(context(server.url))
            runner.run(context("http://127.0.0.1:1/"))
        wait_until(
            lambda: len(list(Path("/proc/self/fd").iterdir())) <= before, "the server to close its own"
        )
