"""An instant inside the house is one integer: microseconds since the epoch, UTC; datetimes live only at its doors."""

from datetime import UTC, datetime, timedelta

from .errors import TriggerError

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_instant(moment: datetime) -> int:
    """Microseconds since the epoch of an aware `moment`; raises TriggerError for a naive one (field bug B39)."""
    if moment.tzinfo is None:
        raise TriggerError(
            f"{moment.isoformat()} has no time zone: give an aware datetime, as with tzinfo=UTC"
        )
    return (moment - EPOCH) // _MICROSECOND


def from_instant(instant: int) -> datetime:
    """The aware UTC datetime of `instant` (microseconds since the epoch)."""
    return EPOCH + timedelta(microseconds=instant)


def rfc3339(instant: int) -> str:
    """`2024-01-10T00:00:00Z`, with a fraction only where there is one."""
    return from_instant(instant).isoformat().replace("+00:00", "Z")
