"""What a decision may look like: the rows that DESIGN §7's rules allow for a trigger's due slots, worked out anew."""

from collections.abc import Sequence
from typing import NamedTuple

from .oracle import Rule
from .rows import FiringRow

Part = tuple[str, str, int, int]
"""(runs | skipped, its reason, its first slot, its last slot)"""
Shape = tuple[Part, ...]


class Asked(NamedTuple):
    """A trigger under decision: its rule, its job's overlap, its due slots, the time, and how many rows may still run."""

    rule: Rule
    overlap: str
    slots: Sequence[int]
    now: int
    left: int | None


def shape_of(rows: Sequence[FiringRow]) -> Shape:
    """What was decided."""
    return tuple(
        (
            "skipped" if row.state == "skipped" else "runs",
            row.reason,
            row.first_scheduled_at,
            row.scheduled_at,
        )
        for row in rows
    )


def allowed_shapes(asked: Asked) -> dict[str, Shape]:
    """{name: shape} of what may be decided; one or two, or as many as there are slots on time."""
    slots = asked.slots
    if not slots:
        return {}
    if asked.now - slots[0] > asked.rule.threshold:
        return _misfired(asked)
    return _on_time(asked)


def _span(kind: str, reason: str, slots: Sequence[int]) -> Part:
    return (kind, reason, slots[0], slots[-1])


def _each(reason: str, slots: Sequence[int]) -> Shape:
    return tuple(("runs", reason, slot, slot) for slot in slots)


def _misfired(asked: Asked) -> dict[str, Shape]:
    """One incident: the policy decides all of it together."""
    rule, slots = asked.rule, asked.slots
    everything = _span("skipped", "misfire", slots)
    if rule.policy == "skip":
        return {"misfire skip": (everything,)}
    if rule.policy == "fire_once":
        shapes: dict[str, Shape] = {"misfire fire_once": (_span("runs", "misfire", slots),)}
        if asked.overlap == "skip":
            shapes["misfire fire_once while busy"] = (everything,)
        return shapes
    recent = [slot for slot in slots if slot >= asked.now - rule.window][-rule.limit :]
    if not recent:
        return {"misfire fire_all beyond window": (everything,)}
    older = slots[: len(slots) - len(recent)]
    beyond = (_span("skipped", "misfire", older),) if older else ()
    running = recent if asked.left is None else recent[: asked.left]
    spread: dict[str, Shape] = {"misfire fire_all": beyond + _each("misfire", running)}
    if asked.overlap == "skip":
        spread["misfire fire_all while busy"] = (*beyond, _span("skipped", "misfire", recent))
    return spread


def _on_time(asked: Asked) -> dict[str, Shape]:
    """Every slot by itself, as far as overlap lets it."""
    slots = asked.slots if asked.left is None else asked.slots[: asked.left]
    if asked.overlap == "allow":
        return {f"on time {count}": _each("schedule", slots[:count]) for count in range(1, len(slots) + 1)}
    if asked.overlap == "skip":
        rest = asked.slots[1:] if asked.left != 1 else ()
        skipped = (_span("skipped", "schedule", rest),) if rest else ()
        return {
            "on time, skip": (*_each("schedule", asked.slots[:1]), *skipped),
            "on time, skip while busy": (_span("skipped", "schedule", asked.slots),),
        }
    if len(asked.slots) == 1:
        return {f"on time, {asked.overlap}": _each("schedule", asked.slots)}
    if asked.rule.policy == "fire_all":
        return {"on time, each in its turn": _each("schedule", slots[: asked.rule.limit])}
    earlier = _span("skipped", "schedule", asked.slots[:-1])
    return {"on time, coalesced": (earlier, *_each("schedule", asked.slots[-1:]))}
