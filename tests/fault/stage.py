"""The stage of one run: private servers, a proxy for each way to them, the seats of the nodes, and how to clear it all."""

import secrets
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from qsched.scheduler.store.schema import open_store

from support.mariadb import MariaServer
from support.postgres import PostgresServer
from support.redis import RedisServer
from support.server import Server

from .audit import Inspector
from .clock_shim import MovedClock, built
from .history import History
from .profiles import Profile
from .proxy import Link, Loop
from .seats import Seat
from .workload import POISONED, SECRET, Workload


class ClockedPostgres(PostgresServer):
    """A PostgreSQL whose wall clock can be moved."""

    clock: MovedClock | None = None

    def _command(self) -> list[str]:
        command = super()._command()
        if self.clock is None:
            return command
        return ["/usr/bin/env", *(f"{k}={v}" for k, v in self.clock.environment.items()), *command]


class Stage:
    """Everything a fault can be done to; a context manager that leaves nothing behind."""

    def __init__(self, profile: Profile, folder: Path) -> None:
        self.profile = profile
        self.folder = folder
        self.history = History(folder)
        self.secret = f"marker{secrets.token_hex(8)}"
        self.file = folder / "qsched.yaml"
        self.seats: list[Seat] = []
        self.links: list[Link] = []
        self.database: Server | None = None
        self.redis: RedisServer | None = None
        self.client_url = ""
        self._stack = ExitStack()
        self._never = threading.Event()

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # -- set-up --------------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        if sys.platform != "linux":
            raise RuntimeError("the fault harness stops, kills and preloads as Linux does: run it there")
        self.shim = built(self.folder)
        self.loop = Loop()
        self._stack.callback(self.loop.close)
        if self.profile.redis:
            self.redis = self._stack.enter_context(RedisServer())
        url = self._start_database()
        self.inspector = Inspector(url)
        with closing(open_store(url, create=True, lease=round(self.profile.lease * 1_000_000))):
            pass
        self.inspector.install()
        self.client_url = self._url(self.link("client", self.database)) if self.database else url
        for number in range(1, self.profile.nodes + 1):
            self.seats.append(self._seat(f"n{number}"))

    def _start_database(self) -> str:
        """The URL of the store, by the direct way."""
        if self.profile.database == "sqlite":
            return f"sqlite:///{self._folder('store') / 'qsched.db'}"
        if self.profile.database == "postgresql":
            server = ClockedPostgres()
            if self.shim is not None and "db_clock" in self.profile.quotas:
                shim = server.folder / self.shim.name
                shim.write_bytes(self.shim.read_bytes())
                shim.chmod(0o755)
                server.clock = MovedClock(shim, server.folder / "clock")
            self.database = server
            return str(self._stack.enter_context(server).new_database())
        maria = self._stack.enter_context(MariaServer())
        self.database = maria
        maria.execute(
            f"CREATE USER 'fault'@'127.0.0.1' IDENTIFIED BY '{self.secret}'",
            "GRANT ALL PRIVILEGES ON *.* TO 'fault'@'127.0.0.1'",
        )
        return maria.new_database()

    def _folder(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir(exist_ok=True)
        return made

    def link(self, name: str, server: Server) -> Link:
        """A way of its own to one of the servers."""
        kind = "redis" if isinstance(server, RedisServer) else self.profile.database
        link = Link(self.loop, name, (kind, server.port), self.history.say)
        self._stack.callback(link.close)
        self.links.append(link)
        return link

    def _url(self, link: Link) -> str:
        """The store's URL by way of a link, with the secret as its password."""
        name = self.inspector.url.rpartition("/")[2]
        user = "qsched" if self.profile.database == "postgresql" else "fault"
        return f"{self.profile.database}://{user}:{self.secret}@127.0.0.1:{link.port}/{name}"

    def _seat(self, name: str) -> Seat:
        profile = self.profile
        command = ["-f", str(self.file), "--capacity", str(profile.capacity)]
        for option in ("check_in", "lease", "drain_timeout"):
            command += [f"--{option.replace('_', '-')}", f"{round(getattr(profile, option) * 1000)}ms"]
        if profile.coordination is not None:
            command += ["--coordination", profile.coordination]
            command += ["--leader-ttl", f"{round(profile.leader_ttl * 1000)}ms"]
        environment = {SECRET: self.secret, "QSCHED_STORE": self.inspector.url, "QSCHED_LOG": "text"}
        database = redis = None
        if self.database is not None:
            database = self.link(name, self.database)
            environment["QSCHED_STORE"] = self._url(database)
        if self.redis is not None:
            redis = self.link(f"{name}-redis", self.redis)
            command += ["--redis", f"redis://127.0.0.1:{redis.port}/0"]
        seat = Seat(name, self._folder("nodes"), self.history, command, environment)
        seat.database, seat.redis = database, redis
        seat.minds_permissions = profile.database == "sqlite"
        if self.shim is not None and self.profile.database != "sqlite":
            seat.clock = MovedClock(self.shim, self.folder / f"clock-{name}")
        self._stack.callback(seat.clear)
        return seat

    # -- what a run needs ----------------------------------------------------------------------------------------------

    def begin(self, workload: Workload) -> None:
        """Write the file, start every node, and wait until each takes work."""
        workload.write(self.file)
        for seat in self.seats:
            seat.start()
        for seat in self.seats:
            assert seat.life is not None
            seat.life.wait_ready()
        if any(trigger.key == POISONED for trigger in workload.triggers):
            self._poison()

    def _poison(self) -> None:
        """Spoil one trigger's definition, as a person with the wrong statement does."""
        self.history.say("poisoned", key=POISONED)
        self.inspector.run(
            f"UPDATE qsched_triggers SET spec = '{{', definition_digest = 'spoilt' WHERE name = '{POISONED}'",
            "UPDATE qsched_trigger_clocks SET definition_hash = 1, version = version + 1"
            f" WHERE id = (SELECT id FROM qsched_triggers WHERE name = '{POISONED}')",
        )

    def seat(self, name: str) -> Seat:
        return next(seat for seat in self.seats if seat.name == name)

    def look(self) -> None:
        """Start again what ended by itself, as a supervisor does; its code stands in the history."""
        for seat in self.seats:
            if seat.look() is not None and seat.wanted:
                seat.start()

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._never.wait(seconds)

    def answers(self) -> bool:
        """Whether the database does."""
        try:
            self.inspector.rows("SELECT 1")
        except Exception:  # of three drivers
            return False
        return True
