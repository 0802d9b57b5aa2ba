"""A server that may forget what it confirmed is told of when a store is opened to be written, and to nobody who reads."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from qsched.scheduler.store.schema import open_store

from support.made_store import MadeStore
from support.servers import MariaServer, PostgresServer
from support.waiting import wait_until

Caplog = pytest.LogCaptureFixture


def _warnings(caplog: Caplog, url: str, *, read_only: bool = False) -> list[str]:
    caplog.clear()
    open_store(url, create=not read_only, read_only=read_only).close()
    return [record.getMessage() for record in caplog.records if "durability" in record.getMessage()]


@contextmanager
def _without_fsync(server: PostgresServer) -> Iterator[None]:
    with psycopg.connect(server.url, autocommit=True) as connection:

        def change(statement: bytes, to: str) -> None:
            connection.execute(statement)
            connection.execute("SELECT pg_reload_conf()")
            wait_until(lambda: connection.execute("SHOW fsync").fetchone() == (to,), f"fsync to be {to}")

        change(b"ALTER SYSTEM SET fsync = off", "off")
        yield
        change(b"ALTER SYSTEM RESET fsync", "on")


def test_servers_as_they_come_and_files_are_durable(made_url: str, caplog: Caplog) -> None:
    assert _warnings(caplog, made_url) == []


def test_postgresql_that_does_not_wait_for_its_disk_is_told_of(
    made_postgresql: MadeStore, postgres: PostgresServer, caplog: Caplog
) -> None:
    made_postgresql.empty()
    hasty = made_postgresql.url + "?options=-c%20synchronous_commit%3Doff"
    (said,) = _warnings(caplog, hasty)
    assert said.startswith("store.durability setting=synchronous_commit value=off: ")
    assert said.endswith("set it to on")
    assert _warnings(caplog, hasty, read_only=True) == []
    with _without_fsync(postgres):
        (said,) = _warnings(caplog, made_postgresql.url)
    assert said.startswith("store.durability setting=fsync value=off: ")
    assert _warnings(caplog, made_postgresql.url) == []


@pytest.mark.parametrize("value", [0, 2])
def test_mariadb_that_does_not_wait_for_its_disk_is_told_of(
    made_mariadb: MadeStore, mariadb: MariaServer, caplog: Caplog, value: int
) -> None:
    made_mariadb.empty()
    mariadb.execute(f"SET GLOBAL innodb_flush_log_at_trx_commit = {value}")
    try:
        (said,) = _warnings(caplog, made_mariadb.url)
    finally:
        mariadb.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    assert said.startswith(f"store.durability setting=innodb_flush_log_at_trx_commit value={value}: ")
    assert said.endswith("set it to 1")
