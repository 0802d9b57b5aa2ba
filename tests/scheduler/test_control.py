"""What people do to triggers: each verb leaves a clean clock, a row for what did not run, and its mark in the audit."""

from collections.abc import Iterator
from threading import Barrier, Thread

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import bills, delete, end_pauses, find, fire, pause, reset, resume
from qsched.scheduler.errors import Conflict, Refused, UnknownTrigger
from qsched.scheduler.firing import NewFiring
from qsched.scheduler.groups import end_group_pauses, pause_group, resume_group
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.trigger_lists import ended_group_pauses, ended_pauses
from qsched.triggers.errors import DefinitionError
from qsched.triggers.job import JobPolicies

from support.declared import (
    Declared,
    Hands,
    at,
    command,
    declared,
    dump,
    new_store,
    put,
    rows,
    trigger,
    write,
)

NOON = "2024-01-10 12:00"


@pytest.fixture
def store(made_url: str, hands: Hands) -> Iterator[Store]:
    store = new_store(made_url, hands)
    apply(store, declared(trigger("a"), trigger("b"), trigger("g/c"), trigger("g/d")))
    yield store
    store.close()


def clock(store: Store, name: str) -> tuple[int | None, ...]:
    """(next_fire_at, next_run_at, watermark)."""
    columns = "c.next_fire_at, c.next_run_at, c.watermark"
    found = rows(
        store,
        f"SELECT {columns} FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id WHERE t.name = ?",
        name,
    )
    return found[0]


def state(store: Store, name: str) -> str:
    return str(rows(store, "SELECT state FROM qsched_triggers WHERE name = ?", name)[0][0])


def ledger(store: Store) -> list[tuple[object, ...]]:
    return rows(store, "SELECT trigger_name, reason, state, covers FROM qsched_firings ORDER BY id")


def due_firing(store: Store, trigger_id: int, name: str, moment: str) -> None:
    slot = at(moment)
    row = NewFiring(1, trigger_id, None, 1, name, "report", slot, slot, 1, "schedule", "due", slot, 95, slot)
    put(store, row)


def audit(store: Store) -> list[tuple[object, ...]]:
    return rows(store, "SELECT who, verb, object FROM qsched_audit WHERE verb <> 'apply' ORDER BY id")


def test_a_paused_trigger_cannot_start_and_says_who_why_and_how_long(store: Store) -> None:
    pause(store, ["a"], who="ada", reason="deploy", until=at("2024-01-10 13:00"))
    assert clock(store, "a") == (at("2024-01-10 12:01"), None, at(NOON))
    found = rows(
        store,
        "SELECT paused_at, paused_by, paused_reason, paused_until, state FROM qsched_triggers WHERE name = 'a'",
    )
    assert found == [(at(NOON), "ada", "deploy", at("2024-01-10 13:00"), "waiting")]
    assert clock(store, "b")[1] == at("2024-01-10 12:01")
    assert audit(store) == [("ada", "pause", "a")]


def test_pause_closes_what_was_owed_before_it(store: Store, hands: Hands) -> None:
    hands.move_to("2024-01-10 12:05")
    assert [(bill.key, bill.slots) for bill in pause(store, ["a"])] == [("a", 5)]
    assert ledger(store) == [("a", "paused", "skipped", 5)]
    assert clock(store, "a") == (at("2024-01-10 12:06"), None, at("2024-01-10 12:05"))


def test_a_pause_that_is_said_again_keeps_its_beginning(store: Store, hands: Hands) -> None:
    pause(store, ["a"], who="ada")
    hands.move_to("2024-01-10 12:05")
    assert pause(store, ["a"], who="bob", reason="longer") == ()
    found = rows(store, "SELECT paused_at, paused_by, paused_reason FROM qsched_triggers WHERE name = 'a'")
    assert found == [(at(NOON), "bob", "longer")]
    assert ledger(store) == []


def test_resume_shows_the_bill_and_runs_nothing_of_it(store: Store, hands: Hands) -> None:
    due_firing(store, 1, "a", "2024-01-10 11:59")
    pause(store, ["a"])
    hands.move_to("2024-01-10 12:10")
    before = dump(store)
    shown = bills(store, ["a"])
    assert dump(store) == before
    assert resume(store, ["a"], who="ada") == shown
    (bill,) = shown
    assert (bill.slots, bill.first, bill.last, bill.held) == (
        10,
        at("2024-01-10 12:01"),
        at("2024-01-10 12:10"),
        1,
    )
    assert ledger(store) == [("a", "schedule", "skipped", 1), ("a", "paused", "skipped", 10)]
    assert clock(store, "a") == (at("2024-01-10 12:11"), at("2024-01-10 12:11"), at("2024-01-10 12:10"))
    assert rows(store, "SELECT paused_at, paused_by FROM qsched_triggers WHERE name = 'a'") == [(None, None)]
    assert resume(store, ["a"]) == ()


def test_resume_that_is_asked_to_catch_up_leaves_it_to_the_misfire_rule(store: Store, hands: Hands) -> None:
    due_firing(store, 1, "a", "2024-01-10 11:59")
    pause(store, ["a"])
    hands.move_to("2024-01-10 12:10")
    (bill,) = resume(store, ["a"], catch_up=True)
    assert bill.slots == 10
    assert clock(store, "a")[:2] == (at("2024-01-10 12:01"), at("2024-01-10 12:01"))
    assert ledger(store) == [("a", "schedule", "due", 1)]


def test_a_pause_ends_by_itself_but_not_one_that_was_made_longer(store: Store, hands: Hands) -> None:
    pause(store, ["a", "b"], until=at("2024-01-10 12:05"))
    hands.move_to("2024-01-10 12:06")
    assert store.read("ended", lambda tx: ended_pauses(tx, 10)) == ["a", "b"]
    pause(store, ["b"], until=at("2024-01-10 13:00"))
    assert [bill.key for bill in end_pauses(store, ["a", "b"])] == ["a"]
    assert clock(store, "a")[1] == at("2024-01-10 12:07")
    assert clock(store, "b")[1] is None


def test_a_group_pauses_and_resumes_as_one(store: Store, hands: Hands) -> None:
    pause_group(store, "g", who="ada", until=at("2024-01-10 12:05"))
    apply(
        store,
        declared(trigger("g/e"), namespace="late", jobs=(command("late"),), comment="job"),
        prune="keep",
    )
    for name in ("c", "d", "e"):
        assert clock(store, name)[:2] == (at("2024-01-10 12:01"), None)
    pause(store, ["g/d"])
    hands.move_to("2024-01-10 12:05")
    pause_group(store, "g", reason="again")
    assert ledger(store) == []
    found = rows(store, "SELECT paused_at, paused_reason FROM qsched_paused_groups")
    assert found == [(at(NOON), "again")]
    assert [(bill.key, bill.slots) for bill in resume_group(store, "g")] == [("g/c", 5), ("g/e", 5)]
    assert clock(store, "c")[1] == at("2024-01-10 12:06")
    assert clock(store, "d")[1] is None
    assert rows(store, "SELECT COUNT(*) FROM qsched_paused_groups") == [(0,)]
    assert ("ada", "pause group", "g") in audit(store)


def test_a_trigger_that_is_resumed_in_a_paused_group_stays_held(store: Store, hands: Hands) -> None:
    pause(store, ["g/c"])
    pause_group(store, "g")
    hands.move_to("2024-01-10 12:05")
    resume(store, ["g/c"])
    assert clock(store, "c")[:2] == (at("2024-01-10 12:06"), None)
    resume_group(store, "g")
    assert clock(store, "c")[:2] == (at("2024-01-10 12:06"), at("2024-01-10 12:06"))


def test_a_groups_pause_ends_by_itself(store: Store, hands: Hands) -> None:
    pause_group(store, "g", until=at("2024-01-10 12:05"))
    assert store.read("ended", ended_group_pauses) == []
    hands.move_to("2024-01-10 12:05")
    end_group_pauses(store, store.read("ended", ended_group_pauses))
    assert clock(store, "c")[1] == at("2024-01-10 12:06")


def test_fire_leaves_a_due_firing_beside_the_schedule(store: Store, hands: Hands) -> None:
    before = clock(store, "a")
    hands.instant += 7
    firing = fire(store, "a", data={"x": 1}, who="ada")
    columns = "id, trigger_id, requested_trigger_id, job_name, reason, state, run_at, scheduled_at, data"
    assert rows(store, f"SELECT {columns} FROM qsched_firings") == [
        (firing, None, 1, "report", "manual", "due", hands.instant, hands.instant, '{"x":1}')
    ]
    assert clock(store, "a") == before
    assert audit(store) == [("ada", "fire", "a")]


def test_fire_carries_what_others_need_to_end_it(store: Store) -> None:
    policies = JobPolicies(request_recovery=True, overlap="queue", timeout=5_000_000)
    apply(store, Declared((trigger("x", job="safe"),), (command("safe", policies=policies),), "safe"))
    fire(store, "x")
    columns = "request_recovery, max_recoveries, timeout, permit_key"
    job = rows(store, "SELECT id FROM qsched_jobs WHERE name = 'safe'")[0][0]
    assert rows(store, f"SELECT {columns} FROM qsched_firings") == [(1, 3, 5_000_000, f"job:{job}")]


def test_a_request_key_makes_one_firing_also_when_it_comes_twice_at_once(store: Store, made_url: str) -> None:
    assert fire(store, "a", request_key="r1") == fire(store, "a", request_key="r1")
    with pytest.raises(Conflict, match="request key 'r1'"):
        fire(store, "b", request_key="r1")
    ids: list[int] = []
    start = Barrier(4)

    def ask() -> None:
        start.wait()
        ids.append(fire(store, "a", request_key="r2"))

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 4
    assert len(set(ids)) == 1
    assert len(ledger(store)) == 2


def test_what_is_stopped_is_fired_only_by_force(store: Store) -> None:
    pause(store, ["a"], who="ada")
    pause_group(store, "g")
    write(store, "UPDATE qsched_triggers SET state = 'error', error = 'bad' WHERE name = 'b'")
    for key, words in (("a", "paused by ada"), ("b", "in error: bad"), ("g/c", "group 'g' is paused")):
        with pytest.raises(Refused, match=words) as refused:
            fire(store, key)
        assert "--force" in str(refused.value.hint)
    assert ledger(store) == []
    fire(store, "a", force=True)
    delete(store, ["b"])
    with pytest.raises(Refused, match="retired"):
        fire(store, "b")


def test_data_that_json_cannot_carry_are_refused_before_anything_is_written(store: Store) -> None:
    with pytest.raises(DefinitionError, match="the fire of 'a'"):
        fire(store, "a", data={"x": object()})
    assert ledger(store) == []


def test_reset_clears_an_error_and_may_move_the_watermark_back(store: Store, hands: Hands) -> None:
    write(
        store,
        "UPDATE qsched_trigger_clocks SET watermark = ?, next_fire_at = ?, next_run_at = NULL WHERE id = 1",
        at("2030-01-01 00:00"),
        at("2030-01-01 00:01"),
    )
    write(store, "UPDATE qsched_triggers SET state = 'error', error = 'bad', error_kind = 'poison'")
    hands.move_to("2024-01-10 12:04:30")
    billed = {bill.key: bill.slots for bill in reset(store, ["a", "b"], who="ada")}
    assert billed == {"a": 0, "b": 4}
    assert clock(store, "a") == (
        at("2024-01-10 12:05"),
        at("2024-01-10 12:05"),
        at("2024-01-10 12:04:30"),
    )
    assert ledger(store) == [("b", "error", "skipped", 4)]
    assert rows(store, "SELECT state, error, error_kind FROM qsched_triggers WHERE id = 1") == [
        ("waiting", None, None)
    ]
    assert audit(store) == [("ada", "reset", "a"), ("ada", "reset", "b")]


def test_reset_refuses_a_definition_that_still_cannot_be_read(store: Store) -> None:
    write(store, "UPDATE qsched_triggers SET spec = '{' WHERE name = 'a'")
    before = dump(store)
    with pytest.raises(Refused, match="cannot be reset"):
        reset(store, ["a"])
    assert dump(store) == before


def test_delete_leaves_a_tombstone_and_cancels_what_waits(store: Store, hands: Hands) -> None:
    pause(store, ["a"])
    due_firing(store, 1, "a", "2024-01-10 11:59")
    hands.move_to("2024-01-10 12:02")
    delete(store, ["a"], who="ada")
    assert state(store, "a") == "retired"
    assert ledger(store) == [("a", "schedule", "cancelled", 1), ("a", "paused", "skipped", 2)]
    assert rows(store, "SELECT paused_at FROM qsched_triggers WHERE name = 'a'") == [(None,)]
    with pytest.raises(UnknownTrigger, match="'a' is retired"):
        pause(store, ["a"])
    assert apply(store, declared(trigger("a"), trigger("b"), trigger("g/c"), trigger("g/d"))).revived == (
        "a",
    )
    assert clock(store, "a") == (at("2024-01-10 12:03"), at("2024-01-10 12:03"), at("2024-01-10 12:02"))


def test_an_unknown_key_is_named_with_the_nearest_and_nothing_is_done(store: Store) -> None:
    before = dump(store)
    with pytest.raises(UnknownTrigger, match="no trigger 'g/cc'") as unknown:
        pause(store, ["a", "g/cc"])
    assert unknown.value.hint == "did you mean 'g/c'?"
    assert dump(store) == before
    assert store.read("find", lambda tx: find(tx, ["a", "g/c"])) == {"a": 1, "g/c": 3}


def test_more_triggers_than_one_transaction_holds_are_all_paused(sqlite_url: str, hands: Hands) -> None:
    store = new_store(sqlite_url, hands)
    keys = [f"t{number:04}" for number in range(1201)]
    apply(store, declared(*(trigger(key) for key in keys)))
    hands.move_to("2024-01-10 12:02")
    assert len(pause(store, keys)) == 1201
    assert rows(store, "SELECT COUNT(*) FROM qsched_trigger_clocks WHERE next_run_at IS NULL") == [(1201,)]
    assert len(resume(store, keys)) == 1201
    assert rows(
        store, "SELECT COUNT(*) FROM qsched_trigger_clocks WHERE next_run_at = ?", at("2024-01-10 12:03")
    ) == [(1201,)]
    store.close()
