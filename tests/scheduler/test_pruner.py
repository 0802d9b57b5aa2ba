"""History that is pruned: what goes, what stays, in which steps, once per cluster."""

import json
import threading
from typing import Any

import pytest
from qsched.scheduler.pruner import YOUNG, Pruner
from qsched.scheduler.store.chore_rows import claim_chore
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import DAY, HOUR, MINUTE, SECOND

from support.declared import Hands, rows, write
from support.history import Row, ids, prune, pruner_of, put_retention, put_triggers, remember, states


@pytest.fixture
def now(hands: Hands, store: Store) -> int:
    """Noon; triggers 1 and 2 of job 1, trigger 3 of job 2."""
    put_triggers(store, [1, 1, 2])
    return hands.instant


def said(store: Store, name: str = "prune") -> dict[str, Any]:
    ((text,),) = rows(store, "SELECT said FROM qsched_chores WHERE name = ?", name)
    found: dict[str, Any] = json.loads(text)
    return found


def test_what_succeeded_goes_after_seven_days_and_what_failed_after_thirty(
    store: Store, hands: Hands, now: int
) -> None:
    kinds = ("succeeded", "skipped", "cancelled", "failed", "lost")
    ages = (1, 6, 8, 29, 31)
    past = [
        (now - age * DAY, n, state) for age in sorted(ages, reverse=True) for n, state in enumerate(kinds)
    ]
    remember(store, [Row(at + n, state=state) for at, n, state in past])
    prune(store, hands)
    left = rows(store, "SELECT state, scheduled_at FROM qsched_firings")
    kept = [(state, round((now - at) / DAY)) for state, at in left]
    assert sorted(kept) == sorted(
        (state, age) for state in kinds for age in ages if age < (7 if state in kinds[:3] else 30)
    )


def test_a_yearly_trigger_keeps_its_last_success_its_last_failure_and_its_last_row(
    store: Store, hands: Hands, now: int
) -> None:
    states_of = ("succeeded", "failed", "succeeded", "lost", "skipped", "skipped")
    kept = remember(store, [Row(now - (9 - n) * 365 * DAY, state=state) for n, state in enumerate(states_of)])
    prune(store, hands)
    assert ids(store) == {kept[2], kept[3], kept[5]}


def test_each_line_has_last_rows_of_its_own(store: Store, hands: Hands, now: int) -> None:
    """A trigger's slots, what was asked of it, and what was enqueued of its job."""
    old = now - 100 * DAY
    lines = [(1, "slots"), (1, "requests"), (2, "slots"), (None, "enqueued")]
    past = [Row(old + n, trigger, line=line) for n in range(3) for trigger, line in lines]
    kept = remember(store, past)
    prune(store, hands)
    assert ids(store) == set(kept[-4:])


def test_what_has_not_ended_is_never_touched(store: Store, hands: Hands, now: int) -> None:
    old = now - 100 * DAY
    kept = remember(store, [Row(old, state="running"), Row(old + 1, state="due"), Row(old + 2), Row(old + 3)])
    put_retention(store, per_trigger=1)
    prune(store, hands)
    assert ids(store) == {kept[0], kept[1], kept[3]}


def test_a_row_keeps_its_unique_key_until_that_is_given_up(store: Store, hands: Hands, now: int) -> None:
    old = now - 100 * DAY
    remember(store, [Row(old, None, line="enqueued", unique_key="a", unique_until=now + HOUR)])
    remember(store, [Row(old + 1, None, line="enqueued", unique_key="b", unique_until=now - HOUR)])
    remember(store, [Row(old + 2, None, line="enqueued", unique_key="c")])
    remember(store, [Row(old + 3, None, line="enqueued")])
    prune(store, hands)
    assert sorted(rows(store, "SELECT COALESCE(unique_key, '-') FROM qsched_firings")) == [("-",), ("a",)]
    hands.instant += 2 * HOUR
    prune(store, hands)
    assert rows(store, "SELECT COALESCE(unique_key, '-') FROM qsched_firings") == [("-",)]


def test_beyond_the_number_the_oldest_go_and_failures_last(store: Store, hands: Hands, now: int) -> None:
    put_retention(store, per_trigger=10)
    start = now - DAY
    past = [Row(start + n * MINUTE, state="failed" if n < 8 else "succeeded") for n in range(20)]
    past += [Row(start + n * MINUTE + 1, line="requests") for n in range(20)]
    other = [Row(start + n * MINUTE, 2) for n in range(10)]
    remember(store, past)
    kept = remember(store, other)
    prune(store, hands)
    assert states(store, "trigger_id = 1") == {"failed": 8, "succeeded": 1}
    assert states(store, "requested_trigger_id = 1") == {"succeeded": 1}
    assert set(kept) <= ids(store)


def test_failures_go_by_number_where_nothing_else_is_left(store: Store, hands: Hands, now: int) -> None:
    put_retention(store, per_trigger=10)
    kept = remember(store, [Row(now - DAY + n * MINUTE, state="failed") for n in range(25)])
    prune(store, hands)
    assert ids(store) == set(kept[-10:])


def test_enqueued_firings_are_counted_by_job(store: Store, hands: Hands, now: int) -> None:
    put_retention(store, per_trigger=5)
    past = [Row(now - DAY + n * MINUTE, None, job, line="enqueued") for n in range(8) for job in (1, 2)]
    kept = remember(store, past)
    prune(store, hands)
    assert ids(store) == set(kept[-10:])


def test_what_is_kept_for_ever_is_kept(store: Store, hands: Hands, now: int) -> None:
    put_retention(store, succeeded="forever", failed=DAY)
    past = [Row(now - 900 * DAY + n, state=state) for n in range(5) for state in ("failed",)]
    remember(store, past)
    remember(store, [Row(now - 800 * DAY + n) for n in range(5)])
    prune(store, hands)
    assert states(store) == {"succeeded": 5, "failed": 1}


def test_what_has_just_ended_stays_whatever_retention_says(store: Store, hands: Hands, now: int) -> None:
    put_retention(store, succeeded=SECOND, per_trigger=1)
    old, young = now - YOUNG - MINUTE, now - YOUNG + MINUTE
    remember(store, [Row(old - 2), Row(old - 1), Row(old), Row(young), Row(young + 1), Row(young + 2)])
    pruner_of(store).step()
    assert sorted(rows(store, "SELECT scheduled_at FROM qsched_firings")) == [
        (young,),
        (young + 1,),
        (young + 2,),
    ]


def test_a_retention_that_cannot_be_read_deletes_nothing(store: Store, hands: Hands, now: int) -> None:
    put_retention(store, succeeded="soon", per_trigger=1)
    kept = remember(store, [Row(now - 900 * DAY + n) for n in range(5)])
    prune(store, hands)
    assert ids(store) == set(kept)


def test_attempts_and_outputs_go_with_their_firing(store: Store, hands: Hands, now: int) -> None:
    remember(store, [Row(now - 100 * DAY + n) for n in range(400)], parts=3)
    prune(store, hands)
    assert states(store) == {"succeeded": 1}
    assert rows(store, "SELECT COUNT(*) FROM qsched_attempts") == [(3,)]
    assert rows(store, "SELECT COUNT(*) FROM qsched_outputs") == [(1,)]
    assert said(store)["rows"] == 399
    assert said(store)["most"] <= 1000


def test_another_clusters_history_is_its_own(store: Store, hands: Hands, now: int) -> None:
    other = open_store(store.url.render_as_string(hide_password=False), cluster="b", create=True, now=hands)
    kept = remember(other, [Row(now - 900 * DAY + n, 7, 7) for n in range(5)])
    remember(store, [Row(now - 800 * DAY + n) for n in range(5)])
    prune(store, hands)
    assert set(kept) <= ids(store)
    assert len(ids(store)) == 6
    other.close()


def test_a_walk_goes_on_where_another_node_has_left_it(store: Store, hands: Hands, now: int) -> None:
    remember(store, [Row(now - 100 * DAY + n) for n in range(5000)])
    one = pruner_of(store)
    deleted = one._deletion.delete

    def once(*given: Any) -> int:
        count = deleted(*given)
        one._parts.stopping.set()  # its process is told to leave
        return count

    vars(one._deletion)["delete"] = once
    assert one.step() == 1.0
    assert said(store)["places"]["age"][0] > 0
    assert 1 < len(ids(store)) < 5000
    hands.instant += 2 * SECOND
    prune(store, hands, pruner_of(store, "two", incarnation=2))
    assert len(ids(store)) == 1
    assert said(store)["total"] == 4999


def test_a_minute_is_claimed_once_and_a_claimant_that_died_is_replaced(
    store: Store, hands: Hands, now: int
) -> None:
    claims = [
        store.transaction("claim", lambda tx, n=n: claim_chore(tx, "prune", n, MINUTE))  # type: ignore[misc]
        for n in (1, 2)
    ]
    assert [claim is not None for claim in claims] == [True, False]
    past = [Row(now - 100 * DAY + n) for n in range(5)]
    remember(store, past)
    assert pruner_of(store).step() > 1  # it waits for the one that died
    assert len(ids(store)) == 5
    hands.instant += MINUTE
    pruner_of(store).step()
    assert len(ids(store)) == 1


def test_a_clock_that_was_set_back_does_not_stop_the_pruner_for_long(
    store: Store, hands: Hands, now: int
) -> None:
    hands.instant += 400 * DAY
    pruner_of(store).step()
    hands.instant = now
    remember(store, [Row(now + 300 * DAY, 2), *(Row(now - 100 * DAY + n) for n in range(5))])
    prune(store, hands)
    assert len(ids(store)) == 2


def test_two_nodes_that_race_do_it_once(store: Store, hands: Hands, now: int) -> None:
    remember(
        store, [Row(now - 100 * DAY + n, state="failed" if n % 7 == 0 else "succeeded") for n in range(3000)]
    )
    url = store.url.render_as_string(hide_password=False)
    stores = [open_store(url, create=False, now=hands) for _ in range(2)]
    pruners = [pruner_of(each, f"n{n}", incarnation=n) for n, each in enumerate(stores, 1)]
    began = threading.Barrier(2)
    waits: list[float] = []

    def run(pruner: Pruner) -> None:
        began.wait()
        waits.append(pruner.step())

    threads = [threading.Thread(target=run, args=(each,)) for each in pruners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in stores:
        each.close()
    prune(store, hands)
    assert states(store) == {"succeeded": 1, "failed": 1}
    assert said(store)["total"] == 2998
    ((successes,),) = rows(store, "SELECT successes FROM qsched_job_status WHERE job_id = 1")
    assert json.loads(successes) == {"0": 3000 - 429 - 1}


def test_a_node_that_drains_prunes_nothing(store: Store, hands: Hands, now: int) -> None:
    remember(store, [Row(now - 100 * DAY + n) for n in range(5)])
    pruner = pruner_of(store)
    pruner._parts.who.draining = True
    assert pruner.step() == 1.0
    assert len(ids(store)) == 5


# -- what grows beside it --------------------------------------------------------------------------------------------------


def put_node(store: Store, incarnation: int, state: str, ended_at: int | None) -> None:
    write(
        store,
        "INSERT INTO qsched_nodes (incarnation, cluster, name, host, pid, state, started_at, checked_in_at, lease_until,"
        " renew_seq, ended_at, capacity, version) VALUES (?, ?, ?, 'h', 1, ?, 1, 1, 1, 1, ?, 1, '0')",
        *(incarnation, store.cluster_id, f"n{incarnation}", state, ended_at),
    )


def test_nodes_that_ended_long_ago_are_forgotten_but_for_what_still_runs_there(
    store: Store, hands: Hands, now: int
) -> None:
    put_node(store, 1, "dead", now - 31 * DAY)
    put_node(store, 2, "stopped", now - 29 * DAY)
    put_node(store, 3, "dead", now - 31 * DAY)
    put_node(store, 4, "up", None)
    kept = remember(
        store,
        [
            Row(now - 40 * DAY, incarnation=1),
            Row(now - 39 * DAY, 2, state="running", incarnation=3),
        ],
    )
    prune(store, hands)
    assert rows(store, "SELECT incarnation FROM qsched_nodes ORDER BY 1") == [(2,), (3,), (4,)]
    assert said(store, "tidy")["nodes"] == 1
    from qsched.scheduler.store.firing_reports import firing

    shown = firing(store, kept[0])  # the newest of its trigger outlives the node that ran it
    assert shown is not None
    assert shown["node"] is None


def test_nodes_are_known_as_long_as_the_history_that_names_them(store: Store, hands: Hands, now: int) -> None:
    put_retention(store, failed="forever")
    put_node(store, 1, "dead", now - 900 * DAY)
    prune(store, hands)
    assert len(rows(store, "SELECT 1 FROM qsched_nodes")) == 1


def test_the_audit_is_kept_for_ninety_days(store: Store, hands: Hands, now: int) -> None:
    for age in (89, 91, 400):
        write(
            store,
            "INSERT INTO qsched_audit (cluster, at, verb, object) VALUES (?, ?, 'pause', ?)",
            *(store.cluster_id, now - age * DAY, str(age)),
        )
    prune(store, hands)
    assert rows(store, "SELECT object FROM qsched_audit") == [("89",)]


def test_the_free_serial_permits_of_retired_triggers_go(store: Store, hands: Hands, now: int) -> None:
    write(store, "UPDATE qsched_triggers SET state = 'retired' WHERE id IN (1, 2)")
    for key, firing in (("trigger:1", None), ("trigger:2", 5), ("trigger:3", None), ("job:1", None)):
        write(
            store,
            "INSERT INTO qsched_permits (cluster, permit_key, n, firing_id) VALUES (?, ?, 0, ?)",
            *(store.cluster_id, key, firing),
        )
    prune(store, hands)
    left = sorted(row[0] for row in rows(store, "SELECT permit_key FROM qsched_permits"))
    assert left == ["job:1", "trigger:2", "trigger:3"]
