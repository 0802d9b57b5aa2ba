"""Http jobs against a real server: what is sent, and what an answer means."""

import json
import tracemalloc
from collections.abc import Iterator
from email.utils import format_datetime
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.runner import Runner
from qsched.triggers.instant import SECOND, from_instant
from qsched.triggers.job import JobPolicies
from qsched.triggers.retry import RetryPolicy

from support.http_jobs import HERE, answering, context
from support.http_server import Asked, serving


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), http_allow=HERE)
    yield made
    made.close()


def test_a_get_that_is_answered_has_succeeded_and_the_answer_is_the_result(runner: Runner) -> None:
    with answering(200, "all well") as server:
        outcome = runner.run(context(f"{server.url}/health?deep=1"))
    assert outcome == Outcome.success("200 OK\nall well")
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("GET", "/health?deep=1", b"")
    assert asked.headers["Idempotency-Key"] == '"cluster/test/2024-01-10T00:00:00Z"'
    assert asked.headers["User-Agent"].startswith("qsched/0.")
    assert asked.headers["Host"] == f"127.0.0.1:{server.port}"
    assert "Content-Length" not in asked.headers


@pytest.mark.parametrize(
    ("said", "body", "kind"),
    [
        ({"method": "PUT"}, '{"base":"EUR","n":[1]}', "application/json"),
        (
            {"json": [1, "${SHOP}", {"{base}": "{base}"}]},
            '[1,"books",{"{base}":"{base}"}]',
            "application/json",
        ),
        ({"body": "shop=${SHOP} {base}"}, "shop=books {base}", "text/plain; charset=utf-8"),
        ({"body": "<a/>", "headers": {"content-type": "text/xml"}}, "<a/>", "text/xml"),
    ],
)
def test_a_body_is_what_was_declared_or_the_runs_data(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], body: str, kind: str
) -> None:
    monkeypatch.setenv("SHOP", "books")
    with answering() as server:
        assert (
            runner.run(context(server.url, data={"base": "EUR"}, fire={"n": [1]}, **said)).kind == "succeeded"
        )
    (asked,) = server.asked
    assert (asked.body.decode(), asked.headers.get("Content-Type", asked.headers.get("content-type"))) == (
        body,
        kind,
    )
    assert asked.method == said.get("method", "POST")


def test_data_stand_in_url_and_headers_and_are_never_expanded(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "{order}")
    with answering() as server:
        url = f"{server.url}/orders/{{order.id}}?q={{q}}"
        headers = {"Authorization": "Bearer ${TOKEN}", "X-Q": "{q}"}
        fire = {"order": {"id": "a/b?c#d é"}, "q": "${TOKEN}"}
        assert runner.run(context(url, headers=headers, fire=fire)).kind == "succeeded"
    (asked,) = server.asked
    assert asked.path == "/orders/a%2Fb%3Fc%23d%20%C3%A9?q=%24%7BTOKEN%7D"
    assert (asked.headers["Authorization"], asked.headers["X-Q"]) == ("Bearer {order}", "${TOKEN}")


def test_the_key_template_makes_the_idempotency_key_which_a_declared_header_replaces(runner: Runner) -> None:
    policies = JobPolicies(key='mail "{id}" ğ')
    with answering() as server:
        runner.run(context(server.url, policies=policies, fire={"id": 7}))
        runner.run(context(server.url, fire={"id": 7}, headers={"idempotency-key": "order-{id}"}))
    first, second = server.asked
    assert first.headers["Idempotency-Key"] == '"mail \\"7\\" %C4%9F"'
    assert [text for name, text in second.headers.items() if name.lower() == "idempotency-key"] == ["order-7"]


@pytest.mark.parametrize(
    ("said", "fire", "message"),
    [
        ({"headers": {"X-A": "{a}"}}, {"a": "x\r\nHost: evil"}, "the header X-A holds a line break"),
        ({"headers": {"X-A": "${EVIL}"}}, {}, "the header X-A holds a line break"),
        ({"headers": {"X-A": "{a}"}}, {"a": "日"}, "the header X-A holds a line break, or another character"),
        ({"url": "/{a}"}, {}, "the url names a, which the data do not have"),
        ({"url": "/{a}/x"}, {"a": ".."}, "would lead to another path"),
        ({"url": "/{a}"}, {"a": [1]}, "no text or number"),
        ({"url": "/${EVIL}"}, {}, "a url holds no blanks"),
    ],
)
def test_what_cannot_be_sent_fails_for_good_and_is_named_without_its_value(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], fire: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("EVIL", "s3cret\r\nX: y")
    with answering() as server:
        outcome = runner.run(context(server.url + said.pop("url", ""), fire=fire, **said))
    assert (outcome.kind, outcome.error_type, outcome.permanent) == ("failed", "PermanentError", True)
    assert message in str(outcome.error_message)
    assert "s3cret" not in repr(outcome)
    assert server.asked == []


def test_data_cannot_choose_the_host_behind_a_variable(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASE", "http://127.0.0.1")
    outcome = runner.run(context("${BASE}{more}", fire={"more": ".evil.example"}))
    assert "data must not choose the host" in str(outcome.error_message)


@pytest.mark.parametrize(
    ("status", "expected", "kind"),
    [
        (204, None, "succeeded"),
        (404, None, "failed"),
        (304, None, "failed"),
        (304, ["200-299", "304"], "succeeded"),
        (200, ["201"], "failed"),
        (302, ["302"], "succeeded"),
    ],
)
def test_the_expected_statuses_are_successes(
    runner: Runner, status: int, expected: list[str] | None, kind: str
) -> None:
    said: dict[str, Any] = {} if expected is None else {"expected_status": expected}
    with answering(status, location="/elsewhere") as server:
        assert runner.run(context(server.url, **said)).kind == kind
    assert len(server.asked) == 1 or status == 302


def test_another_status_is_a_failure_with_names_that_a_policy_can_say(runner: Runner) -> None:
    with answering(503, "the shop is closed") as server:
        outcome = runner.run(context(server.url))
    assert (outcome.kind, outcome.error_type) == ("failed", "HttpStatus")
    assert outcome.error_message == "503 Service Unavailable\nthe shop is closed"
    for name in ("http.503", "http.5xx", "HttpStatus", "transient"):
        policy = RetryPolicy.from_declaration({"max_retries": 1, "retry_on": [name]})
        assert policy.retries(outcome.error_classes), name
    assert not RetryPolicy.fixed(1, "1s", retry_on=["http.429"]).retries(outcome.error_classes)


NOON = 1_704_888_000 * SECOND


@pytest.mark.parametrize(
    ("status", "after", "date", "seconds"),
    [
        (429, "7", None, 7),
        (503, "7", None, 7),
        (500, "7", None, None),
        (429, "0", None, None),
        (429, "soon", None, None),
        (429, "86400", None, 3600),
        (429, "9" * 5000, None, 3600),
        (429, format_datetime(from_instant(NOON + 30 * SECOND), usegmt=True), NOON, 30),
        (429, format_datetime(from_instant(NOON - 30 * SECOND), usegmt=True), NOON, None),
        (429, "Wed, 10 Jan 2024 12:00:30 -0000", NOON, 30),
        (429, "Wed, 10 Jan 2024 12:00:30", NOON, 30),
        (429, "Wed, 99 Foo 2024 12:00:00 GMT", NOON, None),
    ],
)
def test_retry_after_is_heard(
    runner: Runner, status: int, after: str, date: int | None, seconds: int | None
) -> None:
    def answer(asked: Asked) -> None:
        said = format_datetime(from_instant(date), usegmt=True) if date is not None else "nonsense"
        head = f"HTTP/1.1 {status} Later\r\nRetry-After: {after}\r\nDate: {said}\r\nContent-Length: 0\r\n\r\n"
        asked.write(head.encode())

    with serving(answer) as server:
        outcome = runner.run(context(server.url))
    assert outcome.retry_after == (None if seconds is None else seconds * SECOND)


def test_a_long_body_is_streamed_and_only_both_ends_are_kept(runner: Runner) -> None:
    def answer(asked: Asked) -> None:
        asked.handler.send_response(200)
        asked.handler.end_headers()  # no length: it ends with the connection
        asked.write(b"begin")
        for _ in range(160):
            asked.write(b"x" * 65536)
        asked.write(b"end")

    with serving(answer) as server:
        tracemalloc.start()
        outcome = runner.run(context(server.url))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 4_000_000
    assert outcome.kind == "succeeded"
    assert str(outcome.result).startswith("200 OK\nbegin")
    assert "bytes left out" in str(outcome.result)
    assert str(outcome.result).endswith("end")
    kept = json.loads(str(outcome.output))
    assert (kept["size"], len(kept["text"]) > 50_000) == (8 + 160 * 65536, True)


def test_an_endless_body_is_read_as_far_as_was_said(runner: Runner) -> None:
    def answer(asked: Asked) -> None:
        asked.handler.send_response(200)
        asked.handler.end_headers()
        while not server.over.is_set():
            asked.write(b"x" * 65536)

    with serving(answer) as server:
        outcome = runner.run(context(server.url, max_response=200_000))
    assert outcome.kind == "succeeded"
    assert "bytes were read, and no more" in str(outcome.result)


@pytest.mark.parametrize("head", ["Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"])
def test_an_answer_that_breaks_off_is_a_failure(runner: Runner, head: str) -> None:
    with serving(lambda asked: asked.write(f"HTTP/1.1 200 OK\r\n{head}\r\n50\r\nabc".encode())) as server:
        outcome = runner.run(context(server.url))
    assert (outcome.kind, outcome.error_type in ("ConnectionResetError", "IncompleteRead")) == (
        "failed",
        True,
    )


def test_what_does_not_answer_keeps_its_class_and_names_the_declared_request(runner: Runner) -> None:
    with answering() as server:
        url = server.url
    outcome = runner.run(context(f"{url}/x"))
    assert (outcome.kind, outcome.error_type) == ("failed", "ConnectionRefusedError")
    assert outcome.error_message == f"GET {url}/x: [Errno 111] Connection refused"
    for name in ("ConnectionError", "transient"):
        assert RetryPolicy.fixed(1, "1s", retry_on=[name]).retries(outcome.error_classes), name


def test_what_is_no_answer_is_a_failure(runner: Runner) -> None:
    with serving(lambda asked: asked.write(b"SSH-2.0-x\r\n")) as server:
        assert runner.run(context(server.url)).error_type == "BadStatusLine"
    with serving(lambda asked: None) as server:
        assert runner.run(context(server.url)).error_type == "RemoteDisconnected"
