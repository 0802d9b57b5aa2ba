"""systemd's calendar events, as `systemd-analyze calendar` of systemd 252 reads them."""

from datetime import UTC, datetime

import pytest
from qsched.scheduler.exchange.systemd_calendar import fires, read_event
from qsched.scheduler.exchange.systemd_unit import span
from qsched.triggers.errors import ScheduleError
from qsched.triggers.instant import MINUTE, SECOND, from_instant, to_instant

BASE = to_instant(datetime(2026, 10, 24, 23, 40, tzinfo=UTC))

READ_BY_SYSTEMD = {
    "Sat,Sun *-*-1..7 02:30": "2026-11-01 02:30:00, 2026-11-07 02:30:00, 2026-12-05 02:30:00, 2026-12-06 02:30:00",
    "*-*~03 04:00": "2026-10-29 04:00:00, 2026-11-28 04:00:00, 2026-12-29 04:00:00, 2027-01-29 04:00:00",
    "Mon..Fri 09..17:00/20": "2026-10-26 09:00:00, 2026-10-26 09:20:00, 2026-10-26 09:40:00, 2026-10-26 10:00:00",
    "quarterly": "2027-01-01 00:00:00, 2027-04-01 00:00:00, 2027-07-01 00:00:00, 2027-10-01 00:00:00",
    "2026-11..12-1/10 03:00:15": "2026-11-01 03:00:15, 2026-11-11 03:00:15, 2026-11-21 03:00:15, 2026-12-01 03:00:15",
    "Wed,Fri..Sun 18:30": "2026-10-25 18:30:00, 2026-10-28 18:30:00, 2026-10-30 18:30:00, 2026-10-31 18:30:00",
    "Mon-Thursday 18:30": "2026-10-26 18:30:00, 2026-10-27 18:30:00, 2026-10-28 18:30:00, 2026-10-29 18:30:00",
    "semi-annually": "2027-01-01 00:00:00, 2027-07-01 00:00:00, 2028-01-01 00:00:00, 2028-07-01 00:00:00",
    "hourly Europe/Berlin": "2026-10-25 00:00:00, 2026-10-25 02:00:00, 2026-10-25 03:00:00, 2026-10-25 04:00:00",
    "*-*-* 02:30:00 Europe/Berlin": (
        "2026-10-25 00:30:00, 2026-10-26 01:30:00, 2026-10-27 01:30:00, 2026-10-28 01:30:00"
    ),
}


@pytest.mark.parametrize("event", READ_BY_SYSTEMD)
def test_an_event_is_read_as_systemd_reads_it(event: str) -> None:
    read = read_event(event)
    found = fires(read, read.time_zone or "UTC")(BASE, 4)
    assert ", ".join(f"{from_instant(each):%Y-%m-%d %H:%M:%S}" for each in found) == READ_BY_SYSTEMD[event]


def test_a_time_that_is_skipped_does_not_run_there() -> None:
    spring = to_instant(datetime(2026, 3, 28, 20, 40, tzinfo=UTC))
    found = fires(read_event("*-*-* 02:30:00"), "Europe/Berlin")(spring, 2)
    assert [f"{from_instant(each):%m-%d %H:%M}" for each in found] == ["03-30 00:30", "03-31 00:30"]


@pytest.mark.parametrize(
    "text",
    ["", "whenever", "25:00", "Mon 1-2-3-4", "*-13-01", "*:x", "Sat..Mon 10:00", "Monkey 10:00", "Tuesd"],
)
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        read_event(text)


def test_spans_of_time() -> None:
    assert span("1h 30min") == 90 * MINUTE
    assert span("90") == 90 * SECOND
    with pytest.raises(ScheduleError):
        span("2 months")
