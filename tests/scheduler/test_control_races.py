"""Apply and the control verbs at once, from many threads, beside a taker: nothing fails, nothing is decided twice or lost."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import (
    delete,
    end_group_pauses,
    fire,
    pause,
    pause_group,
    reset,
    resume,
    resume_group,
)
from qsched.scheduler.errors import Refused, UnknownTrigger
from qsched.scheduler.firing import RUNNING, NewFiring
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.firing_rows import insert_firings
from qsched.scheduler.store.tx import Tx
from qsched.triggers.instant import MINUTE

from support.declared import Declared, Hands, at, command, declared, new_store, rows, trigger

KEYS = [f"g/t{number}" for number in range(12)]
NOON = "2024-01-10 12:00"


def in_threads(verbs: list[Callable[[], None]]) -> None:
    """Run all at once; raises the first failure."""
    failures: list[BaseException] = []

    def run(verb: Callable[[], None]) -> None:
        try:
            verb()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(verb,)) for verb in verbs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def take(tx: Tx) -> None:
    """Decide due triggers as a node does: locked in the due index's order, passing by what others hold, slot by slot."""
    due = tx.run(
        "SELECT id, version, next_fire_at, job_id FROM qsched_trigger_clocks WHERE cluster = ? AND next_run_at <= ?"
        f" ORDER BY next_run_at, precedence, id LIMIT 5{tx.dialect.skip_locked}",
        *(tx.cluster, tx.now()),
    ).all()
    for trigger_id, version, slot, job_id in due:
        changed = tx.run(
            "UPDATE qsched_trigger_clocks SET version = ?, watermark = ?, next_fire_at = ?, next_run_at = ?"
            " WHERE id = ? AND version = ?",
            *(version + 1, slot, slot + MINUTE, slot + MINUTE, trigger_id, version),
        )
        assert changed.rowcount == 1
        row = NewFiring(
            tx.cluster,
            trigger_id,
            None,
            job_id,
            "",
            "report",
            slot,
            slot,
            1,
            "schedule",
            RUNNING,
            slot,
            95,
            slot,
        )
        insert_firings(tx, [row])


FILES = [declared(*(trigger(key, data={"round": number}) for key in KEYS)) for number in range(3)]


def pauses(store: Store, _: Hands, chance: random.Random) -> None:
    try:
        pause(store, chance.sample(KEYS, 5))
        resume(store, chance.sample(KEYS, 8))
    except UnknownTrigger:
        pass  # deleted meanwhile


def groups(store: Store, _: Hands, __: random.Random) -> None:
    pause_group(store, "g")
    resume_group(store, "g")


def applies(store: Store, _: Hands, chance: random.Random) -> None:
    apply(store, chance.choice(FILES))


def others(store: Store, hands: Hands, chance: random.Random) -> None:
    hands.instant += 20_000_000
    try:
        fire(store, chance.choice(KEYS))
        chance.choice((reset, delete))(store, [chance.choice(KEYS)])
    except (Refused, UnknownTrigger):
        pass


def test_verbs_and_takers_at_once_decide_every_slot_once(made_url: str) -> None:
    hands, over = Hands(NOON), threading.Event()
    first = new_store(made_url, hands)
    apply(first, FILES[0])

    def repeating(work: Callable[[Store, Hands, random.Random], None]) -> Callable[[], None]:
        def run() -> None:
            store, chance = new_store(made_url, hands), random.Random(work.__name__)
            try:
                for _ in range(15):
                    work(store, hands, chance)
            finally:
                over.set()
                store.close()

        return run

    def takes() -> None:
        store = new_store(made_url, hands)
        while not over.is_set():
            store.transaction("take", take)
        store.close()

    in_threads([*map(repeating, (pauses, groups, applies, others)), takes, takes])
    apply(first, FILES[0])
    resume(first, KEYS)
    resume_group(first, "g")
    all_wait_for_their_next_slot(first)
    for trigger_id in range(1, len(KEYS) + 1):
        every_slot_is_decided_once(first, trigger_id)
    first.close()


def all_wait_for_their_next_slot(store: Store) -> None:
    clocks = rows(
        store,
        "SELECT t.state, c.next_fire_at, c.next_run_at, c.watermark FROM qsched_trigger_clocks c"
        " JOIN qsched_triggers t ON t.id = c.id",
    )
    assert len(clocks) == len(KEYS)
    for state, next_fire_at, next_run_at, watermark in clocks:
        assert (state, next_run_at) == ("waiting", next_fire_at)
        assert next_fire_at > watermark


def every_slot_is_decided_once(store: Store, trigger_id: int) -> None:
    """Slots may be passed by only between a deletion and its return; no slot has two rows or lies in two spans."""
    spans = rows(
        store,
        "SELECT first_scheduled_at, scheduled_at, covers FROM qsched_firings WHERE trigger_id = ? ORDER BY scheduled_at",
        trigger_id,
    )
    before = at(NOON)
    for first, last, covers in spans:
        assert first > before
        assert covers == (last - first) // MINUTE + 1
        before = last


def test_two_namespaces_that_claim_one_key_at_once_leave_one_owner(made_url: str) -> None:
    hands = Hands(NOON)
    new_store(made_url, hands).close()
    outcomes: list[str] = []
    start = threading.Barrier(2)

    def claim(namespace: str) -> Callable[[], None]:
        def run() -> None:
            store = new_store(made_url, hands)
            job = command(namespace)
            file = Declared((trigger("mine", job=namespace),), (job,), namespace)
            start.wait()
            try:
                outcomes.append(apply(store, file).status)
            except Exception as error:
                outcomes.append(type(error).__name__)
            finally:
                store.close()

        return run

    in_threads([claim("one"), claim("two")])
    assert sorted(outcomes) == ["Conflict", "applied"]
    store = new_store(made_url, hands)
    assert len(rows(store, "SELECT id FROM qsched_triggers")) == 1
    store.close()


def test_a_group_that_is_resumed_while_it_is_being_paused_goes_on(
    made_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = Hands(NOON)
    store, other = new_store(made_url, hands), new_store(made_url, hands)
    apply(store, declared(*(trigger(key) for key in KEYS)))
    transaction = Store.transaction

    def interrupted(self: Store, name: str, work: Any, **options: Any) -> Any:
        """The pause is stopped for a while between its two transactions."""
        if self is store and name == "control":
            resume_group(other, "g")
        return transaction(self, name, work, **options)

    monkeypatch.setattr(Store, "transaction", interrupted)
    pause_group(store, "g")
    assert rows(other, "SELECT COUNT(*) FROM qsched_trigger_clocks WHERE next_run_at IS NULL") == [(0,)]
    assert rows(other, "SELECT COUNT(*) FROM qsched_paused_groups") == [(0,)]
    store.close()
    other.close()


def test_a_group_that_a_sweep_stops_again_while_it_is_being_resumed_goes_on(
    made_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-resumed group looks like one with a clock that goes though it should stand: the sweep stops that."""
    hands = Hands(NOON)
    store, other = new_store(made_url, hands), new_store(made_url, hands)
    apply(store, declared(*(trigger(key) for key in KEYS)))
    pause_group(store, "g")
    transaction = Store.transaction
    swept: list[str] = []

    def interrupted(self: Store, name: str, work: Any, **options: Any) -> Any:
        """The resume is stopped for a while behind its first transaction over triggers."""
        result = transaction(self, name, work, **options)
        if self is store and name == "control" and not swept:
            swept.append(name)
            other.transaction(
                "sweep", lambda tx: tx.run("UPDATE qsched_trigger_clocks SET next_run_at = NULL")
            )
        return result

    monkeypatch.setattr(Store, "transaction", interrupted)
    resume_group(store, "g")
    assert swept
    assert rows(other, "SELECT COUNT(*) FROM qsched_trigger_clocks WHERE next_run_at IS NULL") == [(0,)]
    assert rows(other, "SELECT COUNT(*) FROM qsched_paused_groups") == [(0,)]
    store.close()
    other.close()


@pytest.mark.parametrize("moment", ["before resume group", "behind resume group", "behind control"])
@pytest.mark.parametrize("anew", [True, False], ids=["anew", "for longer"])
def test_a_group_that_is_paused_while_its_old_pause_is_being_ended_stays_paused(
    made_url: str, monkeypatch: pytest.MonkeyPatch, moment: str, anew: bool
) -> None:
    hands = Hands(NOON)
    store, other = new_store(made_url, hands), new_store(made_url, hands)
    apply(store, declared(*(trigger(key) for key in KEYS)))
    pause_group(store, "g", until=at("2024-01-10 12:05"))
    hands.move_to("2024-01-10 12:06")
    transaction = Store.transaction
    paused: list[str] = []

    def pauses(now: str) -> None:
        if now == moment and not paused:
            paused.append(now)
            if anew:  # another node has ended the old one
                resume_group(other, "g")
            pause_group(other, "g", who="ada")

    def interrupted(self: Store, name: str, work: Any, **options: Any) -> Any:
        """The end is stopped for a while beside one of its transactions."""
        if self is not store:
            return transaction(self, name, work, **options)
        pauses(f"before {name}")
        result = transaction(self, name, work, **options)
        pauses(f"behind {name}")
        return result

    monkeypatch.setattr(Store, "transaction", interrupted)
    end_group_pauses(store, ["g"])
    assert paused
    assert rows(other, "SELECT COUNT(*) FROM qsched_trigger_clocks WHERE next_run_at IS NOT NULL") == [(0,)]
    assert rows(other, "SELECT paused_by FROM qsched_paused_groups") == [("ada",)]
    store.close()
    other.close()
