"""The one way to the database, `Store.transaction`: repeats what may be repeated, says what is in doubt."""

import os
import random
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, exc

from ...triggers.instant import SECOND
from ..clock import Clock, SystemClock
from ..errors import ConstraintHit, StoreError, StoreMissing, StoreUnavailable
from . import sqlite_file
from .dialects import POSTGRESQL, SQLITE, Session, parse_store_url
from .engines import cut, file_engine, server_engine
from .gate import Gate, OpenGate
from .trouble import Trouble, hint_of, trouble_of, words_of
from .tx import Tx

T = TypeVar("T")

DEFAULT_LEASE = 15 * SECOND
_PATIENCE = 10.0
"""Seconds for which a transaction is repeated that was a deadlock's victim or found the database busy."""

_LOOK_FIRST = "it may have been done, for the answer to its COMMIT was lost: look before you do it again"

_YIELD = 0.002
_CONTENDED = 1.0
"""An SQLite writer that met another process within a second lets 2 ms pass between its transactions (E6)."""


@dataclass(frozen=True, slots=True)
class _Manner:
    """How a transaction is run: over which connections, and whether it only reads."""

    lane: str = "work"
    reading: bool = False


class Store:
    """A database and the cluster in it. Thread-safe; after a fork it starts anew with connections of its own.

    `now` (tests, simulation) replaces the database's clock. `lease` (µs) sets the session time-outs. Use
    `schema.open_store`, which also looks at the schema and sets `cluster_id`.
    """

    def __init__(
        self,
        url: str,
        *,
        cluster: str = "default",
        lease: int = DEFAULT_LEASE,
        read_only: bool = False,
        now: Callable[[], int] | None = None,
    ) -> None:
        self.url, self.dialect = parse_store_url(url)
        self.file = sqlite_file.file_of(self.url) if self.dialect is SQLITE else None
        self.cluster_name = cluster
        self.lease = lease
        self.read_only = read_only
        self.cluster_id: int | None = None
        self.cluster_uuid: str | None = None
        """Read when it is first needed."""
        self._clock: Clock = SystemClock()
        self._given_now = now
        self._random = random.Random()
        self._never = threading.Event()
        self._engines: dict[str, Engine] = {}
        self._opened: sqlite_file.Identity | None = None
        self._wrote_at = self._contended_at = float("-inf")
        self._forked_inside = False
        self._start()
        _stores.add(self)

    def __repr__(self) -> str:
        return f"<Store {self.url.render_as_string(hide_password=True)} cluster={self.cluster_name}>"

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[int, tuple[Any, float]] = {}
        self.gate: Gate = Gate() if self.dialect is SQLITE else OpenGate()

    # -- transactions

    def transaction(
        self, name: str, work: Callable[[Tx], T], *, urgent: bool = False, patience: float | None = None
    ) -> T:
        """Run `work` in one transaction and commit it; it may run several times, as a function of its Tx.

        Deadlock victims, lock time-outs and a busy SQLite are normal and repeated for `patience` seconds (10; a
        quarter of the lease when `urgent`); a connection lost before COMMIT was sent is replaced once. Raises
        ConstraintHit, StoreUnavailable (with `in_doubt` True when the answer to COMMIT was lost), or StoreError;
        whatever `work` raises is raised after the rollback. `urgent` is the check-in's lane: one connection of
        its own with short deadlines, and first at an SQLite file.
        """
        if self.read_only:
            raise StoreError(f"{name}: the store was opened for reading only")
        return self._repeated(name, work, self._manner(urgent), self._patience(urgent, patience))

    def read(self, name: str, work: Callable[[Tx], T], *, urgent: bool = False) -> T:
        """Run `work`, which only reads: one snapshot on SQLite, each statement its own on the servers."""
        return self._repeated(name, work, self._manner(urgent, reading=True), self._patience(urgent))

    def _manner(self, urgent: bool, *, reading: bool = False) -> _Manner:
        return _Manner("check_in" if urgent else "work", reading)

    def _patience(self, urgent: bool, given: float | None = None) -> float:
        if given is not None:
            return given
        return min(_PATIENCE, self.lease / SECOND / 4) if urgent else _PATIENCE

    def change_schema(self, name: str, work: Callable[[Connection], T], *, patience: float = 120.0) -> T:
        """Run `work` in one transaction on a connection of its own without time-outs; for migrations only."""
        return self._repeated(name, lambda tx: work(tx.conn), _Manner("schema"), patience)

    def _repeated(self, name: str, work: Callable[[Tx], T], manner: _Manner, patience: float) -> T:
        began = self._clock.monotonic()
        until = began + patience
        replaced = False
        while True:
            stage = ["connect"]
            try:
                return self._once(work, manner, stage)
            except exc.DBAPIError as error:
                trouble = trouble_of(error)
                if trouble is Trouble.LOST:
                    self._drop_connections(manner.lane)
                # Before COMMIT was sent nothing happened, and a connection that died idle is nobody's error.
                replace = trouble is Trouble.LOST and stage[0] == "work" and not replaced and not self._local
                replaced |= replace
                if not replace and (trouble is not Trouble.REPEAT or self._clock.monotonic() >= until):
                    raise failure(name, error, trouble, in_doubt=stage[0] == "commit") from error
            except exc.TimeoutError as error:
                raise StoreUnavailable(
                    f"{name}: no connection became free", hint="lower --capacity"
                ) from error
            except exc.PendingRollbackError as error:
                # The connection was lost in the middle, and something (a library's clean-up) went on with it.
                first = error.__context__
                reason = words_of(first) if isinstance(first, exc.DBAPIError) else "the connection was lost"
                raise StoreUnavailable(f"{name}: {reason}") from error
            except exc.InvalidRequestError as error:
                if stage[0] == "connect" and "MariaDB" in str(error):
                    raise StoreError("the server is MySQL", hint="use MariaDB 10.6 or later") from error
                raise
            # 1-3 ms, jittered: two that collided must not collide again, and SQLite's own waiting is unfair.
            self._contended_at = self._clock.monotonic()
            # Who has held it for a second is not asked five hundred times in the next.
            often = 1 if self._contended_at - began < _CONTENDED else 5 if manner.lane == "check_in" else 12
            self._clock.wait(self._never, often * (0.001 + 0.002 * self._random.random()))

    def _once(self, work: Callable[[Tx], T], manner: _Manner, stage: list[str]) -> T:
        with self.gate.held(urgent=manner.lane == "check_in"):
            if self._local and manner.lane == "work" and not manner.reading:
                self._yield_to_others()
            engine = self._engine(manner.lane)
            pool = engine.pool
            with engine.connect() as conn:
                if manner.reading:
                    conn.execution_options(**self._read_options())
                if self.file is not None:
                    self._see_that_it_is_the_same(self.file)
                elif not self._local and manner.lane == "work":
                    self._asks(id(conn), conn.connection.dbapi_connection)
                stage[0] = "work"
                try:
                    result = work(Tx(conn, self.dialect, self.cluster_id or 0, self._now_source()))
                    stage[0] = "commit"
                    if id(conn) in self._busy:  # a call of its own: only its own silence may put it in doubt
                        self._asks(id(conn), self._busy[id(conn)][0])
                    conn.commit()
                except BaseException:
                    # Always: MariaDB undoes only the statement that failed, and COMMIT would keep the rest.
                    _roll_back(conn)
                    raise
                finally:
                    with self._lock:
                        self._busy.pop(id(conn), None)
                    if engine.pool is not pool:
                        conn.invalidate()  # the others were dropped meanwhile, for what this one would meet too
            if self._local and not manner.reading:
                self._wrote_at = self._clock.monotonic()
        return result

    def _asks(self, key: int, connection: Any) -> None:
        """From now on this connection may wait for an answer."""
        with self._lock:
            self._busy[key] = (connection, self._clock.monotonic())

    def _see_that_it_is_the_same(self, file: Path) -> None:
        """To go on in a file that was moved, removed or replaced would be to decide what nobody else sees."""
        here = sqlite_file.identity_of(file)
        self._opened = self._opened or here
        if here is None or here != self._opened:
            raise StoreUnavailable(
                f"{file} is not the file that was opened: it was moved, removed or replaced",
                hint="put the file back, or start anew what uses it",
            )

    @property
    def _local(self) -> bool:
        return self.dialect is SQLITE

    def _yield_to_others(self) -> None:
        now = self._clock.monotonic()
        rest = self._wrote_at + _YIELD - now
        if rest > 0 and now - self._contended_at < _CONTENDED:
            self._clock.wait(self._never, rest)

    @property
    def clock_of_caller(self) -> Callable[[], int] | None:
        """What tells the time in a transaction of the application's own; None: the database does."""
        return self._now_source()

    def _now_source(self) -> Callable[[], int] | None:
        if self._given_now is not None:
            return self._given_now
        return self._clock.wall if self._local else None

    def _read_options(self) -> dict[str, Any]:
        if self.dialect is POSTGRESQL:
            return {
                "isolation_level": "AUTOCOMMIT"
            }  # saves two round trips; MariaDB would pay for the switch
        return {"qsched_read": True}

    # -- connections

    def _engine(self, lane: str) -> Engine:
        if self._forked_inside:
            raise StoreError("this process was forked inside a transaction", hint="fork between transactions")
        lane = "work" if self._local else lane
        with self._lock:
            if lane not in self._engines:
                self._engines[lane] = self._make_engine(lane)
            return self._engines[lane]

    def _make_engine(self, lane: str) -> Engine:
        if self._local:
            self._opened = None
            return file_engine(self.file, read_only=self.read_only)
        return server_engine(self.dialect, self.url, Session(self.lease, lane, self.read_only))

    def connection(self) -> Any:
        """A raw driver connection of the caller's own (for LISTEN), not the pool's; the caller closes it."""
        raw = self._engine("work").raw_connection()
        raw.detach()
        return raw

    def close(self) -> None:
        """Close every connection; the next use opens new ones."""
        with self.gate.held():
            self._dispose(close=True)

    def _drop_connections(self, lane: str) -> None:
        # What one of them met the others would meet too, one failed transaction each. A lost working connection says less of
        # the check-in's, which holds the node's session lock.
        if self._local:
            return
        for other in (lane, "work") if lane == "check_in" else (lane,):
            with self._lock:
                engine = self._engines.get(other)
            if engine is not None:
                engine.dispose()

    def cut_silent(self) -> None:
        """Give up every working call that has waited longer than a check-in may: for when check-ins land again.

        Its own deadline is a lease and more, and the connection it waits on may have died with nobody telling.
        """
        with self._lock:  # so that none of them comes back meanwhile, and is cut in another's hands
            now = self._clock.monotonic()
            for connection, since in self._busy.values():
                if now - since > self.lease / SECOND / 4:
                    cut(connection)

    def _dispose(self, *, close: bool) -> None:
        with self._lock:
            engines = list(self._engines.values())
            self._engines.clear()
        for engine in engines:
            engine.dispose(close=close)

    # -- fork

    def before_fork(self) -> None:
        # A child that inherits an open SQLite connection corrupts the file, even if it never uses it (E6c).
        self._forked_inside = self._local and self.gate.mine
        if not self._forked_inside:
            self.gate.acquire(urgent=True)
            if self.file is not None:
                self._dispose(close=True)

    def after_fork_in_parent(self) -> None:
        if not self._forked_inside:
            self.gate.release()
        self._forked_inside = False

    def after_fork_in_child(self) -> None:
        self._start()
        if not self._local:
            # The sockets are the parent's: kept, so that nothing here says goodbye to the server on them.
            _inherited.append(self._engines)
            self._engines = {}


_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()
_inherited: list[dict[str, Engine]] = []


def _each(verb: Callable[[Store], None]) -> Callable[[], None]:
    def run() -> None:
        for store in list(_stores):
            verb(store)

    return run


os.register_at_fork(
    before=_each(Store.before_fork),
    after_in_parent=_each(Store.after_fork_in_parent),
    after_in_child=_each(Store.after_fork_in_child),
)


def _roll_back(conn: Connection) -> None:
    """Undo what is open, also after a COMMIT that failed; a connection that cannot do that is thrown away."""
    try:
        conn.rollback()
        if not conn.invalidated:
            conn.connection.rollback()
    except Exception:  # the caller learns of the first error, not of this one
        conn.invalidate()


def failure(name: str, error: exc.DBAPIError, trouble: Trouble, *, in_doubt: bool) -> StoreError:
    """What to raise for a database error, met in the transaction `name`."""
    text, hint = f"{name}: {words_of(error)}", hint_of(error)
    if trouble is Trouble.CONFLICT:
        return ConstraintHit(text)
    if trouble is Trouble.MISSING:
        return StoreMissing(
            f"{name}: there is no job store in this database", hint="`qsched apply` or `qsched node` makes it"
        )
    if trouble is Trouble.REPEAT:
        return StoreUnavailable(f"{name}: the database stayed busy: {words_of(error)}", hint=hint)
    if trouble is Trouble.LOST:
        return StoreUnavailable(text, hint=_LOOK_FIRST if in_doubt else hint, in_doubt=in_doubt)
    return StoreError(text, hint=hint)
