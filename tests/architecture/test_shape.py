"""Files, functions and names keep the size and the words that let a person read the house in order."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.tree import HOUSE, PYTHON, files, refuse, shown, syntax

FILE_LINES = 400
FUNCTION_LINES = 50
ARGUMENTS = 5
VAGUE = {"manager", "managers", "helper", "helpers", "util", "utils", "base", "common"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_every_file_is_short() -> None:
    lengths = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in files(*PYTHON, ending=".py")
    }
    long = [f"{shown(path)}: {lines} lines" for path, lines in lengths.items() if lines >= FILE_LINES]
    refuse(long, f"a file has one idea in fewer than {FILE_LINES} lines; split it by idea")


def test_every_function_is_short() -> None:
    long = [
        f"{place}: {function.name} has {_length(function)} lines"
        for place, function in _functions(*PYTHON)
        if _length(function) > FUNCTION_LINES
    ]
    refuse(long, f"a function has at most {FUNCTION_LINES} lines; name its steps")


def test_no_function_takes_more_than_five_arguments() -> None:
    many = [
        f"{place}: {function.name} takes {len(_arguments(function))}: {', '.join(_arguments(function))}"
        for place, function in _functions(*HOUSE)
        if len(_arguments(function)) > ARGUMENTS
    ]
    refuse(many, f"at most {ARGUMENTS} arguments (self not counted); what travels together is a value")


def test_no_name_is_vague() -> None:
    vague = [f"{place}: {name}" for place, name in _names() if VAGUE & set(_words(name))]
    refuse(vague, f"say what it does instead of {', '.join(sorted(VAGUE))}")


def test_every_house_file_says_its_idea_first() -> None:
    silent = [shown(path) for path in files(*HOUSE, ending=".py") if not ast.get_docstring(syntax(path))]
    refuse(silent, "a module begins with a docstring that says its idea in one sentence")


def _functions(*folders: str) -> Iterator[tuple[str, Function]]:
    for path in files(*folders, ending=".py"):
        for node in ast.walk(syntax(path)):
            if isinstance(node, Function):
                yield f"{shown(path)}:{node.lineno}", node


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _arguments(function: Function) -> list[str]:
    """All that a caller names; `*rest` and `**rest` are one thing each passed on, and not counted."""
    arguments = function.args
    every = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in every if name not in {"self", "cls"}]


def _names() -> Iterator[tuple[str, str]]:
    """Every file, folder, class and function name of ours with its place."""
    seen: set[Path] = set()
    for path in files(*PYTHON, ending=".py"):
        yield shown(path), path.stem
        if path.parent not in seen:
            seen.add(path.parent)
            yield shown(path.parent), path.parent.name
        for node in ast.walk(syntax(path)):
            if isinstance(node, Function | ast.ClassDef):
                yield f"{shown(path)}:{node.lineno}", node.name


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
