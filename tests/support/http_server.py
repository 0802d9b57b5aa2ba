"""A server on 127.0.0.1 that answers as a test says, and remembers what it was asked."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answers = Callable[["Asked"], None]


@dataclass
class Asked:
    """One request, and the way to answer it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    handler: BaseHTTPRequestHandler = field(repr=False)

    def answer(self, status: int = 200, body: bytes | str = b"", **headers: str) -> None:
        """Answer; headers by keyword, `_` for `-`."""
        data = body.encode() if isinstance(body, str) else body
        self.handler.send_response(status)
        for name, text in {"content_length": str(len(data)), **headers}.items():
            self.handler.send_header(name.replace("_", "-"), text)
        self.handler.end_headers()
        if self.method != "HEAD":
            self.handler.wfile.write(data)

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.handler.wfile.write(data)


@dataclass
class HttpServer:
    """`answers` is called for each request; `over` is set when the server is to end: who waits, waits for that."""

    answers: Answers
    over: threading.Event = field(default_factory=threading.Event)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(answers: Answers, context: ssl.SSLContext | None = None) -> Iterator[HttpServer]:
    """A server that ends with the block; with TLS under `context`."""
    made = HttpServer(answers)

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            self.close_connection = True
            if not self.raw_requestline or not self.parse_request():
                return
            length = int(self.headers.get("Content-Length") or 0)
            asked = Asked(self.command, self.path, dict(self.headers), self.rfile.read(length), self)
            made.asked.append(asked)
            with suppress(OSError):  # the client has gone
                made.answers(asked)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Listening(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Clients go as they like."""

    server = Listening(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port whose queue of connections is full: who connects waits."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = []
        for _ in range(8):
            client = socket.socket()
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(listening.getsockname())
            waiting.append(client)
        yield int(listening.getsockname()[1])
        for client in waiting:
            client.close()
