"""Applying declarations: the store says what the file says, once, and nothing fires because of it."""

from threading import Thread
from typing import Any

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.errors import Conflict, Refused
from qsched.scheduler.store.database import Store

from support.declared import (
    Declared,
    Hands,
    at,
    clock,
    command,
    declared,
    dump,
    keys,
    new_store,
    rows,
    trigger,
)

WEDNESDAY = "2024-01-10 12:00"


def test_a_new_trigger_waits_for_its_first_slot_and_owes_nothing_before(store: Store) -> None:
    applied = apply(store, declared(trigger("weekly", "0 9 * * 1")), who="ada")
    assert (applied.status, applied.added, applied.revision) == ("applied", ("weekly",), 1)
    weekly = clock(store, "weekly")
    assert weekly["state"] == "waiting"
    assert weekly["next_fire_at"] == weekly["next_run_at"] == at("2024-01-15 09:00")
    assert weekly["watermark"] == at(WEDNESDAY)
    assert rows(store, "SELECT COUNT(*) FROM qsched_firings") == [(0,)]


def test_five_restarts_with_the_same_file_change_no_row(store: Store, hands: Hands) -> None:
    file = declared(
        trigger("weekly", "0 9 * * 1"), trigger("paused", paused=True), trigger("billing/nightly")
    )
    apply(store, file)
    before = dump(store)
    for restart in range(5):
        hands.instant += 1_000_000
        applied = apply(store, file, if_newer=restart % 2 == 0)
        assert (applied.status, applied.wrote, applied.unchanged) == ("up_to_date", False, 3)
    assert dump(store) == before


def test_another_description_keeps_the_next_time_and_all_that_was(store: Store, hands: Hands) -> None:
    apply(store, declared(trigger("weekly", "0 9 * * 1")))
    before = clock(store, "weekly")
    hands.move_to("2024-01-11 12:00")
    applied = apply(store, declared(trigger("weekly", "0 9 * * 1", description="mail", priority=9)))
    assert applied.changed == ("weekly",)
    after = clock(store, "weekly")
    assert (after["next_fire_at"], after["watermark"]) == (before["next_fire_at"], before["watermark"])
    assert after["version"] > before["version"]


def test_another_schedule_goes_on_from_now_and_fires_nothing(store: Store) -> None:
    apply(store, declared(trigger("weekly", "0 9 * * 1")))
    applied = apply(store, declared(trigger("weekly", "0 10 * * 1")))
    assert (applied.changed, applied.closed) == (("weekly",), 0)
    assert clock(store, "weekly")["next_fire_at"] == at("2024-01-15 10:00")
    assert rows(store, "SELECT COUNT(*) FROM qsched_firings") == [(0,)]


def test_a_schedule_edit_closes_what_the_old_schedule_owed_in_one_row(store: Store, hands: Hands) -> None:
    apply(store, declared(trigger("hourly", "0 * * * *")))
    hands.move_to("2024-01-10 15:30")
    applied = apply(store, declared(trigger("hourly", "45 * * * *")))
    assert applied.closed == 3
    row = rows(
        store,
        "SELECT reason, state, scheduled_at, first_scheduled_at, covers, finished_at, misfire_decision FROM qsched_firings",
    )
    assert row == [
        ("edited", "skipped", at("2024-01-10 15:00"), at("2024-01-10 13:00"), 3, at("2024-01-10 15:30"),
         "skipped 3: the trigger was changed")
    ]  # fmt: skip
    hourly = clock(store, "hourly")
    assert (hourly["watermark"], hourly["next_fire_at"]) == (at("2024-01-10 15:00"), at("2024-01-10 15:45"))


def test_a_misfire_that_is_pending_at_a_restart_is_left_to_its_policy(store: Store, hands: Hands) -> None:
    apply(store, declared(trigger("weekly", "0 9 * * 1")))
    hands.move_to("2024-01-15 12:00")
    apply(store, declared(trigger("weekly", "0 9 * * 1", description="other")))
    assert clock(store, "weekly")["next_run_at"] == at("2024-01-15 09:00")


def test_what_left_the_file_is_retired_and_what_returns_is_revived(store: Store, hands: Hands) -> None:
    apply(store, declared(trigger("a"), trigger("b")))
    before = rows(store, "SELECT id FROM qsched_triggers WHERE name = 'b'")
    hands.move_to("2024-01-10 12:02")
    assert apply(store, declared(trigger("a"))).retired == ("b",)
    b = clock(store, "b")
    assert (b["state"], b["next_fire_at"], b["next_run_at"]) == ("retired", None, None)
    assert b["watermark"] == at("2024-01-10 12:02")
    assert rows(store, "SELECT covers, reason FROM qsched_firings") == [(2, "edited")]
    hands.move_to("2024-01-10 13:00")
    assert apply(store, declared(trigger("a"), trigger("b"))).revived == ("b",)
    assert rows(store, "SELECT id FROM qsched_triggers WHERE name = 'b'") == before
    assert clock(store, "b")["next_fire_at"] == at("2024-01-10 13:01")
    assert rows(store, "SELECT COUNT(*) FROM qsched_firings") == [(1,)]


def test_keep_leaves_what_left_the_file(store: Store) -> None:
    apply(store, declared(trigger("a"), trigger("b")))
    assert apply(store, declared(trigger("a")), prune="keep").kept == ("b",)
    assert keys(store) == ["a", "b"]


def test_a_new_name_keeps_id_history_and_watermark_also_when_it_is_said_again(
    store: Store, hands: Hands
) -> None:
    apply(store, declared(trigger("old", "0 * * * *")))
    before = rows(store, "SELECT id FROM qsched_triggers")
    hands.move_to("2024-01-10 12:30")
    renamed = declared(trigger("billing/new", "0 * * * *", renamed_from="old"))
    assert apply(store, renamed).renamed == ("billing/new",)
    assert rows(store, "SELECT id FROM qsched_triggers") == before
    assert keys(store) == ["new"]
    assert clock(store, "new")["next_fire_at"] == at("2024-01-10 13:00")
    assert apply(store, renamed).status == "up_to_date"


@pytest.mark.parametrize(
    "changed",
    [
        {"schedule": {"cron": "*/1 * * * *"}},
        {"time_zone": "Europe/Berlin"},
        {"data": {"a": 1}},
        {"schedule": {"quartz": "0 * * * * ?"}},
        {"job": "other"},
    ],
)
def test_whatever_changes_there_is_one_row_for_a_key(sqlite_url: str, changed: dict[str, Any]) -> None:
    store = new_store(sqlite_url, Hands(WEDNESDAY))
    apply(store, declared(trigger("a")))
    apply(store, declared(trigger("a", **changed)))
    assert rows(store, "SELECT name, state FROM qsched_triggers") == [("a", "waiting")]
    assert rows(store, "SELECT COUNT(*) FROM qsched_trigger_clocks") == [(1,)]


def test_more_than_half_of_a_namespace_is_retired_only_when_allowed(store: Store) -> None:
    apply(store, declared(trigger("a"), trigger("b"), trigger("c")))
    before = dump(store)
    with pytest.raises(Refused, match="2 of 3 triggers") as refused:
        apply(store, declared(trigger("a")))
    assert "--allow-mass-prune" in str(refused.value.hint)
    with pytest.raises(Refused, match="nothing is declared"):
        apply(store, Declared())
    assert dump(store) == before
    assert apply(store, declared(trigger("a")), allow_mass_prune=True).retired == ("b", "c")


def test_a_key_of_another_namespace_is_a_conflict_that_names_it(store: Store) -> None:
    apply(store, declared(trigger("a"), namespace="bookstore"))
    before = dump(store)
    with pytest.raises(Conflict, match="'a' belongs to namespace 'bookstore'"):
        apply(store, Declared(triggers=(trigger("a", job="mine"),), namespace="billing"))
    with pytest.raises(Conflict, match="job 'report' belongs to namespace 'bookstore'"):
        apply(store, declared(trigger("b"), namespace="billing"))
    assert dump(store) == before


def test_namespaces_do_not_touch_each_other(store: Store) -> None:
    apply(store, declared(trigger("a"), trigger("b"), namespace="one"))
    apply(store, Declared((trigger("c", job="c"), trigger("d", job="c")), (command("c"),), "two"))
    apply(store, Declared((trigger("c", job="c"),), (command("c"),), "two"))
    assert keys(store) == ["a", "b", "c"]
    assert keys(store, "retired") == ["d"]


def test_three_nodes_that_apply_a_hundred_times_leave_one_of_everything(made_url: str, hands: Hands) -> None:
    file = declared(*(trigger(f"t{number:02}") for number in range(20)))
    new_store(made_url, hands).close()
    failures: list[BaseException] = []

    def replica() -> None:
        store = new_store(made_url, hands)
        try:
            for _ in range(10):
                apply(store, file, if_newer=True)
        except BaseException as error:
            failures.append(error)
        finally:
            store.close()

    replicas = [Thread(target=replica) for _ in range(3)]
    for thread in replicas:
        thread.start()
    for thread in replicas:
        thread.join()
    assert failures == []
    store = new_store(made_url, hands)
    assert rows(store, "SELECT COUNT(*) FROM qsched_triggers") == [(20,)]
    assert rows(store, "SELECT COUNT(*) FROM qsched_trigger_clocks") == [(20,)]
    assert rows(store, "SELECT COUNT(*) FROM qsched_jobs") == [(1,)]
    assert rows(store, "SELECT revision, state FROM qsched_declarations") == [(1, "applied")]
    assert rows(store, "SELECT COUNT(*) FROM qsched_audit") == [(1,)]
    store.close()


def test_expired_is_done_with_a_warning(store: Store) -> None:
    past = declared(
        trigger("once", schedule={"at": at("2024-01-10 11:00")}),
        trigger("now", schedule={"at": at(WEDNESDAY)}),
        trigger("ended", end_at=at("2024-01-01 00:00")),
        trigger("later", schedule={"at": at("2024-01-10 13:00")}),
    )
    applied = apply(store, past)
    assert keys(store, "done") == ["ended", "now", "once"]
    assert clock(store, "later")["next_run_at"] == at("2024-01-10 13:00")
    assert sum("expired" in warning for warning in applied.warnings) == 3
    assert apply(store, past).status == "up_to_date"
