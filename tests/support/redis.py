"""A private Redis that keeps nothing on disk."""

import shutil
import socket

from .processes import unprivileged
from .server import Server, ServerMissing


class RedisServer(Server):
    """Redis without persistence: a restart forgets everything, as after a crash."""

    def __init__(self) -> None:
        found = shutil.which("redis-server")
        if not found:
            raise ServerMissing("Redis is not on this machine: install redis-server")
        self.binary = found
        super().__init__(unprivileged("redis"))

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def new_database(self) -> str:
        """The URL of an emptied database; there is one, so two users of it do not mix."""
        if self.command("FLUSHALL") != "+OK":
            raise RuntimeError("Redis refused FLUSHALL: see its log")
        return self.url

    def command(self, line: str) -> str:
        """Send one inline command, answer the first line of its reply."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(f"{line}\r\n".encode())
            return connection.makefile("rb").readline().decode().strip()

    def _prepare(self) -> None:
        (self.folder / "data").mkdir()
        self.account.own(self.folder / "data")

    def _command(self) -> list[str]:
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder / "data")]
        return [self.binary, *place, "--save", "", "--appendonly", "no"]

    def _answers(self) -> bool:
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False
