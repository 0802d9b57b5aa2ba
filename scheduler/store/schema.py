"""The store's door: `open_store` finds, makes or refuses a schema; Alembic is imported only to make one."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from sqlalchemy import Connection

from ..errors import SchemaOutdated, SchemaTooNew, StoreError, StoreMissing
from . import sqlite_file
from .cluster_rows import cluster_names, find_cluster, make_cluster
from .database import Store
from .dialects import MARIADB, POSTGRESQL, SQLITE, parse_store_url
from .durability import warn_of_lost_commits
from .tx import Tx

if TYPE_CHECKING:
    from alembic.config import Config

REVISIONS = ("0001", "0002", "0003", "0004")
"""Every revision of the schema, oldest first; a test holds them equal to the migrations folder."""

HEAD = REVISIONS[-1]
VERSION_TABLE = "qsched_version"

_OLDEST = {POSTGRESQL: (14,), MARIADB: (10, 6), SQLITE: sqlite_file.OLDEST}
_LOCK = 0x71736368656401  # "qsched" and a 1: other applications take advisory locks in the same database
_LOCK_SECONDS = 100
_MARIADB_LOCK = "CONCAT('qsched ', SHA1(DATABASE()))"  # such locks are the server's, not the database's


class StoreOptions(TypedDict, total=False):
    """What `open_store` hands on to the Store."""

    cluster: str
    lease: int
    read_only: bool
    now: Callable[[], int] | None


def open_store(url: str, *, create: bool, **options: Unpack[StoreOptions]) -> Store:
    """The store at `url`, its schema checked and its cluster known; `options` are those of Store.

    With `create` an empty database (or missing SQLite file) gets a schema, and an unknown cluster its row.
    Raises StoreMissing, SchemaOutdated, SchemaTooNew, StoreUnavailable or StoreError, with one next step.
    """
    store = Store(url, **options)
    try:
        _bring_up(store, create=create and not store.read_only)
    except BaseException:
        store.close()
        raise
    return store


def current(store: Store) -> str | None:
    """The revision of the store's schema; None where there is none, or a half-made one."""
    try:
        return store.read("read the schema's revision", _version)
    except StoreMissing:
        return None


def upgrade(store: Store) -> None:
    """Bring the schema to this version's, whatever it is now; of many at once one does it, others wait."""
    store.change_schema("bring the schema up to date", lambda conn: _locked(conn, store))


def upgrade_sql(url: str, since: str | None = None) -> str:
    """The SQL that makes the schema, for a person who may: on an empty database, or from the revision `since` on.

    Connects to nothing. Raises StoreError for a revision there never was.
    """
    from alembic import command

    if since is not None and since not in REVISIONS:
        raise StoreError(f"there is no schema revision {since!r}", hint=f"there are {', '.join(REVISIONS)}")

    address, _ = parse_store_url(url)
    written = io.StringIO()
    config = _config(written)
    config.attributes["url"] = address
    command.upgrade(config, "head" if since is None else f"{since}:head", sql=True)
    return written.getvalue()


def _bring_up(store: Store, *, create: bool) -> None:
    _look_at_file(store, create=create)
    version: str | None = None
    try:
        version, store.cluster_id = store.read("open the store", lambda tx: _look(tx, store.cluster_name))
    except StoreMissing:
        if not create:
            raise
    if version is None and create:
        upgrade(store)
    elif create and version != HEAD and store.dialect is MARIADB:
        _judge(_version_after_whoever_makes_it(store))
    else:
        _judge(version)
    if store.cluster_id is None:
        work = make_cluster if create else _no_cluster
        store.cluster_id = _either(store, create)("find the cluster", lambda tx: work(tx, store.cluster_name))
    if not store.read_only:
        warn_of_lost_commits(store)


def _version_after_whoever_makes_it(store: Store) -> str | None:
    """The revision once nobody is at work on the schema: on MariaDB a schema that is being made is seen half-way."""

    def wait(conn: Connection) -> str | None:
        with _mariadb_lock(conn):
            return _version(Tx(conn, store.dialect, 0, None))

    return store.change_schema("wait for the schema", wait)


def _either(store: Store, create: bool) -> Callable[[str, Callable[[Tx], int]], int]:
    return store.transaction if create else store.read


def _look(tx: Tx, cluster: str) -> tuple[str | None, int | None]:
    _refuse_old_server(tx)
    version = _version(tx)
    return version, find_cluster(tx, cluster) if version == HEAD else None


def _version(tx: Tx) -> str | None:
    version = tx.run(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    return None if version is None else str(version)


def _judge(version: str | None) -> None:
    if version == HEAD:
        return
    if version is None:
        raise StoreMissing(
            "the job store is half made",
            hint="`qsched db upgrade` completes it, unless somebody is making it right now",
        )
    if version in REVISIONS:
        raise SchemaOutdated(
            f"the job store's schema is {version}, and this version of qsched needs {HEAD}",
            hint="stop the nodes of older versions and run `qsched db upgrade`",
        )
    raise SchemaTooNew(
        f"the job store's schema {version} is newer than {HEAD}, the newest this version of qsched knows",
        hint="update qsched here",
    )


def _no_cluster(tx: Tx, name: str) -> int:
    known = ", ".join(cluster_names(tx)) or "none yet"
    raise StoreMissing(
        f"there is no cluster {name!r} in this store (there are: {known})",
        hint="check --cluster; `qsched apply` or `qsched node` makes a new one",
    )


def _refuse_old_server(tx: Tx) -> None:
    oldest = _OLDEST[tx.dialect]
    found = tx.conn.dialect.server_version_info or oldest
    if tuple(found[: len(oldest)]) < oldest:
        name, needed = tx.dialect.name, ".".join(map(str, oldest))
        have = ".".join(str(part) for part in found if isinstance(part, int))
        raise StoreError(f"{name} {have} is too old", hint=f"use {name} {needed} or later")


def _look_at_file(store: Store, *, create: bool) -> None:
    file = store.file
    if file is not None and file.is_dir():
        raise StoreError(f"{file} is a folder", hint=f"name a file in it: sqlite:///{file.name}/qsched.db")
    if file is None or file.exists():
        return
    if not file.parent.is_dir():
        raise _missing_or(
            create, f"there is no folder {file.parent}", "make the folder, or name another in the URL"
        )
    if not create:
        raise StoreMissing(
            f"there is no job store {file}",
            hint="`qsched apply` or `qsched node` makes it; is this the right folder?",
        )
    sqlite_file.make_file(file)


def _missing_or(create: bool, message: str, hint: str) -> StoreError:
    return StoreError(message, hint=hint) if create else StoreMissing(message, hint=hint)


def _locked(conn: Connection, store: Store) -> None:
    if store.dialect is POSTGRESQL:
        conn.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))  # ends with the transaction
        _migrate(conn, store)
    elif store.dialect is MARIADB:
        with _mariadb_lock(conn):
            _migrate(conn, store)
    else:
        _migrate(conn, store)  # BEGIN IMMEDIATE is the lock


@contextmanager
def _mariadb_lock(conn: Connection) -> Iterator[None]:
    if not conn.exec_driver_sql(f"SELECT GET_LOCK({_MARIADB_LOCK}, {_LOCK_SECONDS})").scalar():
        raise StoreError(
            f"somebody has been making the schema for {_LOCK_SECONDS} s", hint="look at SHOW PROCESSLIST"
        )
    try:
        yield
    finally:
        if not conn.invalidated:  # a lost connection has let go of it
            conn.exec_driver_sql(f"DO RELEASE_LOCK({_MARIADB_LOCK})")


def _migrate(conn: Connection, store: Store) -> None:
    # Whoever waited for the lock finds the work done, and does without Alembic.
    version = _version_before(conn, store)
    if version == HEAD:
        return
    if version is not None and version not in REVISIONS:
        _judge(version)
    from alembic import command

    config = _config()
    config.attributes["connection"] = conn
    command.upgrade(config, "head")


def _version_before(conn: Connection, store: Store) -> str | None:
    # Asked of the catalogue: on PostgreSQL a SELECT from a table that is not there ends the transaction.
    if not conn.dialect.has_table(conn, VERSION_TABLE):
        return None
    return _version(Tx(conn, store.dialect, 0, None))


def _config(written: io.StringIO | None = None) -> "Config":
    from alembic.config import Config

    config = Config(output_buffer=written) if written else Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
