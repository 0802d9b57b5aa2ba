"""A scope that remembers what happens to it and raises where it is told to, and the chain of a job among marks."""

from collections.abc import Callable, Iterator
from typing import Any

from qsched.scheduler.around.chain import Chain
from qsched.scheduler.around.marks import mark_of
from qsched.scheduler.jobs import declaration_of
from qsched.scheduler.testing import loaded_from

from qsched import JobContext

Factory = Callable[..., Any]


class Seen:
    """A scope that remembers what happened to it."""

    def __init__(self, **values: Any) -> None:
        self.events: list[str] = []
        self.values = values

    def factory(self, name: str = "s", opening: str = "", closing: str = "") -> Factory:
        """One that raises where it is told to."""

        def seen(ctx: JobContext) -> Iterator[Any]:
            self.events.append(f"open {name}")
            if opening:
                raise ConnectionError(opening)
            try:
                yield self.values
            except BaseException as error:
                self.events.append(f"thrown {type(error).__name__} {name}")
                raise
            finally:
                self.events.append(f"close {name}")
                if closing:
                    raise OSError(closing)

        return seen


def among(function: Callable[..., Any], *marked: Callable[..., Any]) -> Chain | None:
    """The chain of a job whose node finds these marks."""
    found = [(mark, each) for each in marked if (mark := mark_of(each)) is not None]
    declared = declaration_of(function)
    scopes = None if declared is None else declared.scopes
    return Chain.of(found, scopes, is_async=loaded_from(function).is_async)
