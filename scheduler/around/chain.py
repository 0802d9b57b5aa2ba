"""The chain around a job's bodies: its middleware, outermost first, and within them its scopes, opened for each attempt."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ...triggers.errors import DefinitionError
from .marks import MIDDLEWARE, SCOPE, Mark
from .scope import Scope, Values, within, within_async

Marked = tuple[Mark, Callable[..., Any]]
"""What was said of a function, and the function."""

_NOTHING: Final[Values] = {}


@dataclass(frozen=True, slots=True)
class Chain:
    """What is around each body of one job; a job that has nothing around it has no chain."""

    middleware: tuple[Callable[..., Any], ...]
    scopes: tuple[Scope, ...]

    @classmethod
    def of(
        cls, marked: Iterable[Marked], scopes: Iterable[Callable[..., Any]] | None, *, is_async: bool
    ) -> "Chain | None":
        """Around the bodies of a job that names these `scopes`; None: it has those that are marked.

        Middleware is of its own kind: async around async bodies, plain around plain ones. Raises DefinitionError for an
        async scope of a plain function.
        """
        marked = sorted(marked, key=lambda each: each[0].place)
        outer = [f for mark, f in marked if mark.kind == MIDDLEWARE and mark.is_async is is_async]
        if scopes is None:
            scopes = [function for mark, function in marked if mark.kind == SCOPE]
        inner = [Scope.of(factory) for factory in scopes]
        for scope in inner:
            if scope.is_async and not is_async:
                raise DefinitionError(
                    f"its scope {scope.name} is async, and the function is not: choose a plain one with"
                    " @job(scope=…), or none with scope=None"
                )
        return cls(tuple(outer), tuple(inner)) if outer or inner else None

    def call(self, ctx: Any, body: Callable[[Values], Any]) -> Any:
        """Run a plain body within all that; answers what the outermost one returns, and raises what it raises."""
        step: Callable[[], Any] = lambda: within(self.scopes, ctx, body, _NOTHING)  # noqa: E731
        for each in reversed(self.middleware):
            step = _next(each, ctx, step)
        return step()

    async def call_async(self, ctx: Any, body: Callable[[Values], Awaitable[Any]]) -> Any:
        """As `call`, for an async body."""
        step: Callable[[], Any] = lambda: within_async(self.scopes, ctx, body, _NOTHING)  # noqa: E731
        for each in reversed(self.middleware):
            step = _next(each, ctx, step)
        return await step()


def _next(each: Callable[..., Any], ctx: Any, step: Callable[[], Any]) -> Callable[[], Any]:
    """One step further out: a middleware with what is within it."""
    return lambda: each(ctx, step)
