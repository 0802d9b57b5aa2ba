"""A scope is opened for each attempt and closed with it, whatever the body did; its values are passed to the body."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any, Final

from ..errors import PermanentError
from .marks import SCOPE, checked, place_of

Values = Mapping[str, Any]
"""What scopes give, by the names of the arguments that take it."""

_OPENING: Final = "raised when its scope {} was opened: the body was not begun"
_CLOSING: Final = "raised when its scope {} was closed: the body itself had succeeded"


@dataclass(frozen=True, slots=True)
class Scope:
    """A factory of context managers, as a node uses it."""

    name: str
    make: Callable[[Any], Any]
    is_async: bool

    @classmethod
    def of(cls, factory: Any) -> "Scope":
        """Of what `@scope` marked, or `@job(scope=…)` named; raises DefinitionError for what could not be one."""
        is_async = checked(SCOPE, factory)
        make = factory
        if isgeneratorfunction(factory):
            make = contextmanager(factory)
        elif isasyncgenfunction(factory):
            make = asynccontextmanager(factory)
        return cls(place_of(factory), make, is_async)

    def fresh(self, ctx: Any, entry: str = "__enter__") -> Any:
        """A fresh one for this attempt; raises what the factory raises, and PermanentError for what cannot be entered."""
        made = self.make(ctx)
        if not hasattr(type(made), entry):
            raise PermanentError(
                f"scope {self.name} gave {type(made).__name__}, which is no context manager of this kind of job:"
                " yield a mapping of names to values"
            )
        return made

    def joined(self, given: Values, value: object) -> Values:
        """What the outer scopes give, and this one; raises PermanentError where that cannot be passed by name."""
        if value is None:
            return given
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise PermanentError(
                f"scope {self.name} yielded {type(value).__name__}, and not a mapping of names to values:"
                ' write yield {"session": session}'
            )
        if twice := sorted(given.keys() & value.keys()):
            raise PermanentError(
                f"scope {self.name} gives {twice[0]!r}, which another scope gives: rename one"
            )
        return {**given, **value}

    def closed_badly(self, ctx: Any, raised: BaseException, stands: BaseException) -> None:
        """It raised when it was closed after an error, which stands: tell the log."""
        if raised is not stands:
            ctx.log.error("its scope %s raised when it was closed after an error", self.name, exc_info=raised)


def within(scopes: tuple[Scope, ...], ctx: Any, body: Callable[[Values], Any], given: Values) -> Any:
    """Run the body in its scopes, one inside the other, each with what the outer ones give.

    The body's error is thrown into them and stands, whatever they make of it: a scope that swallowed it would make a
    success of a failure. An error of opening is the attempt's, and so is one of closing after a success.
    """
    if not scopes:
        return body(given)
    scope, inner = scopes[0], scopes[1:]
    with _said(_OPENING, scope):
        manager = scope.fresh(ctx)
        value = manager.__enter__()
    try:
        result = within(inner, ctx, body, scope.joined(given, value))
    except BaseException as error:
        try:
            manager.__exit__(type(error), error, error.__traceback__)
        except BaseException as raised:
            scope.closed_badly(ctx, raised, error)
        raise
    with _said(_CLOSING, scope):
        manager.__exit__(None, None, None)
    return result


async def within_async(
    scopes: tuple[Scope, ...], ctx: Any, body: Callable[[Values], Awaitable[Any]], given: Values
) -> Any:
    """As `within`, for an async body; its scopes are async or plain, and a cancel ends a wait in them as in the body."""
    if not scopes:
        return await body(given)
    scope, inner = scopes[0], scopes[1:]
    with _said(_OPENING, scope):
        manager = _AsAsync(scope.fresh(ctx)) if not scope.is_async else scope.fresh(ctx, "__aenter__")
        value = await manager.__aenter__()
    try:
        result = await within_async(inner, ctx, body, scope.joined(given, value))
    except BaseException as error:
        try:
            await manager.__aexit__(type(error), error, error.__traceback__)
        except BaseException as raised:
            scope.closed_badly(ctx, raised, error)
        raise
    with _said(_CLOSING, scope):
        await manager.__aexit__(None, None, None)
    return result


class _AsAsync:
    """A plain context manager, for an async body."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def __aenter__(self) -> Any:
        return self._manager.__enter__()

    async def __aexit__(self, *error: Any) -> Any:
        return self._manager.__exit__(*error)


@contextmanager
def _said(where: str, scope: Scope) -> Iterator[None]:
    """What is raised here says where: it looks like the body's own."""
    try:
        yield
    except BaseException as error:
        with suppress(Exception):
            error.add_note(where.format(scope.name))
        raise
