"""The rare facts of a cluster, read from its store: nodes that come and go, operators' acts, triggers in error, the leader."""

import json
from collections.abc import Iterator

from .events import Event, Fact
from .store import event_rows
from .store.event_rows import Audited, InError, NodeLife
from .store.firing_rows import names_of
from .store.tx import Tx

LOOK_BACK = 1000
"""Ids of the audit that are looked at again: one may be committed after a later one."""
_FACTS = {
    "pause": Fact.PAUSED,
    "pause group": Fact.PAUSED,
    "resume": Fact.RESUMED,
    "resume group": Fact.RESUMED,
    "apply": Fact.APPLIED,
    "fenced": Fact.FENCED,
}
_OF_TRIGGERS = ("pause", "resume", "reset", "delete", "fire")
_OF_FIRINGS = ("cancel", "retry")


class RareEvents:
    """What became of nodes, triggers and the leader since the last look."""

    def __init__(self) -> None:
        self._audited: set[int] = set()
        self._audited_to = 0
        self._nodes: dict[int, NodeLife] = {}
        self._nodes_to = 0
        self._errors: dict[int, InError] = {}
        self._leader: tuple[int, int | None, str | None] | None = None

    def begin(self, tx: Tx) -> None:
        """All that is so now is known."""
        last = event_rows.last_audited(tx)
        self._audited_to = last
        self._audited = {row.id for row in event_rows.audited_after(tx, last - LOOK_BACK)}
        for node in event_rows.nodes_after(tx, 0, ()):
            self._know(node)
        self._errors = {each.id: each for each in event_rows.in_error(tx)}
        self._leader = event_rows.leader(tx)

    def before(self, tx: Tx, since: int) -> list[Event]:
        """What the store still tells of since an instant; what has no instant there is not told."""
        events = list(_of_acts(tx, event_rows.audited_since(tx, since)))
        for node in event_rows.nodes_after(tx, 0, ()):
            events += _of_node(None, node)
        events += [_of_error(each, each.at) for each in event_rows.in_error(tx) if each.at is not None]
        return [event for event in events if event.at >= since]

    def poll(self, tx: Tx) -> list[Event]:
        """What is new."""
        events = [*self._acts(tx), *self._node_lives(tx), *self._troubles(tx)]
        leader = event_rows.leader(tx)
        if leader != self._leader:
            self._leader = leader
            epoch, _, name = leader
            events.append(Event(fact=Fact.LEADER_CHANGED, at=tx.now(), node=name, reason=f"epoch {epoch}"))
        return events

    def _acts(self, tx: Tx) -> Iterator[Event]:
        rows = event_rows.audited_after(tx, self._audited_to - LOOK_BACK)
        yield from _of_acts(tx, [row for row in rows if row.id not in self._audited])
        self._audited = {row.id for row in rows}
        self._audited_to = max([self._audited_to, *self._audited])

    def _node_lives(self, tx: Tx) -> Iterator[Event]:
        alive = [number for number, node in self._nodes.items() if node.ended_at is None]
        for node in event_rows.nodes_after(tx, self._nodes_to, alive):
            yield from _of_node(self._nodes.get(node.incarnation), node)
            self._know(node)

    def _know(self, node: NodeLife) -> None:
        self._nodes_to = max(self._nodes_to, node.incarnation)
        self._nodes[node.incarnation] = node
        if node.ended_at is not None:
            del self._nodes[node.incarnation]

    def _troubles(self, tx: Tx) -> Iterator[Event]:
        now = {each.id: each for each in event_rows.in_error(tx)}
        for number, each in now.items():
            before = self._errors.get(number)
            if before is None or before.at != each.at:
                yield _of_error(each, tx.now() if each.at is None else each.at)
        for number, each in self._errors.items():
            if number not in now:
                yield Event(fact=Fact.TRIGGER_ERROR_CLEARED, at=tx.now(), trigger=each.key)
        self._errors = now


def _of_error(each: InError, at: int) -> Event:
    return Event(fact=Fact.TRIGGER_ERROR, at=at, trigger=each.key, reason=each.reason)


def _of_node(before: NodeLife | None, now: NodeLife) -> Iterator[Event]:
    """Registrations take turns, so that a node's incarnation tells whether it was there before."""
    who = f"incarnation {now.incarnation}"
    if before is None:
        yield Event(fact=Fact.NODE_UP, at=now.started_at, node=now.name, reason=who)
    if now.ended_at is None:
        return
    if now.state == "dead":
        by = f", says {now.by}" if now.by else ""
        yield Event(
            fact=Fact.NODE_DEAD,
            at=now.ended_at,
            node=now.name,
            reason=f"{who} is {now.verdict or 'dead'}{by}",
        )
    else:
        yield Event(fact=Fact.NODE_LEFT, at=now.ended_at, node=now.name, reason=who)


def _of_acts(tx: Tx, rows: list[Audited]) -> Iterator[Event]:
    fenced = [int(row.object) for row in rows if row.verb == "fenced" and row.object.isdigit()]
    names = names_of(tx, fenced) if fenced else {}
    for row in rows:
        if row.verb == "fenced" and row.object.isdigit():
            number, detail = int(row.object), _detail(row.detail)
            fence = detail.get("fence")
            trigger, job = names.get(number, (None, None))
            yield Event(
                fact=Fact.FENCED,
                at=row.at,
                trigger=trigger,
                job=job,
                firing=number,
                fence=fence if isinstance(fence, int) else 0,
                node=row.who,
                reason=f"it ended {detail.get('outcome')}, and others had taken it over: its end was refused",
            )
        else:
            yield _of_act(row)


def _of_act(row: Audited) -> Event:
    # `reset` is said of jobs, too, as `job NAME`.
    trigger = row.object if row.verb in _OF_TRIGGERS and not row.object.startswith("job ") else None
    firing = int(row.object) if row.verb in _OF_FIRINGS and row.object.isdigit() else None
    if row.verb.endswith(" group"):
        trigger = f"{row.object}/*"
    by = f"by {row.who}" if row.who else None
    fact = _FACTS.get(row.verb, Fact.OPERATED)
    words = [by] if trigger is not None or firing is not None else [row.object, by]
    if fact is Fact.OPERATED:
        words = [row.verb, *words]
    said = _detail(row.detail).get("reason")
    text = " ".join(word for word in words if word)
    reason = f"{text}: {said}" if said else text or None
    return Event(fact=fact, at=row.at, trigger=trigger, firing=firing, reason=reason)


def _detail(text: str | None) -> dict[str, object]:
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
