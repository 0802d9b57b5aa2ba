"""What a session is really set to, asked of the server; and that no zone of anybody changes an instant."""

import subprocess
from collections.abc import Callable

import pytest
from qsched.scheduler.errors import StoreError
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import (
    MARIADB,
    POSTGRESQL,
    SQLITE,
    Session,
    connect_arguments,
    parse_store_url,
)
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tx import Tx
from sqlalchemy import event

from support.servers import MariaServer, PostgresServer

Program = Callable[..., "subprocess.Popen[str]"]
LEASE = 8_000_000
INSTANT = 1_704_844_800_123_456


def _postgresql(tx: Tx) -> dict[str, str]:
    names = (
        "transaction_isolation",
        "idle_in_transaction_session_timeout",
        "lock_timeout",
        "statement_timeout",
        "timezone",
        "enable_seqscan",
        "jit",
        "default_transaction_read_only",
        "application_name",
    )
    return {name: str(tx.run(f"SHOW {name}").scalar()) for name in names}


def test_postgresqls_time_outs_follow_from_the_lease(postgres: PostgresServer) -> None:
    store = Store(postgres.url, lease=LEASE)
    expected = {
        "transaction_isolation": "read committed",
        "idle_in_transaction_session_timeout": "4s",
        "lock_timeout": "2s",
        "statement_timeout": "8s",
        "timezone": "UTC",
        "enable_seqscan": "off",
        "jit": "off",
        "default_transaction_read_only": "off",
        "application_name": "qsched",
    }
    assert store.transaction("w", _postgresql) == expected
    assert store.transaction("w", _postgresql, urgent=True) == expected | {"statement_timeout": "1600ms"}
    patient = store.change_schema("s", lambda conn: _postgresql(Tx(conn, POSTGRESQL, 0, None)))
    assert patient["statement_timeout"] == patient["idle_in_transaction_session_timeout"] == "0"
    store.close()
    reader = Store(postgres.url, lease=LEASE, read_only=True)
    assert reader.read("r", _postgresql)["default_transaction_read_only"] == "on"
    reader.close()


def test_the_urls_own_settings_are_kept(postgres: PostgresServer) -> None:
    store = Store(postgres.url + "?options=-c%20search_path%3Delsewhere&application_name=mine")
    assert store.read("r", lambda tx: tx.run("SHOW search_path").scalar()) == "elsewhere"
    assert store.read("r", lambda tx: tx.run("SHOW application_name").scalar()) == "mine"
    assert store.read("r", lambda tx: tx.run("SHOW lock_timeout").scalar()) == "3750ms"
    store.close()


def test_mariadbs_time_outs_follow_from_the_lease(mariadb: MariaServer) -> None:
    names = (
        "tx_isolation",
        "tx_read_only",
        "time_zone",
        "innodb_lock_wait_timeout",
        "idle_transaction_timeout",
        "max_statement_time",
        "sql_mode",
        "autocommit",
        "character_set_client",
    )

    def ask(tx: Tx) -> dict[str, object]:
        row = tx.run("SELECT " + ", ".join(f"@@SESSION.{name}" for name in names)).one()
        return dict(zip(names, row, strict=True))

    store = Store(mariadb.url, lease=LEASE)
    expected: dict[str, object] = {
        "tx_isolation": "READ-COMMITTED",
        "tx_read_only": 0,
        "time_zone": "+00:00",
        "innodb_lock_wait_timeout": 2,
        "idle_transaction_timeout": 4,
        "max_statement_time": 8.0,
        "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
        "autocommit": 0,
        "character_set_client": "utf8mb4",
    }
    assert store.transaction("w", ask) == expected
    assert store.transaction("w", ask, urgent=True) == expected | {"max_statement_time": 1.6}
    store.close()
    reader = Store(mariadb.url, lease=LEASE, read_only=True)
    assert reader.read("r", ask)["tx_read_only"] == 1
    reader.close()


@pytest.mark.parametrize(
    ("text", "disabled"),
    [
        ("mariadb://127.0.0.1:3307/d", True),
        ("mariadb://localhost/d", True),
        ("mariadb://[::1]/d", True),
        ("mariadb:///d?unix_socket=/run/mysqld.sock", True),
        ("mariadb://db.example.org/d", None),
        ("mariadb://127.0.0.1/d?ssl_ca=ca.pem", None),
        ("mariadb://127.0.0.1/d?ssl_verify_cert=true", None),
        ("mariadb://127.0.0.1/d?read_default_file=my.cnf", None),
        ("mariadb://127.0.0.1/d?ssl_disabled=false", False),
        ("mariadb://db.example.org/d?ssl_disabled=true", True),
    ],
)
def test_mariadb_on_this_machine_is_spoken_to_in_plain_unless_the_url_says_otherwise(
    text: str, disabled: bool | None
) -> None:
    address, dialect = parse_store_url(text)
    assert connect_arguments(dialect, address, Session(LEASE)).get("ssl_disabled") is disabled


def test_a_short_lease_makes_no_time_out_nought() -> None:
    address, _ = parse_store_url("postgresql://h/d")
    for lane in ("work", "check_in"):
        made = connect_arguments(POSTGRESQL, address, Session(400_000, lane))
        assert "lock_timeout=100 " in made["options"]
        assert min(made["connect_timeout"], made["tcp_user_timeout"], made["keepalives_idle"]) >= 1
        made = connect_arguments(MARIADB, address, Session(400_000, lane))
        assert "innodb_lock_wait_timeout=1," in made["init_command"]
        assert min(made["connect_timeout"], made["read_timeout"]) >= 0.1


def test_each_transaction_begins_where_the_last_one_ended(store: Store) -> None:
    # Settings of a read (autocommit on PostgreSQL, a deferred BEGIN on SQLite) must not stick to the connection.
    for number in range(3):
        store.read("r", lambda tx: tx.run("SELECT 1").scalar())
        with pytest.raises(ZeroDivisionError):
            store.transaction(
                "w", lambda tx: (tx.run("UPDATE qsched_clusters SET epoch = epoch + 1"), 1 // 0)
            )
        store.transaction("w", lambda tx: tx.run("UPDATE qsched_clusters SET epoch = epoch + 1"))
        epoch = store.read("r", lambda tx: tx.run("SELECT epoch FROM qsched_clusters").scalar())
        assert epoch == number + 1


def test_a_read_costs_postgresql_one_round_trip_and_a_write_three(postgresql_url: str) -> None:
    store = open_store(postgresql_url, create=True)
    sent: list[str] = []
    event.listen(store._engine("work"), "before_cursor_execute", lambda *said: sent.append(said[2]))
    store.read("r", lambda tx: tx.run("SELECT 1").scalar())
    assert sent == ["SELECT 1"]
    store.close()


ZONES = """
import sys
from qsched.scheduler.store.schema import open_store
store = open_store(sys.argv[1], create=False)
instant = store.read("r", lambda tx: tx.run("SELECT created_at FROM qsched_clusters WHERE name = 'zoned'").scalar())
print(instant, store.read("now", lambda tx: tx.now()))
store.close()
"""


def test_no_zone_of_session_server_or_host_changes_an_instant(
    made_url: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(made_url, create=True)
    zone = {POSTGRESQL: "SET TIME ZONE 'America/New_York'", MARIADB: "SET time_zone = '-05:00'"}
    shifted = zone.get(store.dialect, "SELECT 1")

    def work(tx: Tx) -> int:
        tx.run(shifted)
        tx.run("INSERT INTO qsched_clusters (name, uuid, created_at) VALUES ('zoned', 'u', ?)", INSTANT)
        return tx.now()

    here = store.transaction("w", work)
    store.close()
    for name in ("Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", name)
        said, _ = program(ZONES, made_url).communicate(timeout=60)
        instant, now = map(int, said.split())
        assert instant == INSTANT
        assert 0 <= now - here < 60_000_000


@pytest.mark.parametrize(
    ("text", "drivername", "dialect"),
    [
        ("postgresql://h/d", "postgresql+psycopg", POSTGRESQL),
        ("postgres://h/d", "postgresql+psycopg", POSTGRESQL),
        ("postgresql+psycopg2://h/d", "postgresql+psycopg", POSTGRESQL),
        ("mariadb://h/d", "mariadb+pymysql", MARIADB),
        ("mysql://h/d", "mariadb+pymysql", MARIADB),
        ("mysql+mysqldb://h/d", "mariadb+pymysql", MARIADB),
        ("sqlite:///x.db", "sqlite", SQLITE),
        ("sqlite://", "sqlite", SQLITE),
    ],
)
def test_urls_as_users_write_them(text: str, drivername: str, dialect: object) -> None:
    address, found = parse_store_url(text)
    assert (address.drivername, found) == (drivername, dialect)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("qsched.db", "cannot be read"),
        ("oracle://h/d", "unknown scheme 'oracle'"),
        ("postgresql://u:s3cret@h:port/d", "cannot be read"),
        ("sqlite://host/x.db", "names a host"),
        ("sqlite:///x.db?mode=ro", "no options"),
    ],
)
def test_urls_that_cannot_be_meant(text: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as caught:
        parse_store_url(text)
    assert caught.value.hint
    assert "s3c" not in str(caught.value) + caught.value.hint
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsched.scheduler.store.dialects.find_spec", lambda name: None)
    for text, extra in (("postgresql://h/d", "qsched[postgresql]"), ("mariadb://h/d", "qsched[mysql]")):
        with pytest.raises(StoreError, match="not installed") as caught:
            parse_store_url(text)
        assert extra in str(caught.value.hint)
