"""The answer to a COMMIT of what somebody asked for is lost: he is told so, and saying it again does it once."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import delete, fire, pause, reset, resume
from qsched.scheduler.drain_request import request_drain
from qsched.scheduler.errors import StoreUnavailable, UnknownTrigger
from qsched.scheduler.groups import pause_group, resume_group
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.node_rows import NodeFacts, register

from support.declared import Hands, declared, rows, trigger
from support.faults import Faults

Verb = Callable[[Store], Any]


def _prepared(store: Store) -> None:
    apply(store, declared(trigger("a"), trigger("g/c"), trigger("g/d")))
    facts = NodeFacts("one", "host", 1, None, 20, "0", None, None, 3_600_000_000)
    store.transaction("register", lambda tx: register(tx, facts))


def _paused(store: Store) -> None:
    _prepared(store)
    pause(store, ["a"])
    pause_group(store, "g")


VERBS: dict[str, tuple[str, Verb, Verb]] = {
    "apply": (
        "apply",
        _prepared,
        lambda store: apply(store, declared(trigger("a"), trigger("b"), trigger("g/c"))),
    ),
    "pause": ("control", _prepared, lambda store: pause(store, ["a"])),
    "resume": ("control", _paused, lambda store: resume(store, ["a"])),
    "reset": ("control", _prepared, lambda store: reset(store, ["a"])),
    "delete": ("control", _prepared, lambda store: delete(store, ["a"])),
    "pause_group": ("pause group", _prepared, lambda store: pause_group(store, "g")),
    "its_triggers": ("control", _prepared, lambda store: pause_group(store, "g")),
    "resume_group": ("resume group", _paused, lambda store: resume_group(store, "g")),
    "drain": ("ask to drain", _prepared, lambda store: request_drain(store, "one")),
}
"""How its transaction is called, what goes before, and what somebody does."""


def _everything(store: Store) -> list[Any]:
    """All that the verbs may change, but for who said it and how often."""
    return [
        rows(store, "SELECT name, state, paused_at, paused_until FROM qsched_triggers ORDER BY name"),
        rows(
            store,
            "SELECT id, next_fire_at, next_run_at, watermark, misfires FROM qsched_trigger_clocks ORDER BY id",
        ),
        rows(store, "SELECT trigger_id, reason, state, scheduled_at, covers FROM qsched_firings ORDER BY id"),
        rows(store, "SELECT name, state, drain_requested_at IS NULL FROM qsched_nodes"),
        rows(store, "SELECT revision FROM qsched_declarations"),
    ]


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_in_doubt_is_told_and_can_be_said_again(
    store: Store, hands: Hands, verb: str, landed: bool
) -> None:
    name, before, do = VERBS[verb]
    before(store)
    hands.move_to("2024-01-10 12:03")  # something is owed
    once: list[Any] = []
    faults = Faults(store)
    faults.lose_commit(name, landed=landed)
    with pytest.raises(StoreUnavailable) as caught:
        do(store)
    assert caught.value.in_doubt
    assert "look before you do it again" in str(caught.value.hint)
    for _ in range(2):
        with suppress(UnknownTrigger):  # it is deleted
            do(store)
        once = once or _everything(store)
    assert _everything(store) == once
    closed = rows(store, "SELECT trigger_id, scheduled_at FROM qsched_firings")
    assert len(closed) == len(set(closed))


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])
def test_a_fire_in_doubt_finds_out_by_its_request_key(store: Store, landed: bool) -> None:
    apply(store, declared(trigger("a")))
    faults = Faults(store)
    faults.lose_commit("fire", landed=landed)
    firing = fire(store, "a")
    assert faults.raised == 1
    assert rows(store, "SELECT id, state FROM qsched_firings") == [(firing, "due")]
