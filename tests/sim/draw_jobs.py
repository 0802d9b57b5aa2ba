"""What a seed's jobs do besides: limited groups, kept data, triggers that follow or count from ends; by a chance of its
own, so that all else of a seed stays as it was drawn."""

from dataclasses import replace
from random import Random
from typing import Any

from qsched.triggers.job import JobDefinition
from qsched.triggers.trigger import TriggerDefinition

from .draw_delays import with_delays
from .plan import Plan, Verb
from .timeline import SECOND

_GROUPS = ("heavy", "light")


def with_job_features(plan: Plan) -> Plan:
    """The plan with some of its jobs limited, keeping data, or followed."""
    random = Random(f"jobs {plan.seed}")
    if random.random() < 0.5:
        plan = _limited(random, plan)
    if random.random() < 0.6:
        plan = _keeping(random, plan)
    if random.random() < 0.6:
        plan = _followed(random, plan)
    plan = with_delays(plan)
    return replace(plan, verbs=tuple(sorted(plan.verbs)))


def _limited(random: Random, plan: Plan) -> Plan:
    """Most jobs are in one or two groups, whose limits may change, come and go."""
    groups = _GROUPS[: random.choice((1, 1, 2))]
    jobs = [replace(job, group=random.choice(groups)) if random.random() < 0.7 else job for job in plan.jobs]
    limits = [{group: random.randint(1, 3) for group in groups}]
    verbs = list(plan.verbs)
    for at in _moments(random, plan, most=6 if random.random() < 0.4 else 0):
        verbs.append(Verb(at, "limit", number=len(limits)))
        limits.append({group: random.randint(1, 3) for group in groups if random.random() < 0.85})
    busy = {job.name for job in jobs if job.group in groups}
    triggers = [trigger.key for trigger in plan.triggers if trigger.job in busy]
    if triggers and random.random() < 0.5:
        for number, at in enumerate(_moments(random, plan, most=12)):
            verbs.append(Verb(at, "fire", random.choice(triggers), 1000 + number))
    return replace(plan, jobs=tuple(jobs), limits=tuple(limits), verbs=tuple(verbs))


def _keeping(random: Random, plan: Plan) -> Plan:
    """Jobs that forbid overlap keep data, most of them."""
    jobs: list[JobDefinition] = []
    bodies = dict(plan.bodies)
    for job in plan.jobs:
        if job.policies.overlap != "allow" and random.random() < 0.8:
            bodies[job.name] = bodies[job.name]._replace(keeping=0.9)
            jobs.append(replace(job, policies=replace(job.policies, persist_data=True)))
        else:
            jobs.append(job)
    return replace(plan, jobs=tuple(jobs), bodies=bodies)


def _followed(random: Random, plan: Plan) -> Plan:
    """Some triggers that follow a job with another behind it, and what operators do to them."""
    made = [_follower(random, plan, f"f{number}") for number in range(random.randint(1, 3))]
    verbs, edits = list(plan.verbs), list(plan.edits)
    for number, at in enumerate(_moments(random, plan, most=6)):
        trigger = random.choice(made)
        kind = random.choice(("pause", "edit", "edit", "delete", "fire"))
        if kind == "pause":
            verbs += [
                Verb(at, kind, trigger.key, 2000 + number),
                Verb(at + random.randint(5, 60) * SECOND, "resume", trigger.key, 2000 + number),
            ]
        elif kind == "fire":
            verbs.append(Verb(at, kind, trigger.key, 2000 + number))
        else:
            if kind == "delete":
                verbs.append(Verb(at, kind, trigger.key, 2000 + number))
                at += random.randint(1, 40) * SECOND
            verbs.append(Verb(at, "edit", trigger.key, len(edits)))
            edits.append(_edited(random, plan, trigger))
    within = [each for each in verbs if each.at < plan.length - plan.quiet]
    return replace(plan, triggers=(*plan.triggers, *made), verbs=tuple(within), edits=tuple(edits))


def _follower(random: Random, plan: Plan, name: str) -> TriggerDefinition:
    """It runs a job behind the one that it follows, so that there is no circle."""
    from .draw import draw_trigger

    first, second = sorted(random.sample(range(len(plan.jobs)), 2))
    drawn = draw_trigger(random, name, plan.jobs[second].name, 30)
    return replace(drawn, schedule=_schedule(random, plan.jobs[first].name), max_fires=None)


def _schedule(random: Random, job: str) -> dict[str, Any]:
    return {"after": job, "on": random.choice(("succeeded", "failed", "any", "any"))}


def _edited(random: Random, plan: Plan, trigger: TriggerDefinition) -> TriggerDefinition:
    """The same with other ends to wait for; seldom one with slots."""
    from .draw import draw_trigger

    if random.random() < 0.2:
        drawn = draw_trigger(random, trigger.name, trigger.job, 30)
        return replace(drawn, group=trigger.group)
    return replace(trigger, schedule=_schedule(random, trigger.schedule["after"]))


def _moments(random: Random, plan: Plan, *, most: int) -> list[int]:
    last = plan.length - plan.quiet
    return sorted(random.randint(3 * SECOND, last) for _ in range(random.randint(min(1, most), most)))
