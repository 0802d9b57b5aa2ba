"""Asking a node to drain from anywhere, and seeing how far it is; the node itself hears of it at its next check-in."""

from dataclasses import dataclass
from difflib import get_close_matches

from ..triggers.duration import format_duration
from ..triggers.instant import SECOND
from .errors import UnknownNode
from .store.database import Store
from .store.definition_rows import write_audit
from .store.drain_rows import DrainRow, ask_to_drain, drain_row, node_named
from .store.node_rows import DRAINING, UP, live_nodes
from .store.tx import Tx

SILENT = "silent"


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """A drain as others see it."""

    name: str
    incarnation: int
    state: str
    """up (it has not heard yet) | draining | stopped | dead | silent: its lease has passed"""
    running: int
    handed_over: int
    asked_before: bool = False
    """It was draining already, or somebody asked before."""


def request_drain(store: Store, name: str, *, who: str | None = None) -> DrainProgress:
    """Ask the live node called `name` to drain; asking twice is fine. Raises UnknownNode where none is called so."""

    def ask(tx: Tx) -> DrainProgress:
        row = node_named(tx, name)
        if row is None or _state(row, tx.now()) not in (UP, DRAINING):
            raise _unknown(tx, name, row)
        asked = ask_to_drain(tx, row.incarnation, who)
        if asked:
            write_audit(tx, who, "drain", [name], {"incarnation": row.incarnation})
        return _progress(row, tx.now(), asked_before=not asked or row.state == DRAINING)

    return store.transaction("ask to drain", ask)


def drain_progress(store: Store, incarnation: int) -> DrainProgress | None:
    """How far the drain of this incarnation is; None when its row is gone."""

    def read(tx: Tx) -> DrainProgress | None:
        row = drain_row(tx, incarnation)
        return None if row is None else _progress(row, tx.now())

    return store.read("drain", read)


def _progress(row: DrainRow, now: int, *, asked_before: bool = False) -> DrainProgress:
    state = _state(row, now)
    return DrainProgress(row.name, row.incarnation, state, row.running, row.handed_over or 0, asked_before)


def _state(row: DrainRow, now: int) -> str:
    return SILENT if row.state in (UP, DRAINING) and row.lease_until <= now else row.state


def _unknown(tx: Tx, name: str, row: DrainRow | None) -> UnknownNode:
    if row is not None and _state(row, tx.now()) == SILENT:
        past = format_duration((tx.now() - row.lease_until) // SECOND * SECOND or SECOND)
        return UnknownNode(
            f"node {name!r} is silent: its lease passed {past} ago, and it hears nothing",
            hint="end its process; what it ran is the others' to take over",
        )
    live = [peer.name for peer in live_nodes(tx)]
    close = get_close_matches(name, live, 1)
    hint = f"did you mean {close[0]!r}?" if close else "`qsched nodes list` shows those that live"
    if row is not None:
        return UnknownNode(f"node {name!r} does not live any more: it is {row.state}", hint=hint)
    return UnknownNode(f"no node {name!r}", hint=hint)
