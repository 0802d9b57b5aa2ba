"""Resetting a job: it begins with nothing kept, but not under the feet of a run."""

import pytest
from qsched.scheduler.errors import Refused, UnknownJob
from qsched.scheduler.saved_data import forget_saved
from qsched.scheduler.store.job_reports import job_shown

from support.hand_node import HandNode, World, every, python


def kept(world: World) -> object:
    item = job_shown(world.store, "report")
    assert item is not None
    return item["saved"]


def counting(world: World) -> HandNode:
    """A node that has run a job which counts its runs."""

    def report(ctx: object) -> None:
        saved = ctx.saved  # type: ignore[attr-defined]
        saved["runs"] = saved.get("runs", 0) + 1

    world.functions["report"] = report
    world.apply(every("tick", 10), jobs=[python("report", persist_data=True)])
    node = world.node()
    world.pass_time(10)
    node.work()
    return node


def test_a_job_that_was_reset_begins_with_nothing(world: World) -> None:
    node = counting(world)
    assert kept(world) == {"runs": 1}
    assert forget_saved(world.store, "report", who="eve")
    assert kept(world) == {}
    world.pass_time(10)
    node.work()
    assert kept(world) == {"runs": 1}
    (audited,) = world.sql(
        "SELECT who, object FROM qsched_audit WHERE cluster = ? AND verb = 'reset'", world.store.cluster_id
    )
    assert audited == ("eve", "job report")


def test_a_job_that_runs_is_not_reset(world: World) -> None:
    node = counting(world)
    world.pass_time(10)
    (request,) = node.turn()
    with pytest.raises(Refused, match=f"runs as firing {request.firing_id}"):
        forget_saved(world.store, "report")
    assert kept(world) == {"runs": 1}


def test_an_unknown_job_cannot_be_reset(world: World) -> None:
    with pytest.raises(UnknownJob, match="no job 'nobody'"):
        forget_saved(world.store, "nobody")
