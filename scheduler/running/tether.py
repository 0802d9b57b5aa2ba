"""Ties a command, the node's own child, to a life: the node's, or its guardian's, which ends with the node's lease too.

Whichever it is, that life holds the only writing end of a pipe, and the kernel kills the command's group when it is closed.
"""

import os
import select
import signal
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from .kernel_lease import end_group_with_pipe, opened_again


class NodeLife:
    """A pipe that nobody but this process can write to."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        _lives.add(self)

    def opened(self) -> int:
        """A descriptor that can be read when this process has ended; raises OSError where the system cannot do it."""
        return opened_again(self._reading)

    def close(self) -> None:
        """Nothing is tied to it any more."""
        _lives.discard(self)
        os.close(self._reading)
        os.close(self._writing)


class Tether:
    """One command's tie to a life; leave it when the command and its group have ended.

    The reading end is open here and in the command, as one open file: so it lasts while the node is stopped, when the
    command has closed what it does not know, and when the node was killed.
    """

    def __init__(self, descriptor: int, reason: Callable[[], str | None], left: Callable[[], object]) -> None:
        """`descriptor` becomes this tether's; `reason` says why the life ended; `left` is called at the end."""
        self.descriptor = descriptor
        self.reason = reason
        self._left = left

    def __enter__(self) -> "Tether":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)
        self._left()

    def bind(self, group: int) -> None:
        """From now on the group ends with that life; call it while its leader is not reaped."""
        end_group_with_pipe(self.descriptor, group)
        if self.cut():  # it ended before this, and the kernel tells of that only once
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def cut(self) -> bool:
        """Whether that life has ended."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))


_lives: "weakref.WeakSet[NodeLife]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked child: the parent's commands end with the parent."""
    for life in list(_lives):
        os.close(life._writing)
    _lives.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
