"""At: one slot, then none."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from qsched.triggers.errors import TriggerError
from qsched.triggers.instant import to_instant
from qsched.triggers.once import At
from qsched.triggers.schedule import Schedule

MOMENT = datetime(2027, 5, 1, 9, 30, tzinfo=ZoneInfo("Europe/Istanbul"))
SLOT = to_instant(MOMENT)


def test_the_slot_comes_once() -> None:
    at = At(MOMENT)
    assert at.slot_after(SLOT - 1) == SLOT
    assert at.slot_after(SLOT) is None
    assert at.latest_before(SLOT) == SLOT
    assert at.latest_before(SLOT - 1) is None
    assert at.next_after(datetime(2027, 1, 1, tzinfo=UTC)) == MOMENT


def test_it_counts_where_it_lies() -> None:
    at = At(SLOT)
    assert at.count_between(SLOT, SLOT) == 1
    assert at.count_between(SLOT + 1, SLOT + 9) == 0
    assert at.count_between(SLOT - 9, SLOT - 1) == 0


def test_a_naive_moment_is_refused() -> None:
    with pytest.raises(TriggerError, match="no time zone"):
        At(datetime(2027, 5, 1))


def test_it_says_itself() -> None:
    assert str(At(MOMENT)) == "at 2027-05-01T06:30:00Z"
    assert At(MOMENT).words() == "Once, at 2027-05-01T06:30:00Z"
    assert At(MOMENT) == At(SLOT)
    assert isinstance(At(SLOT), Schedule)
