"""Triggers whose slots count from the end of the run before, and what operators do to them; by a chance of its own."""

from dataclasses import replace
from random import Random
from typing import Any

from qsched.triggers.trigger import TriggerDefinition

from .plan import Plan, Verb
from .timeline import SECOND


def with_delays(plan: Plan) -> Plan:
    """The plan with one or two such triggers, for some seeds."""
    random = Random(f"delays {plan.seed}")
    if random.random() >= 0.35:
        return plan
    from .draw import draw_trigger

    made = []
    for number in range(random.randint(1, 2)):
        drawn = draw_trigger(random, f"d{number}", random.choice(plan.jobs).name, 10)
        made.append(replace(drawn, schedule=_schedule(random)))
    verbs, edits = list(plan.verbs), list(plan.edits)
    for number in range(random.choice((0, 2, 5, 8))):
        _act(random, random.choice(made), (verbs, edits), _Moment(plan, random).drawn, 3000 + number)
    within = [each for each in verbs if each.at < plan.length - plan.quiet]
    return replace(plan, triggers=(*plan.triggers, *made), verbs=tuple(within), edits=tuple(edits))


class _Moment:
    """An instant before the quiet end of a plan."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self.drawn = random.randint(3 * SECOND, plan.length - plan.quiet)


def _act(
    random: Random,
    trigger: TriggerDefinition,
    into: tuple[list[Verb], list[TriggerDefinition]],
    at: int,
    number: int,
) -> None:
    verbs, edits = into
    kind = random.choice(("pause", "pause", "edit", "edit", "delete", "fire"))
    if kind == "pause":
        verbs.append(Verb(at, kind, trigger.key, number, random.choice((0, 0, 15)) * SECOND))
        verbs.append(Verb(at + random.randint(5, 60) * SECOND, "resume", trigger.key, number))
    elif kind == "fire":
        verbs.append(Verb(at, kind, trigger.key, number))
    else:
        if kind == "delete":
            verbs.append(Verb(at, kind, trigger.key, number))
            at += random.randint(1, 40) * SECOND
        verbs.append(Verb(at, "edit", trigger.key, len(edits)))
        edits.append(replace(trigger, schedule=_schedule(random, other=True)))


def _schedule(random: Random, *, other: bool = False) -> dict[str, Any]:
    """How long after an end; of an edit, seldom slots of its own."""
    if other and random.random() < 0.2:
        return {"every": random.choice((10, 15, 20)) * SECOND}
    return {"delay": random.choice((1, 3, 5, 10, 20, 40)) * SECOND}
