"""Texts of a request: `{name}` stands for data, `${VAR}` for the environment; both are found in one pass.

In one pass, so that what comes from data is never expanded, and what comes from the environment never names data.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from .declaration_variables import expand

_PART = re.compile(r"(?P<variable>\$?\$\{[^{}]*\}?)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\}")


def names_in(text: str) -> tuple[str, ...]:
    """The names of data that `text` uses, in order, each once."""
    return tuple(dict.fromkeys(found["name"] for found in _PART.finditer(text) if found["name"]))


def filled(text: str, environ: Mapping[str, str], value: Callable[[str], str]) -> str:
    """`text` with `value(name)` for each `{name}`, and every `${…}` expanded; raises VariableError, or what `value` does."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        return str(expand(found[0], environ)) if name is None else value(name)

    return _PART.sub(part, text)


def variables_in(value: Any) -> set[str]:
    """Every `${…}` within the texts of a JSON value, as it is written; `$${`, which is no variable, left out."""
    if isinstance(value, str):
        return {
            found["variable"]
            for found in _PART.finditer(value)
            if found["variable"] and not found["variable"].startswith("$$")
        }
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return {variable for item in items for variable in variables_in(item)}


def method_of(request: Mapping[str, Any]) -> str:
    """The method of a declared request: POST where it has a body and names none, else GET."""
    return str(request.get("method") or ("POST" if "json" in request or "body" in request else "GET"))
