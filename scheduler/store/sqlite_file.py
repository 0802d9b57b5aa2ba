"""How an SQLite file is opened: never made by accident, never written by a reader, write-ahead always."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL

from ..errors import StoreError

OLDEST = (3, 35)

Identity = tuple[int, int]
"""Which file it is, whatever it is called: device and inode."""


def file_of(url: URL) -> Path | None:
    """The file a URL names, independent of later changes of the working directory; None in memory."""
    return None if url.database in (None, "", ":memory:") else Path(str(url.database)).absolute()


def identity_of(file: Path) -> Identity | None:
    """The file that has this name now; None where there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect(file: Path | None, *, read_only: bool) -> sqlite3.Connection:
    """A connection that leaves BEGIN to us and never waits by itself: SQLite's own waiting is unfair (E6)."""
    if file is None:
        return _opened(":memory:")
    if read_only:
        return _reader(file)
    # mode=rw: a file that was deleted under a running node must not come back empty.
    connection = _opened(_address(file, "mode=rw"))
    try:
        if (
            _pragma(connection, "journal_mode") != "wal"
            and _pragma(connection, "journal_mode = WAL") != "wal"
        ):
            raise StoreError(
                f"the file system of {file} cannot hold a shared SQLite file",
                hint="put the file on a local disk, or use PostgreSQL or MariaDB",
            )
        _pragma(connection, "synchronous = FULL")  # NORMAL may lose decided slots at a power cut
    except BaseException:
        connection.close()
        raise
    return connection


def make_file(file: Path) -> None:
    """Make an empty database file where there is none; a folder is never made."""
    # By way of SQLite: to open and close the file ourselves could drop another thread's locks on it.
    connection = None
    try:
        connection = _opened(_address(file, "mode=rwc"))
        _pragma(connection, "user_version")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return  # somebody has it: so it is there, and whoever wants it now has the patience to wait
        raise StoreError(
            f"{file} cannot be made: {error}",
            hint=f"let this user write to {file.parent}, or name another folder",
        ) from error
    finally:
        if connection is not None:
            connection.close()


def _reader(file: Path) -> sqlite3.Connection:
    if file.with_name(file.name + "-wal").exists():
        return _checked_reader(_address(file, "mode=ro"))
    # Nobody has it open, and all of it is in the main file.
    try:
        # mode=ro would leave an empty -wal and -shm file behind: only who may write may remove them.
        return _checked_reader(_address(file, "mode=rw"))
    except sqlite3.OperationalError:
        if not file.exists():
            raise
        return _checked_reader(_address(file, "mode=ro&immutable=1"))  # in a folder that cannot be written to


def _checked_reader(address: str) -> sqlite3.Connection:
    connection = _opened(address)
    try:
        _pragma(connection, "query_only = 1")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(address: str) -> sqlite3.Connection:
    return sqlite3.connect(address, uri=True, timeout=0, isolation_level=None, check_same_thread=False)


def _address(file: Path, options: str) -> str:
    return f"file:{quote(str(file))}?{options}"


def _pragma(connection: sqlite3.Connection, text: str) -> object:
    row = connection.execute(f"PRAGMA {text}").fetchone()
    return row[0] if row else None
