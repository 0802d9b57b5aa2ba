"""A private PostgreSQL from the machine's binaries, else from the wheel of the test extra."""

import importlib.util
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from .processes import Account, run, unprivileged
from .server import Server, ServerMissing

_OLDEST = 14


class PostgresServer(Server):
    """PostgreSQL as it comes, except where it listens and how many may connect."""

    stop_signal = signal.SIGINT  # "fast": does not wait for clients to leave
    death_signal = signal.SIGQUIT  # "immediate": the main process takes its children with it

    def __init__(self) -> None:
        found = _find_binaries()
        super().__init__(unprivileged("postgres"))
        self._emptied: list[str] = []
        self.binaries = _readable(found, self.account, self.folder)

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The URL of one database of this server."""
        return f"postgresql://qsched@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str | None = None) -> str:
        """The URL of a fresh database: empty, or a copy of the database that the URL `template` names."""
        name = self._next_name()
        source = template.rpartition("/")[2] if template else "template1"
        self.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(source))
        )
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, and whoever is still connected to it."""
        self.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(url.rpartition("/")[2])))

    @contextmanager
    def lease(self) -> Iterator[str]:
        """An empty database for one test; afterwards it is emptied for the next, as making one is slow."""
        url = self._emptied.pop() if self._emptied else self.new_database()
        yield url
        try:
            empty(url)
        except psycopg.Error:
            self.drop_database(url)
        else:
            self._emptied.append(url)

    def execute(self, statement: sql.SQL | sql.Composed) -> None:
        """Run one statement as the owner of the server, outside any transaction."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
            connection.execute(statement)

    def _prepare(self) -> None:
        initdb = [str(self.binaries / "initdb"), "-D", str(self.folder / "data"), "--username=qsched"]
        run(
            [*initdb, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"], self.account, self.folder
        )

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
        }
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.folder / "data"), *flags]

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def empty(url: str) -> None:
    """Disconnect everybody else from a database and drop all that was made in it."""
    with psycopg.connect(
        url, autocommit=True, connect_timeout=5, options="-c statement_timeout=20s"
    ) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        made = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
        ).fetchall()
        for (schema,) in made:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
        connection.execute("CREATE SCHEMA public")


def _find_binaries() -> Path:
    for folder in _candidates():
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise ServerMissing("PostgreSQL is not on this machine: install it, or the wheel pgserver")


def _candidates() -> list[Path]:
    named = os.environ.get("QSCHED_TEST_POSTGRES_BIN")
    on_path = shutil.which("postgres")
    installed = {
        int(p.parent.name): p
        for p in Path("/usr/lib/postgresql").glob("[0-9]*/bin")
        if p.parent.name.isdigit()
    }
    newest_first = [installed[version] for version in sorted(installed, reverse=True) if version >= _OLDEST]
    wheel = importlib.util.find_spec("pgserver")
    return [
        *([Path(named)] if named else []),
        *([Path(on_path).resolve().parent] if on_path else []),
        *newest_first,
        *([Path(wheel.origin).parent / "pginstall" / "bin"] if wheel and wheel.origin else []),
    ]


def _readable(binaries: Path, account: Account, folder: Path) -> Path:
    """The binaries themselves where the account can run them, else a copy inside the server's folder."""
    try:
        run([str(binaries / "postgres"), "--version"], account, folder)
    except RuntimeError:
        return _copied(binaries, folder / "install")
    return binaries


def _copied(binaries: Path, to: Path) -> Path:
    """Copy an installation; a wheel's binaries look for their libraries beside the wheel's package."""
    package = binaries.parent.parent
    copy = to / package.name / binaries.parent.name
    shutil.copytree(binaries.parent, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, to / libraries.name)
    for place in (to, copy.parent, copy):
        place.chmod(0o755)
    return copy / binaries.name
