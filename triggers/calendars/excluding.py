"""A schedule without what its calendars leave out."""

from collections.abc import Mapping
from typing import Any

from ..errors import DefinitionError
from ..schedule import Schedule


def exclude(
    schedule: Schedule,
    calendars: Mapping[str, Mapping[str, Any]],
    on_excluded: str,  # noqa: ARG001
    time_zone: str,  # noqa: ARG001
) -> Schedule:
    """`schedule` outside `calendars` ({name: spec}); their zone is `time_zone` where they name none."""
    raise DefinitionError(
        f"{schedule}: this version knows no calendars yet, and {sorted(calendars)} are named"
    )
