"""A time of day as people write it: `09:00`, `17:30:15`."""

import re

from .errors import ScheduleError

_WRITTEN = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\Z", re.ASCII)


def parse_time_of_day(text: str) -> int:
    """The second of the day (0 to 86399) that `text` names; raises ScheduleError for anything else."""
    found = _WRITTEN.match(text) if isinstance(text, str) else None
    hour, minute, second = (int(part or 0) for part in found.groups()) if found is not None else (24, 0, 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ScheduleError(
            f"{text!r} is not a time of day; write it as in 09:00 or 17:30:15, up to 23:59:59"
        )
    return hour * 3600 + minute * 60 + second


def format_time_of_day(second: int) -> str:
    """The writing that `parse_time_of_day` reads back; seconds only where there are some."""
    text = f"{second // 3600:02}:{second // 60 % 60:02}"
    return f"{text}:{second % 60:02}" if second % 60 else text
