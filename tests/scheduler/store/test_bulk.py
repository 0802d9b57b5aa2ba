"""The bulk verbs do the same on all three databases: order, NULLs, texts, and what they count."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qsched.scheduler.errors import ConstraintHit
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.ledger_tables import permits
from qsched.scheduler.store.tables import audit, clusters, paused_groups, trigger_clocks
from qsched.scheduler.store.tx import Tx

AUDIT = ("cluster", "at", "who", "verb", "object", "detail")
HARD = 'ünï \U0001f600 \'"` \\ % %s ? :x {"a": [null, "\\u0041"]} \n\t end '
INSTANT = 1_704_844_800_123_456


def _audit_row(number: int, detail: str | None = None) -> tuple[object, ...]:
    return (7, INSTANT + number, None, "v", f"o{number}", detail)


def _details(store: Store) -> list[object]:
    return store.read(
        "r", lambda tx: [row[0] for row in tx.run("SELECT detail FROM qsched_audit ORDER BY at")]
    )


def test_inserting_nothing_is_nothing(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.insert(audit, AUDIT, [])
        assert tx.insert_ids(audit, AUDIT, []) == []
        tx.insert_missing(audit, AUDIT, [])
        assert tx.update(audit, ("id",), ("who",), []) == 0

    store.transaction("w", work)
    assert _details(store) == []


@pytest.mark.parametrize("count", [1, 2, 1201])
def test_ids_come_back_in_the_order_of_the_rows(store: Store, count: int) -> None:
    rows = [_audit_row(number) for number in range(count)]
    first = store.transaction("w", lambda tx: tx.insert_ids(audit, AUDIT, rows))
    more = store.transaction("w", lambda tx: tx.insert_ids(audit, AUDIT, rows[:3]))
    stored = store.read("r", lambda tx: tx.run("SELECT id, object FROM qsched_audit ORDER BY id").fetchall())
    assert [(row[0], row[1]) for row in stored[:count]] == list(zip(first, [r[4] for r in rows], strict=True))
    assert len(set(first + more)) == len(first + more)
    assert min(more) > max(first)


def test_texts_and_nulls_survive_every_verb_byte_for_byte(store: Store) -> None:
    long = "x" * 200_000 + HARD
    rows = [_audit_row(0, HARD), _audit_row(1, None), _audit_row(2, ""), _audit_row(3, long)]
    ids = store.transaction("w", lambda tx: tx.insert_ids(audit, AUDIT, rows))
    assert _details(store) == [HARD, None, "", long]
    store.transaction("w", lambda tx: tx.insert(audit, AUDIT, [_audit_row(4, HARD), _audit_row(5)]))
    assert _details(store)[4:] == [HARD, None]
    changes = [(ids[0], None), (ids[1], HARD), (ids[2], long), (ids[3], "")]
    assert store.transaction("w", lambda tx: tx.update(audit, ("id",), ("detail",), changes)) == 4
    assert _details(store)[:4] == [None, HARD, long, ""]


def test_all_values_of_a_column_may_be_null(store: Store) -> None:
    rows = [(7, INSTANT, None, "v", "o", None)] * 3
    ids = store.transaction("w", lambda tx: tx.insert_ids(audit, AUDIT, rows))
    nothing = [(number, None, None) for number in ids]
    assert store.transaction("w", lambda tx: tx.update(audit, ("id",), ("who", "detail"), nothing)) == 3


def test_an_update_counts_what_matched_also_where_nothing_changed(store: Store) -> None:
    ids = store.transaction("w", lambda tx: tx.insert_ids(audit, AUDIT, [_audit_row(n) for n in range(3)]))
    same = [(number, "o0") for number in ids] + [(ids[-1] + 1000, "gone")]
    assert store.transaction("w", lambda tx: tx.update(audit, ("id",), ("object",), same)) == 3
    assert store.transaction("w", lambda tx: tx.update(audit, ("id",), ("object",), same)) == 3
    one = store.transaction("w", lambda tx: tx.run("UPDATE qsched_audit SET who = who WHERE id = ?", ids[0]))
    assert one.rowcount == 1


def test_a_compare_and_set_moves_only_rows_that_are_as_they_were_seen(store: Store) -> None:
    columns = ("id", "cluster", "job_id", "precedence", "overlap", "version", "fires", "misfires", "retrying")
    rows = [(number, 1, 1, 95, "allow", number, 0, 0, 0) for number in range(1, 1101)]

    def work(tx: Tx) -> int:
        tx.insert(trigger_clocks, columns, rows)
        moves = [(n, n if n % 2 else n + 1, INSTANT + n, None, n + 1) for n in range(1, 1101)]
        return tx.update(trigger_clocks, ("id", "version"), ("next_run_at", "next_fire_at", "version"), moves)

    assert store.transaction("w", work) == 550
    moved = store.read(
        "r",
        lambda tx: tx.run(
            "SELECT id, next_run_at, version FROM qsched_trigger_clocks ORDER BY id"
        ).fetchall(),
    )
    assert [tuple(row) for row in moved[:4]] == [
        (1, INSTANT + 1, 2),
        (2, None, 2),
        (3, INSTANT + 3, 4),
        (4, None, 4),
    ]


def test_text_keys_are_compared_byte_for_byte(store: Store) -> None:
    keys = ["Job", "job", "job ", "jöb", "job\U0001f600"]

    def work(tx: Tx) -> int:
        tx.insert(permits, ("cluster", "permit_key", "n"), [(1, key, 0) for key in keys])
        return tx.update(
            permits,
            ("cluster", "permit_key", "n"),
            ("firing_id",),
            [(1, k, 0, i) for i, k in enumerate(keys)],
        )

    assert store.transaction("w", work) == 5
    rows = store.read("r", lambda tx: tx.run("SELECT permit_key, firing_id FROM qsched_permits").fetchall())
    assert {row[0]: row[1] for row in rows} == {key: index for index, key in enumerate(keys)}


def test_inserting_what_is_missing_leaves_the_rest_and_aborts_nothing(store: Store) -> None:
    columns = ("cluster", "group_name", "paused_at", "paused_by")

    def work(tx: Tx) -> list[tuple[object, ...]]:
        tx.insert(paused_groups, columns, [(1, "a", 1, "first")])
        tx.insert_missing(paused_groups, columns, [(1, g, 2, "second") for g in ("a", "b", "a", "c")])
        return [tuple(r) for r in tx.run("SELECT group_name, paused_by FROM qsched_paused_groups ORDER BY 1")]

    assert store.transaction("w", work) == [("a", "first"), ("b", "second"), ("c", "second")]


def test_a_row_that_breaks_a_key_takes_the_whole_transaction_with_it(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.insert(audit, AUDIT, [_audit_row(0)])  # MariaDB would keep this one if anybody committed
        tx.insert(clusters, ("name", "uuid", "created_at"), [("x", "u", 1), ("x", "v", 1)])

    with pytest.raises(ConstraintHit):
        store.transaction("w", work)
    assert _details(store) == []
    assert store.transaction("w", lambda tx: tx.insert_ids(audit, AUDIT, [_audit_row(0)]))


TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(TEXTS, min_size=1, max_size=8), st.integers(-(2**63), 2**63 - 1))
def test_whatever_a_text_holds_it_comes_back(store: Store, texts: list[str | None], number: int) -> None:
    def work(tx: Tx) -> list[object]:
        ids = tx.insert_ids(audit, AUDIT, [(7, number, None, "v", "o", text) for text in texts])
        there = [tx.run("SELECT detail FROM qsched_audit WHERE id = ?", i).scalar() for i in ids]
        changes = [(i, text, number) for i, text in zip(ids, reversed(texts), strict=True)]
        assert tx.update(audit, ("id",), ("detail", "at"), changes) == len(texts)
        back = [
            tx.run("SELECT detail FROM qsched_audit WHERE id = ? AND at = ?", i, number).scalar() for i in ids
        ]
        assert back == list(reversed(texts))
        return there

    assert store.transaction("w", work) == texts


def test_among_finds_the_rows_it_names(store: Store) -> None:
    def work(tx: Tx) -> list[object]:
        ids = tx.insert_ids(audit, AUDIT, [_audit_row(n) for n in range(5)])
        condition, values = tx.among("id", ids[1:4])
        return [
            r[0] for r in tx.run(f"SELECT object FROM qsched_audit WHERE {condition} ORDER BY id", *values)
        ]

    assert store.transaction("w", work) == ["o1", "o2", "o3"]
