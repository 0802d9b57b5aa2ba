"""Which file wins when replicas carry different ones, and what becomes of an apply that was interrupted."""

import pytest
from qsched.scheduler import apply as apply_module
from qsched.scheduler.apply import apply
from qsched.scheduler.apply_chunk import Chunk, Written, write_chunk
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.tx import Tx

from support.declared import (
    Declared,
    Hands,
    at,
    command,
    declared,
    dump,
    rows,
    trigger,
    write,
)

OLD = declared(trigger("a"), trigger("b"), trigger("c"))
NEW = declared(trigger("a"), trigger("c"))


def node(store: Store, name: str, revision: int | None, lease_until: str) -> None:
    """A node that carries `revision` and lives until then."""
    write(
        store,
        "INSERT INTO qsched_nodes (cluster, name, host, pid, state, started_at, checked_in_at, lease_until,"
        " renew_seq, capacity, version, revision) VALUES (?, ?, 'h', 1, 'up', 0, 0, ?, 1, 1, '1', ?)",
        *(store.cluster_id, name, at(lease_until), revision),
    )


def states(store: Store) -> dict[str, str]:
    return dict(rows(store, "SELECT name, state FROM qsched_triggers"))


def test_an_older_file_does_not_undo_a_newer_one_that_a_live_node_carries(store: Store, hands: Hands) -> None:
    old = apply(store, OLD, if_newer=True)
    node(store, "one", old.revision, "2024-01-10 13:00")
    new = apply(store, NEW, if_newer=True)
    assert (new.status, new.revision) == ("applied", 2)
    node(store, "two", new.revision, "2024-01-10 12:30")
    before = dump(store)
    again = apply(store, OLD, if_newer=True)
    assert (again.status, again.revision, again.current, again.wrote) == ("older", 1, 2, False)
    assert dump(store) == before
    assert states(store)["b"] == "retired"
    hands.move_to("2024-01-10 12:31")
    back = apply(store, OLD, if_newer=True)
    assert (back.status, back.revision, back.revived) == ("applied", 3, ("b",))


def test_an_explicit_apply_always_wins(store: Store) -> None:
    apply(store, OLD)
    node(store, "two", apply(store, NEW).revision, "2024-01-10 13:00")
    assert apply(store, OLD).revision == 3
    assert states(store)["b"] == "waiting"


def test_a_node_of_another_namespace_does_not_keep_a_newer_file_alive(store: Store) -> None:
    apply(store, OLD)
    apply(store, NEW)
    other = apply(store, Declared((trigger("x", job="x"),), (command("x"),), "other"))
    assert other.revision == 3
    node(store, "other", other.revision, "2024-01-10 13:00")
    assert apply(store, OLD, if_newer=True).status == "applied"


def test_a_file_that_differs_in_a_comment_is_a_revision_of_its_own_and_touches_nothing_else(
    store: Store,
) -> None:
    apply(store, OLD)
    before = dump(store)
    noted = Declared(OLD.triggers, OLD.jobs, comment="why")
    assert apply(store, noted).revision == 2
    after = dump(store)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"qsched_declarations", "qsched_revisions", "qsched_audit"}


def many(number: int) -> Declared:
    return declared(*(trigger(f"t{each:04}") for each in range(number)))


def test_more_than_one_transaction_holds_is_applied_in_chunks(store: Store) -> None:
    applied = apply(store, many(1200))
    assert len(applied.added) == 1200
    assert rows(store, "SELECT revision, state FROM qsched_declarations") == [(1, "applied")]
    assert len(rows(store, "SELECT id FROM qsched_audit")) == 3
    assert apply(store, many(1200)).status == "up_to_date"


def test_an_interrupted_apply_is_finished_by_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def dies_at_the_third(tx: Tx, chunk: Chunk) -> Written:
        done.append(1)
        if len(done) == 3:
            raise KeyboardInterrupt
        return write_chunk(tx, chunk)

    with monkeypatch.context() as patched:
        patched.setattr(apply_module, "write_chunk", dies_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            apply(store, many(1200))
    assert rows(store, "SELECT revision, state FROM qsched_declarations") == [(1, "applying")]
    assert rows(store, "SELECT COUNT(*) FROM qsched_triggers") == [(999,)]
    applied = apply(store, many(1200))
    assert (len(applied.added), applied.unchanged, applied.revision) == (201, 999, 1)
    assert rows(store, "SELECT revision, state FROM qsched_declarations") == [(1, "applied")]


def test_another_file_may_follow_an_interrupted_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(tx: Tx, chunk: Chunk) -> Written:
        if len(chunk.triggers) < 500:
            return write_chunk(tx, chunk)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(apply_module, "write_chunk", dies)
        with pytest.raises(KeyboardInterrupt):
            apply(store, many(1200))
    applied = apply(store, many(3), allow_mass_prune=True)
    assert applied.revision == 2
    assert rows(store, "SELECT state, COUNT(*) FROM qsched_triggers GROUP BY state ORDER BY state") == [
        ("retired", 496),
        ("waiting", 3),
    ]
