"""When each node could do its work, in true time: what the bounds on lateness and takeover are measured against."""

from collections.abc import Iterable

from .oracle import SECOND

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time, as spans that do not touch, in order."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def rest(spans: Iterable[Span], first: int, last: int) -> list[Span]:
    """What of `first`..`last` lies in none of the spans."""
    found, at = [], first
    for begin, end in merged(spans):
        if begin > at:
            found.append((at, min(begin, last)))
        at = max(at, end)
        if at >= last:
            break
    if at < last:
        found.append((at, last))
    return [span for span in found if span[0] < span[1]]


def overlap(one: list[Span], other: list[Span]) -> list[Span]:
    """The time that lies in both."""
    found = []
    for first, last in one:
        for begin, end in other:
            if begin < last and first < end:
                found.append((max(first, begin), min(last, end)))
    return found


def longest(spans: Iterable[Span]) -> int:
    return max((last - first for first, last in spans), default=0)


GRACE = SECOND
"""After a trouble a node has so long to find out that it is over."""
