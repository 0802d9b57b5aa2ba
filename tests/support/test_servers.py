"""The private servers keep what was committed, are empty for each test, and die with their starter."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import psycopg
import pymysql
import pytest

from support.servers import RedisServer, postgres_server
from support.waiting import wait_until

TESTS = Path(__file__).parents[1]


def _tables(url: str) -> int:
    """Make one table and answer how many there are then."""
    place = url.partition("@")[2]
    port, database = int(place.partition(":")[2].partition("/")[0]), place.rpartition("/")[2]
    count = "SELECT count(*) FROM information_schema.tables WHERE table_schema IN ('public', %s)"
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE one (id int)")
            return int(connection.execute(count, [database]).fetchall()[0][0])
    opened = pymysql.connect(
        host="127.0.0.1", port=port, user="qsched", password="qsched", database=database, ssl_disabled=True
    )
    with closing(opened), opened.cursor() as cursor:
        cursor.execute("CREATE TABLE one (id int)")
        cursor.execute(count, [database])
        return int(cursor.fetchall()[0][0])


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_each_test_gets_an_empty_postgresql_database(postgresql_url: str, turn: int) -> None:
    assert _tables(postgresql_url) == 1


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_each_test_gets_an_empty_mariadb_database(mariadb_url: str, turn: int) -> None:
    assert _tables(mariadb_url) == 1


def test_redis_answers_on_its_own_port(redis_url: str, redis: RedisServer) -> None:
    assert redis_url == f"redis://127.0.0.1:{redis.port}/0"
    assert redis.command("DBSIZE") == ":0"


def test_a_killed_postgresql_still_has_what_was_committed() -> None:
    with postgres_server() as server:
        url = server.new_database()
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        server.pause()
        server.resume()
        server.kill()
        server.start()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT seven FROM kept").fetchall() == [(7,)]
        folder = server.folder
    assert not folder.exists()


def test_a_server_dies_with_the_process_that_started_it() -> None:
    program = (
        "from support.servers import postgres_server\n"
        "server = postgres_server()\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    ) as starter:
        assert starter.stdout is not None
        server = psutil.Process(int(starter.stdout.readline()))
        starter.send_signal(signal.SIGKILL)
    wait_until(lambda: not _lives(server), "the orphaned server to end")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
