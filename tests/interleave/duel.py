"""Two operations against each other, in every order that may matter: played, looked at, and let come to rest."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from qsched.scheduler.control import resume
from qsched.scheduler.groups import resume_group

from support.hand_node import HandNode

from .accesses import order_matters, order_matters_within
from .acts import BACKLOG, EDITED, FRESH
from .ends import End, end_of, ledger_of
from .every_operation import OPERATIONS
from .explorer import Chance, EveryOrder, FewSwitches, Given, Search, letters
from .job_promises import unlike_kept
from .moment import Moment
from .orders import Played, broken_orders
from .photograph import Rows, records
from .promises import broken, left_over, unlike_memory
from .seat import Seat
from .setting import FOLLOWED, HEAVY, KEPT, TRIGGERS, Setting
from .turnstile import Actor, Event

BESIDE = "beside"
"""Each side has a node of its own."""
WITHIN = "within"
"""Both are threads of one node."""

_REST = (0, 3, 14, 3)
_LONG_REST = (0, 3, 9, 25, 28, 3)
"""Seconds that pass before each round in which all come to rest: first none, so that what was passed by, for somebody held it,
is decided at the same instant. In the long one the lease of whoever was lost passes."""
SCHEDULES = {one.name: [one, other] for one, other in zip(TRIGGERS, EDITED, strict=True)}
SCHEDULES |= {each.name: [each] for each in (FRESH, BACKLOG, KEPT, *HEAVY, *FOLLOWED)}


@dataclass(frozen=True)
class Pair:
    """Who meets whom, and where."""

    first: str
    second: str
    place: str = BESIDE

    @property
    def marks(self) -> bool:
        """Whether somebody may be declared dead."""
        return "mark-" in f"{self.first} {self.second}"

    def __str__(self) -> str:
        return f"{self.first}:{self.second}" + ("" if self.place == BESIDE else f":{self.place}")


def pairs(names: Sequence[str] = tuple(OPERATIONS)) -> Iterator[Pair]:
    """Every operation with every other one and with itself, and the loops of one node with each other."""
    for place, first in enumerate(names):
        for second in names[place:]:
            one, other = OPERATIONS[first], OPERATIONS[second]
            if not (one.meets(second) and other.meets(first)):
                continue
            yield Pair(first, second)
            inside = one.loop is not None and other.loop is not None and one.loop != other.loop
            if inside and not one.alike and not other.alike:
                yield Pair(first, second, WITHIN)


@dataclass
class Found:
    """What came of a pair."""

    pair: Pair
    played: int = 0
    complete: bool = False
    """Every order that may matter was played."""
    waited: Counter[str] = field(default_factory=Counter)
    """{statement: how often it waited for the other side's lock}"""
    deadlocks: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, list[str], list[Event]]] = field(default_factory=list)
    ends: dict[End, list[str]] = field(default_factory=dict)
    """{how it was left: what is wrong with that}"""
    ledgers: dict[End, list[Event]] = field(default_factory=dict)
    """{what the ledger says at rest: an order that leads to it}"""
    serial: set[End] = field(default_factory=set)
    steps: int = 0
    diverged: int = 0

    def strange(self) -> list[tuple[list[str], list[Event]]]:
        """(rows, an order) of ledgers with rows that neither order of one after the other has.

        Row by row: what takes several transactions may be half-way when the other comes in between.
        """
        known = {row for ledger in self.serial for row in ledger}
        found = ((sorted(set(ledger) - known), order) for ledger, order in self.ledgers.items())
        return [(rows, order) for rows, order in found if rows]

    def judge_strange(self) -> None:
        """They break a promise, but for those of a rescuer: a node's row that is held it leaves for its next look."""
        if self.pair.marks:
            return
        for rows, order in self.strange():
            problems = [f"as one after the other: {row}" for row in rows]
            self.violations.append((letters(order), problems, order))


class Duel:
    """One pair on one server."""

    def __init__(self, setting: Setting, pair: Pair) -> None:
        self._setting = setting
        self.found = Found(pair)
        one, two, _ = setting.nodes
        within = pair.place == WITHIN
        self._operations = (OPERATIONS[pair.first], OPERATIONS[pair.second])
        self._seats = (Seat(setting, one, two), Seat(setting, one if within else two, two if within else one))
        setting.begin_anew()
        for operation, seat in zip(self._operations, self._seats, strict=True):
            operation.arrange(seat)
        setting.mark()
        self._incarnations = [seat.node.parts.who.incarnation for seat in self._seats]
        self._now: Rows | None = setting.rows

    def every_order(self, limit: int, seed: int) -> Found:
        """All orders that may matter; if those are more than `limit`, also ones with few switches, and some by chance."""
        found, within = self.found, self.found.pair.place == WITHIN
        for letter in "ab":
            self.play(Given(letter * 500))
            found.serial = set(found.ledgers)
        search = EveryOrder(order_matters_within if within else order_matters)
        found.complete = self._walk(search, limit)
        if not found.complete:
            self._walk(FewSwitches(), limit // 2)
            self._walk(Chance(f"{seed} {found.pair}"), limit // 10)
        found.judge_strange()
        return found

    def _walk(self, search: Search, limit: int) -> bool:
        for _ in range(limit):
            if not search.again(self.play(search)):
                self.found.diverged += search.diverged
                return True
        self.found.diverged += search.diverged
        return False

    def play(self, search: Search) -> list[Event]:
        """One order, from the marked moment to rest."""
        setting, found = self._setting, self.found
        setting.restore(self._now)
        actors = setting.turnstile.play(
            [lambda o=o, s=s: o.act(s) for o, s in zip(self._operations, self._seats, strict=True)],  # type: ignore[misc]
            search.choose,
        )
        events = setting.turnstile.events
        self._now = setting.camera.take()
        self._count(events)
        problems = self._problems(actors, events)
        end = end_of(setting.rows, self._now, setting.nodes)
        if end not in found.ends:
            found.ends[end] = self._come_to_rest()
            found.ledgers.setdefault(ledger_of(self._now), list(events))
        problems += found.ends[end]
        if problems:
            found.violations.append((letters(events), problems, list(events)))
        return events

    def _count(self, events: Sequence[Event]) -> None:
        found = self.found
        found.played += 1
        found.steps += len(events)
        for event in events:
            found.waited[str(event.step)] += event.waited
            if event.failed is not None:
                dead = "eadlock" in event.failed
                found.deadlocks += dead
                found.refused[event.failed.splitlines()[0][:100]] += not dead

    def _problems(self, actors: Sequence[Actor], events: Sequence[Event]) -> list[str]:
        assert self._now is not None
        pair = self.found.pair
        moment = Moment(self._setting.rows, self._now, self._setting.world.time)
        problems = [
            f"no operation fails: side {'ab'[side]} raised {actor.error!r}"
            for side, actor in enumerate(actors)
            if actor.error is not None
        ]
        problems += broken(moment, SCHEDULES)
        problems += unlike_memory(moment, self._setting.nodes)
        problems += unlike_kept(moment, self._setting.nodes)
        played = Played((pair.first, pair.second), self._seats, actors, events, self._incarnations)
        return problems + broken_orders(played, moment)

    # -- rest ----------------------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> list[str]:
        """Let everybody live on for a while, under row locks; what is then still wrong."""
        setting = self._setting
        world = setting.world
        alive = {node.parts.who.incarnation for node in setting.nodes}
        now = setting.camera.take()
        left = {key for (key,) in now["nodes"]} - alive
        world.ended = dict.fromkeys(left, True)
        world.sql("UPDATE qsched_clusters SET coordination = 'row_locks', leader_incarnation = NULL")
        for trigger in records(now, "triggers"):
            if trigger["paused_at"] is not None and trigger["state"] != "retired":
                resume(world.store, [trigger["name"]])
        if now["paused_groups"]:
            resume_group(world.store, "default")
        for node in setting.nodes:
            node.parts.hand.capacity = 20
            node.parts.who.leader_mode, node.parts.who.term = False, None
        for seconds in _LONG_REST if self.found.pair.marks else _REST:
            world.pass_time(seconds)
            self._live(setting.nodes)
        self._now = setting.camera.take()
        moment = Moment(setting.rows, self._now, world.time)
        return [f"{each} (at rest)" for each in (*broken(moment, SCHEDULES), *left_over(moment, world.time))]

    def _live(self, nodes: Sequence[HandNode]) -> None:
        """All check in, what runs succeeds, and one rescues, takes and runs until there is nothing more to do."""
        for node in nodes:
            node.check_in.step()
            _succeed(node)
        one = nodes[0]
        one.rescuer.step()
        one.parts.who.live_nodes = 1
        while one.turn():
            _succeed(one)


def _succeed(node: HandNode) -> None:
    for request in list(node.taken):
        node.end(request)
    node.settle()
