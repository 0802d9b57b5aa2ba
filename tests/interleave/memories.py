"""What nodes have in memory at one moment, and the way back to it: what they hold, know, believe and have planned."""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import is_dataclass
from queue import Empty, SimpleQueue
from types import FunctionType, MethodType
from typing import Any

from qsched.scheduler.clock import SystemClock
from qsched.scheduler.store.database import Store

from support.hand_node import World

_OURS = ("qsched.", "support.")
_CONTAINERS = (dict, list, set, deque)
_LEFT_OUT = (Store, SystemClock, World, FunctionType, MethodType, type)


class Memories:
    """The mutable insides of these objects and of all of ours that hang on them."""

    def __init__(self, roots: Iterable[object]) -> None:
        self._seen: set[int] = set()
        self._kept: list[object] = []
        self._values: list[tuple[object, str, object]] = []
        self._back: list[Callable[[], object]] = []
        for root in roots:
            self._remember(root)

    def restore(self) -> None:
        """Let all be as it was."""
        for thing, name, value in self._values:
            setattr(thing, name, value)
        for step in self._back:
            step()

    def _remember(self, thing: object) -> None:
        if id(thing) in self._seen or isinstance(thing, _LEFT_OUT) or not _is_ours(thing):
            return
        self._seen.add(id(thing))
        self._kept.append(thing)
        frozen = is_dataclass(thing) and vars(type(thing))["__dataclass_params__"].frozen
        for name in _attributes(thing):
            value = getattr(thing, name)
            if not frozen and not isinstance(thing, tuple):
                self._keep(thing, name, value)
            self._look_into(value)

    def _keep(self, thing: object, name: str, value: object) -> None:
        # A container stays the object it is: others may hold it too.
        if isinstance(value, _CONTAINERS):
            self._back.append(_refill(value))
        elif isinstance(value, threading.Event):
            self._back.append(value.set if value.is_set() else value.clear)
        elif isinstance(value, SimpleQueue):
            then = _drain(value)
            _fill(value, then)
            self._back.append(lambda: _fill(value, then))
        elif isinstance(value, random.Random):
            state = value.getstate()
            self._back.append(lambda: value.setstate(state))
        self._values.append((thing, name, value))

    def _look_into(self, value: object) -> None:
        if isinstance(value, Mapping):
            for each in value.values():
                self._look_into(each)
        elif isinstance(value, list | set | deque | tuple) and not hasattr(value, "_fields"):
            for each in value:
                self._look_into(each)
        else:
            self._remember(value)


def _is_ours(thing: object) -> bool:
    return type(thing).__module__.startswith(_OURS)


def _attributes(thing: object) -> list[str]:
    slots = [name for kind in type(thing).__mro__ for name in vars(kind).get("__slots__", ())]
    return [name for name in (*getattr(thing, "__dict__", {}), *slots) if hasattr(thing, name)]


def _refill(container: Any) -> Callable[[], None]:
    then = copy(container)

    def refill() -> None:
        container.clear()
        container.extend(then) if isinstance(container, list | deque) else container.update(then)

    return refill


def _drain(queue: "SimpleQueue[Any]") -> list[Any]:
    found = []
    try:
        while True:
            found.append(queue.get_nowait())
    except Empty:
        return found


def _fill(queue: "SimpleQueue[Any]", items: Iterable[Any]) -> None:
    _drain(queue)
    for item in items:
        queue.put(item)
