"""A plan says what apply would do, field by field, and changes nothing."""

from collections.abc import Iterator

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import delete, pause
from qsched.scheduler.errors import Conflict
from qsched.scheduler.plan import Plan, PlanItem, plan
from qsched.scheduler.store.database import Store

from support.declared import Declared, Hands, at, command, declared, dump, new_store, trigger


@pytest.fixture
def store(made_url: str, hands: Hands) -> Iterator[Store]:
    store = new_store(made_url, hands)
    apply(store, declared(trigger("a", "0 * * * *"), trigger("b"), trigger("c")))
    yield store
    store.close()


def item(found: Plan, key: str, what: str = "trigger") -> PlanItem:
    (only,) = [each for each in found.items if (each.what, each.key) == (what, key)]
    return only


def said(each: PlanItem) -> list[tuple[str, str | None, str | None]]:
    return [(found.field, found.before, found.after) for found in each.differences]


def test_without_a_store_everything_is_new() -> None:
    found = plan(None, declared(trigger("a", schedule={"every": 10_000_000}), trigger("b", job="code")))
    assert [(each.action, each.what, each.key) for each in found.items] == [
        ("add", "job", "code"),
        ("add", "job", "report"),
        ("add", "trigger", "a"),
        ("add", "trigger", "b"),
    ]
    assert item(found, "a").next_after is not None
    assert item(found, "code", "job").notes == ("declared in code: a node must load it with --app",)
    assert found.consequence == "nothing fires as a result"


def test_an_unchanged_file_plans_nothing(store: Store) -> None:
    found = plan(store, declared(trigger("a", "0 * * * *"), trigger("b"), trigger("c")))
    assert (found.items, found.unchanged, found.has_changes, found.refusal) == ((), 3, False, None)


def test_a_change_is_shown_field_by_field_with_old_and_new_next_time(store: Store, hands: Hands) -> None:
    hands.move_to("2024-01-10 13:30")
    file = declared(
        trigger("a", "30 * * * *", end_at=at("2030-01-01 00:00"), tags=("x", "y")),
        trigger("b", priority=7),
        trigger("c"),
    )
    before = dump(store)
    found = plan(store, file)
    assert dump(store) == before
    a = item(found, "a")
    assert said(a) == [
        ("schedule", "0 * * * *", "30 * * * *"),
        ("end_at", None, "2030-01-01T00:00:00Z"),
        ("tags", None, "x, y"),
    ]
    assert (a.action, a.next_before, a.next_after) == (
        "change",
        at("2024-01-10 13:00"),
        at("2024-01-10 14:30"),
    )
    assert a.notes == ("1 due slot would be recorded as skipped",)
    b = item(found, "b")
    assert said(b) == [("priority", None, "7")]
    assert b.next_before == b.next_after == at("2024-01-10 12:01")
    assert b.notes == ("90 due slots left to its misfire policy",)
    apply(store, file)
    assert plan(store, file).items == ()


def test_what_people_did_is_named_and_left(store: Store) -> None:
    pause(store, ["a"], who="ada", reason="deploy")
    delete(store, ["b"])
    found = plan(store, declared(trigger("a", "0 * * * *"), trigger("b"), trigger("c")))
    assert found.drift == (("a", "paused by ada since 2024-01-10T12:00:00Z (deploy), and stays so"),)
    assert (item(found, "b").action, item(found, "b").notes) == (
        "revive",
        ("was retired: goes on with its history",),
    )


def test_what_would_go_is_named_and_a_mass_prune_is_said(store: Store) -> None:
    found = plan(store, declared(trigger("a", "0 * * * *"), trigger("d", renamed_from="b")))
    assert [(each.action, each.key) for each in found.items] == [("retire", "c"), ("rename", "d")]
    assert item(found, "d").notes[0] == "was b: keeps its history"
    assert found.refusal is None
    assert "2 of 3" in str(plan(store, declared(trigger("a", "0 * * * *"))).refusal)
    kept = plan(store, declared(trigger("a", "0 * * * *")), prune="keep")
    assert (kept.kept, kept.refusal, kept.items) == (("b", "c"), None, ())


def test_jobs_and_cluster_defaults_are_part_of_a_plan(store: Store) -> None:
    file = declared(trigger("a", "0 * * * *"), trigger("b"), trigger("c"), jobs=(command("report", "false"),))
    assert said(item(plan(store, file), "report", "job")) == [("command", "true", "false")]
    file = declared(
        trigger("a", "0 * * * *"),
        trigger("b"),
        trigger("c"),
        cluster_defaults={"overlap": "skip", "timeout": 60_000_000, "retention": {"failed": "forever"}},
    )
    assert said(item(plan(store, file), "defaults", "cluster")) == [
        ("overlap", None, "skip"),
        ("retention", None, "succeeded 7d, failed forever, per_trigger 10000"),
        ("timeout", None, "1m"),
    ]


def test_a_plan_meets_the_same_conflicts_as_apply(store: Store) -> None:
    with pytest.raises(Conflict, match="belongs to namespace 'default'"):
        plan(store, Declared((trigger("a"),), (), "other"))
