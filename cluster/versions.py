"""Which qsched and which time-zone data this node carries, as it says in its node row."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of


def version() -> str:
    """The installed distribution's version."""
    try:
        return version_of("qsched")
    except PackageNotFoundError:
        return "unknown"


def tzdata_version() -> str | None:
    """The version of the tzdata package, the same on every platform."""
    try:
        return version_of("tzdata")
    except PackageNotFoundError:
        return None
