"""A job's status outlives its history: the same before anything is pruned and after, whatever that history was."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.status_rows import JobStatus
from qsched.triggers.instant import DAY, HOUR, MINUTE

from support.declared import Hands, new_store, rows
from support.history import Row, ids, prune, put_retention, put_triggers, remember, status

JOBS = (1, 1, 2)
"""Of triggers 1, 2 and 3."""
LINES = [(1, 1, "slots"), (2, 1, "slots"), (1, 1, "requests"), (None, 1, "enqueued"), (3, 2, "slots")]
STATES = ("succeeded", "failed", "lost", "skipped", "cancelled")


def told(history: Sequence[Row], job_id: int) -> JobStatus:
    """What a history says of a job, read in the plainest way."""
    ended = sorted((row.at + row.took, row.state, row.attempt) for row in history if row.job_id == job_id)
    good = [at for at, state, _ in ended if state == "succeeded"]
    bad = [at for at, state, _ in ended if state in ("failed", "lost")]
    last = max(good, default=None)
    return JobStatus(
        last,
        max(bad, default=None),
        sum(last is None or at > last for at in bad),
        dict(sorted(Counter(attempt for _, state, attempt in ended if state == "succeeded").items())),
    )


SCRIPT = ("succeeded", "failed", "lost", "succeeded", "failed", "failed", "skipped", "lost", "cancelled")


def test_a_status_is_the_same_before_and_after_all_has_gone(store: Store, hands: Hands) -> None:
    put_triggers(store, JOBS)
    start = hands.instant - 90 * DAY
    history = [Row(start + n * HOUR, state=state, attempt=n % 3) for n, state in enumerate(SCRIPT)]
    history += [Row(start + n * HOUR, 2, state="failed", took=HOUR) for n in range(3)]
    history += [Row(start + 2 * HOUR, None, line="enqueued", attempt=1), Row(start, 3, 2, "lost")]
    remember(store, history)
    before = [status(store, job) for job in (1, 2, 9)]
    assert before == [told(history, 1), told(history, 2), JobStatus()]
    assert before[0] == JobStatus(start + 3 * HOUR, start + 7 * HOUR, 3, {0: 2, 1: 1})
    prune(store, hands)
    assert len(ids(store)) == 6  # the last of each kind of each line
    assert [status(store, job) for job in (1, 2, 9)] == before


def test_a_success_ends_the_row_of_failures_that_were_pruned(store: Store, hands: Hands) -> None:
    put_triggers(store, JOBS)
    start = hands.instant - 90 * DAY
    remember(store, [Row(start + n * HOUR, state="failed") for n in range(10)])
    prune(store, hands)
    assert (len(ids(store)), status(store).failures) == (1, 10)
    remember(store, [Row(hands.instant - HOUR, 2)])
    assert (status(store).failures, status(store).last_failure_at) == (0, start + 9 * HOUR)
    remember(store, [Row(hands.instant - MINUTE, state="failed")])
    assert status(store).failures == 1
    hands.instant += 90 * DAY
    remember(store, [Row(hands.instant - n * DAY, 2, state="failed") for n in (60, 59, 1)])
    prune(store, hands)
    assert status(store).failures == 4


def test_one_that_never_succeeded_fails_since_ever(store: Store, hands: Hands) -> None:
    put_triggers(store, JOBS)
    put_retention(store, per_trigger=10)
    start = hands.instant - DAY
    remember(store, [Row(start + n * MINUTE, state="failed") for n in range(50)])
    prune(store, hands)
    assert len(ids(store)) == 10
    assert status(store) == JobStatus(None, start + 49 * MINUTE, 50, {})


# -- any history -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory, made_sqlite: Path) -> Iterator[tuple[Store, Hands]]:
    """A store that many histories are put into, each behind the one before."""
    import shutil

    file = shutil.copy(made_sqlite, tmp_path_factory.mktemp("past") / "qsched.db")
    hands = Hands("2024-01-10 12:00")
    store = new_store(f"sqlite:///{file}", hands)
    yield store, hands
    store.close()


_seeds = count()


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(LINES),
            st.sampled_from(STATES),
            st.integers(0, 2),
            st.integers(0, 5),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 8),
    st.integers(1, 4),
)
def test_any_history_says_the_same_before_and_after_each_of_its_prunes(
    past: tuple[Store, Hands],
    drawn: list[tuple[tuple[int | None, int, str], str, int, int, int]],
    per_trigger: int,
    steps: int,
) -> None:
    store, hands = past
    for table in ("firings", "job_status", "chores", "triggers", "jobs"):
        store.transaction("empty", lambda tx, t=table: tx.run(f"DELETE FROM qsched_{t}") and None)  # type: ignore[misc]
    put_triggers(store, JOBS)
    put_retention(store, succeeded=2 * DAY, failed=4 * DAY, per_trigger=per_trigger)
    hands.instant += DAY
    history: list[Row] = []
    share = -(-len(drawn) // steps)
    for step in range(steps):
        # Time goes on, and what comes ends later than all that was there when it was last pruned.
        part = [
            Row(hands.instant + (n + 1) * HOUR, trigger, job, state, line, attempt, took * HOUR * 2 + jitter)
            for n, ((trigger, job, line), state, attempt, took, jitter) in enumerate(
                drawn[step * share : (step + 1) * share]
            )
        ]
        remember(store, part)
        history += part
        hands.instant += (share + 20) * HOUR
        expected = [told(history, job) for job in (1, 2)]
        assert [status(store, job) for job in (1, 2)] == expected
        prune(store, hands)
        assert [status(store, job) for job in (1, 2)] == expected
        assert len(ids(store)) <= len(history)


def test_two_thousand_rows_of_chance_on_each_database(store: Store, hands: Hands) -> None:
    put_triggers(store, JOBS)
    put_retention(store, per_trigger=50)
    chance = random.Random(7)
    start = hands.instant - 20 * DAY
    history = [
        Row(
            start + n * 10 * MINUTE,
            trigger,
            job,
            chance.choice(STATES),
            line,
            chance.randrange(3),
            chance.randrange(HOUR),
        )
        for n in range(2000)
        for trigger, job, line in [chance.choice(LINES)]
    ]
    remember(store, history)
    expected = [told(history, job) for job in (1, 2)]
    assert [status(store, job) for job in (1, 2)] == expected
    prune(store, hands)
    assert len(ids(store)) < 300
    assert [status(store, job) for job in (1, 2)] == expected
    assert rows(store, "SELECT COUNT(*) FROM qsched_job_status") == [(2,)]
