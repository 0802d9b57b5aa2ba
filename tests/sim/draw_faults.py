"""Which faults a seed strikes with, and what its operators do: a few kinds each, so that seeds differ in character."""

from random import Random
from typing import Any

from qsched.triggers.trigger import TriggerDefinition

from .plan import Strike, Timing, Verb
from .seam import AT_TRANSACTIONS
from .timeline import SECOND

NAMES = (
    *(
        "take",
        "take",
        "take",
        "take",
        "take",
        "take",
        "settle",
        "settle",
        "settle",
        "settle",
        "check-in",
        "check-in",
    ),
    *(
        "mark dead",
        "mark dead",
        "rescue",
        "rescue",
        "register",
        "release",
        "reconcile",
        "suspect",
        "judge again",
    ),
    *("resolve take", "settle carefully", "abandon", "node state", "control", "apply", "fire", ""),
)
"""Transactions that faults wait for; empty: whichever comes first."""

AT_NODES = (
    "crash",
    "crash",
    "pause short",
    "pause long",
    "pause long",
    "suspend long",
    "partition refused",
    "partition silent",
    "drain",
    "skew",
)
AT_DATABASE = ("outage refused", "outage silent", "jump")
AT_REDIS = ("flush", "flush", "redis outage refused", "redis outage silent", "redis partition silent")
LEADING = ("plan", "plan", "take over", "renew term", "fall back", "resign")
"""Transactions of leader mode."""


def draw_strikes(
    random: Random, nodes: int, length: int, timing: Timing, elector: str | None
) -> tuple[Strike, ...]:
    """The faults of one run, in order."""
    made: list[Strike] = []
    if random.random() < 0.95:
        kinds = random.sample(AT_TRANSACTIONS, random.randint(2, 8))
        names = NAMES if elector is None else NAMES + LEADING
        for _ in range(random.randint(10, 40)):
            strike = _at_transaction(random, random.choice(kinds), nodes, length, timing)
            made.append(_named(random, strike, random.choice(names), nodes))
    if random.random() < 0.95:
        kinds = random.sample(AT_NODES, random.randint(1, 6))
        for _ in range(random.randint(4, 18)):
            made.append(_at_node(random, random.choice(kinds), nodes, length, timing))
    if random.random() < 0.5:
        for _ in range(random.randint(1, 4)):
            made += _race(random, nodes, length, timing)
    if random.random() < 0.5:
        kinds = random.sample(AT_DATABASE, random.randint(1, 3))
        for _ in range(random.randint(1, 4)):
            made.append(_at_database(random, random.choice(kinds), length, timing))
    if elector == "redis" and random.random() < 0.8:
        for _ in range(random.randint(1, 8)):
            made.append(_at_redis(random, random.choice(AT_REDIS), nodes, length, timing))
    return tuple(sorted(made))


def _moment(random: Random, length: int) -> int:
    return random.randint(3 * SECOND, length)


def _long(random: Random, timing: Timing) -> int:
    """Longer than a lease, mostly by little."""
    return int(timing.lease * random.choice((1.02, 1.2, 1.2, 1.5, 2.5, 4.0)) + random.random() * 2 * SECOND)


def _short(random: Random, timing: Timing) -> int:
    return int(timing.lease * random.choice((0.05, 0.2, 0.5, 0.9)))


def _at_transaction(random: Random, kind: str, nodes: int, length: int, timing: Timing) -> Strike:
    span = _short(random, timing)
    if kind.startswith(("pause", "suspend")):
        span = random.choice((_short, _long, _long))(random, timing)
    elif kind.startswith(("outage", "partition")):
        span = random.choice((_short, _long))(random, timing)
    elif kind.startswith("crash"):
        span = random.randint(0, 20) * SECOND
    elif kind.startswith("doubt"):
        span = min(span, 5 * SECOND)
    return Strike(_moment(random, length), kind, -1, span)


def _named(random: Random, strike: Strike, name: str, nodes: int) -> Strike:
    """At this transaction: of one node where every node has it often, else of whoever has it next."""
    node = random.randrange(nodes) if name in ("take", "settle", "check-in", "") else -1
    return strike._replace(node=node, name=name)


def _at_node(random: Random, kind: str, nodes: int, length: int, timing: Timing) -> Strike:
    at, node = _moment(random, length), random.randrange(nodes)
    if kind == "skew":
        return Strike(at, kind, node, size=random.choice((-3600, -5, 5, 30, 3600)) * SECOND)
    span = {
        "crash": lambda: random.choice((0, 1, 5, 20, 60)) * SECOND,
        "drain": lambda: random.choice((0, 2, 20)) * SECOND,
        "pause short": lambda: _short(random, timing),
        "pause long": lambda: _long(random, timing),
        "suspend long": lambda: _long(random, timing),
        "partition refused": lambda: random.choice((_short, _long))(random, timing),
        "partition silent": lambda: random.choice((_short, _long))(random, timing),
    }[kind]()
    return Strike(at, kind, node, span)


def _at_database(random: Random, kind: str, length: int, timing: Timing) -> Strike:
    at = _moment(random, length)
    if kind == "jump":
        return Strike(at, kind, size=random.choice((-120, -10, -3, 3, 10, 120)) * SECOND)
    return Strike(at, kind, span=random.choice((_short, _long))(random, timing))


def _race(random: Random, nodes: int, length: int, timing: Timing) -> list[Strike]:
    """One comes back to life about when another has made up his mind, who may wait before he writes it down."""
    at, node = _moment(random, length), random.randrange(nodes)
    away = timing.lease + int(timing.check_in * random.uniform(0.5, 2.5))
    waits = int(timing.check_in * random.uniform(0.5, 4))
    if random.random() < 0.4:  # it took something just before
        return [Strike(at, random.choice(("pause after", "pause after", "slow after")), node, away, "take")]
    name = random.choice(("mark dead", "mark dead", "rescue"))
    how = random.choice(("pause before", "slow before"))
    return [Strike(at, "pause long", node, away), Strike(at, how, -1, waits, name)]


def _at_redis(random: Random, kind: str, nodes: int, length: int, timing: Timing) -> Strike:
    at = _moment(random, length)
    if kind == "flush":
        return Strike(at, kind)
    span = int(timing.leader_ttl * random.choice((0.3, 0.9, 1.5, 4, 8, 15)))
    return Strike(at, kind, random.randrange(nodes) if "partition" in kind else -1, span)


# -- operators ---------------------------------------------------------------------------------------------------------


def draw_verbs(
    random: Random, triggers: tuple[TriggerDefinition, ...], length: int
) -> tuple[tuple[Verb, ...], tuple[TriggerDefinition, ...]]:
    """What operators do, and what their edits make of the triggers they edit."""
    if random.random() < 0.3:
        return (), ()
    from .draw import GAPS, draw_trigger

    kinds = random.sample(("pause", "fire", "edit", "delete", "apply", "pause_group"), random.randint(1, 4))
    verbs: list[Verb] = []
    edits: list[TriggerDefinition] = []
    for number in range(random.randint(2, 12)):
        kind, trigger = random.choice(kinds), random.choice(triggers)
        at = _moment(random, length)
        if kind == "pause":
            verbs.append(Verb(at, kind, trigger.key, number, random.choice((0, 0, 15, 40)) * SECOND))
            verbs.append(Verb(at + random.randint(5, 90) * SECOND, "resume", trigger.key, number))
        elif kind == "pause_group":
            verbs.append(Verb(at, kind, trigger.group, number))
            verbs.append(Verb(at + random.randint(5, 60) * SECOND, "resume_group", trigger.group, number))
        elif kind in ("edit", "delete"):
            if kind == "delete":
                verbs.append(Verb(at, kind, trigger.key, number))
                at += random.randint(1, 60) * SECOND
            drawn = draw_trigger(random, trigger.name, trigger.job, random.choice(GAPS))
            same = TriggerDefinition(**{**_fields(drawn), "group": trigger.group})
            verbs.append(Verb(at, "edit", trigger.key, len(edits)))
            edits.append(same)
        else:
            verbs.append(Verb(at, kind, trigger.key, number))
    late = tuple(each for each in sorted(verbs) if each.at < length)
    return late, tuple(edits)


def _fields(trigger: TriggerDefinition) -> dict[str, Any]:
    return {name: getattr(trigger, name) for name in TriggerDefinition.__dataclass_fields__}
