"""Declaration files as commands read them: which ones, and what of their warnings is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exits import told_problems
from .render import say

if TYPE_CHECKING:
    from ..triggers.declaration import Declarations

DEFAULT_PATH = Path("qsched.yaml")


def file_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`-f PATH` (many), or paths as arguments; and what to make of variables that are not set here."""
    path = click.Path(path_type=Path)
    for decorate in (
        click.option(
            "--allow-unset",
            is_flag=True,
            help="Do not mind ${VAR} that has no value here: another machine runs it.",
        ),
        click.option(
            "-f",
            "--file",
            multiple=True,
            type=path,
            metavar="PATH",
            help="File or folder.  [default: qsched.yaml]",
        ),
        click.argument("paths", nargs=-1, type=path),
    ):
        function = decorate(function)
    return function


def read_files(
    files: Sequence[Path],
    *,
    known_jobs: Collection[str] = (),
    allow_unset: bool = False,
    allow_empty: bool = False,
) -> Declarations:
    """The declarations of `files` (of qsched.yaml, if none); raises DeclarationError, says warnings."""
    from ..scheduler.clock import SystemClock
    from ..triggers.declaration import load

    declared = load(
        list(files) or [DEFAULT_PATH],
        now=SystemClock().wall(),
        known_jobs=known_jobs,
        environ=None if allow_unset else os.environ,
        allow_empty=allow_empty,
    )
    if declared.warnings:
        say(told_problems(declared.warnings))
    return declared


def counted(number: int, word: str) -> str:
    """`1 trigger`, `2 triggers`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
