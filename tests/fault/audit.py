"""Database triggers of the harness's own: every change of the protocol's rows, in the database's order, by nobody's word.

Within one row, and wherever one transaction waited for another's lock, the audit's numbers are in the order of the commits.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

COLUMNS: dict[str, tuple[str, ...]] = {
    "firings": (
        *("id", "trigger_id", "requested_trigger_id", "job_id", "trigger_name", "job_name", "scheduled_at"),
        *("first_scheduled_at", "covers", "reason", "state", "run_at", "fence", "attempt", "recoveries"),
        *("incarnation", "noticed_at", "started_at", "finished_at", "outcome", "permit_key"),
        *("misfire_cause", "misfire_policy", "misfire_decision", "request_recovery", "next_at"),
        *("cancel_requested_at", "retry_dropped", "request_key", "limit_key", "of_firing"),
    ),
    "nodes": (
        *("incarnation", "name", "pid", "state", "started_at", "checked_in_at", "lease_until", "renew_seq"),
        *("suspected_seq", "suspected_at", "session_lock", "dead_verdict", "marked_by", "ended_at", "health"),
    ),
    "trigger_clocks": ("id", "next_fire_at", "next_run_at", "watermark", "version", "fires", "misfires"),
    "clusters": ("id", "coordination", "epoch", "leader_incarnation", "leader_until", "fallen_back_at"),
    "triggers": (
        "id",
        "group_name",
        "name",
        "state",
        "error",
        "paused_at",
        "spec",
        "created_at",
        "updated_at",
    ),
    "permits": ("permit_key", "n", "firing_id", "fence"),
    "jobs": ("id", "name", "saved_data"),
    "attempts": (
        *("firing_id", "fence", "attempt", "recovering", "incarnation", "started_at", "finished_at"),
        *("outcome", "next_run_at"),
    ),
}
"""Per table what is kept of each version of a row; the final dump has the same."""

TEXTS = {
    "firings": ("error", "note", "data"),
    "jobs": ("spec", "loaded"),
    "audit": ("who", "verb", "object", "detail"),
}
"""What else is dumped in the end: texts, in which the secret is looked for."""

AUDIT = "fault_audit"
_NOW = {
    "postgresql": "(extract(epoch from clock_timestamp()) * 1000000)::bigint",
    "mariadb": "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
}
_TABLE = {
    "postgresql": "seq bigserial PRIMARY KEY, at bigint, backend bigint, tbl text, op text, new text",
    "mariadb": "seq bigint AUTO_INCREMENT PRIMARY KEY, at bigint, backend bigint, tbl varchar(40), op varchar(10),"
    " new longtext",
    "sqlite": "seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER, backend INTEGER, tbl TEXT, op TEXT, new TEXT",
}


class Inspector:
    """The harness's own, direct way to the database under test; never through a proxy or the product."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = url.partition(":")[0]

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A connection that commits each statement."""
        parts = urlsplit(self.url)
        if self.database == "postgresql":
            with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
                yield connection
        elif self.database == "mariadb":
            with closing(
                pymysql.connect(
                    host=parts.hostname,
                    port=parts.port or 3306,
                    user=parts.username,
                    password=parts.password or "",
                    database=parts.path[1:],
                    ssl_disabled=True,
                    autocommit=True,
                )
            ) as connection:
                yield connection
        else:
            with closing(
                sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
            ) as connection:
                yield connection

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement; its rows, if it has any."""
        with self.connected() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def run(self, *statements: str) -> None:
        with self.connected() as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    # -- the audit -----------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Make the audit's table and triggers; the store's schema is there."""
        statements = [f"CREATE TABLE {AUDIT} ({_TABLE[self.database]})"]
        for table, columns in COLUMNS.items():
            statements += self._triggers(table, columns)
        self.run(*statements)

    def _triggers(self, table: str, columns: tuple[str, ...]) -> list[str]:
        values = ", ".join(f"NEW.{column}" for column in columns)
        now = _NOW[self.database]
        if self.database == "postgresql":
            return [
                f"CREATE FUNCTION {AUDIT}_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" INSERT INTO {AUDIT} (at, backend, tbl, op, new) VALUES ({now}, pg_backend_pid(), '{table}', TG_OP,"
                f" json_build_array({values})::text); RETURN NULL; END $$",
                f"CREATE TRIGGER {AUDIT} AFTER INSERT OR UPDATE ON qsched_{table}"
                f" FOR EACH ROW EXECUTE FUNCTION {AUDIT}_{table}()",
            ]
        backend = "CONNECTION_ID()" if self.database == "mariadb" else "NULL"
        each = " BEGIN {} ; END" if self.database == "sqlite" else " {}"
        return [
            f"CREATE TRIGGER {AUDIT}_{table}_{op.lower()} AFTER {op} ON qsched_{table} FOR EACH ROW"
            + each.format(
                f"INSERT INTO {AUDIT} (at, backend, tbl, op, new)"
                f" VALUES ({now}, {backend}, '{table}', '{op}', json_array({values}))"
            )
            for op in ("INSERT", "UPDATE")
        ]

    def dump(self, folder: Path) -> None:
        """The audit and the final tables, as files that the checker reads."""
        with (folder / "audit.jsonl").open("w") as file:
            for seq, at, backend, table, op, new in self.rows(
                f"SELECT seq, at, backend, tbl, op, new FROM {AUDIT} ORDER BY seq"
            ):
                row = dict(zip(COLUMNS[table], json.loads(new), strict=True))
                said = {"seq": seq, "at": at, "backend": backend, "table": table, "op": op, "row": row}
                file.write(json.dumps(said, separators=(",", ":")) + "\n")
        for table in COLUMNS.keys() | TEXTS.keys():
            columns = (*COLUMNS.get(table, ()), *TEXTS.get(table, ()))
            found = self.rows(f"SELECT {', '.join(columns)} FROM qsched_{table}")
            with (folder / f"final_{table}.jsonl").open("w") as file:
                for values in found:
                    file.write(
                        json.dumps(dict(zip(columns, values, strict=True)), separators=(",", ":")) + "\n"
                    )
