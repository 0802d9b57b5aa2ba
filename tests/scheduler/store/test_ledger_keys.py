"""What the database itself refuses or keeps apart, whatever the code above does."""

from collections.abc import Sequence

import pytest
from qsched.scheduler.errors import ConstraintHit
from qsched.scheduler.firing import NewFiring
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import MARIADB, SQLITE
from qsched.scheduler.store.firing_rows import insert_firings
from qsched.scheduler.store.ledger_tables import firings
from qsched.scheduler.store.tables import jobs, metadata, nodes, triggers
from qsched.scheduler.store.tx import Tx

SLOT = 1_704_844_800_000_000
RAW = (
    "INSERT INTO qsched_firings (cluster, trigger_id, job_id, job_name, scheduled_at, first_scheduled_at, covers,"
    " reason, state, run_at, precedence, fence, attempt, refires, recoveries, noticed_at, request_recovery,"
    " max_recoveries, request_key) VALUES (1, {trigger}, 1, 'j', {slot}, {slot}, 1, '{reason}', 'due', {slot}, 95,"
    " 0, 0, 0, 0, {slot}, 0, 3, {key})"
)


def _raw(trigger: object, slot: int = SLOT, reason: str = "schedule", key: str = "NULL") -> str:
    return RAW.format(trigger=trigger, slot=slot, reason=reason, key=key)


def _firing(trigger: int | None, slot: int = SLOT, key: str | None = None) -> NewFiring:
    reason = "schedule" if key is None else "manual"
    state = "due"
    return NewFiring(
        1, trigger, None, 1, "t", "j", slot, slot, 1, reason, state, slot, 95, slot, request_key=key
    )


def _count(store: Store) -> int:
    return store.read("r", lambda tx: int(tx.run("SELECT COUNT(*) FROM qsched_firings").scalar_one()))


@pytest.mark.parametrize("reason", ["schedule", "misfire", "paused", "manual"])
def test_a_second_firing_for_a_decided_slot_is_refused_by_the_database(store: Store, reason: str) -> None:
    store.transaction("first", lambda tx: insert_firings(tx, [_firing(7)]))
    with pytest.raises(ConstraintHit):
        store.transaction("second", lambda tx: tx.run(_raw(7, reason=reason)))
    with pytest.raises(ConstraintHit):
        store.transaction("many", lambda tx: insert_firings(tx, [_firing(8), _firing(7), _firing(9)]))
    assert _count(store) == 1
    store.transaction("others", lambda tx: [tx.run(_raw(8)), tx.run(_raw(7, SLOT + 1))])
    assert _count(store) == 3


def test_a_request_is_answered_once_and_requests_share_instants(store: Store) -> None:
    store.transaction("w", lambda tx: insert_firings(tx, [_firing(None, key=f"m:{n}") for n in range(3)]))
    with pytest.raises(ConstraintHit):
        store.transaction("w", lambda tx: tx.run(_raw("NULL", reason="manual", key="'m:1'")))
    store.transaction("w", lambda tx: [tx.run(_raw("NULL")), tx.run(_raw("NULL"))])
    assert _count(store) == 5


NAMES = [
    "Job",
    "job",
    "JOB",
    "jOb",
    "job.",
    "jöb",
    "jo\u0308b",
    "job\u00a0x",
    "job x",
    "ß",
    "ss",
    "\U0001f600",
]


def test_names_are_compared_byte_for_byte(store: Store) -> None:
    columns = (
        "cluster",
        "name",
        "namespace",
        "state",
        "spec",
        "definition_digest",
        "created_at",
        "updated_at",
    )

    def rows(names: Sequence[str]) -> list[tuple[object, ...]]:
        return [(1, name, "n", "active", "{}", "d", 1, 1) for name in names]

    def found(tx: Tx) -> dict[str, list[str]]:
        return {
            name: [row[0] for row in tx.run("SELECT name FROM qsched_jobs WHERE name = ?", name)]
            for name in NAMES
        }

    # The rules for names forbid a blank at the end; the database must still not take it for the same.
    store.transaction("w", lambda tx: tx.insert(jobs, columns, rows([*NAMES, "job "])))
    assert store.read("r", found) == {name: [name] for name in NAMES}
    with pytest.raises(ConstraintHit):
        store.transaction("w", lambda tx: tx.insert(jobs, columns, rows(["job"])))
    ordered = store.read("r", lambda tx: [r[0] for r in tx.run("SELECT name FROM qsched_jobs")])
    assert sorted(ordered) == sorted([*NAMES, "job "])


def test_a_trigger_key_is_one_in_its_cluster(store: Store) -> None:
    columns = tuple(c.name for c in triggers.columns if not c.nullable and c.name != "id")

    def row(cluster: int, group: str, name: str) -> tuple[object, ...]:
        given = {"cluster": cluster, "group_name": group, "name": name}
        return tuple(
            given.get(c, 1 if c in ("job_id", "spec_version", "created_at", "updated_at") else "x")
            for c in columns
        )

    def work(tx: Tx) -> None:
        keys = [(1, "g", "n"), (1, "g", "N"), (1, "G", "n"), (2, "g", "n")]
        tx.insert(triggers, columns, [row(*key) for key in keys])

    store.transaction("w", work)
    with pytest.raises(ConstraintHit):
        store.transaction("w", lambda tx: tx.insert(triggers, columns, [row(1, "g", "n")]))


def test_ids_and_incarnations_are_never_given_twice(store: Store) -> None:
    columns = tuple(c.name for c in nodes.columns if not c.nullable and c.name != "incarnation")
    texts = {"name", "host", "state", "version"}
    values = tuple("x" if name in texts else 1 for name in columns)

    def incarnate(tx: Tx) -> int:
        marks = ",".join("?" * len(columns))
        tx.run(f"INSERT INTO qsched_nodes ({','.join(columns)}) VALUES ({marks})", *values)
        return int(tx.run("SELECT MAX(incarnation) FROM qsched_nodes").scalar_one())

    given, firing_ids = [], []
    for _ in range(3):
        given.append(store.transaction("w", incarnate))
        firing_ids += store.transaction("w", lambda tx: insert_firings(tx, [_firing(1), _firing(2)]))
        store.transaction(
            "w", lambda tx: [tx.run("DELETE FROM qsched_nodes"), tx.run("DELETE FROM qsched_firings")]
        )
        store.close()
    assert given == sorted(set(given))
    assert firing_ids == sorted(set(firing_ids))


def test_every_column_can_be_written_without_quotes(store: Store) -> None:
    def found(tx: Tx) -> list[object]:
        rows: list[object] = []
        for table in metadata.sorted_tables:
            names = [column.name for column in table.columns]
            nowhere = " AND ".join(f"t.{name} IS NULL" for name in names)
            rows += tx.run(f"SELECT {', '.join(names)} FROM {table.name} t WHERE {nowhere}").fetchall()
        return rows

    assert store.read("r", found) == []


def test_a_broken_spec_is_its_rows_error_and_not_the_querys(store: Store) -> None:
    columns = (
        "cluster",
        "name",
        "namespace",
        "state",
        "spec",
        "definition_digest",
        "created_at",
        "updated_at",
    )
    broken = [(1, f"j{n}", "n", "active", text, "d", 1, 1) for n, text in enumerate(["{", "", "null", "{}"])]
    store.transaction("w", lambda tx: tx.insert(jobs, columns, broken))
    specs = store.read("r", lambda tx: [row[0] for row in tx.run("SELECT spec FROM qsched_jobs ORDER BY id")])
    assert specs == ["{", "", "null", "{}"]


def test_the_due_rows_are_found_by_their_index(store: Store) -> None:
    statement = (
        "SELECT id FROM qsched_firings WHERE cluster = 1 AND state = 'due' AND run_at <= 5"
        " ORDER BY run_at, precedence, id LIMIT 10"
    )
    explain = "EXPLAIN QUERY PLAN " if store.dialect is SQLITE else "EXPLAIN "
    rows = store.transaction(
        "w", lambda tx: tx.run(explain + statement + store.dialect.skip_locked).fetchall()
    )
    plan = " ".join(str(value) for row in rows for value in row)
    assert "ix_qsched_firings_due" in plan
    assert not any(word in plan for word in ("TEMP B-TREE", "Sort", "filesort")), plan


def test_firings_insert_every_column_they_name(store: Store) -> None:
    assert set(NewFiring._fields) <= {column.name for column in firings.columns}
    assert store.dialect.name in ("sqlite", "postgresql", MARIADB.name)
