"""What decorators marked in modules that a node may load: each once, however often it is re-exported."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

Mark = TypeVar("Mark")


def marked(
    allows: Callable[[str], bool], mark_of: Callable[[object], Mark | None]
) -> list[tuple[Mark, Callable[..., Any]]]:
    """Every marked function of the allowed modules that are imported by now; modules by name, functions as they stand."""
    found: dict[int, tuple[Mark, Callable[..., Any]]] = {}
    for name, module in sorted(sys.modules.copy().items()):
        if not allows(name) or not isinstance(module, ModuleType):
            continue
        for value in list(vars(module).values()):
            mark = mark_of(value)
            if mark is not None and allows(value.__module__):
                found.setdefault(id(mark), (mark, value))
    return list(found.values())
