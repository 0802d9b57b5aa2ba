"""All the checks over one run's history, and what of it must never be."""

from .check_bodies import BodiesCheck
from .check_delays import DelaysCheck
from .check_ends import EndsCheck
from .check_firings import FiringsCheck
from .check_followers import FollowersCheck
from .check_limits import LimitsCheck
from .check_nodes import NodesCheck, TakeoverCheck
from .check_progress import ProgressCheck
from .check_saved import SavedCheck
from .check_slots import SlotsCheck
from .mirror import Story
from .oracle import SECOND
from .plan import Plan
from .senses import MARKS
from .wellness import Wellness
from .world import Complaint, World


def judge(world: World) -> list[Complaint]:
    """What went wrong in a run that is over; empty when nothing did."""
    plan, history = world.plan, world.history
    story = Story(history)
    lives = [(each.born, each.died) for each in world.lives]
    wellness = Wellness(plan, world.weather, lives)
    waits = 3 * (plan.timing.idle + SECOND) + 2 * SECOND
    if plan.elector is not None:  # until another leads, or the cluster goes on without one
        waits += 4 * plan.timing.leader_ttl + 2 * plan.timing.check_in
    firings = FiringsCheck(story)
    ends = EndsCheck(story, firings)
    nodes = NodesCheck(story, wellness, world.sensed, plan.timing.lease, world.database.came)
    story.replay(
        [
            SlotsCheck(story),
            firings,
            ends,
            nodes,
            TakeoverCheck(story, wellness, nodes, _takeover(plan)),
            BodiesCheck(story, ends, nodes, wellness, 2 * plan.timing.check_in + SECOND),
            ProgressCheck(story, wellness, world, waits),
            LimitsCheck(story),
            SavedCheck(story),
            FollowersCheck(story),
            DelaysCheck(story),
        ]
    )
    _requests(world, story)
    return world.complaints + [Complaint(*each) for each in story.complaints]


def _takeover(plan: Plan) -> tuple[int, bool]:
    """How long it may take until what a vanished process ran is taken over, by DESIGN's formulas and a moment for the way.

    True: from when it vanished, for others on its host see that; else from its last check-in.
    """
    timing = plan.timing
    if plan.sense == MARKS:
        return 4 * timing.check_in + 3 * SECOND, True
    return timing.lease + 2 * timing.check_in + 3 * SECOND, False


def _requests(world: World, story: Story) -> None:
    """One firing for each request, however often it was said."""
    by_key: dict[str, set[int]] = {}
    for row in story.mirror.firings.values():
        if row.request_key is not None:
            by_key.setdefault(row.request_key, set()).add(row.id)
    for key, answered in world.operators.fired.items():
        if by_key.get(key) != answered or len(answered) != 1:
            story.complain(
                "I2", f"request {key} was answered with {answered}, and the ledger has {by_key.get(key)}"
            )
