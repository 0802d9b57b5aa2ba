"""What else an apply carries: pauses, broken rows, unfinished firings, jobs, overlap, counters."""

from typing import Any

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import pause
from qsched.scheduler.errors import Refused
from qsched.scheduler.firing import NewFiring
from qsched.scheduler.store.database import Store
from qsched.triggers.job import JobPolicies
from qsched.triggers.misfire import MisfireRule

from support.declared import (
    REPORT,
    Declared,
    Hands,
    at,
    clock,
    command,
    declared,
    dump,
    put,
    rows,
    trigger,
    write,
)

WEDNESDAY = "2024-01-10 12:00"


def test_the_file_pauses_only_where_its_own_key_changed(store: Store, hands: Hands) -> None:
    apply(store, declared(trigger("a", paused=True)))
    assert clock(store, "a")["next_run_at"] is None
    write(store, "UPDATE qsched_triggers SET paused_at = NULL")
    apply(store, declared(trigger("a", paused=True, description="x")))
    assert rows(store, "SELECT paused_at FROM qsched_triggers") == [(None,)]
    apply(store, declared(trigger("a", paused=False)))
    apply(store, declared(trigger("a", paused=True)), who="ada")
    assert rows(store, "SELECT paused_at, paused_by FROM qsched_triggers") == [(at(WEDNESDAY), "ada")]
    hands.move_to("2024-01-10 12:05")
    applied = apply(store, declared(trigger("a")))
    assert applied.closed == 5
    assert rows(store, "SELECT reason, covers FROM qsched_firings") == [("paused", 5)]
    assert clock(store, "a")["next_run_at"] == at("2024-01-10 12:06")


def test_a_new_trigger_of_a_paused_group_does_not_start(store: Store) -> None:
    columns = "(cluster, group_name, paused_at)"
    write(store, f"INSERT INTO qsched_paused_groups {columns} VALUES (1, 'g', 1)")
    apply(store, declared(trigger("g/a"), trigger("b")))
    assert clock(store, "a")["next_run_at"] is None
    assert clock(store, "a")["next_fire_at"] == at("2024-01-10 12:01")
    assert clock(store, "b")["next_run_at"] == at("2024-01-10 12:01")


def test_a_definition_that_cannot_be_compiled_leaves_the_store_as_it_was(store: Store) -> None:
    apply(store, declared(trigger("a")))
    before = dump(store)
    with pytest.raises(ValueError, match="61"):
        apply(store, declared(trigger("a", "0 1 * * *"), trigger("b", "61 * * * *")))
    assert dump(store) == before


def test_a_broken_row_is_mended_by_the_same_file(store: Store, hands: Hands) -> None:
    apply(store, declared(trigger("a")))
    write(store, "UPDATE qsched_triggers SET spec = '{', state = 'error', error_kind = 'poison', error = 'x'")
    hands.move_to("2024-01-10 12:03")
    assert apply(store, declared(trigger("a"))).changed == ("a",)
    assert rows(store, "SELECT state, error, error_kind FROM qsched_triggers") == [("waiting", None, None)]
    assert rows(store, "SELECT reason, covers FROM qsched_firings") == [("error", 1)]
    assert clock(store, "a")["next_run_at"] == at("2024-01-10 12:04")


def test_the_edit_of_a_trigger_tells_its_unfinished_firings_which_slot_is_next(store: Store) -> None:

    apply(store, declared(trigger("a", "0 * * * *")))
    row = NewFiring(1, 1, None, 1, "a", "report", at("2024-01-10 12:00"), at("2024-01-10 12:00"), 1, "schedule", "due",
                    at("2024-01-10 12:00"), 95, at("2024-01-10 12:00"), next_at=at("2024-01-10 13:00"))  # fmt: skip
    put(store, row)
    apply(store, declared(trigger("a", "30 * * * *")))
    assert rows(store, "SELECT next_at, state FROM qsched_firings") == [(at("2024-01-10 12:30"), "due")]
    apply(store, declared(trigger("b")), allow_mass_prune=True)
    assert rows(store, "SELECT state, outcome FROM qsched_firings") == [("cancelled", "cancelled")]


def test_jobs_follow_the_file_and_stay_while_something_uses_them(store: Store) -> None:
    apply(store, Declared((trigger("a"), trigger("b", job="mail")), (REPORT, command("mail"))))
    apply(store, Declared((trigger("a"),), (command("report", "false"),)))
    found = rows(store, "SELECT name, state, spec FROM qsched_jobs ORDER BY name")
    assert [row[:2] for row in found] == [("mail", "retired"), ("report", "active")]
    assert '"command":"false"' in found[1][2]
    apply(store, Declared((trigger("x", job="report"),), (), "elsewhere"))
    applied = apply(store, Declared((trigger("a", job="mail"),), (command("mail"),)))
    assert any("'report'" in warning for warning in applied.warnings)
    assert rows(store, "SELECT state FROM qsched_jobs ORDER BY name") == [("active",), ("active",)]


def test_a_job_that_no_file_declares_is_looked_up_in_code(store: Store) -> None:
    apply(store, Declared((trigger("a", job="app.jobs:send"), trigger("b", job="send"))))
    found = rows(store, "SELECT name, namespace, spec FROM qsched_jobs ORDER BY name")
    assert found == [
        ("app.jobs:send", "code", '{"python":"app.jobs:send","v":1}'),
        ("send", "code", '{"python":"send","v":1}'),
    ]
    apply(store, Declared((trigger("a", job="send"), trigger("b", job="send")), (command("send"),)))
    assert rows(store, "SELECT namespace, state FROM qsched_jobs ORDER BY name") == [
        ("code", "retired"),
        ("default", "active"),
    ]


def test_overlap_reaches_the_clocks_and_makes_the_permit(store: Store) -> None:

    def queued(overlap: str | None) -> Any:
        return command("report", policies=JobPolicies(overlap=overlap))

    apply(store, declared(trigger("a"), jobs=(queued(None),)))
    assert clock(store, "a")["overlap"] == "allow"
    assert rows(store, "SELECT COUNT(*) FROM qsched_permits") == [(0,)]
    apply(store, declared(trigger("a"), jobs=(queued("queue"),)))
    assert clock(store, "a")["overlap"] == "queue"
    assert rows(store, "SELECT permit_key, n, job_id, firing_id FROM qsched_permits") == [
        ("job:1", 0, 1, None)
    ]
    apply(store, declared(trigger("a"), jobs=(queued(None),), cluster_defaults={"overlap": "skip"}))
    assert clock(store, "a")["overlap"] == "skip"
    apply(store, declared(trigger("a"), jobs=(queued(None),)))
    assert clock(store, "a")["overlap"] == "allow"


def test_a_file_cannot_claim_what_programs_add(store: Store) -> None:
    with pytest.raises(Refused, match="'code' belongs to what programs add"):
        apply(store, declared(trigger("a"), namespace="code"))


def test_a_restart_keeps_counters_pause_and_firings_in_flight(store: Store, hands: Hands) -> None:

    apply(store, declared(trigger("a"), trigger("b")))
    slot = at("2024-01-10 12:01")
    running = NewFiring(1, 1, None, 1, "a", "report", slot, slot, 1, "schedule", "running", slot, 95, slot, fence=1,
                        incarnation=7, started_at=slot)  # fmt: skip
    put(store, running)
    write(store, "UPDATE qsched_trigger_clocks SET fires = 5, misfires = 2, last_fire_at = 9")
    pause(store, ["b"], who="ada")
    hands.move_to("2024-01-10 12:05")
    before = dump(store)
    apply(store, declared(trigger("a"), trigger("b")))
    assert dump(store) == before
    apply(store, declared(trigger("a", "0 * * * *"), trigger("b", data={"x": 1})))
    assert rows(store, "SELECT fires, misfires, last_fire_at FROM qsched_trigger_clocks WHERE id = 1") == [
        (5, 2, 9)
    ]
    assert rows(store, "SELECT state, incarnation, fence FROM qsched_firings WHERE reason = 'schedule'") == [
        ("running", 7, 1)
    ]
    assert rows(store, "SELECT paused_by FROM qsched_triggers WHERE name = 'b'") == [("ada",)]
    apply(store, declared(trigger("b", data={"x": 1})))
    assert rows(store, "SELECT state FROM qsched_firings WHERE reason = 'schedule'") == [("running",)]


def test_fires_that_are_used_up_stay_used_up_until_the_file_allows_more(store: Store, hands: Hands) -> None:
    apply(store, declared(trigger("a", max_fires=2)))
    write(store, "UPDATE qsched_trigger_clocks SET fires = 2, next_fire_at = NULL, next_run_at = NULL")
    write(store, "UPDATE qsched_triggers SET state = 'done'")
    hands.move_to("2024-01-10 12:05")
    apply(store, declared(trigger("a", "*/5 * * * *", max_fires=2)))
    assert clock(store, "a")["state"] == "done"
    apply(store, declared(trigger("a", "*/5 * * * *", max_fires=3)))
    assert (clock(store, "a")["state"], clock(store, "a")["next_run_at"]) == (
        "waiting",
        at("2024-01-10 12:10"),
    )


def test_a_new_name_hashes_h_anew(store: Store) -> None:
    apply(store, declared(trigger("old", "H * * * *")))
    apply(store, declared(trigger("new", "H * * * *", renamed_from="old")))
    expected = trigger("new", "H * * * *").compile().slot_after(at(WEDNESDAY))
    assert clock(store, "new")["next_fire_at"] == expected


def test_misfires_that_are_skipped_are_known_to_the_clock(store: Store) -> None:

    apply(
        store, declared(trigger("a", misfire=MisfireRule(policy="skip", threshold=5_000_000)), trigger("b"))
    )
    assert (clock(store, "a")["skip_after"], clock(store, "b")["skip_after"]) == (5_000_000, None)
