"""Quartz's misfire instructions in our words, each with what becomes different, if anything does.

A trigger that repeats `every` interval ends in one of two ways, and Quartz's instructions differ in which they mean:
by what ran (`max_fires`), or by the grid (`end_at`: what was missed is gone).
"""

from typing import Final, Literal, NamedTuple

from .errors import DefinitionError
from .misfire import FIRE_ALL, FIRE_ONCE, SKIP

SIMPLE: Final = "simple"
FIRES: Final = "max_fires"
GRID: Final = "end_at"

_PHASE: Final = "after a misfire Quartz counts the interval from the moment of the late run; here the slots stay where they were"
_BOUNDED: Final = (
    "Quartz runs every missed slot, however many; here the newest `limit` (100) within `window` (24h)"
)


class Counterpart(NamedTuple):
    """What stands for a misfire instruction of Quartz."""

    policy: str
    """fire_once, skip or fire_all."""
    ends_by: Literal["max_fires", "end_at"] | None = None
    """How a repeat count r is said so that the same number runs: `max_fires: r + 1`, or `end_at: start + r × interval`.

    None where there is no repeat count.
    """
    changed: str | None = None
    """What is different after a misfire, for a person; None: nothing is."""


# Names without underscores and in capitals: Java and .NET spell them differently.
_ANY: Final = {
    "SMARTPOLICY": Counterpart(FIRE_ONCE),
    "FIREONCENOW": Counterpart(FIRE_ONCE),
    "DONOTHING": Counterpart(SKIP),
    "IGNOREMISFIRES": Counterpart(FIRE_ALL, changed=_BOUNDED),
    "IGNOREMISFIREPOLICY": Counterpart(FIRE_ALL, changed=_BOUNDED),
}
_COUNTING: Final = {
    "RESCHEDULENOWWITHEXISTINGREPEATCOUNT": Counterpart(FIRE_ONCE, FIRES, _PHASE),
    "RESCHEDULENOWWITHREMAININGREPEATCOUNT": Counterpart(FIRE_ONCE, GRID, _PHASE),
    "RESCHEDULENEXTWITHREMAININGCOUNT": Counterpart(SKIP, GRID),
    # Quartz ends a simple trigger by its grid whatever it has counted, so that this one is as the one before.
    "RESCHEDULENEXTWITHEXISTINGCOUNT": Counterpart(SKIP, GRID),
}
_NUMBERS: Final = {
    "-1": "IGNOREMISFIREPOLICY",
    "0": "SMARTPOLICY",
}
_SIMPLE_NUMBERS: Final = {
    "1": "FIRENOW",
    "2": "RESCHEDULENOWWITHEXISTINGREPEATCOUNT",
    "3": "RESCHEDULENOWWITHREMAININGREPEATCOUNT",
    "4": "RESCHEDULENEXTWITHREMAININGCOUNT",
    "5": "RESCHEDULENEXTWITHEXISTINGCOUNT",
}
_OTHER_NUMBERS: Final = {"1": "FIREONCENOW", "2": "DONOTHING"}


def from_quartz(word: str, trigger: str = "cron", repeats: int | None = None) -> Counterpart:
    """What stands for the misfire instruction `word` (a name as Java or .NET spell it, or its number).

    `trigger` is Quartz's type (`simple`, or any other); `repeats` a simple trigger's repeat count, None (or negative)
    without end. Raises DefinitionError for a word that this type of trigger does not have.
    """
    name = word.strip().upper().removeprefix("MISFIRE_INSTRUCTION_").replace("_", "")
    numbers = _SIMPLE_NUMBERS if trigger == SIMPLE else _OTHER_NUMBERS
    name = {**_NUMBERS, **numbers}.get(name, name)
    found = _simple(name, repeats) if trigger == SIMPLE else _ANY.get(name)
    if found is None:
        raise DefinitionError(f"{word!r} is no misfire instruction of a {trigger} trigger of Quartz")
    return found


def _simple(name: str, repeats: int | None) -> Counterpart | None:
    endless = repeats is None or repeats < 0
    if name == "SMARTPOLICY":  # as Quartz resolves it
        name = "RESCHEDULENEXTWITHREMAININGCOUNT" if endless else "RESCHEDULENOWWITHEXISTINGREPEATCOUNT"
    elif name == "FIRENOW":
        name = "RESCHEDULENOWWITHREMAININGREPEATCOUNT"
    if name in ("FIREONCENOW", "DONOTHING"):
        return None
    found = _COUNTING.get(name) or _ANY.get(name)
    if found is None:
        return None
    if found.policy == FIRE_ALL:
        return found._replace(ends_by=None if endless or repeats == 0 else GRID)
    if repeats == 0:  # once: nothing is counted, and nothing comes later
        return Counterpart(found.policy)
    return found._replace(ends_by=None) if endless else found


HINTS: Final = {
    "FIRE_ONCE_NOW": FIRE_ONCE,
    "FIRE_NOW": FIRE_ONCE,
    "SMART_POLICY": FIRE_ONCE,
    "DO_NOTHING": SKIP,
    "IGNORE_MISFIRES": FIRE_ALL,
    "IGNORE_MISFIRE_POLICY": FIRE_ALL,
    "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT": FIRE_ONCE,
    "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT": FIRE_ONCE,
    "RESCHEDULE_NEXT_WITH_REMAINING_COUNT": SKIP,
    "RESCHEDULE_NEXT_WITH_EXISTING_COUNT": SKIP,
}
"""What a declaration that writes one of Quartz's words is asked to write instead."""
