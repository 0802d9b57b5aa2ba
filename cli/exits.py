"""How a command ends: which error means which exit code, and the one line that says it (DESIGN §11)."""

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from ..triggers.errors import QschedError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INVALID_FILE: Final = 3
NOT_FOUND: Final = 4
NO_STORE: Final = 5
CONFLICT: Final = 6
REFUSED: Final = 7
HANDED_OVER: Final = 8
CHANGES: Final = 10
INTERRUPTED: Final = 130

_CODES: Final = {
    "DeclarationError": INVALID_FILE,
    "SourceError": INVALID_FILE,
    "AppError": FAILED,
    "StoreError": NO_STORE,
    "UnknownTrigger": NOT_FOUND,
    "UnknownFiring": NOT_FOUND,
    "UnknownJob": NOT_FOUND,
    "UnknownNode": NOT_FOUND,
    "Conflict": CONFLICT,
    "Refused": REFUSED,
    "TriggerError": USAGE,
    "NodeSettingsError": USAGE,
}
"""By name along the error's family, nearest first: to end well imports nothing."""


class CommandError(QschedError):
    """A command cannot go on; carries its exit code and the one next step."""

    def __init__(self, message: str, *, code: int = FAILED, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def code_of(error: BaseException) -> int:
    """The exit code of an error that ended a command."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    if isinstance(error, CommandError):
        return error.code
    return next((_CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CODES), FAILED)


def told(error: BaseException) -> str:
    """What is said of an error: one line with the next step; a declaration's errors, each with its place."""
    if isinstance(error, click.ClickException):
        return "error: " + one_line(_usage(error))
    if problems := getattr(error, "problems", None):
        return told_problems(problems)
    if isinstance(error, QschedError):
        hint = getattr(error, "hint", None)
        return "error: " + one_line(f"{error}: {hint}" if hint else str(error))
    if isinstance(error, OSError):
        return "error: " + one_line(str(error))
    words = one_line(f"{type(error).__name__}: {error}")
    return f"error: unexpected {words} (QSCHED_TRACEBACK=1 shows where)"


def told_problems(problems: Sequence[Any]) -> str:
    """A declaration's problems: with their source lines for a person, one line each for a log."""
    if sys.stderr and sys.stderr.isatty():
        from ..triggers.declaration_problem import render

        return render(problems)
    return "\n".join(one_line(str(problem)) for problem in problems)


def wants_traceback() -> bool:
    """Whether whoever runs this asked to see where an error came from."""
    return os.environ.get("QSCHED_TRACEBACK", "") not in ("", "0")


def one_line(text: str) -> str:
    """The text without line breaks and control characters, so that one error is one line of a log."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip()
    context = getattr(error, "ctx", None)
    if not isinstance(error, click.UsageError) or context is None:
        return message
    return f"{message.rstrip('.')}: see `{context.command_path} --help`"
