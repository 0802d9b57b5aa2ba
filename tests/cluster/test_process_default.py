"""Where neither a job's file nor its code says how it runs, the cluster's word holds, from the next take on."""

from support.hand_node import World, every, python


def test_the_clusters_run_in_reaches_the_bodies_that_are_taken(world: World) -> None:
    jobs = [python("report"), python("threaded", run_in="thread")]
    world.functions["threaded"] = lambda: None
    world.apply(every("tick", 60), every("tock", 60, job="threaded"), jobs=jobs)
    node = world.node()
    world.pass_time(60)
    assert {request.job.name: request.job.in_process for request in node.turn()} == {
        "report": False,
        "threaded": False,
    }
    node.run()
    node.parts.definitions.set_defaults('{"run_in": "process"}')
    world.pass_time(60)
    assert {request.job.name: request.job.in_process for request in node.turn()} == {
        "report": True,
        "threaded": False,
    }
