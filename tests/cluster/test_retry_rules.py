"""DESIGN §8 to the letter, through a real store: who says the policy, what is retried, when, how often, and how it ends."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.control import fire
from qsched.scheduler.errors import PermanentError, RetryAfter, RetryNow
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.firing_reports import firing
from qsched.scheduler.store.running_reports import retries_dropped
from qsched.triggers.instant import HOUR, MINUTE, SECOND, rfc3339
from qsched.triggers.retry import RetryPolicy

from support.hand_node import START, HandNode, World, every, once, python

BOOM = Outcome.failure("ValueError", "boom")
NOON = START + 3 * HOUR
DOCS = Path(__file__).parents[2] / "docs" / "retries.md"
FIVE = RetryPolicy.fixed(3, "5s")
DAY_AND_MORE = 30 * HOUR


# -- who says it -----------------------------------------------------------------------------------------------------

LEVELS: dict[str, RetryPolicy | None] = {
    "own": RetryPolicy.fixed(3, "5s"),
    "none": RetryPolicy.none(),
    "nothing": None,
}


def found(trigger: str, job: str, cluster: str) -> str:
    """Whose policy holds: the first that says anything."""
    level, said = next(
        (
            (level, said)
            for level, said in (("trigger", trigger), ("job", job), ("cluster", cluster))
            if said != "nothing"
        ),
        ("nobody", "none"),
    )
    return level if said == "own" else "none"


def test_the_policy_is_the_triggers_else_the_jobs_else_the_clusters_and_none_stops_the_search(
    world: World,
) -> None:
    """B7: each of the three says one of its own, `none`, or nothing: 27 ways, on one ledger."""
    delays = {"trigger": "5s", "job": "7s", "cluster": "11s"}

    def policy(level: str, said: str) -> RetryPolicy | None:
        return RetryPolicy.fixed(3, delays[level]) if said == "own" else LEVELS[said]

    jobs = [python(f"job-{said}", retry=policy("job", said)) for said in LEVELS]
    triggers = [
        every(f"{trigger}-{job}", 60, job=f"job-{job}", retry=policy("trigger", trigger))
        for trigger, job in product(LEVELS, LEVELS)
    ]
    world.functions.update({job.name: lambda: None for job in jobs})
    node = world.node()
    for cluster in LEVELS:
        default = policy("cluster", cluster)
        world.apply(
            *triggers,
            jobs=jobs,
            cluster_defaults={} if default is None else {"retry": default.to_spec()},
        )
        node.upkeep.step()  # which reads the cluster's defaults, every few seconds
        world.pass_time(60)
        world.hear()
        taken = node.turn()
        assert len(taken) == 9
        for request in taken:
            node.end(request, BOOM)
        node.settle()
        rows = world.firings("trigger_name, state, run_at - scheduled_at", f"scheduled_at = {world.time}")
        for name, state, waits in rows:
            trigger, job = name.split("-")
            level = found(trigger, job, cluster)
            expected = (
                ("failed", 0) if level == "none" else ("due", RetryPolicy.fixed(1, delays[level]).delay)
            )
            assert (state, waits) == expected, (name, cluster, level)
        assert len(rows) == 9


# -- what is retried -------------------------------------------------------------------------------------------------


class ShopError(ConnectionError):
    """An error of the application's."""


class OutOfStock(PermanentError):
    """A job's own permanent error."""


def raising(world: World, error: BaseException, retry: RetryPolicy | None, **fields: Any) -> HandNode:
    """A node that has just run a job that raises `error`, for the first time."""

    def body() -> None:
        raise error

    world.functions["report"] = body
    world.apply(every("tick", 600, **fields), jobs=[python("report", retry=retry)])
    node = world.node()
    world.pass_time(600)
    world.hear()
    node.turn()
    node.run()
    return node


@pytest.mark.parametrize(
    ("error", "filters", "retried"),
    [
        (ShopError(), {"retry_on": [ConnectionError]}, True),
        (ShopError(), {"retry_on": ["OSError"]}, True),
        (ShopError(), {"retry_on": [f"{__name__}.ShopError"]}, True),
        (ShopError(), {"retry_on": ["shop.ShopError"]}, False),
        (ShopError(), {"retry_on": ["TimeoutError"]}, False),
        (ShopError(), {"retry_on": ["OSError"], "no_retry_on": [ShopError]}, False),
        (ShopError(), {"no_retry_on": ["ConnectionError"]}, False),
        (ValueError(), {"no_retry_on": ["ConnectionError"]}, True),
        (TimeoutError(), {"retry_on": ["transient"]}, True),
        (ShopError(), {"retry_on": ["transient"]}, True),
        (ValueError(), {"retry_on": ["transient"]}, False),
        (TimeoutError(), {"no_retry_on": ["transient"]}, False),
        (OutOfStock("none left"), {}, False),
        (OutOfStock("none left"), {"retry_on": ["OutOfStock"]}, False),
    ],
)
def test_filters_name_classes_and_what_is_made_of_them(
    world: World, error: BaseException, filters: dict[str, Any], retried: bool
) -> None:
    raising(world, error, RetryPolicy.fixed(3, "5s", **filters))
    expected = ("due", 1, world.time + 5 * SECOND) if retried else ("failed", 0, world.time)
    assert world.firings("state, attempt, run_at") == [expected]


def test_retry_after_names_its_own_delay_and_is_one_of_the_policys_retries(world: World) -> None:
    node = raising(world, RetryAfter(90), RetryPolicy.fixed(1, "5s", retry_on=["transient"]))
    assert world.firings("state, attempt, run_at") == [("due", 1, world.time + 90 * SECOND)]
    world.pass_time(89.999999)
    assert node.turn() == []
    world.pass_time(0.000001)
    world.hear()
    assert len(node.turn()) == 1
    node.run()
    assert world.firings("state, attempt") == [("failed", 1)]


def test_retry_now_runs_ten_times_more_at_once_and_keeps_a_count_of_its_own(world: World) -> None:
    node = raising(world, RetryNow("stale token"), RetryPolicy.fixed(1, "5s"))
    node.work()
    assert world.firings("state, attempt, refires, fence, run_at") == [
        ("due", 1, 10, 11, world.time + 5 * SECOND)
    ]
    world.pass_time(5)
    world.hear()
    node.work()
    assert world.firings("state, attempt, refires, fence") == [("failed", 1, 10, 12)]
    (number,) = world.firings("id")[0]
    shown = firing(world.store, number)
    assert shown is not None
    assert [attempt["attempt"] for attempt in shown["attempts"]] == [0] * 11 + [1]


def test_who_gives_up_after_a_time_does_so_from_the_first_start(world: World) -> None:
    node = raising(world, ValueError("boom"), RetryPolicy.fixed(10, "1m", give_up_after="3m"))
    for _ in range(6):
        world.pass_time(60)
        world.hear()
        node.work()
    assert world.firings("state, attempt, retry_dropped") == [("failed", 3, "given up")]
    assert retries_dropped(world.store, world.clock_of("tick", "t.id")[0]) == {"given up": 1}


# -- how it ends -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "state"), [("fail", "failed"), ("discard", "cancelled"), ("pause_trigger", "failed")]
)
def test_used_up_retries_end_as_the_policy_says_and_never_in_a_trigger_error(
    world: World, choice: str, state: str
) -> None:
    node = raising(world, ValueError("no rates"), RetryPolicy.fixed(1, "5s", on_exhausted=choice))
    world.pass_time(5)
    world.hear()
    node.work()
    ((found_state, outcome, note),) = world.firings("state, outcome, note")
    assert (found_state, outcome) == (state, "failed")
    why = "retries exhausted after 1: ValueError: no rates"
    assert note == (f"discarded: {why}" if choice == "discard" else why)
    trigger = world.clock_of("tick", "t.state, t.error, t.paused_by, t.paused_reason")
    paused = ("qsched:retries-exhausted", why) if choice == "pause_trigger" else (None, None)
    assert trigger == ("waiting", None, *paused)
    world.pass_time(595)
    world.hear()
    assert len(node.turn()) == (0 if choice == "pause_trigger" else 1)


# -- the one-second rule ---------------------------------------------------------------------------------------------


def rows_of_the_docs() -> list[tuple[str, bool, str]]:
    """(when the retry would be due, whether a slot is next, what happens) for each row of docs/retries.md's table."""
    section = DOCS.read_text().split("## The one-second rule")[1].split("<!--")[0]
    rows = re.findall(r"^\| (any time|[\d:.]+)([^|]*) \| (kept|dropped)([^|]*) \|$", section, re.M)
    return [(at, "no next slot" not in more, f"{word}{why}") for at, more, word, why in rows]


def instant(clock: str) -> int:
    """12:00:08.999999 as an instant of the test's day."""
    hours, minutes, seconds = clock.split(":")
    whole, _, part = seconds.partition(".")
    return (
        NOON
        + ((int(hours) - 12) * 60 + int(minutes)) * MINUTE
        + int(whole) * SECOND
        + int((part or "0").ljust(6, "0"))
    )


def test_the_table_of_the_docs_has_both_sides_of_each_boundary() -> None:
    assert [(at, word.split(",")[0].split(":")[0]) for at, _, word in rows_of_the_docs()] == [
        ("12:00:08.999999", "kept"),
        ("12:00:09.000000", "dropped"),
        ("12:00:11", "dropped"),
        ("12:01:00", "kept"),
        ("12:01:00.000001", "dropped"),
        ("any time", "kept"),
    ]


@pytest.mark.parametrize(
    ("at", "slot_follows", "what"), rows_of_the_docs(), ids=lambda value: str(value)[:20]
)
def test_each_row_of_the_docs_table_holds_in_the_store(
    world: World, at: str, slot_follows: bool, what: str
) -> None:
    end_at = None if at == "any time" else NOON + MINUTE
    noon = {"every": 10 * SECOND, "anchor": NOON} if slot_follows else {"at": NOON}
    trigger = every("tick", start_at=NOON, end_at=end_at)
    world.apply(
        type(trigger)(name="tick", job="report", schedule=noon, start_at=trigger.start_at, end_at=end_at),
        jobs=[python("report", retry=FIVE)],
    )
    node = world.node()
    world.pass_time(3 * 3600)
    world.hear()
    (request,) = node.turn()
    retry_at = NOON + DAY_AND_MORE if at == "any time" else instant(at)
    world.pass_time((retry_at - 5 * SECOND - NOON) / SECOND)
    node.finish(request, BOOM)
    ((state, run_at, next_at, until, dropped, note),) = world.firings(
        "state, run_at, next_at, retry_until, retry_dropped, note"
    )
    assert (next_at, until) == (NOON + 10 * SECOND if slot_follows else None, end_at)
    if what.startswith("kept"):
        assert (state, run_at, dropped) == ("due", retry_at, None)
        return
    assert state == "failed"
    assert dropped == ("superseded" if slot_follows else "after end")
    assert (
        "superseded by the slot at 2024-01-10T12:00:10Z"
        if slot_follows
        else "after end at " + rfc3339(end_at or 0)
    ) in note
    assert retries_dropped(world.store, world.clock_of("tick", "t.id")[0]) == {dropped: 1}


@pytest.mark.parametrize("kind", ["once", "last", "manual"])
def test_without_a_next_slot_and_an_end_a_retry_is_made_at_any_time(world: World, kind: str) -> None:
    trigger = (
        once("tick", 10) if kind == "once" else every("tick", 10, max_fires=1 if kind == "last" else None)
    )
    world.apply(trigger, jobs=[python("report", retry=FIVE)])
    node = world.node()
    if kind == "manual":
        fire(world.store, "tick")
    else:
        world.pass_time(10)
        world.hear()
    (request,) = node.turn()
    world.elapsed += 1000
    world.time += 1000 * SECOND
    node.finish(request, BOOM)
    ((state, run_at, next_at),) = world.firings("state, run_at, next_at")
    assert (state, run_at, next_at) == ("due", world.time + 5 * SECOND, None)
