"""A second opinion: croniter in UTC, on the expressions that both read alike (spec: its faults lie elsewhere)."""

from datetime import UTC, datetime, timedelta

from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.cron import Cron

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    """A field of values, ranges of two or more, and steps (croniter misreads ranges of one value)."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(low, high))
        last = draw(st.integers(first, high))
        step = draw(st.integers(1, max(1, last - first)))
        kind = draw(st.sampled_from(["value", "range", "step"])) if last > first else "value"
        parts.append(
            {"value": f"{first}", "range": f"{first}-{last}", "step": f"{first}-{last}/{step}"}[kind]
        )
    return ",".join(parts)


def starred(low: int, high: int) -> st.SearchStrategy[str]:
    steps = st.integers(1, high - low).map(lambda step: f"*/{step}")
    return st.just("*") | steps | fields(low, high)


days = (
    st.tuples(starred(1, 28), st.just("*"))
    | st.tuples(st.just("*"), starred(0, 6))
    | st.tuples(fields(1, 28), fields(0, 6))
)
months = starred(1, 12) | st.sampled_from(MONTHS)


@given(
    starred(0, 59), starred(0, 23), days, months,
    st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)),
)  # fmt: skip
def test_in_utc_croniter_finds_the_same_slots(
    minute: str, hour: str, day: tuple[str, str], month: str, start: datetime
) -> None:
    expr = f"{minute} {hour} {day[0]} {month} {day[1]}"
    moment = start.replace(tzinfo=UTC)
    other = croniter(expr, moment.replace(microsecond=0), implement_cron_bug=True)
    cron = Cron(expr)
    for _ in range(8):
        found = cron.next_after(moment)
        assert found is not None
        assert found == other.get_next(datetime), expr
        moment = found


@given(starred(0, 59), fields(0, 59), st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)))
def test_seconds_agree_with_croniter_too(second: str, minute: str, start: datetime) -> None:
    moment = start.replace(tzinfo=UTC, microsecond=0)
    other = croniter(f"{second} {minute} * * * *", moment, second_at_beginning=True)
    cron = Cron(f"{second} {minute} * * * ?", "quartz")
    for _ in range(8):
        found = cron.next_after(moment + timedelta(microseconds=1))
        assert found is not None
        assert found == other.get_next(datetime)
        moment = found
