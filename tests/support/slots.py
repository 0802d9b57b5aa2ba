"""An independent list of slots: whole multiples of a gap since the epoch, by plain arithmetic and no code of the house."""


def slots(first: int, last: int, gap: int) -> list[int]:
    """The multiples of `gap` from `first` to `last`, both included (µs)."""
    start = -(-first // gap) * gap
    return list(range(start, last + 1, gap))


def expected(triggers: list[str], first: int, last: int, gap: int) -> set[tuple[str, int]]:
    """(trigger, slot) of each of these triggers that fires every `gap`."""
    return {(trigger, slot) for trigger in triggers for slot in slots(first, last, gap)}
