"""What was expanded for a request is in no text that is kept."""

import json
from collections.abc import Iterator

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.running.runner import Runner

from support.http_jobs import HERE, context
from support.http_server import Asked, serving

MARKER = "s3cret-Märker/42"


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), http_allow=HERE)
    yield made
    made.close()


def test_an_expanded_value_is_in_no_text_that_is_kept(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Though the server sends all of it back, in every form it was sent in."""
    monkeypatch.setenv("TOKEN", MARKER)
    caplog.set_level("DEBUG")

    def answer(asked: Asked) -> None:
        echo = {"path": asked.path, "headers": dict(asked.headers), "body": asked.body.decode()}
        asked.answer(200 if asked.path.startswith("/ok") else 418, json.dumps(echo))

    with serving(answer) as server:
        for path in ("ok", "bad"):
            headers = {"Authorization": "Bearer ${TOKEN}"}
            url = f"{server.url}/{path}?token=${{PLAIN}}"
            monkeypatch.setenv("PLAIN", "s3cret-plain")
            outcome = runner.run(context(url, method="POST", headers=headers, data={"t": "${TOKEN}"}))
            said = repr(outcome) + caplog.text
            assert "Authorization" in said  # the echo is there
            assert "s3cret" not in said
    assert json.loads(server.asked[0].body) == {"t": MARKER}
    assert "s3cret-plain" in server.asked[0].path


def test_a_secret_at_the_place_where_a_body_is_cut_is_hidden_whole(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret" * 3)
    with serving(lambda asked: asked.answer(500, f"{asked.headers['X-T']} " * 5000)) as server:
        outcome = runner.run(context(server.url, headers={"X-T": "${TOKEN}"}))
    assert "bytes left out" in str(outcome.error_message)
    assert "bytes left out" in str(outcome.output)
    assert not any(part in repr(outcome) for part in ("s3c", "cret"))


def test_a_secret_that_stands_encoded_in_the_url_is_hidden_as_the_server_reads_it(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret%2F+42%3D")
    with serving(lambda asked: asked.answer(403, "no: s3cret/+42= nor s3cret/ 42=")) as server:
        outcome = runner.run(context(f"{server.url}/?t=${{TOKEN}}"))
    assert "no: *** nor ***" in str(outcome.error_message)
