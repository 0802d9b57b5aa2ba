"""A TCP proxy per node, in the harness: passes, holds back, delays, half-closes, resets, and cuts inside COMMIT.

All of them live on one event loop in one thread; the verbs of `Link` may be called from any thread.
"""

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeVar

from .wire import ANY, ClientStream, Message, backend_of, client_stream

T = TypeVar("T")
Cut = Literal["before", "after", "late"]
Say = Callable[..., None]

_CHUNK = 65536
_LATE = 0.4
"""Seconds after which a late COMMIT reaches the server, when its client has long given up."""
_AT_ONCE = struct.pack("ii", 1, 0)


class Loop:
    """The thread in which all proxies run."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxies", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for what it answers."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=10)
        self.loop.run_until_complete(asyncio.sleep(0))  # transports close their sockets in their last turn
        self.loop.close()


class Connection:
    """One client's connection and the one made for it to the server."""

    def __init__(
        self, client: tuple[asyncio.StreamReader, asyncio.StreamWriter], stream: ClientStream
    ) -> None:
        self.from_client, self.to_client = client
        self.from_server: asyncio.StreamReader | None = None
        self.to_server: asyncio.StreamWriter | None = None
        self.stream = stream
        self.backend: int | None = None
        self.deaf = False
        """What the server says is swallowed."""
        self.await_reply: asyncio.Future[None] | None = None

    def abort(self) -> None:
        """Reset both sides."""
        for writer in (self.to_client, self.to_server):
            if writer is not None:
                _reset(writer)

    def close(self) -> None:
        """End both sides in good order, after what was written."""
        for writer in (self.to_client, self.to_server):
            if writer is not None:
                writer.close()


class Link:
    """The way of one node (or client) to one server."""

    def __init__(self, loop: Loop, name: str, server: tuple[str, int], say: Say) -> None:
        self.name = name
        self.database, self._server_port = server
        self._loop = loop
        self._say = say
        self._random = random.Random(name)
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut: tuple[Cut, str] | None = None
        self._delay = (0.0, 0.0)
        self.cuts = 0
        self.port = loop.do(self._open())

    async def _open(self) -> int:
        self._up, self._down = asyncio.Event(), asyncio.Event()
        self._up.set()
        self._down.set()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def hold(self, *, up: bool = True, down: bool = True) -> None:
        """A black hole: nothing reaches the server (`up`), nothing reaches the client (`down`); what is sent waits."""

        def close() -> None:
            if up:
                self._up.clear()
            if down:
                self._down.clear()

        self._soon(close)

    def delay(self, seconds: float, jitter: float) -> None:
        """Everything comes so much later, both ways."""
        self._soon(lambda: setattr(self, "_delay", (seconds, jitter)))

    def reset(self) -> None:
        """Reset every connection there is."""

        def abort() -> None:
            for connection in list(self._connections):
                connection.abort()

        self._soon(abort)

    def half_close(self) -> None:
        """The server hears that each client is gone; the clients hear nothing, and nothing more."""
        self._soon(self._close_half)

    def cut_commit(self, how: Cut, of: str = ANY) -> None:
        """Break the connection at the next COMMIT of that kind: the server has not got it, has done it, or gets it late."""
        self._soon(lambda: setattr(self, "_cut", (how, of)))

    def spare_commit(self) -> bool:
        """Take back a cut that met no COMMIT; answers whether there was one to take back."""
        left, self._cut = self._cut, None
        return left is not None

    def heal(self, *, drop: bool = False) -> None:
        """Pass everything again, held words first; or `drop` the old connections with what they held."""

        def healed() -> None:
            self._delay = (0.0, 0.0)
            self._cut = None
            for connection in list(self._connections):
                if drop or connection.deaf:
                    connection.abort()
            self._up.set()
            self._down.set()

        self._soon(healed)

    def close(self) -> None:
        """Stop listening, and reset what is connected."""

        async def shut() -> None:
            self._server.close()
            for connection in list(self._connections):
                connection.abort()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._loop.do(shut())

    def _soon(self, act: Callable[[], object]) -> None:
        async def run() -> None:
            act()

        self._loop.do(run())

    def _close_half(self) -> None:
        for connection in list(self._connections):
            connection.deaf = True
            if connection.to_server is not None:
                with suppress(OSError, RuntimeError):
                    connection.to_server.write_eof()

    # -- connections ---------------------------------------------------------------------------------------------------

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection((reader, writer), client_stream(self.database))
        self._connections.add(connection)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._up.wait()
            await self._serve(connection)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            connection.close()
            self._connections.discard(connection)
            self._tasks.discard(task)

    async def _serve(self, connection: Connection) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        connection.from_server, connection.to_server = reader, writer
        pumps = [
            asyncio.create_task(self._pump_up(connection)),
            asyncio.create_task(self._pump_down(connection)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump_up(self, connection: Connection) -> None:
        assert connection.to_server is not None
        while data := await connection.from_client.read(_CHUNK):
            for message in connection.stream.feed(data):
                await self._pass(self._up)
                if message.commits is not None and self._meets(message.commits):
                    await self._cut_at(connection, message)
                    return
                if not connection.deaf:
                    connection.to_server.write(message.data)
            await connection.to_server.drain()
        await self._up.wait()  # a goodbye is held back like everything else

    async def _pump_down(self, connection: Connection) -> None:
        assert connection.from_server is not None
        heard = b""
        while data := await connection.from_server.read(_CHUNK):
            if connection.backend is None and len(heard) < _CHUNK:
                heard += data
                self._learn(connection, heard)
            if connection.await_reply is not None:
                connection.await_reply.set_result(None)
                return
            await self._pass(self._down)
            if not connection.deaf:
                connection.to_client.write(data)
                await connection.to_client.drain()
        await self._down.wait()
        if connection.deaf:
            await asyncio.Event().wait()  # the client is not told; healing or its own patience ends this

    async def _pass(self, gate: asyncio.Event) -> None:
        await gate.wait()
        seconds, jitter = self._delay
        if seconds:
            await asyncio.sleep(max(0.0, seconds + self._random.uniform(-jitter, jitter)))

    def _learn(self, connection: Connection, heard: bytes) -> None:
        connection.backend = backend_of(heard, self.database)
        if connection.backend is not None:
            self._say("connected", node=self.name, backend=connection.backend)

    # -- the cut inside COMMIT -----------------------------------------------------------------------------------------

    def _meets(self, kind: str) -> bool:
        return self._cut is not None and self._cut[1] in (ANY, kind)

    async def _cut_at(self, connection: Connection, message: Message) -> None:
        assert self._cut is not None
        assert connection.to_server is not None
        how, self._cut = self._cut[0], None
        self.cuts += 1
        self._say("cut", node=self.name, how=how, of=message.commits, backend=connection.backend)
        if how == "late":
            _reset(connection.to_client)
            await asyncio.sleep(_LATE)
        elif how == "after":
            connection.await_reply = asyncio.get_running_loop().create_future()
        if how != "before":
            connection.to_server.write(message.data)
            await connection.to_server.drain()
        if connection.await_reply is not None:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(connection.await_reply), 5.0)
        _reset(connection.to_client)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, as a middlebox or a crashed peer does."""
    with suppress(OSError):
        raw = writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()
