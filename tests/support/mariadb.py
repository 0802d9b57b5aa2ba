"""A private MariaDB from the machine's binaries, with its stock durability."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pymysql

from .processes import run, unprivileged
from .server import Server, ServerMissing

_SBIN = os.pathsep.join(["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"])


class MariaServer(Server):
    """MariaDB as it comes, without the machine's configuration files."""

    def __init__(self) -> None:
        self.binary = _find("mariadbd", "mysqld")
        self.installer = _find("mariadb-install-db", "mysql_install_db")
        super().__init__(unprivileged("mysql"))

    @property
    def url(self) -> str:
        return self.url_of("mysql")

    def url_of(self, database: str) -> str:
        """The URL of one database of this server."""
        return f"mariadb://qsched:qsched@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of a fresh, empty database."""
        name = self._next_name()
        self.execute(f"CREATE DATABASE {name}")
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, and whoever is still connected to it."""
        name = url.rpartition("/")[2]
        for (connected,) in self.execute(
            f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"
        ):
            with suppress(pymysql.err.OperationalError):  # it may have left by itself meanwhile
                self.execute(f"KILL {connected}")
        self.execute(f"DROP DATABASE {name}")

    @contextmanager
    def lease(self) -> Iterator[str]:
        """An empty database for one test."""
        url = self.new_database()
        yield url
        self.drop_database(url)

    def execute(
        self, *statements: str, user: str = "qsched", password: str = "qsched"
    ) -> list[tuple[Any, ...]]:
        """Run statements, each its own transaction; answer the last one's rows."""
        # Without ssl_disabled PyMySQL reads the machine's certificates at every connect: 50 ms.
        to = partial(pymysql.connect, host="127.0.0.1", port=self.port, ssl_disabled=True, autocommit=True)
        connection = to(user=user, password=password, connect_timeout=5)
        with closing(connection), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def start(self) -> None:
        first = not (self.folder / "data").exists()
        super().start()
        if first:
            account = "'qsched'@'127.0.0.1'"
            self.execute(
                f"CREATE USER {account} IDENTIFIED BY 'qsched'",
                f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION",
                user="root",
                password="",
            )

    def _prepare(self) -> None:
        data = self.folder / "data"
        flags = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        run([self.installer, *flags, "--skip-test-db", "--skip-name-resolve"], self.account, self.folder)

    def _command(self) -> list[str]:
        return [
            self.binary,
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--tmpdir={self.folder}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-networking=OFF",
            "--max-connections=200",
        ]

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1", user="root", password="")
        except pymysql.err.OperationalError:
            return False
        return True


def _find(*names: str) -> str:
    for name in names:
        found = shutil.which(name) or shutil.which(name, path=_SBIN)
        if found:
            return str(Path(found).resolve()) if name == "mysqld" else found
    raise ServerMissing(f"MariaDB is not on this machine ({names[0]} was not found): install mariadb-server")
