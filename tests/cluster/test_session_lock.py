"""The session lock says at once that a process is gone, and never that one lives which does not; a pooler turns it off."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from qsched.cluster.check_in import CheckInService, Telling
from qsched.scheduler.definitions import Definitions
from qsched.scheduler.hand import Hand
from qsched.scheduler.identity import Identity
from qsched.scheduler.parts import Parts
from qsched.scheduler.registry import JobRegistry
from qsched.scheduler.running.process_mark import is_gone, mark_of
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.definition_reads import read_cluster
from qsched.scheduler.store.dialects import POSTGRESQL
from qsched.scheduler.store.node_rows import NodeFacts
from qsched.scheduler.store.rescue_rows import Observed, observed
from qsched.scheduler.store.session_lock import SessionLock, freed
from qsched.scheduler.witness import Witness
from qsched.triggers.instant import SECOND

from support.hand_node import World
from support.hand_parts import HandClock
from support.waiting import wait_until


class Checker:
    """A node that does nothing but check in, over connections of its own, with the real session lock."""

    def __init__(self, world: World, name: str = "one", mark: int | None = None) -> None:
        self.world = world
        self.store = world.open()
        clock = HandClock(world)
        who = Identity(name)
        parts = Parts(self.store, clock, who, Hand(1), Definitions(JobRegistry(), clock))
        who.cluster_uuid, _ = self.store.read("cluster", read_cluster)
        self.who = who
        self.lock = SessionLock(who, mark)
        facts = NodeFacts(
            name, "here", os.getpid(), mark, 1, "0", None, None, self.store.lease, check_in=SECOND
        )
        telling = Telling(lambda firing_id, fence, reason: None, lambda reason: None)
        self.service = CheckInService(parts, facts, SECOND, telling, self.lock)
        self.service.register()

    def check_in(self) -> bool:
        """One check-in; whether the row then says that the lock is held."""
        self.service.step()
        ((held,),) = self.world.sql(
            "SELECT session_lock FROM qsched_nodes WHERE incarnation = ?", self.who.incarnation
        )
        return bool(held)

    def is_free(self) -> bool:
        """What another node finds."""
        incarnation = self.who.incarnation
        found = self.world.store.read("test", lambda tx: freed(tx, self.who.cluster_uuid, [incarnation]))
        return found == {incarnation}

    def backend(self) -> int:
        """The server's session of its check-in."""
        text = "SELECT pg_backend_pid()" if self.store.dialect is POSTGRESQL else "SELECT CONNECTION_ID()"
        return int(self.store.read("test", lambda tx: tx.run(text).scalar_one(), urgent=True))

    def cut(self) -> None:
        """The server ends that session."""
        backend, postgresql = self.backend(), self.store.dialect is POSTGRESQL
        text = f"SELECT pg_terminate_backend({backend}, 5000)" if postgresql else f"KILL {backend}"
        self.world.store.read("test", lambda tx: tx.run(text) and None)


@contextmanager
def checker(world: World, **options: Any) -> Iterator[Checker]:
    made = Checker(world, **options)
    try:
        yield made
    finally:
        made.store.close()


# -- on the servers ------------------------------------------------------------------------------------------------------------


def test_it_is_held_from_the_first_check_in_and_said_from_the_second(server_world: World) -> None:
    with checker(server_world) as one:
        assert one.is_free()
        assert not one.check_in()
        assert not one.is_free()
        assert one.check_in()
        assert one.check_in()


def test_it_is_free_as_soon_as_its_connection_is_closed(server_world: World) -> None:
    with checker(server_world) as one:
        one.check_in()
        assert not one.is_free()
    wait_until_free(one)


def test_a_connection_that_was_made_again_takes_it_again(server_world: World) -> None:
    with checker(server_world) as one:
        one.check_in()
        assert one.check_in()
        steady = one.service.steady_since
        server_world.pass_time(1)
        one.cut()
        wait_until_free(one)
        assert not one.check_in()  # the row says so at once
        assert one.service.steady_since > steady  # what it saw of others before counts no more
        assert not one.is_free()
        assert one.check_in()


def test_a_new_incarnation_lets_go_of_the_old_ones(server_world: World) -> None:
    with checker(server_world) as one:
        one.check_in()
        old = one.who.incarnation
        server_world.sql("UPDATE qsched_nodes SET state = 'dead' WHERE incarnation = ?", old)
        one.check_in()
        uuid = one.who.cluster_uuid
        one.check_in()
        both = [old, one.who.incarnation]
        assert server_world.store.read("test", lambda tx: freed(tx, uuid, both)) == {old}
        assert one.check_in()


def test_nodes_and_clusters_have_locks_of_their_own(server_world: World) -> None:
    with checker(server_world) as one, checker(server_world, name="two") as two:
        for each in (one, two, one, two):
            each.check_in()
        asked = [one.who.incarnation, two.who.incarnation, 987654]
        uuid, other = one.who.cluster_uuid, "00000000-0000-0000-0000-000000000000"
        assert server_world.store.read("test", lambda tx: freed(tx, uuid, asked)) == {987654}
        assert server_world.store.read("test", lambda tx: freed(tx, other, asked)) == set(asked)


def test_behind_a_pooler_it_is_off_and_nothing_is_left_locked(server_world: World) -> None:
    """Another session of the server after each COMMIT (B52): no row says that a lock is held, and nobody is judged by one."""
    with checker(server_world) as one, Pooler(one.store, sessions=3):
        held = [one.check_in() for _ in range(12)]
        assert held == [False] * 12
        assert one.lock.off
        assert one.is_free()


def test_a_pooler_that_keeps_the_session_and_forgets_its_locks_is_found_out(server_world: World) -> None:
    with checker(server_world) as one, Pooler(one.store, sessions=1, forgets=True):
        assert [one.check_in() for _ in range(6)] == [False] * 6
        assert one.lock.off


def test_a_lock_that_cannot_be_had_costs_no_check_in(server_world: World) -> None:
    """A session that the server has not noticed is dead still holds it."""
    with checker(server_world) as one, checker(server_world, name="other") as other:
        incarnation = one.who.incarnation
        other.store.transaction("test", lambda tx: other.lock.hold(tx, incarnation), urgent=True)
        assert [one.check_in() for _ in range(3)] == [False] * 3
        assert one.who.trusted_until > one.world.elapsed
        other.store.close()
        wait_until_free(one)
        one.check_in()
        assert one.check_in()


def wait_until_free(one: Checker) -> None:
    wait_until(one.is_free, "the server to let go of the lock")


class Pooler:
    """A transaction pooler, as a check-in meets it: each transaction has one of several sessions, or one that is reset."""

    def __init__(self, store: Store, *, sessions: int, forgets: bool = False) -> None:
        self._sessions = sessions
        self._forgets = forgets
        self._engine = store._engine("check_in")

    def __enter__(self) -> "Pooler":
        self._made = self._engine.pool._creator
        self._use(self._connect)
        return self

    def __exit__(self, *_: object) -> None:
        self._use(self._made)

    def _use(self, creator: Any) -> None:
        self._engine.pool._creator = creator
        self._engine.dispose()

    def _connect(self, record: Any) -> Any:
        made: Any = self._made
        return Pooled([made(record) for _ in range(self._sessions)], forgets=self._forgets)


class Pooled:
    """What looks like one connection, and is another session after each COMMIT."""

    def __init__(self, sessions: list[Any], *, forgets: bool) -> None:
        vars(self).update(sessions=sessions, forgets=forgets, turn=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sessions[self.turn % len(self.sessions)], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.sessions[self.turn % len(self.sessions)], name, value)

    def commit(self) -> None:
        session = self.sessions[self.turn % len(self.sessions)]
        session.commit()
        if self.forgets:
            with session.cursor() as cursor:
                pymysql = "pymysql" in type(session).__module__
                cursor.execute("DO RELEASE_ALL_LOCKS()" if pymysql else "SELECT pg_advisory_unlock_all()")
            session.commit()
        vars(self)["turn"] += 1

    def close(self) -> None:
        for session in self.sessions:
            session.close()


# -- by the process --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing."""
    process = subprocess.Popen(["/bin/sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_gone_when_it_has_ended_also_before_anybody_has_waited_for_it(
    sleeper: subprocess.Popen[bytes],
) -> None:
    mark = mark_of(sleeper.pid)
    assert mark is not None
    assert is_gone(sleeper.pid, mark) is False
    sleeper.send_signal(signal.SIGSTOP)
    assert is_gone(sleeper.pid, mark) is False
    sleeper.kill()
    wait_until(lambda: is_gone(sleeper.pid, mark), "the corpse to be one")
    sleeper.wait()
    assert is_gone(sleeper.pid, mark) is True


def test_a_process_of_the_same_id_is_another_one() -> None:
    mark = mark_of(os.getpid())
    assert mark is not None
    assert is_gone(os.getpid(), mark - 1) is True


def test_of_a_process_in_another_ones_sight_nothing_is_known() -> None:
    """Another boot, or a container with the same host name and processes of its own."""
    mark = mark_of(os.getpid())
    assert mark is not None
    assert is_gone(os.getpid(), mark ^ (1 << 50)) is None


def test_a_mark_fits_the_databases_largest_number() -> None:
    assert (mark_of(os.getpid()) or 0) < 1 << 63


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_a_file_has_no_session_lock_and_the_mark_takes_its_place(world: World) -> None:
    with checker(world) as one, checker(world, name="two", mark=mark_of(os.getpid())) as two:
        assert [one.check_in(), one.check_in(), two.check_in(), two.check_in()] == [False, False, True, True]


def seen(world: World, one: Checker, **said: Any) -> Observed:
    (node,) = [node for node in world.store.read("test", observed) if node.incarnation == one.who.incarnation]
    return node._replace(**said)


@pytest.mark.parametrize("world", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_a_process_that_ended_on_this_host_is_certainly_gone(
    world: World, sleeper: subprocess.Popen[bytes]
) -> None:
    with checker(world) as one:
        one.check_in()
        one.check_in()  # whatever its lock says: a forked child of it may keep the connection open
        witness = Witness(world.store, one.who, "here")
        node = seen(world, one, pid=sleeper.pid, pid_started_at=mark_of(sleeper.pid))
        assert witness.gone([node]) == {}
        sleeper.kill()
        sleeper.wait()
        assert witness.gone([node]) == {node.incarnation: True}


@pytest.mark.parametrize("world", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_who_is_started_in_the_place_of_a_process_that_is_gone_is_called_the_same(
    world: World, sleeper: subprocess.Popen[bytes]
) -> None:
    with checker(world, name="web", mark=mark_of(os.getpid())) as first:
        world.sql(
            "UPDATE qsched_nodes SET pid = ?, pid_started_at = ? WHERE incarnation = ?",
            *(sleeper.pid, mark_of(sleeper.pid), first.who.incarnation),
        )
        with checker(world, name="web") as second:
            assert second.who.name == "web-2"
            sleeper.kill()
            sleeper.wait()
            with checker(world, name="web") as third:
                assert third.who.name == "web"


def test_a_process_that_lives_on_this_host_is_not_gone_although_its_lock_is_free(server_world: World) -> None:
    with checker(server_world, mark=mark_of(os.getpid())) as one:
        witness = Witness(server_world.store, one.who, "here")
        assert one.is_free()
        assert witness.gone([seen(server_world, one, session_lock=1)]) == {}


def test_elsewhere_a_free_lock_is_evidence_and_not_certain(server_world: World) -> None:
    with checker(server_world, mark=mark_of(os.getpid())) as one:
        witness = Witness(server_world.store, one.who, "there")
        free = seen(server_world, one)
        assert witness.gone([free]) == {}  # its row does not say that it ever held one
        assert witness.gone([free._replace(session_lock=1)]) == {one.who.incarnation: False}
        one.check_in()
        one.check_in()
        assert witness.gone([seen(server_world, one)]) == {}
