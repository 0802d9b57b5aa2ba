"""What a node says while it runs, to standard error: text for a person, JSON lines for a machine."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from typing import Any, Final

from ..triggers.instant import SECOND, rfc3339
from .exits import one_line
from .render import colourful

_JOB: Final = "qsched.job."
_FIELD: Final = re.compile(r"(\w+)=%[-#0 +.\d]*[a-zA-Z]")
_PLACE: Final = re.compile(r"%[-#0 +.\d]*[a-zA-Z]")
_COLOURS: Final = {logging.WARNING: 33, logging.ERROR: 31, logging.CRITICAL: 31, logging.DEBUG: 2}


def set_up_logging(*, verbose: bool) -> None:
    """Send the house's and the jobs' records to standard error; QSCHED_LOG=json|text chooses the form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if wants_json() else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("qsched").setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.raiseExceptions = False  # a closed terminal must not stop a node


def wants_json() -> bool:
    """JSON where QSCHED_LOG says so, or where no terminal is looking and it says nothing."""
    form = os.environ.get("QSCHED_LOG", "")
    return form == "json" or (form != "text" and not sys.stderr.isatty())


class TextLines(logging.Formatter):
    """`08:00:01.250 WARNING misfire trigger=etl late=53m01s`; times are UTC."""

    def format(self, record: logging.LogRecord) -> str:
        at = rfc3339(instant_of(record)).partition("T")[2].removesuffix("Z")
        clock = at[:12] if "." in at else f"{at}.000"
        level = f"{record.levelname:<7}"
        colour = _COLOURS.get(record.levelno)
        if colour and colourful() and sys.stderr.isatty():
            level = f"\x1b[{colour}m{level}\x1b[0m"
        line = f"{clock} {level} {one_line(record.getMessage())}"
        name = record.name.removeprefix(_JOB)
        if name != record.name:
            line = f"{clock} {level} {name}: {one_line(record.getMessage())}{_ids(record)}"
        return f"{line}\n{_traceback(record)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """One object a line: at, level, event, message, and each `name=value` of the message as a field."""

    def format(self, record: logging.LogRecord) -> str:
        message = one_line(record.getMessage())
        said: dict[str, Any] = {
            "at": rfc3339(instant_of(record)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": "job.log" if record.name.startswith(_JOB) else message.partition(" ")[0].rstrip(":"),
            "message": message,
            **fields_of(record),
        }
        if record.exc_info:
            said["traceback"] = _traceback(record)
        return json.dumps(said, default=str, ensure_ascii=False)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The `name=value` pairs a record was written with, and the ids a job's record carries."""
    found: dict[str, Any] = {}
    if isinstance(record.msg, str) and isinstance(record.args, tuple):
        places = [place.start() for place in _PLACE.finditer(record.msg)]
        for field in _FIELD.finditer(record.msg):
            n = places.index(field.end(1) + 1)
            if n < len(record.args):
                found[field[1]] = record.args[n]
    found.update({name: value for name in _IDS if (value := getattr(record, name, None)) is not None})
    return found


_IDS: Final = ("job", "trigger", "firing", "firing_id", "attempt", "node", "scheduled_at")


def _ids(record: logging.LogRecord) -> str:
    firing = getattr(record, "firing", None) or getattr(record, "firing_id", None)
    return f"  [firing {firing}]" if firing else ""


def instant_of(record: logging.LogRecord) -> int:
    """When a record was made, in microseconds."""
    return round(record.created * SECOND)


def _traceback(record: logging.LogRecord) -> str:
    if not isinstance(record.exc_info, tuple) or record.exc_info[1] is None:
        return ""
    return "".join(traceback.format_exception(record.exc_info[1])).rstrip()
