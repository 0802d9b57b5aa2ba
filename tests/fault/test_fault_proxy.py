"""The proxy between real clients and real servers: it passes, holds, resets, and cuts inside COMMIT on either side of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import psycopg
import pymysql
import pytest

from fault.proxy import Link, Loop
from support.servers import MariaServer, PostgresServer
from support.waiting import wait_until


class Said:
    """What the proxy told the history."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def __call__(self, what: str, **said: object) -> None:
        self.lines.append({"what": what, **said})

    def of(self, what: str) -> list[dict[str, object]]:
        return [line for line in self.lines if line["what"] == what]


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def postgres_link(loop: Loop, postgres: PostgresServer, said: Said) -> Iterator[Link]:
    link = Link(loop, "n1", ("postgresql", postgres.port), said)
    yield link
    link.close()


Client = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def client(postgres_link: Link, table: str) -> Iterator[Callable[[], Client]]:
    """Makes connections to the table's database by way of the link."""
    place = f"postgresql://qsched@127.0.0.1:{postgres_link.port}/{table.rpartition('/')[2]}"
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(psycopg.connect(place, connect_timeout=5)))


def _count(url: str) -> int:
    with psycopg.connect(url) as direct:
        row = direct.execute("SELECT count(*) FROM t").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def table(postgresql_url: str) -> str:
    with psycopg.connect(postgresql_url) as direct:
        direct.execute("CREATE TABLE t (n int)")
    return postgresql_url


def test_words_pass_and_the_servers_number_of_the_connection_is_learnt(
    client: Callable[[], Client], table: str, said: Said
) -> None:
    connection = client()
    connection.execute("INSERT INTO t VALUES (%s)", (1,))
    connection.commit()
    pid = connection.info.backend_pid
    assert _count(table) == 1
    assert said.of("connected") == [{"what": "connected", "node": "n1", "backend": pid}]


@pytest.mark.parametrize(("how", "landed"), [("before", 0), ("after", 1), ("late", 1)])
def test_a_cut_commit_is_lost_to_the_client_and_lands_or_does_not(
    client: Callable[[], Client], postgres_link: Link, table: str, how: str, landed: int
) -> None:
    connection = client()
    connection.execute("INSERT INTO t VALUES (1)")
    postgres_link.cut_commit(how)  # type: ignore[arg-type]
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    wait_until(lambda: _count(table) == landed, "the commit's fate", within=5)
    assert postgres_link.cuts == 1


def test_a_cut_waits_for_the_kind_of_transaction_it_was_asked_for(
    client: Callable[[], Client], postgres_link: Link, table: str
) -> None:
    with psycopg.connect(table) as direct:
        direct.execute("CREATE TABLE qsched_nodes (n int)")
    postgres_link.cut_commit("after", "check-in")
    connection = client()
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    for _ in range(7):  # psycopg prepares what it sends often: then only a name travels
        if not postgres_link.cuts:
            connection.execute("UPDATE qsched_nodes SET n = %s", (2,))
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    assert _count(table) == 1


def test_what_is_held_comes_later(client: Callable[[], Client], postgres_link: Link, table: str) -> None:
    connection = client()
    connection.autocommit = True
    postgres_link.hold(up=False)
    with connection.cursor() as cursor:
        raw = connection.pgconn
        raw.send_query(b"INSERT INTO t VALUES (1)")
        wait_until(lambda: _count(table) == 1, "the statement to reach the server")
        postgres_link.heal()
        while raw.get_result() is not None:
            pass
        cursor.execute("SELECT 1")


def test_a_reset_is_felt_and_the_next_connection_works(
    client: Callable[[], Client], postgres_link: Link, table: str
) -> None:
    connection = client()
    connection.execute("SELECT 1")
    postgres_link.reset()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    client().execute("SELECT 1")


def test_half_closed_the_server_is_free_and_the_client_hears_nothing(
    client: Callable[[], Client], postgres_link: Link, table: str
) -> None:
    connection = client()
    connection.execute("LOCK TABLE t")
    postgres_link.half_close()
    wait_until(lambda: _count(table) == 0, "the lock to be given back")  # the server rolled back
    connection.pgconn.send_query(b"SELECT 1")
    assert not connection.pgconn.is_busy() or connection.pgconn.status == psycopg.pq.ConnStatus.OK
    postgres_link.heal()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")


@pytest.mark.parametrize(("how", "landed"), [("before", 0), ("after", 1), ("late", 1)])
def test_mariadb_commits_are_cut_too(
    loop: Loop, mariadb: MariaServer, mariadb_url: str, said: Said, how: str, landed: int
) -> None:
    name = mariadb_url.rpartition("/")[2]
    mariadb.execute(f"CREATE TABLE {name}.t (n int)")
    link = Link(loop, "n1", ("mariadb", mariadb.port), said)
    connection = pymysql.connect(
        host="127.0.0.1", port=link.port, user="qsched", password="qsched", database=name, ssl_disabled=True
    )
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")
        link.cut_commit(how)  # type: ignore[arg-type]
        with pytest.raises(pymysql.err.OperationalError):
            connection.commit()
    count = f"SELECT count(*) FROM {name}.t"
    wait_until(lambda: mariadb.execute(count) == [(landed,)], "the commit's fate", within=5)
    with suppress(pymysql.err.Error):
        connection.close()
    assert said.of("connected")[0]["backend"] == vars(connection)["server_thread_id"][0]
    link.close()
