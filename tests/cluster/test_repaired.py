"""What was declared anew is tried again at once, not when its time of being left to others is over."""

from dataclasses import replace

import pytest
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import World, every, python


def test_an_unloadable_job_that_is_declared_anew_is_tried_at_once(world: World) -> None:
    world.apply(every("tick", 10, job="old"), jobs=[python("old")])
    world.pass_time(10)
    node = world.node()
    node.turn()
    assert node.parts.definitions.unloadable()
    world.functions["old"] = lambda: None
    world.apply(every("tick", 10, job="old"), jobs=[replace(python("old"), description="mended")])
    node.upkeep.step()
    node.work()
    assert world.firings("state") == [("succeeded",)]


def test_an_undecidable_trigger_that_is_declared_anew_is_tried_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.apply(every("tick", 10))
    world.pass_time(10)
    node = world.node()
    with monkeypatch.context() as broken:
        broken.setattr(TriggerDefinition, "compile", _raise)
        node.turn()
    assert node.parts.definitions.parked()
    world.apply(every("tick", 10, description="mended"))
    node.upkeep.step()
    assert not node.parts.definitions.parked()
    node.work()
    assert world.firings("state") == [("succeeded",)]


def _raise(self: TriggerDefinition) -> None:
    raise RuntimeError("this node's libraries are broken")
