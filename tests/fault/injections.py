"""How each fault is done to the stage, and undone: one function a kind, which answers what heals it."""

import os
import random
import resource
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from support.postgres import PostgresServer
from support.redis import RedisServer

from .audit import AUDIT
from .proxy import Link
from .schedule import Fault
from .seats import Seat
from .stage import ClockedPostgres, Stage

Heal = Callable[[], object]
_DISK = 1024 * 1024
_CATCHES, _CATCH = 60, 0.004
"""How often, and after how many seconds, a node is stopped anew until it is caught holding the write lock."""
_PATIENCE = 0.3
"""Seconds that the nemesis waits for an answer: it has others to torment."""

LATER = "later"
"""What heals says when it could not be done yet."""


class Impossible(Exception):
    """This fault has nothing to be done to now: its node is down, its server is away."""


class Injections:
    """Faults on one stage. `begin` does one and answers how to heal it; `repeat` what is done again meanwhile."""

    def __init__(self, stage: Stage, fire: Callable[[str, dict[str, Any]], None]) -> None:
        self.stage = stage
        self._fire = fire
        self._random = random.Random(0)
        self._denials = 0
        self._kinds: dict[str, Callable[[Fault], Heal]] = {
            "kill": self._kill,
            "stop_half": self._stop,
            "stop_long": self._stop,
            "stop_3": self._stop,
            "drain": self._drain,
            "drain_twice": self._drain,
            "rolling": self._rolling,
            "hog": self._hog,
            "hold": self._hold,
            "hold_replies": self._hold,
            "delay": self._delay,
            "half_close": self._half_close,
            "reset": self._reset,
            "cut_before": self._cut,
            "cut_after": self._cut,
            "cut_late": self._cut,
            "clock": self._clock,
            "db_restart": self._db_restart,
            "db_pause": self._db_pause,
            "db_clock": self._db_clock,
            "terminate": self._terminate,
            "redis_kill": self._redis_kill,
            "redis_empty": self._redis_kill,
            "redis_stop": self._redis_stop,
            "redis_flush": self._redis_command,
            "redis_pause": self._redis_command,
            "redis_readonly": self._redis_command,
            "redis_hold": self._hold,
            "lock": self._lock,
            "disk_full": self._disk_full,
            "read_only": self._read_only,
        }

    def begin(self, fault: Fault) -> Heal:
        """Do it; raises Impossible when there is nothing to do it to."""
        return self._kinds[fault.kind](fault)

    def repeat(self, fault: Fault) -> tuple[float, Callable[[], object]] | None:
        """(seconds between, what) for faults that go on happening while they last."""
        if fault.kind == "terminate":
            return 0.3, lambda: self._end_backends(fault.options["share"])
        if fault.kind == "drain_twice":
            return fault.options["again_after"], lambda: self.stage.seat(fault.target).terminate()
        if fault.kind == "rolling":
            return 0.2, self._roll
        return None

    # -- node processes ------------------------------------------------------------------------------------------------

    def _seat(self, fault: Fault) -> Seat:
        seat = self.stage.seat(fault.target)
        if not seat.running or seat.life is None or not seat.life.ready:
            raise Impossible
        return seat

    def _kill(self, fault: Fault) -> Heal:
        seat = self._seat(fault)
        if not seat.kill():
            raise Impossible
        return seat.start

    def _stop(self, fault: Fault) -> Heal:
        seat = self._seat(fault)
        life = seat.life
        assert life is not None
        seat.stop(family=fault.options["family"])
        for _ in range(_CATCHES if fault.options.get("holding") else 0):
            if self._file_is_locked():
                self.stage.history.say("stopped_holding", node=seat.name)
                break
            seat.go_on(life)
            self.stage.pause(_CATCH)
            seat.stop(family=fault.options["family"])
        return lambda: seat.go_on(life)

    def _file_is_locked(self) -> bool:
        """Whether somebody is within a write transaction on the SQLite file now."""
        with closing(sqlite3.connect(self._file, timeout=0, isolation_level=None)) as probe:
            try:
                probe.execute("BEGIN IMMEDIATE")
                probe.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return True
        return False

    def _drain(self, fault: Fault) -> Heal:
        seat = self._seat(fault)
        seat.wanted = False
        seat.terminate()
        return seat.start

    def _rolling(self, fault: Fault) -> Heal:
        del fault
        self._to_roll = [seat for seat in self.stage.seats if seat.running]
        self._rolled: tuple[Seat, object] | None = None
        return self._to_roll.clear

    def _roll(self) -> None:
        """One after another: told to stop, gone, started, ready, the next."""
        if self._rolled is not None:
            seat, old = self._rolled
            if seat.life is old or seat.life is None or not seat.life.ready:
                return
            self._rolled = None
        if self._to_roll:
            seat = self._to_roll.pop(0)
            self._rolled = (seat, seat.life)
            seat.terminate()

    def _hog(self, fault: Fault) -> Heal:
        self._fire("hog", {"seconds": fault.seconds})
        return lambda: None

    def _clock(self, fault: Fault) -> Heal:
        clock = self.stage.seat(fault.target).clock
        if clock is None:
            raise Impossible
        clock.move(fault.options["offset"])
        return lambda: clock.move(0.0)

    # -- ways ----------------------------------------------------------------------------------------------------------

    def _link(self, fault: Fault) -> Link:
        seat = self.stage.seat(fault.target)
        link = seat.redis if fault.kind.startswith("redis") else seat.database
        if link is None or not seat.running:
            raise Impossible
        return link

    def _hold(self, fault: Fault) -> Heal:
        link = self._link(fault)
        link.hold(up=fault.kind != "hold_replies")
        return lambda: link.heal(drop=fault.options["drop"])

    def _delay(self, fault: Fault) -> Heal:
        link = self._link(fault)
        link.delay(fault.options["delay"], fault.options["delay"])
        return link.heal

    def _half_close(self, fault: Fault) -> Heal:
        link = self._link(fault)
        link.half_close()
        return link.heal

    def _reset(self, fault: Fault) -> Heal:
        self._link(fault).reset()
        return lambda: None

    def _cut(self, fault: Fault) -> Heal:
        link = self._link(fault)
        link.cut_commit(fault.kind.removeprefix("cut_"), fault.options["of"])  # type: ignore[arg-type]
        return link.spare_commit

    # -- the database --------------------------------------------------------------------------------------------------

    def _db_restart(self, fault: Fault) -> Heal:
        server = self.stage.database
        if server is None or not self.stage.answers():
            raise Impossible
        if isinstance(server, PostgresServer) and not fault.options["power"]:
            os.kill(server.pid, server.death_signal)  # as pg_ctl stop -m immediate
            server._await_end()
        else:
            server.kill()
        return server.start

    def _db_pause(self, fault: Fault) -> Heal:
        server = self.stage.database
        if server is None or not self.stage.answers():
            raise Impossible
        server.pause()

        def resume() -> None:
            with suppress(RuntimeError):
                server.resume()

        return resume

    def _db_clock(self, fault: Fault) -> Heal:
        server = self.stage.database
        if not isinstance(server, ClockedPostgres) or server.clock is None:
            raise Impossible
        clock = server.clock
        self.stage.history.say("db_clock", seconds=fault.options["offset"])
        clock.move(fault.options["offset"])

        def back() -> None:
            self.stage.history.say("db_clock", seconds=0.0)
            clock.move(0.0)

        return back

    def _terminate(self, fault: Fault) -> Heal:
        self._end_backends(fault.options["share"])
        return lambda: None

    def _end_backends(self, share: float) -> None:
        inspector = self.stage.inspector
        with suppress(Exception):  # the database may be away by now
            if inspector.database == "postgresql":
                inspector.rows(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    f" WHERE application_name = 'qsched' AND random() < {share}"
                )
                return
            for (connection,) in inspector.rows(
                "SELECT id FROM information_schema.processlist WHERE user = 'fault'"
            ):
                if self._random.random() < share:
                    inspector.run(f"KILL {connection}")

    # -- Redis ---------------------------------------------------------------------------------------------------------

    def _redis(self) -> RedisServer:
        redis = self.stage.redis
        if redis is None or self._ask_redis("PING") != "+PONG":
            raise Impossible
        return redis

    def _ask_redis(self, line: str) -> str | None:
        """One command and the first line of its answer; None where there is none soon (it is stopped, or down)."""
        assert self.stage.redis is not None
        try:
            with socket.create_connection(
                ("127.0.0.1", self.stage.redis.port), timeout=_PATIENCE
            ) as connection:
                connection.sendall(f"{line}\r\n".encode())
                return connection.makefile("rb").readline().decode().strip()
        except OSError:
            return None

    def _redis_kill(self, fault: Fault) -> Heal:
        del fault
        redis = self._redis()
        redis.kill()
        return redis.start

    def _redis_stop(self, fault: Fault) -> Heal:
        del fault
        redis = self._redis()
        redis.pause()

        def resume() -> None:
            with suppress(RuntimeError):
                redis.resume()

        return resume

    def _redis_command(self, fault: Fault) -> Heal:
        self._redis()
        if fault.kind == "redis_flush":
            self._ask_redis("FLUSHALL")
            return lambda: None
        if fault.kind == "redis_pause":
            self._ask_redis(f"CLIENT PAUSE {round(fault.seconds * 1000)} ALL")
            return lambda: None
        self._ask_redis("REPLICAOF 127.0.0.1 1")
        return lambda: None if self._ask_redis("REPLICAOF NO ONE") == "+OK" else LATER

    # -- SQLite --------------------------------------------------------------------------------------------------------

    @property
    def _file(self) -> Path:
        return Path(self.stage.inspector.url.removeprefix("sqlite:///"))

    def _lock(self, fault: Fault) -> Heal:
        """A foreign program holds the write lock."""
        del fault
        foreign = sqlite3.connect(self._file, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            foreign.execute("BEGIN IMMEDIATE")
            foreign.execute(f"DELETE FROM {AUDIT} WHERE seq < 0")
        except sqlite3.OperationalError:
            foreign.close()
            raise Impossible from None

        def let_go() -> None:
            foreign.execute("COMMIT")
            foreign.close()

        return let_go

    def _disk_full(self, fault: Fault) -> Heal:
        """For one process no file may grow beyond a megabyte: its write-ahead log soon would."""
        seat = self._seat(fault)
        life = seat.life
        assert life is not None
        _, hard = resource.prlimit(life.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(life.pid, resource.RLIMIT_FSIZE, (_DISK, hard))

        def room() -> None:
            if seat.life is life and life.code is None:
                resource.prlimit(life.pid, resource.RLIMIT_FSIZE, (hard, hard))

        return room

    def _read_only(self, fault: Fault) -> Heal:
        """Nobody may write to the file any more; who has it open goes on, who starts now finds it so."""
        del fault
        self._denials += 1
        self._file.chmod(0o444)

        def allow() -> None:
            self._denials -= 1
            if not self._denials:
                self._file.chmod(0o644)

        return allow
