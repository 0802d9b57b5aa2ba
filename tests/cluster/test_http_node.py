"""Http jobs on a real node: only where they are allowed, and what they were told in secret is nowhere afterwards."""

from pathlib import Path

from support.fired import Fired
from support.http_server import Asked, serving

MARKER = "s3cret-marker-42"
JOBS = """\
  call:
    http:
      url: {url}/orders/{{id}}?token=${{TOKEN:-x}}
      headers: {{Authorization: "Bearer ${{TOKEN:-x}}"}}
    data: {{id: 0}}
    retry: {{max_retries: 1, delay: 10ms, retry_on: [http.503]}}
"""


def test_a_secret_reaches_the_server_and_neither_store_nor_log(sqlite_url: str, tmp_path: Path) -> None:
    def answer(asked: Asked) -> None:
        status = 503 if len(asked_of_2 := [each for each in server.asked if "/2" in each.path]) else 200
        asked.answer(status, f"{asked.path} {asked.headers['Authorization']} {len(asked_of_2)}")

    options = ("--allow", "http", "--http-allow", "127.0.0.1", "--verbose")
    with serving(answer) as server, Fired(tmp_path, sqlite_url, JOBS.format(url=server.url)) as stage:
        node = stage.node("one", *options, environment={"TOKEN": MARKER})
        assert stage.ended(stage.fire("call", id=1), "state, note") == (
            "succeeded",
            "200 OK\n/orders/1?token=*** Bearer *** 0",
        )
        firing = stage.fire("call", id=2)
        state, attempt, error = stage.ended(firing, "state, attempt, error")
        assert (state, attempt, "HttpStatus" in error, "503 Service Unavailable" in error) == (
            "failed",
            1,
            True,
            True,
        )
        assert [asked.headers["Authorization"] for asked in server.asked] == [f"Bearer {MARKER}"] * 3
        assert len({asked.headers["Idempotency-Key"] for asked in server.asked[1:]}) == 1
        assert stage.nodes.stop() == [0]
        stored = b"".join(
            path.read_bytes() for path in Path(sqlite_url.removeprefix("sqlite:///")).parent.glob("*.db*")
        )
        assert b"Bearer ***" in stored
        assert MARKER.encode() not in stored
        assert MARKER not in node.log()


def test_a_request_is_made_by_a_node_that_may_and_to_nobody_who_was_not_allowed(
    sqlite_url: str, tmp_path: Path
) -> None:
    with (
        serving(lambda asked: asked.answer()) as server,
        Fired(tmp_path, sqlite_url, JOBS.format(url=server.url)) as stage,
    ):
        stage.node("one")  # may not
        firing = stage.fire("call")
        stage.node("two", "-f", str(stage.file))  # its own file says so; but nobody allowed the address
        state, error = stage.ended(firing, "state, error")
        assert (state, "which is loopback" in error) == ("failed", True)
    assert server.asked == []
