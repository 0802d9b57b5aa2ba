"""`run_on`: what names tags runs only on a node that bears them all; elsewhere it stays due and keeps nobody waiting."""

from qsched.scheduler.control import fire

from support.hand_node import World, every, python


def test_a_trigger_with_tags_waits_for_a_node_that_bears_them(world: World) -> None:
    world.apply(every("backup", 10, run_on=("backup-host",)), every("plain", 10))
    world.pass_time(10)
    plain = world.node("plain")
    plain.work()
    assert world.firings("trigger_name, state") == [("plain", "succeeded")]
    tagged = world.node("tagged")
    tagged.parts.who.tags = frozenset({"backup-host", "fast"})
    tagged.work()
    assert sorted(world.firings("trigger_name")) == [("backup",), ("plain",)]


def test_a_node_must_bear_every_tag(world: World) -> None:
    world.apply(every("backup", 10, run_on=("backup-host", "fast")))
    world.pass_time(10)
    node = world.node()
    node.parts.who.tags = frozenset({"fast"})
    node.work()
    assert world.firings("id") == []


def test_a_jobs_tags_hold_for_triggers_that_name_none(world: World) -> None:
    world.apply(every("tick", 10), jobs=[python("report", run_on=("gpu",))])
    world.pass_time(10)
    node = world.node()
    node.work()
    assert world.firings("id") == []
    node.parts.who.tags = frozenset({"gpu"})
    world.pass_time(11)  # what was left to others is looked at again
    node.work()
    assert world.firings("state") == [("succeeded",), ("succeeded",)]


def test_a_manual_start_goes_where_its_trigger_must_run(world: World) -> None:
    world.apply(every("backup", 1000, run_on=("gpu",)))
    fire(world.store, "backup")
    other = world.node("other")
    other.work()
    assert world.firings("state") == [("due",)]
    node = world.node("gpu")
    node.parts.who.tags = frozenset({"gpu"})
    node.work()
    assert world.firings("state") == [("succeeded",)]


def test_many_that_must_run_elsewhere_keep_nobody_waiting(world: World) -> None:
    world.apply(*(every(f"far{n}", 10, run_on=("gpu",), priority=9) for n in range(60)), every("near", 10))
    world.pass_time(10)
    world.node(capacity=5).work()
    assert world.firings("trigger_name, state") == [("near", "succeeded")]
