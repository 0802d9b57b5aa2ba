"""From a seed to a plan: each seed draws its own sizes, features and kinds of faults (swarm testing)."""

from random import Random

from qsched.triggers.job import JobDefinition
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import python

from .draw_faults import draw_strikes, draw_verbs
from .draw_jobs import with_job_features
from .plan import BodyKind, Plan, Timing
from .timeline import SECOND, START

GAPS = (6, 7, 10, 12, 15, 20, 30, 45)
MINUTE = 60 * SECOND


def draw(seed: int, *, minutes: float = 10, nodes: tuple[int, int] = (3, 5)) -> Plan:
    """The plan of this seed."""
    random = Random(f"plan {seed}")
    length = int(minutes * MINUTE)
    timing = _timing(random)
    least, most = nodes
    count = min(
        random.randint(least, most) for _ in range(2)
    )  # more often few: each more costs as much again
    jobs, bodies = _jobs(random, timing)
    triggers = _triggers(random, jobs, length)
    quiet = min(3 * timing.lease + 45 * SECOND, length // 4)
    verbs, edits = draw_verbs(random, triggers, length - quiet)
    coordination, elector = random.choice(
        (*[("row_locks", None)] * 5, *[("leader", "sql")] * 2, *[("leader", "redis")] * 3)
    )
    plan = Plan(
        seed=seed,
        length=length,
        quiet=quiet,
        nodes=count,
        capacities=tuple(random.choice((1, 2, 2, 3, 3, 5, 8)) for _ in range(count)),
        timing=timing,
        jobs=jobs,
        bodies=bodies,
        triggers=triggers,
        strikes=draw_strikes(random, count, length - quiet, timing, elector),
        verbs=verbs,
        edits=edits,
        coordination=coordination,
        elector=elector,
        on_redis_loss=random.choice(("row_locks", "row_locks", "row_locks", "stop")),
        sense=random.choice((None, "locks", "marks")),
        sweeps=random.random() < 0.2,
        cannot=_cannot(random, count, jobs),
    )
    return with_job_features(plan)


def _cannot(random: Random, nodes: int, jobs: tuple[JobDefinition, ...]) -> tuple[tuple[int, str], ...]:
    """Seldom, one node that cannot load one job."""
    return ((random.randrange(nodes), random.choice(jobs).name),) if random.random() < 0.15 else ()


def _timing(random: Random) -> Timing:
    check_in = random.choice((1, 2, 3, 4, 4, 5, 5))
    lease = check_in * random.choice((3, 4, 5, 5, 6))
    return Timing(
        check_in=check_in * SECOND,
        lease=lease * SECOND,
        drain=random.choice((0, 3, 10, 25)) * SECOND,
        latency=random.choice((1, 5, 20, 50, 200)) * 1000,
        idle=random.choice((1, 3, 5, 5, 10, 10, 10, 10)) * SECOND,
        upkeep=random.choice((2, 10, 20, 20)) * SECOND,
        leader_ttl=max(5, 3 * check_in) * SECOND,
    )


# -- jobs --------------------------------------------------------------------------------------------------------------


def _jobs(random: Random, timing: Timing) -> tuple[tuple[JobDefinition, ...], dict[str, BodyKind]]:
    jobs, bodies = [], {}
    for number in range(random.randint(2, 5)):
        name = f"job{number}"
        bodies[name] = _body(random, timing)
        policies: dict[str, object] = {
            "request_recovery": random.random() < 0.5,
            "overlap": random.choice(("allow", "allow", "queue", "skip", "cancel")),
        }
        if random.random() < 0.3:
            policies["max_recoveries"] = random.randint(0, 2)
        if random.random() < 0.6:
            policies["retry"] = _retry(random)
        if random.random() < 0.25:
            policies["timeout"] = int(bodies[name].longest * random.uniform(0.2, 1.2)) + SECOND // 10
        jobs.append(python(name, **policies))
    return tuple(jobs), bodies


def _body(random: Random, timing: Timing) -> BodyKind:
    longest = random.choice((SECOND // 2, 2 * SECOND, 5 * SECOND, 12 * SECOND, int(timing.lease * 1.8)))
    return BodyKind(
        shortest=min(SECOND // 20, longest),
        longest=longest,
        failing=random.choice((0, 0, 0.2, 0.5)),
        deaf=random.choice((0, 0.2, 0.6)),
        refiring=random.choice((0, 0, 0.2)),
        permanent=random.choice((0, 0.2)),
    )


def _retry(random: Random) -> RetryPolicy:
    jitter = random.choice((0.0, 0.0, 0.2))
    if random.random() < 0.5:
        return RetryPolicy(
            max_retries=random.randint(0, 3), delay=random.randint(1, 4) * SECOND, jitter=jitter
        )
    return RetryPolicy(
        max_retries=random.randint(1, 4),
        delay=SECOND,
        multiplier=2.0,
        max_delay=random.choice((None, 3 * SECOND)),
        jitter=jitter,
        on_exhausted=random.choice(("fail", "fail", "fail", "discard", "pause_trigger")),
    )


# -- triggers ----------------------------------------------------------------------------------------------------------


def _triggers(random: Random, jobs: tuple[JobDefinition, ...], length: int) -> tuple[TriggerDefinition, ...]:
    """So many that their slots come to a drawn number per ten minutes."""
    wanted = random.randint(90, 190) * length // (10 * MINUTE)
    made: list[TriggerDefinition] = []
    slots = 0.0
    while slots < wanted and len(made) < 12:
        gap = random.choice(GAPS)
        made.append(draw_trigger(random, f"t{len(made)}", random.choice(jobs).name, gap))
        slots += length / SECOND / gap
    if random.random() < 0.3:
        at = START + int(random.uniform(0.1, 0.7) * length)
        made.append(TriggerDefinition(name="once", job=random.choice(jobs).name, schedule={"at": at}))
    return tuple(made)


def draw_trigger(random: Random, name: str, job: str, gap: int) -> TriggerDefinition:
    """One trigger with a slot each `gap` seconds or so, its rules drawn."""
    return TriggerDefinition(
        name=name,
        job=job,
        group=random.choice(("default", "default", "side")),
        schedule=_schedule(random, gap),
        misfire=_misfire(random),
        retry=_retry(random) if random.random() < 0.15 else None,
        priority=random.choice((5, 5, 3, 8)),
        max_fires=random.choice((None, None, None, None, None, None, None, 10)),
    )


def _schedule(random: Random, gap: int) -> dict[str, object]:
    if random.random() < 0.3:
        seconds = sorted(
            {(start * gap + random.randint(0, gap - 1)) % 60 for start in range(max(60 // gap, 1))}
        )
        return {"quartz": f"{','.join(map(str, seconds))} * * * * ?"}
    if random.random() < 0.2:
        return {"every": gap * SECOND}
    return {"every": gap * SECOND, "anchor": START + random.randint(0, gap - 1) * SECOND}


def _misfire(random: Random) -> MisfireRule:
    return MisfireRule(
        policy=random.choice(("fire_once", "fire_once", "skip", "fire_all")),
        threshold=random.choice((5, 15, 15, 30, 60)) * SECOND,
        window=random.choice((24 * 3600, 24 * 3600, 40)) * SECOND,
        limit=random.choice((100, 100, 3)),
    )
