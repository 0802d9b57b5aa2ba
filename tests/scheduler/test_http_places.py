"""Where http jobs may go: checked addresses, followed redirects, certificates."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.running.http_address import HttpAllow
from qsched.scheduler.running.runner import Runner

from support.http_jobs import HERE, answering, context
from support.http_server import Asked, HttpServer, serving


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), http_allow=HERE)
    yield made
    made.close()


def test_redirects_are_followed_three_times_at_most(runner: Runner) -> None:
    def answer(asked: Asked) -> None:
        left = int(asked.path[1:])
        asked.answer(302 if left else 200, f"left {left}", location=f"/{left - 1}")

    with serving(answer) as server:
        assert runner.run(context(f"{server.url}/3")).result == "200 OK\nleft 0"
        assert runner.run(context(f"{server.url}/1", follow_redirects=0)).error_message == "302 Found\nleft 1"
        before = len(server.asked)
        assert runner.run(context(f"{server.url}/9")).error_message == "302 Found\nleft 6"
    assert len(server.asked) - before == 4


def test_another_server_gets_neither_credentials_nor_the_key(runner: Runner) -> None:
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/csv"}
    with answering() as target, answering(307, location=f"http://localhost:{target.port}/there") as server:
        assert runner.run(context(f"{server.url}/here", headers=headers)).kind == "succeeded"
    assert target.asked[0].path == "/there"
    assert set(target.asked[0].headers) == {"Host", "Accept-Encoding", "Connection", "User-Agent", "Accept"}
    assert server.asked[0].headers["X-Api-Key"] == "k"


def test_the_same_server_gets_all_again(runner: Runner) -> None:
    def answer(asked: Asked) -> None:
        asked.answer(307 if asked.path == "/a" else 200, location="b")

    with serving(answer) as server:
        runner.run(context(f"{server.url}/a", json={"n": 1}, headers={"X-Api-Key": "k"}))
    first, second = server.asked
    assert (second.method, second.path, second.body) == ("POST", "/b", first.body)
    assert second.headers == first.headers


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_post_is_followed_by_a_get(runner: Runner, status: int) -> None:
    def answer(asked: Asked) -> None:
        asked.answer(status if asked.method == "POST" else 200, location="/done")

    with serving(answer) as server:
        assert runner.run(context(server.url, json={})).kind == "succeeded"
    assert (server.asked[1].method, server.asked[1].body) == ("GET", b"")
    assert "Content-Type" not in server.asked[1].headers


@pytest.mark.parametrize(
    ("location", "said", "message"),
    [
        ("http://10.1.2.3/", {}, "10.1.2.3 has the address 10.1.2.3, which is private"),
        ("http://169.254.169.254/latest/meta-data/", {}, "which is link-local"),
        ("//[::ffff:192.168.0.1]/", {}, "which is private"),
        ("http://2130706434/", {}, "127.0.0.2, which is loopback"),
        ("file:///etc/passwd", {}, "begins with https:// or http://"),
        ("http://a:b@localhost/", {}, "must not hold a name or password"),
        ("http://localhost:1/", {"json": 1}, "it would send the body to another server"),
    ],
)
def test_a_redirect_to_where_nobody_may_go_is_not_followed(
    runner: Runner, location: str, said: dict[str, Any], message: str
) -> None:
    with answering(307, location=location) as server:
        outcome = runner.run(context(server.url, **said))
    assert (outcome.error_type, outcome.permanent) == ("PermanentError", True)
    assert message in str(outcome.error_message)


def test_an_address_that_nobody_allowed_is_refused_before_a_byte_is_sent() -> None:
    runner = Runner(SystemClock())
    with answering() as server:
        for host in ("127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]"):
            outcome = runner.run(context(f"http://{host}:{server.port}/"))
            assert outcome.permanent
            assert "which is loopback" in str(outcome.error_message), host
            assert "--http-allow" in str(outcome.error_message)
    assert server.asked == []


def test_a_name_is_resolved_once_and_the_checked_address_is_called(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: a second look-up, which would answer otherwise, is not made."""
    real, asked_for = socket.getaddrinfo, []

    def resolve(host: str, port: int, **said: Any) -> Any:
        asked_for.append(host)
        return real("127.0.0.1", port, **said) if host == "shop.example" else real(host, port, **said)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with answering() as server:
        allowed = Runner(SystemClock(), http_allow=HttpAllow.of(["shop.example"]))
        assert allowed.run(context(f"http://shop.example:{server.port}/")).kind == "succeeded"
    assert server.asked[0].headers["Host"] == f"shop.example:{server.port}"
    assert len(asked_for) == 1


def test_one_bad_address_among_good_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: int, **said: Any) -> Any:
        return [(2, 1, 6, "", ("93.184.216.34", port)), (2, 1, 6, "", ("10.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outcome = Runner(SystemClock()).run(context("http://shop.example/"))
    assert "10.0.0.1, which is private" in str(outcome.error_message)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate with its key, for `localhost`, that nobody has signed."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    made = tmp_path / "both.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = [
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        str(made),
        "-out",
        str(tmp_path / "crt.pem"),
    ]
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True)
    made.write_text(made.read_text() + (tmp_path / "crt.pem").read_text())
    return made


@pytest.fixture
def tls_server(certificate: Path) -> Iterator[HttpServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(lambda asked: asked.answer(200, "over tls"), context) as server:
        yield server


def test_https_wants_a_certificate_that_is_trusted_and_of_that_name(
    runner: Runner, certificate: Path, tls_server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, numbered = f"https://localhost:{tls_server.port}/", f"https://127.0.0.1:{tls_server.port}/"
    assert runner.run(context(named)).error_type == "SSLCertVerificationError"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert runner.run(context(named)).result == "200 OK\nover tls"
    assert runner.run(context(numbered)).error_type == "SSLCertVerificationError"


def test_a_redirect_from_https_to_http_is_not_followed(
    runner: Runner, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with serving(lambda asked: asked.answer(302, location="http://localhost/"), tls) as server:
        outcome = runner.run(context(f"https://localhost:{server.port}/"))
    assert "from https to http" in str(outcome.error_message)
