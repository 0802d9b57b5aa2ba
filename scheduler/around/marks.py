"""`@on_startup`, `@on_shutdown`, `@scope`, `@middleware` and `@listener` mark functions as what a node calls around its work."""

import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from ...triggers.errors import DefinitionError

MARK: Final = "__qsched_around__"
"""The attribute of a function that holds its Mark."""

STARTUP: Final = "on_startup"
SHUTDOWN: Final = "on_shutdown"
SCOPE: Final = "scope"
MIDDLEWARE: Final = "middleware"
LISTENER: Final = "listener"

_TAKES: Final = {
    STARTUP: ((), "no arguments"),
    SHUTDOWN: ((), "no arguments"),
    SCOPE: ((None,), "one argument, the context, as in `def database(ctx)`"),
    MIDDLEWARE: ((None, None), "two arguments, as in `def timed(ctx, call_next)`"),
    LISTENER: ((None,), "one argument, the event, as in `def heard(event)`"),
}
_numbers = itertools.count(1)

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Mark:
    """What a decorator said of a function."""

    kind: str
    """on_startup, on_shutdown, scope, middleware or listener."""
    order: int
    number: int
    """Grows with each mark that is made: those of one order come in the order in which they were defined."""
    is_async: bool

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands among its kind, first to last, outermost to innermost."""
        return self.order, self.number


@overload
def on_startup(function: Function, /) -> Function: ...
@overload
def on_startup(*, order: int = 0) -> Callable[[Function], Function]: ...
def on_startup(function: Any = None, /, *, order: int = 0) -> Any:
    """Mark a function, plain or async, that runs once before the node takes its first firing.

    Those with a lower `order` run first, and else as they are defined. What it raises keeps the node from starting.
    Raises DefinitionError for a function that could not work.
    """
    return _marked(STARTUP, function, order)


@overload
def on_shutdown(function: Function, /) -> Function: ...
@overload
def on_shutdown(*, order: int = 0) -> Callable[[Function], Function]: ...
def on_shutdown(function: Any = None, /, *, order: int = 0) -> Any:
    """Mark a function, plain or async, that runs once when the node's last body has ended; the last one marked runs first.

    What it raises is logged, and the next one runs. Raises DefinitionError for a function that could not work.
    """
    return _marked(SHUTDOWN, function, order)


@overload
def scope(function: Function, /) -> Function: ...
@overload
def scope(*, order: int = 0) -> Callable[[Function], Function]: ...
def scope(function: Any = None, /, *, order: int = 0) -> Any:
    """Mark `def database(ctx)`, which yields a mapping of names to values: opened for each attempt, closed with it.

    The body is passed the values whose names it asks for, and its exception is thrown in at the yield. A function that
    contextlib has made a context manager already may be marked as well. Raises DefinitionError for one that could not work.
    """
    return _marked(SCOPE, function, order)


@overload
def middleware(function: Function, /) -> Function: ...
@overload
def middleware(*, order: int = 0) -> Callable[[Function], Function]: ...
def middleware(function: Any = None, /, *, order: int = 0) -> Any:
    """Mark `def timed(ctx, call_next)`, which runs around each plain body, or an `async def` around each async one.

    `call_next()` runs the rest and answers what the body returned; what the middleware returns, or raises, is then the
    body's. The one with the lowest `order` that was defined first is outermost. Raises DefinitionError for a function that
    could not work.
    """
    return _marked(MIDDLEWARE, function, order)


@overload
def listener(function: Function, /) -> Function: ...
@overload
def listener(*, order: int = 0) -> Callable[[Function], Function]: ...
def listener(function: Any = None, /, *, order: int = 0) -> Any:
    """Mark `def heard(event)`, a plain function: a node that has its module calls it with every Event of its own.

    Those with a lower `order` are called first. Raises DefinitionError for a function that could not work.
    """
    return _marked(LISTENER, function, order)


def mark_of(value: object) -> Mark | None:
    """What was said of a function; None for what is not marked."""
    try:
        found = inspect.getattr_static(value, MARK, None)
    except Exception:
        return None
    return found if isinstance(found, Mark) else None


def place_of(function: Callable[..., Any]) -> str:
    """`module:function`, for what is said of it."""
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', '?')}"


def checked(kind: str, function: Any) -> bool:
    """Whether a function of that kind is async; raises DefinitionError where it could not be one."""
    arguments, words = _TAKES[kind]
    if not inspect.isfunction(function):
        raise DefinitionError(f"{kind} takes a function, and {function!r} is none: write a def")
    if function.__name__ == "<lambda>" and kind != SCOPE:
        raise DefinitionError(f"{kind} takes a function with a name: write a def in place of the lambda")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        raise DefinitionError(f"{kind} {place_of(function)} must take {words}") from None
    is_async = inspect.iscoroutinefunction(function)
    if kind == LISTENER and is_async:
        raise DefinitionError(f"listener {place_of(function)} is async, and a thread calls it: write a def")
    if kind == SCOPE:
        if is_async:
            raise DefinitionError(f"scope {place_of(function)} must yield a mapping of names to values, once")
        # what contextlib makes of a generator is a plain function around it
        return inspect.isasyncgenfunction(inspect.unwrap(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(
            f"{kind} {place_of(function)} is a generator, of which a call runs nothing: leave out yield"
        )
    return is_async


def _marked(kind: str, function: Any, order: object) -> Any:
    if type(order) is not int:
        raise DefinitionError(f"@{kind} order must be a whole number, and {order!r} is not")
    if function is None:
        return lambda marked: _mark(kind, marked, order)
    return _mark(kind, function, order)


def _mark(kind: str, function: Any, order: int) -> Any:
    is_async = checked(kind, function)
    if MARK in vars(function):
        raise DefinitionError(
            f"{place_of(function)} is already marked @{vars(function)[MARK].kind}: keep one"
        )
    setattr(function, MARK, Mark(kind, order, next(_numbers), is_async))
    return function
