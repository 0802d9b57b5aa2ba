"""A real node and a real server that is killed, frozen, or takes no writes for a while: it goes on by itself."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pymysql
import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.control import fire
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from qsched import Node
from support.ledger import Ledger
from support.nodes import JOBS, NodeProcess, Nodes
from support.servers import MariaServer, PostgresServer, Server, mariadb_server, postgres_server
from support.standby import Standby
from support.waiting import wait_until

YAML = """
qsched: 1
jobs:
  note: {{python: "{jobs}:note", data: {{ledger: "{ledger}"}}}}
  linger: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 1}}}}
triggers:
  tick: {{job: note, every: 1s}}
  once: {{job: linger, cron: "0 0 1 1 *"}}
"""
_clock = SystemClock()


@pytest.fixture(scope="module", params=[postgres_server, mariadb_server])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One of this file's own: it is killed, frozen and made read-only."""
    with request.param() as started:
        yield started


class Outage:
    """One way in which a database is away, and how it comes back."""

    def __init__(self, server: Server, url: str) -> None:
        self.server = server
        self.url = url

    def killed(self) -> Callable[[], None]:
        self.server.kill()
        return self.server.start

    def frozen(self) -> Callable[[], None]:
        self.server.pause()
        return self.server.resume

    def read_only(self) -> Callable[[], None]:
        """As after a fail-over: what is connected, and who connects, may only read."""
        if isinstance(self.server, PostgresServer):
            _alter(self.server, "SET default_transaction_read_only = on")
            return lambda: _alter(self.server, "RESET default_transaction_read_only")
        assert isinstance(self.server, MariaServer)
        self.server.execute("SET GLOBAL read_only = 1")
        return lambda: self.server.execute("SET GLOBAL read_only = 0")  # type: ignore[attr-defined]


def _alter(server: Server, what: str) -> None:
    assert isinstance(server, PostgresServer)
    with psycopg.connect(
        server.url, autocommit=True, options="-c default_transaction_read_only=off"
    ) as admin:
        admin.execute(f"ALTER SYSTEM {what}")
        admin.execute("SELECT pg_reload_conf()")


def _url(server: Any) -> str:
    """A database, and a user who may not write where others may not."""
    url: str = server.new_database()
    if isinstance(server, PostgresServer):
        return url
    server.execute(
        "CREATE USER IF NOT EXISTS plain IDENTIFIED BY 'plain'",
        f"GRANT ALL ON {url.rpartition('/')[2]}.* TO plain",
    )
    return url.replace("qsched:qsched@", "plain:plain@")


class Scene:
    """One node with a trigger each second, and the ledger it writes outside of the database."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.ledger = Ledger(nodes.folder / "ledger")
        file = nodes.folder / "qsched.yaml"
        file.write_text(YAML.format(jobs=JOBS, ledger=self.ledger.path))
        self.node = nodes.start("one", file=file)
        self.node.wait_ready()
        self.wait_for_a_tick(since=0)

    def wait_for_a_tick(self, since: int) -> int:
        """Until one has run that began after `since`; when it began."""
        began: list[int] = []

        def ran() -> bool:
            began[:] = [line["began"] for line in self.ledger.lines("ran") if line["began"] > since]
            return bool(began)

        wait_until(ran, "the trigger to fire", within=90)
        return min(began)

    def begin(self) -> int:
        """Fire the longer job, and wait until it runs."""
        store = open_store(self.nodes.url, create=False)
        firing = fire(store, "once")
        store.close()
        wait_until(lambda: self.ledger.lines("began"), "the job to begin")
        return firing

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        store = open_store(self.nodes.url, create=False)
        found = store.read("test", lambda tx: [tuple(row) for row in tx.rows(statement)])
        store.close()
        return found


@pytest.fixture
def scene(server: Server, tmp_path: Path) -> Iterator[Scene]:
    with Nodes(tmp_path, _url(server)) as nodes:
        yield Scene(nodes)


@pytest.mark.parametrize(
    "how", ["killed", *(pytest.param(how, marks=pytest.mark.long) for how in ("frozen", "read_only"))]
)
def test_a_database_that_is_away_for_a_while_costs_time_and_nothing_else(
    server: Server, scene: Scene, how: str, long_form: bool
) -> None:
    node = scene.node
    firing = scene.begin()
    mend = getattr(Outage(server, scene.nodes.url), how)()
    try:
        wait_until(lambda: scene.ledger.lines("ended"), "the job to end, in the outage")
        wait_until(
            lambda: "health.red loop=check-in" in node.log(), "the node to see that it is ill", within=60
        )
        if long_form:
            _spend(node, 60.0)
    finally:
        mend()
    back = _clock.wall()
    resumed = scene.wait_for_a_tick(since=back)
    if long_form:
        assert resumed - back < 5 * SECOND
    wait_until(lambda: _state(scene, firing) == [("succeeded", 1)], "its outcome to land", within=60)
    wait_until(lambda: "health.green loop=check-in" in node.log(), "the node to be well again", within=60)
    _nothing_else_happened(scene)
    node.signal()
    assert node.wait() == 0


def _spend(node: NodeProcess, seconds: float) -> None:
    """Let the outage last; what the node costs meanwhile is next to nothing."""
    process = psutil.Process(node.pid)
    before, lines = sum(process.cpu_times()[:2]), node.log().count("\n")
    threading.Event().wait(seconds)
    assert sum(process.cpu_times()[:2]) - before < 0.05 * seconds
    assert node.log().count("\n") - lines < 40


def _state(scene: Scene, firing: int) -> list[tuple[Any, ...]]:
    return scene.rows(f"SELECT state, fence FROM qsched_firings WHERE id = {firing}")


def _nothing_else_happened(scene: Scene) -> None:
    """No slot was decided twice or not at all, nothing ran twice, and the node is the one it was."""
    _no_slot_was_lost_or_doubled(scene)
    assert scene.rows("SELECT incarnation, state FROM qsched_nodes") == [(1, "up")]
    assert "node.fenced" not in scene.node.log()


def _no_slot_was_lost_or_doubled(scene: Scene) -> None:
    decided = scene.rows(
        "SELECT MIN(scheduled_at), MAX(scheduled_at), SUM(covers), COUNT(*), COUNT(DISTINCT scheduled_at)"
        " FROM qsched_firings WHERE trigger_id = (SELECT id FROM qsched_triggers WHERE name = 'tick')"
    )
    first, last, slots, firings, distinct = decided[0]
    assert firings == distinct
    assert int(slots) in range((last - first) // SECOND, (last - first) // SECOND + 2)
    ran = [line["slot"] for line in scene.ledger.lines("ran")]
    assert len(ran) == len(set(ran))


def test_a_start_waits_for_a_database_that_takes_no_writes_and_says_so(server: Server) -> None:
    """A standby, or one that was demoted."""
    url = _url(server)
    open_store(url, create=True).close()
    mend = Outage(server, url).read_only()
    node = Node(url)
    try:
        node.start()
        wait_until(node.health, "the node to say what it waits for")
        assert "read-only" in node.health()["start"] or "READ ONLY" in node.health()["start"]
    finally:
        mend()
    try:
        assert node.wait_ready(60)
        assert node.health() == {}
    finally:
        node.stop()


def test_a_start_waits_for_a_server_that_has_no_connection_left_and_says_so(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    url, full = _full(server)
    node = Node(url)
    try:
        node.start()
        wait_until(node.health, "the node to say what it waits for")
        assert "node.waiting" in caplog.text
        assert "limit of connections" in caplog.text
    finally:
        full()
    try:
        assert node.wait_ready(60)
        assert node.health() == {}
    finally:
        node.stop()


def _full(server: Any) -> tuple[str, Callable[[], None]]:
    """A user who has no connection left, and how to give him some."""
    url: str = server.new_database()
    name = url.rpartition("/")[2]
    if isinstance(server, PostgresServer):
        server.execute(f"CREATE ROLE few_{name} LOGIN CONNECTION LIMIT 0")  # type: ignore[arg-type]
        server.execute(f"ALTER DATABASE {name} OWNER TO few_{name}")  # type: ignore[arg-type]
        more = f"ALTER ROLE few_{name} CONNECTION LIMIT 50"
        return url.replace("qsched@", f"few_{name}@"), lambda: server.execute(more)  # type: ignore[arg-type]
    server.execute(
        f"CREATE USER few_{name} IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 1",
        f"GRANT ALL ON {name}.* TO few_{name}",
    )
    held = pymysql.connect(
        host="127.0.0.1", port=server.port, user=f"few_{name}", password="few", ssl_disabled=True
    )
    return url.replace("qsched:qsched@", f"few_{name}:few@"), lambda: _give_more(server, held, f"few_{name}")


def _give_more(server: MariaServer, held: Any, user: str) -> None:
    held.close()
    server.execute(f"ALTER USER {user} WITH MAX_USER_CONNECTIONS 50")


@pytest.mark.long
def test_a_fail_over_to_a_standby_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The primary dies as in a power cut, the standby is promoted; nobody starts a node anew or tells it anything."""
    with postgres_server() as primary, ExitStack() as stack:
        database = primary.new_database().rpartition("/")[2]
        open_store(primary.url_of(database), create=True).close()
        standby = stack.enter_context(Standby(primary))
        standby.wait_in_step()
        hosts = "&".join(f"host=127.0.0.1:{each.port}" for each in (primary, standby))
        either = f"postgresql://qsched@/{database}?{hosts}&target_session_attrs=read-write"
        nodes = stack.enter_context(Nodes(tmp_path, either))
        scene = Scene(nodes)
        waiting = Node(standby.url_of(database), name="two")  # knows the standby alone
        stack.callback(waiting.stop)
        waiting.start()
        wait_until(waiting.health, "it to say what it waits for", within=60)
        assert "read-only" in waiting.health()["start"]
        primary.kill()
        wait_until(
            lambda: "store.unavailable" in scene.node.log(), "the node to miss its database", within=60
        )
        standby.promote()
        promoted = _clock.wall()
        assert scene.wait_for_a_tick(since=promoted) - promoted < 30 * SECOND
        assert waiting.wait_ready(60)
        assert waiting.health() == {}
        waiting.stop()
        scene.nodes.url = standby.url_of(database)
        assert scene.rows("SELECT incarnation FROM qsched_nodes WHERE name = 'one'") == [(1,)]
        _no_slot_was_lost_or_doubled(scene)
        scene.node.signal()
        assert scene.node.wait() == 0
