"""The way to one server after another: names are resolved once, their addresses checked, and any thread may cut it."""

import os
import select
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ..clock import Clock
from ..errors import PermanentError
from .http_address import HttpAllow

SILENCE: Final = 60.0
"""Seconds without a byte, or without an answer of any kind, after which a server is given up."""


_Found = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]]


class Server(NamedTuple):
    """Where a request goes: not only a host, for neither cookies nor secrets go from https to http."""

    scheme: str
    host: str
    port: int

    @property
    def name(self) -> str:
        """As the Host header has it: without the port where that goes without saying."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


class LineCut(Exception):
    """Somebody cut the line."""


class Line:
    """The connections of one run, one after the other. Used by one thread; `cut` is for all."""

    def __init__(self, clock: Clock, allow: HttpAllow, silence: float = SILENCE) -> None:
        self._clock = clock
        self._allow = allow
        self._silence = silence
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._wake_in, self._wake_out = os.pipe()
        self._handle: socket.socket | None = None
        """The connection once more, by which another thread can shut it while a TLS layer reads from it."""
        self._open: socket.socket | None = None
        self.was_cut = False

    def cut(self) -> None:
        """End whatever waits for this line, now and later: names, connections, TLS, bodies."""
        with self._lock:
            self.was_cut = True
            if self._wake_out >= 0:
                os.write(self._wake_out, b".")
            if self._handle is not None:
                with suppress(OSError):
                    self._handle.shutdown(socket.SHUT_RDWR)
        self._changed.set()

    def open(self, server: Server) -> socket.socket:
        """A connection to that server, in place of the one before, with TLS where it is to have it.

        Raises PermanentError for an address that nobody allowed, OSError for one that does not answer, LineCut.
        """
        self._leave()
        found = self._resolved(server)
        for _, _, _, _, address in found:
            if (kind := self._allow.refusal(server.host, str(address[0]))) is not None:
                raise PermanentError(
                    f"{server.host} has the address {address[0]}, which is {kind}: if http jobs are to reach it,"
                    f" start the node with --http-allow {server.host}"
                )
        self._open = self._connected(found)
        if server.scheme == "https":
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            self._open = context.wrap_socket(self._open, server_hostname=server.host)
        return self._open

    def close(self) -> None:
        """Give everything back."""
        self._leave()
        with self._lock:
            os.close(self._wake_in)
            os.close(self._wake_out)
            self._wake_in = self._wake_out = -1

    def _resolved(self, server: Server) -> _Found:
        """Every address of a name. It is asked for in a thread of its own: a resolver hears nobody while it waits."""
        where = (server.host, server.port)
        with suppress(OSError):
            return socket.getaddrinfo(*where, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        answers: list[_Found | Exception] = []

        def ask() -> None:
            try:
                answers.append(socket.getaddrinfo(*where, type=socket.SOCK_STREAM))
            except Exception as error:
                answers.append(error)
            self._changed.set()

        self._changed.clear()
        if not self.was_cut:
            threading.Thread(target=ask, name="qsched-resolver", daemon=True).start()
            self._clock.wait(self._changed, self._silence)
        self._look()
        if not answers:
            raise TimeoutError("no answer from the resolver")
        if isinstance(answer := answers[0], Exception):
            raise answer
        return answer

    def _connected(self, found: _Found) -> socket.socket:
        """A connection to the first of these addresses that takes one."""
        trouble: OSError = OSError("the name has no address")
        for family, kind, protocol, _, address in found:
            connection = socket.socket(family, kind, protocol)
            try:
                self._connect(connection, address)
                return connection
            except OSError as error:
                connection.close()
                trouble = error
            except BaseException:
                connection.close()
                raise
        raise trouble

    def _connect(self, connection: socket.socket, address: Any) -> None:
        connection.setblocking(False)
        with suppress(BlockingIOError):
            connection.connect(address)
        poll = select.poll()
        poll.register(connection, select.POLLOUT)
        poll.register(self._wake_in, select.POLLIN)
        ready = poll.poll(self._silence * 1000)
        self._look()
        if not ready:
            raise TimeoutError("no answer to the connection")
        if number := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(number, os.strerror(number))
        connection.settimeout(self._silence)
        with self._lock:
            self._handle = connection.dup()
        self._look()  # who cut it a moment before did not see the handle

    def _look(self) -> None:
        if self.was_cut:
            raise LineCut

    def _leave(self) -> None:
        with self._lock:
            if self._handle is not None:
                self._handle.close()
                self._handle = None
        if self._open is not None:
            self._open.close()
            self._open = None
