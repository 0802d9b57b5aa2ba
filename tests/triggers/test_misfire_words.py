"""Quartz's misfire instructions: what we say for each does what a model of Quartz's own rules does, or says what differs."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.decide import Due, decide
from qsched.triggers.errors import DefinitionError
from qsched.triggers.instant import MINUTE, SECOND
from qsched.triggers.interval import Every
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.misfire_words import HINTS, from_quartz
from qsched.triggers.schedule import Bounded

THRESHOLD = MINUTE
START = 1_000 * MINUTE


@dataclass
class Down:
    """When nothing can run: from `first` on, until `last`."""

    first: int
    last: int

    def wake(self, instant: int) -> int:
        return self.last if self.first <= instant < self.last else instant


@dataclass
class QuartzSimple:
    """Quartz's simple trigger, as its rules describe it: a start, an interval, a repeat count (−1: for ever)."""

    start: int
    interval: int
    count: int
    word: str
    triggered: int = 0
    next: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.next = self.start

    def after(self, instant: int) -> int | None:
        """The first time after `instant`; by elapsed intervals, whatever has fired."""
        if self.count == 0 and instant >= self.start:
            return None
        if instant < self.start:
            return self.start
        passed = (instant - self.start) // self.interval + 1
        return None if passed > self.count != -1 else self.start + passed * self.interval

    def fire(self) -> None:
        assert self.next is not None
        self.triggered += 1
        self.next = self.after(self.next)

    def misfire(self, now: int) -> None:
        assert self.next is not None
        word = self.word
        if word == "SMART_POLICY":
            word = {0: "FIRE_NOW", -1: "RESCHEDULE_NEXT_WITH_REMAINING_COUNT"}.get(
                self.count, "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT"
            )
        elif word == "FIRE_NOW" and self.count != 0:
            word = "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT"
        if word == "FIRE_NOW":
            self.next = now
        elif word.startswith("RESCHEDULE_NEXT"):
            self.next = self.after(now)  # `triggered` grows in one of the two, and nothing asks for it
        else:
            missed = (now - self.next) // self.interval if "REMAINING" in word else 0
            if self.count > 0:
                self.count = max(self.count - self.triggered - missed, 0)
                self.triggered = 0
            self.start = self.next = now


def runs_of_quartz(trigger: QuartzSimple, down: Down, until: int) -> list[int]:
    runs: list[int] = []
    while trigger.next is not None and trigger.next <= until:
        now = max(down.wake(trigger.next), runs[-1] if runs else 0)
        if trigger.word != "IGNORE_MISFIRE_POLICY" and now - trigger.next > THRESHOLD:
            trigger.misfire(now)
            continue
        runs.append(now)
        trigger.fire()
    return runs


def runs_of_ours(interval: int, count: int, word: str, down: Down, until: int) -> tuple[list[int], list[int]]:
    """When what stands for `word` runs, and the slots it runs for."""
    meant = from_quartz(word, "simple", count)
    most = 1 if count == 0 else count + 1 if meant.ends_by == "max_fires" else None
    end_at = START + count * interval if meant.ends_by == "end_at" else None
    schedule = Bounded(Every(interval, START), START, end_at)
    rule = MisfireRule(meant.policy, THRESHOLD, window=until, limit=10_000)
    slot, fires = schedule.slot_after(START - 1), 0
    runs: list[int] = []
    slots: list[int] = []
    while slot is not None and slot <= until:
        now = max(down.wake(slot), runs[-1] if runs else 0)
        due = Due(schedule, rule, "allow", slot, slot, most, fires)
        made = decide(due, busy=False, capacity=10_000, now=now)
        assert made is not None
        runs += [now for row in made.rows if row.runs]
        slots += [row.scheduled_at for row in made.rows if row.runs]
        slot, fires = made.next_fire_at, fires + made.fires
        if most == 1 and made.rows:
            break  # a trigger `at` an instant has one slot
    return runs, slots


WORDS = [
    "SMART_POLICY",
    "FIRE_NOW",
    "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT",
    "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT",
    "RESCHEDULE_NEXT_WITH_REMAINING_COUNT",
    "RESCHEDULE_NEXT_WITH_EXISTING_COUNT",
    "IGNORE_MISFIRE_POLICY",
]
COUNTS = [0, -1, 1, 5, 20]
UNTIL = START + 200 * MINUTE


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("word", WORDS)
@given(
    interval=st.integers(5, 600).map(lambda seconds: seconds * SECOND),
    first=st.integers(0, 60 * 60).map(lambda seconds: START + seconds * SECOND),
    length=st.integers(0, 90 * 60).map(lambda seconds: seconds * SECOND + 1),
)
def test_what_stands_for_an_instruction_of_the_simple_trigger_runs_as_often_and_what_is_exact_at_the_same_time(
    word: str, count: int, interval: int, first: int, length: int
) -> None:
    down = Down(first, first + length)
    theirs = runs_of_quartz(QuartzSimple(START, interval, count, word), down, UNTIL)
    ours, slots = runs_of_ours(interval, count, word, down, UNTIL)
    changed = from_quartz(word, "simple", count).changed
    if (
        changed is None or word == "IGNORE_MISFIRE_POLICY"
    ):  # of that one only the bounds differ, and none is reached here
        assert ours == theirs
        return
    if count >= 0 and max(*ours, *theirs) < UNTIL - 2 * interval:
        assert len(ours) == len(theirs)
    late = [instant for instant in ours if instant == down.last]
    assert (down.last in theirs) == bool(late) or down.last % interval == 0
    assert all((slot - START) % interval == 0 for slot in slots)  # what differs: these stay where they were


def test_an_exact_word_is_not_called_changed_nor_the_other_way_round() -> None:
    down = Down(START + 70 * SECOND, START + 191 * SECOND)
    for word in WORDS:
        for count in (-1, 5, 20):
            theirs = runs_of_quartz(QuartzSimple(START, MINUTE, count, word), down, UNTIL)
            ours, _ = runs_of_ours(MINUTE, count, word, down, UNTIL)
            says = from_quartz(word, "simple", count).changed
            if word != "IGNORE_MISFIRE_POLICY":
                assert (ours == theirs) == (says is None), (word, count)


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ("MISFIRE_INSTRUCTION_FIRE_ONCE_NOW", "fire_once"),
        ("FireOnceNow", "fire_once"),
        ("1", "fire_once"),
        ("SmartPolicy", "fire_once"),
        ("0", "fire_once"),
        ("MISFIRE_INSTRUCTION_DO_NOTHING", "skip"),
        ("DoNothing", "skip"),
        ("2", "skip"),
        ("IgnoreMisfirePolicy", "fire_all"),
        ("-1", "fire_all"),
    ],
)
def test_a_cron_trigger_has_three_instructions_however_they_are_spelt(word: str, policy: str) -> None:
    assert from_quartz(word).policy == policy
    assert (from_quartz(word).changed is None) == (policy != "fire_all")


def test_numbers_mean_what_the_type_of_the_trigger_makes_of_them() -> None:
    policies = [from_quartz(str(number), "simple", 9).policy for number in range(1, 6)]
    assert policies == ["fire_once", "fire_once", "fire_once", "skip", "skip"]


@pytest.mark.parametrize(
    ("word", "trigger"),
    [("FIRE_NOW", "cron"), ("DO_NOTHING", "simple"), ("3", "cron"), ("6", "simple"), ("WHATEVER", "cron")],
)
def test_a_word_of_another_type_of_trigger_is_refused_by_its_name(word: str, trigger: str) -> None:
    with pytest.raises(DefinitionError, match=f"'{word}' is no misfire instruction of a {trigger} trigger"):
        from_quartz(word, trigger)


def test_the_hint_for_each_word_in_a_declaration_is_what_it_is_imported_as() -> None:
    for word, ours in HINTS.items():
        kind = "cron" if word in ("FIRE_ONCE_NOW", "DO_NOTHING", "IGNORE_MISFIRES") else "simple"
        assert from_quartz(word, kind, 0 if word == "SMART_POLICY" else 7).policy == ours
