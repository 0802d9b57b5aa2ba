"""Log records of a worker process: they leave it as values, and become records of the node, with the run's names on them."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..outcome import cut, middle_cut

_MOST_LEVELS: Final = 500
_LONGEST_NAME: Final = 200
_MESSAGE_BYTES: Final = 64 * 1024
_MOST_EXTRAS: Final = 20
_NEW_LOGGERS: Final = 1000
"""Names that workers may bring: a logger, once made, stays for ever."""
_ELSEWHERE: Final = "qsched.job"

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_PLACE: Final = ("pathname", "lineno", "funcName", "threadName")


class Forwarder(logging.Handler):
    """The one handler of a worker process: gives each record to the node."""

    def __init__(self, say: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._say(_said(record))
        except Exception:
            self.handleError(record)


def take_over(forwarder: logging.Handler) -> None:
    """Let every record of this process go to the node, whose own handlers decide what becomes of it.

    What the application set up while it was imported it has set up in the node as well: two processes writing one log
    file would spoil it.
    """
    for logger in _loggers().values():
        logger.handlers[:] = []
        logger.propagate = True
    logging.getLogger().handlers[:] = [forwarder]


def set_levels(levels: Mapping[str, int]) -> None:
    """Log from these levels on, as the node does."""
    for name, logger in _loggers().items():
        if name not in levels:
            logger.setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def levels() -> dict[str, int]:
    """The levels that are set in this process, by logger; the root's name is empty."""
    found = {"": logging.getLogger().level}
    for name, logger in _loggers().items():
        if logger.level and len(found) < _MOST_LEVELS:
            found[name] = logger.level
    return found


def _loggers() -> dict[str, logging.Logger]:
    known = logging.Logger.manager.loggerDict.copy()  # another thread may make one
    return {name: logger for name, logger in known.items() if isinstance(logger, logging.Logger)}


def relay(said: object, names: Mapping[str, Any]) -> None:
    """Log here what a worker process logged; what is no record is left out."""
    if not isinstance(said, dict):
        return
    name, level, text = said.get("name"), said.get("level"), said.get("text")
    if not (isinstance(name, str) and type(level) is int and isinstance(text, str)):
        return
    logger = _logger(name)
    if not logger.isEnabledFor(level):
        return
    path, line, function, thread = _place(said.get("place"))
    record = logging.LogRecord(logger.name, level, path, line, text, None, _trace(said), function)
    record.threadName = thread
    if type(pid := said.get("pid")) is int:
        record.process = pid
    extras = said.get("extra")
    for key, value in extras.items() if isinstance(extras, dict) else ():
        if key not in _OWN:
            record.__dict__[key] = value
    record.__dict__.update(names)
    logger.handle(record)


class RaisedInProcess(Exception):
    """Stands for an error that was logged in a worker process; its text is the traceback there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _said(record: logging.LogRecord) -> dict[str, Any]:
    extras = _plain((key, value) for key, value in vars(record).items() if key not in _OWN)
    trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else record.exc_text
    return {
        "name": record.name,
        "level": record.levelno,
        "text": cut(record.getMessage(), _MESSAGE_BYTES),
        "trace": None if not trace else middle_cut(trace, _MESSAGE_BYTES),
        "place": [getattr(record, name) for name in _PLACE],
        "pid": record.process,
        "extra": extras,
    }


def _plain(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in items:
        if isinstance(value, str | int | float | bool | None) and len(found) < _MOST_EXTRAS:
            found[key] = cut(value, _LONGEST_NAME) if isinstance(value, str) else value
    return found


def _logger(name: str) -> logging.Logger:
    known = logging.Logger.manager.loggerDict
    if name == "root":
        return logging.getLogger()
    if name not in known and (len(known) > _NEW_LOGGERS or len(name) > _LONGEST_NAME):
        name = _ELSEWHERE
    return logging.getLogger(name)


def _place(said: object) -> tuple[str, int, str, str]:
    """Path, line, function and thread, as far as they are any."""
    match said:
        case [str(path), int(line), str(function), str(thread)]:
            return path, line, function, thread
    return "", 0, "", ""


def _trace(said: Mapping[str, Any]) -> Any:
    trace = said.get("trace")
    if not isinstance(trace, str):
        return None
    error = RaisedInProcess(trace)
    return (RaisedInProcess, error, None)
