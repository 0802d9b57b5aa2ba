"""A job that allowed overlap and does no more: what runs already runs on, and nothing starts beside it."""

from support.hand_node import World, every, python


def test_nothing_starts_beside_what_runs_when_a_job_begins_to_queue(world: World) -> None:
    world.apply(every("tick"), jobs=[python("report")])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    world.pass_time(10)
    (second,) = two.turn()
    world.apply(every("tick"), jobs=[python("report", overlap="queue")])
    world.pass_time(10)
    assert one.turn() == two.turn() == []
    one.finish(first)
    assert one.turn() == two.turn() == []
    two.finish(second)
    world.pass_time(3)
    assert len(one.turn() + two.turn()) == 1


def test_what_waits_takes_turns_when_a_job_begins_to_queue(world: World) -> None:
    world.apply(every("tick"), jobs=[python("report")])
    one = world.node("one", capacity=1)
    world.pass_time(10)
    (first,) = one.turn()
    one.release(first)
    one.settle()
    world.apply(every("tick"), jobs=[python("report", overlap="queue")])
    assert world.firings("permit_key IS NULL, state") == [(0, "due")]
    (again,) = one.turn()
    one.finish(again)
    ((holder,),) = world.sql(
        "SELECT firing_id FROM qsched_permits WHERE cluster = ? AND job_id IS NOT NULL",
        world.store.cluster_id,
    )
    assert holder is None
