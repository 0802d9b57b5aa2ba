"""One side of a meeting: its node, and what an operation is that it does."""

from collections.abc import Callable
from dataclasses import dataclass

from support.hand_node import HandNode

from .setting import Setting

PLANNER = "planner"
SETTLER = "settler"
CHECK_IN = "check-in"
RESCUER = "rescuer"
ELECTOR = "elector"
OUTSIDE = None


@dataclass(frozen=True)
class Seat:
    """One side: its node, and the node of the other."""

    setting: Setting
    node: HandNode
    other: HandNode


Do = Callable[[Seat], object]


def _nothing(_seat: Seat) -> None:
    return


@dataclass(frozen=True)
class Operation:
    """What a side does. `arrange` makes it ready, before the moment is marked.

    `loop` is the thread it runs in on a node. With `alike` another operation stands for it where threads of one node meet.
    """

    act: Do
    arrange: Do = _nothing
    loop: str | None = OUTSIDE
    alike: bool = False
    against: tuple[str, ...] | None = None
    """The operations that it meets where all meet each other; None: every one."""

    def meets(self, other: str) -> bool:
        """Whether it has something to do with that one."""
        return self.against is None or other in self.against
