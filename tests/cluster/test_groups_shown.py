"""Groups as they are reported on each store: who paused one, its triggers by state, its permits; and the bill of a resume."""

from dataclasses import replace

from qsched.scheduler.control import fire, pause, resume_group
from qsched.scheduler.groups import group_bills, pause_group
from qsched.scheduler.store.group_reports import group, groups
from qsched.scheduler.store.start_reports import start_facts
from qsched.triggers.instant import MINUTE, SECOND, rfc3339
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import START, World, every, python


def test_a_group_shows_its_pause_its_triggers_by_state_and_the_permits_in_use(world: World) -> None:
    heavy = [replace(python(name), group="heavy") for name in ("report", "other")]
    behind = TriggerDefinition("behind", "report", {"after": "other"}, group="billing")
    world.functions["other"] = lambda: None
    world.apply(
        *(every(f"billing/{name}") for name in ("a", "b")),
        *(behind, every("c"), replace(every("gone"), max_fires=1)),
        jobs=heavy,
        limits={"heavy": 5},
    )
    pause(world.store, ["billing/b"])
    node = world.node()
    world.pass_time(10)
    assert len(node.turn()) == 3
    pause_group(world.store, "later", who="ops", reason="not yet", until=START + MINUTE)
    assert [item["name"] for item in groups(world.store)] == ["billing", "default", "heavy", "later"]
    billing, default, limited, later = groups(world.store)
    assert billing["triggers"] == {"waiting": 2, "paused": 1, "error": 0, "done": 0}
    assert default["triggers"] == {"waiting": 1, "paused": 0, "error": 0, "done": 1}
    assert limited["limit"] == {"most": 5, "in_use": 3, "namespace": "default"}
    assert billing["limit"] is limited["paused"] is None
    assert later == {
        "name": "later",
        "paused": {
            "at": rfc3339(world.time),
            "by": "ops",
            "until": rfc3339(START + MINUTE),
            "reason": "not yet",
        },
        "triggers": {"waiting": 0, "paused": 0, "error": 0, "done": 0},
        "limit": None,
    }


def test_a_paused_group_stops_what_comes_later_and_its_bill_is_what_the_resume_closes(world: World) -> None:
    pause_group(world.store, "billing")
    world.apply(every("billing/late"), every("billing/own"), every("c"))
    pause(world.store, ["billing/own"])
    node = world.node()
    world.pass_time(35)
    node.work()
    assert {row[0] for row in world.firings("trigger_name")} == {"c"}
    item = group(world.store, "billing")
    assert item is not None
    assert item["triggers"] == {"waiting": 0, "paused": 2, "error": 0, "done": 0}
    (bill,) = group_bills(world.store, "billing")
    assert (bill.key, bill.slots, bill.next_fire_at) == ("billing/late", 3, START + 40 * SECOND)
    assert resume_group(world.store, "billing") == (bill,)
    assert group_bills(world.store, "billing") == ()


def test_what_a_manual_start_waits_for_is_known_before_it(world: World) -> None:
    world.apply(
        every("tick"), jobs=[replace(python("report", overlap="queue"), group="heavy")], limits={"heavy": 1}
    )
    assert start_facts(world.store, "none") is None
    facts = start_facts(world.store, "tick")
    assert facts is not None
    assert (facts["running"], facts["full"], facts["nodes"], facts["stopped"]) == (None, False, 0, False)
    node = world.node()
    world.pass_time(10)
    (request,) = node.turn()
    facts = start_facts(world.store, "tick")
    assert facts is not None
    assert facts["running"] == {"firing": request.firing_id, "since": rfc3339(world.time), "node": "one"}
    assert (facts["full"], facts["nodes"]) == (True, 1)
    fire(world.store, "tick")
    assert node.turn() == []
    pause_group(world.store, "default")
    facts = start_facts(world.store, "tick")
    assert facts is not None
    assert facts["stopped"]
