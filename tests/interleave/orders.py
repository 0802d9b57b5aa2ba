"""What must be true of the order in which things were committed: nothing starts behind a pause, a dead verdict, a new epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .accesses import COMMIT, WRITE, Step
from .moment import Moment
from .photograph import records
from .seat import Seat
from .turnstile import Actor, Event

_STOPS = {"pause": "control", "pause-group": "control", "delete": "control", "retire": "apply"}
_MARKS = {"mark-gone", "mark-silent"}
_LEADS = {"take-over": "take over", "fall-back": "fall back"}


@dataclass(frozen=True)
class Played:
    """One order that was played: who did what as whom, and in which order it was committed."""

    names: Sequence[str]
    seats: Sequence[Seat]
    actors: Sequence[Actor]
    events: Sequence[Event]
    incarnations: Sequence[int]
    """Of the sides' nodes, before."""

    def commits(self, side: int, *transactions: str) -> list[int]:
        """The places at which a side committed something of these."""
        return [
            place
            for place, event in enumerate(self.events)
            if event.side == side and event.step.of in transactions and _writes(event.step)
        ]


def _writes(step: Step) -> bool:
    return step.text == COMMIT and WRITE in step.touched.values()


def broken_orders(played: Played, moment: Moment) -> list[str]:
    """Every promise that the order breaks."""
    found: list[str] = []
    for side, name in enumerate(played.names):
        if name in _STOPS:
            found += (
                f"nothing starts behind a pause: {text}" for text in _starts_behind(played, moment, side)
            )
        if name == "pause-follower":
            found += (
                f"what is paused does not follow: {text}" for text in _follows_behind(played, moment, side)
            )
        if name in _MARKS:
            found += (f"a dead verdict is final: {text}" for text in _lives_on(played, moment, side))
        if name in _LEADS:
            found += (f"no plan of an old epoch: {text}" for text in _plans_behind(played, side))
        if name in ("check-in", "reconcile"):
            found += (f"who checked in lives: {text}" for text in _is_nobody(played, moment, side))
    found += (f"each term is an epoch: {text}" for text in _epochs(played, moment))
    found += (f"no unique key is hit: {text}" for text in _hits(played))
    return found


def _starts_behind(played: Played, moment: Moment, side: int) -> Iterator[str]:
    """When a pause has returned, nothing of the trigger starts, save what somebody asks for."""
    stopped = played.commits(side, _STOPS[played.names[side]])
    took = played.commits(1 - side, "take")
    if not stopped or not took or took[0] < stopped[-1]:
        return
    before = {row["id"]: row["fence"] for row in records(moment.before, "firings")}
    for firing in moment.rows("firings"):
        fresh = firing["state"] == "running" and before.get(firing["id"], 0) < firing["fence"]
        if fresh and firing["trigger_id"] is not None:
            yield f"firing {firing['id']} was started behind the {played.names[side]} of its trigger"


def _follows_behind(played: Played, moment: Moment, side: int) -> Iterator[str]:
    """Who ends behind a pause of the follower has a skipped row, and before it one that is due."""
    paused, ended = played.commits(side, "control"), played.commits(1 - side, "settle", "settle carefully")
    if not paused or not ended:
        return
    for firing in moment.rows("firings"):
        if (firing["request_key"] or "").startswith("after:"):
            wanted = "skipped" if paused[-1] < ended[0] else "due"
            if firing["state"] != wanted:
                yield f"paused at {paused[-1]}, ended at {ended[0]}, and the continuation is {firing['state']}"


def _lives_on(played: Played, moment: Moment, side: int) -> Iterator[str]:
    """A node that was declared dead takes nothing behind that; one that had checked in before is not declared dead."""
    victim = 1 - side
    marked = played.commits(side, "mark dead")
    nodes = {row["incarnation"]: row for row in moment.rows("nodes")}
    if not marked or nodes[played.incarnations[victim]]["state"] != "dead":
        return
    if played.seats[side].other is not played.seats[victim].node:
        return
    for place in played.commits(victim, "take", "plan", "take over", "rescue", "mark dead"):
        if place > marked[-1]:
            yield f"a node that was declared dead at {marked[-1]} committed at {place}: {played.events[place].step}"
    for place in played.commits(victim, "check-in"):
        if place < marked[0]:
            yield f"a node that had checked in at {place} was declared dead at {marked[0]}"


def _plans_behind(played: Played, side: int) -> Iterator[str]:
    """No plan of an old epoch is committed behind the new one."""
    took_over = played.commits(side, _LEADS[played.names[side]])
    if took_over and played.actors[side].answer:
        for place in played.commits(1 - side, "plan"):
            if place > took_over[-1]:
                yield f"a plan of the old epoch was committed at {place}, the new one began at {took_over[-1]}"


def _is_nobody(played: Played, moment: Moment, side: int) -> Iterator[str]:
    """Who has checked in lives, or lives again under a new incarnation, until it says itself that it stopped."""
    incarnation = played.seats[side].node.parts.who.incarnation
    row = next((row for row in moment.rows("nodes") if row["incarnation"] == incarnation), None)
    stopped = row is not None and row["state"] == "stopped" and "leave" in played.names
    if row is None or (row["state"] != "up" and not stopped):
        yield f"incarnation {incarnation} has checked in, and its row says {row and row['state']}"


def _epochs(played: Played, moment: Moment) -> Iterator[str]:
    """Each new leadership, and each fall-back, is an epoch of its own."""
    (then,), (now,) = (records(rows, "clusters") for rows in (moment.before, moment.now))
    begun = [
        bool(actor.answer) for name, actor in zip(played.names, played.actors, strict=True) if name in _LEADS
    ]
    if now["epoch"] - then["epoch"] != sum(begun):
        yield f"{sum(begun)} terms began, and the epoch went from {then['epoch']} to {now['epoch']}"


def _hits(played: Played) -> Iterator[str]:
    """Unique keys are a last defence: what is refused by one got too far. Only a request that comes in twice may meet its own."""
    for event in played.events:
        failed = (event.failed or "").lower()
        if "duplicate" in failed and "request_key" not in failed:
            yield f"{event.failed}"
