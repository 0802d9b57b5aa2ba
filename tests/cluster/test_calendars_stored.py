"""Calendars through a store: what a change of one does to its triggers, and that a misfire fires nothing left out."""

from typing import Any

from qsched.scheduler.apply import apply
from qsched.scheduler.control import fire, pause, resume
from qsched.scheduler.plan import plan
from qsched.scheduler.store.calendar_rows import read_calendars
from qsched.triggers.declaration import Declarations, load_text
from qsched.triggers.instant import DAY, HOUR

from support.hand_node import START, World

MIDNIGHT = START - 9 * HOUR
"""Wednesday 2024-01-10."""


def declared(calendars: str, *triggers: str, now: int = START) -> Declarations:
    lines = "".join(f"  {trigger}\n" for trigger in triggers)
    text = f"qsched: 1\njobs: {{report: {{python: 'app:report'}}}}\ncalendars: {{{calendars}}}\ntriggers:\n{lines}"
    return load_text(text, now=now)


def apply_file(world: World, calendars: str, *triggers: str) -> Any:
    return apply(world.store, declared(calendars, *triggers, now=world.time))


DAILY = "daily: {cron: '0 12 * * *', job: report, exclude: closed}"


def next_of(world: World, name: str = "daily") -> tuple[Any, ...]:
    slot, run_at, state = world.clock_of(name, "c.next_fire_at, c.next_run_at, t.state")
    days = None if slot is None else (slot - MIDNIGHT) / DAY
    return days, run_at is not None, state


def test_a_changed_calendar_moves_the_next_fire_and_nothing_fires_because_of_it(world: World) -> None:
    apply_file(world, "closed: {weekly: thu}", DAILY)
    assert next_of(world) == (0.5, True, "waiting")
    apply_file(world, "closed: {weekly: [wed, thu]}", DAILY)
    assert next_of(world) == (2.5, True, "waiting")
    apply_file(world, "closed: {weekly: sun}", DAILY)
    assert next_of(world) == (0.5, True, "waiting")
    assert world.firings("id") == []


def test_a_changed_calendar_leaves_a_pause_and_what_is_done_as_they_are(world: World) -> None:
    once = "once: {at: 2024-01-10 12:00, job: report, exclude: closed}"
    apply_file(world, "closed: {weekly: sun}", DAILY, once)
    pause(world.store, ["daily"])
    world.pass_time(4 * 3600)
    world.node().work()
    assert next_of(world, "once")[2] == "done"
    apply_file(world, "closed: {weekly: [thu, fri]}", DAILY, once)
    assert next_of(world, "once") == (None, False, "done")
    days, would_run, state = next_of(world)
    assert (days, would_run, state) == (3.5, False, "waiting")
    resume(world.store, ["daily"])
    assert next_of(world) == (3.5, True, "waiting")
    assert sorted(world.firings("trigger_name, state, covers")) == [
        ("daily", "skipped", 1),
        ("once", "succeeded", 1),
    ]


def test_the_same_calendar_again_writes_nothing(world: World) -> None:
    apply_file(world, "closed: {weekly: [thu, fri]}", DAILY)
    before = world.clock_of("daily", "c.version")
    assert apply_file(world, "closed: {weekly: [fri, thu]}", DAILY).changed == ()
    assert world.clock_of("daily", "c.version") == before


def test_a_misfire_runs_the_last_slot_that_is_not_left_out(world: World) -> None:
    apply_file(world, "closed: {weekly: [sat, sun]}", DAILY)
    world.pass_time((4 * DAY + 9 * HOUR) / 1_000_000)  # Sunday 18:00
    world.node().work()
    assert world.firings("state, reason, covers, scheduled_at") == [
        ("succeeded", "misfire", 3, MIDNIGHT + 2 * DAY + 12 * HOUR)
    ]
    assert next_of(world) == (5.5, True, "waiting")


def test_a_start_by_hand_asks_no_calendar(world: World) -> None:
    apply_file(world, "closed: {weekly: wed}", DAILY)
    fire(world.store, "daily")
    world.node().work()
    assert world.firings("state, reason") == [("succeeded", "manual")]


def test_what_rolls_runs_on_the_day_it_rolled_to_once(world: World) -> None:
    rolling = "daily: {cron: '0 12 * * *', job: report, exclude: closed, on_excluded: next}"
    apply_file(world, "closed: {dates: 2024-01-10..2024-01-11}", rolling)
    node = world.node()
    for _ in range(4 * 24):
        world.pass_time(3600)
        node.work()
    assert [(row[0] - MIDNIGHT) / DAY for row in world.firings("scheduled_at")] == [2.5, 3.5]


def test_the_register_says_what_is_declared_and_who_uses_it(world: World) -> None:
    apply_file(world, "closed: {weekly: sun}, spare: {dates: 2024-05-01}", DAILY)
    rows = world.store.read("calendars", read_calendars)
    assert [(row.name, row.namespace, row.spec, row.used_by) for row in rows] == [
        ("closed", "default", {"weekly": ["sun"]}, ("daily",)),
        ("spare", "default", {"dates": [["2024-05-01", "2024-05-01"]]}, ()),
    ]
    apply_file(world, "closed: {weekly: sat}", DAILY)
    rows = world.store.read("calendars", read_calendars)
    assert [(row.name, row.spec) for row in rows] == [("closed", {"weekly": ["sat"]})]


def test_a_plan_says_what_a_changed_calendar_moves(world: World) -> None:
    apply_file(world, "closed: {weekly: sun}", DAILY)
    found = plan(world.store, declared("closed: {weekly: wed}", DAILY))
    (item,) = [item for item in found.items if item.what == "trigger"]
    assert (item.action, item.key) == ("change", "daily")
    assert item.next_before == MIDNIGHT + 12 * HOUR
    assert item.next_after == MIDNIGHT + DAY + 12 * HOUR


def test_a_plan_says_which_calendars_of_the_register_change_and_keep_drops_none(world: World) -> None:
    apply_file(world, "closed: {weekly: sun}, spare: {weekly: mon}, old: {weekly: tue}", DAILY)
    changed = declared("closed: {weekly: sun}, spare: {weekly: fri}, new: {weekly: tue}", DAILY)
    items = [(item.action, item.key) for item in plan(world.store, changed).items if item.what == "calendar"]
    assert items == [("add", "new"), ("change", "spare"), ("retire", "old")]
    apply(world.store, changed, prune="keep")
    assert [row.name for row in world.store.read("c", read_calendars)] == ["closed", "new", "old", "spare"]
    apply(world.store, changed)
    assert [row.name for row in world.store.read("c", read_calendars)] == ["closed", "new", "spare"]
