"""What somebody else changes is seen by a running node at its next look, whatever the server's isolation (B77)."""

from qsched.scheduler.control import delete, pause, resume
from qsched.scheduler.groups import pause_group

from support.hand_node import HandNode, World, every, python


def keys(node: HandNode, world: World, seconds: float = 10.0) -> list[str]:
    """The triggers that the node takes when so much time has passed."""
    world.pass_time(seconds)
    taken = [request.trigger for request in node.turn()]
    node.run()
    return sorted(key for key in taken if key is not None)


def test_a_change_made_elsewhere_holds_from_the_next_look_on(world: World) -> None:
    triggers = [every(name) for name in ("a", "b", "g/c")]
    world.apply(*triggers)
    node = world.node(own_store=True)
    assert keys(node, world) == ["a", "b", "g/c"]
    pause(world.store, ["a"])
    pause_group(world.store, "g")
    assert keys(node, world) == ["b"]
    resume(world.store, ["a"])
    assert keys(node, world) == ["a", "b"]
    delete(world.store, ["b"])
    assert keys(node, world) == ["a"]
    world.apply(every("a", 5), every("g/c"))
    assert keys(node, world, 5.0) == ["a"]
    assert keys(node, world, 5.0) == ["a"]


def test_data_that_were_changed_elsewhere_are_what_the_next_run_gets(world: World) -> None:
    seen: list[int] = []

    def report(number: int) -> None:
        seen.append(number)

    world.functions["report"] = report
    node = None
    for number in (1, 2, 3):
        world.apply(every("a", data={"number": number}), jobs=[python("report")])
        node = node or world.node(own_store=True)
        assert keys(node, world) == ["a"]
    assert seen == [1, 2, 3]
