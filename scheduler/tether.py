"""Ties a command, which is the node's own child, to the guardian's life: the kernel ends its whole group with it."""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final

from .guardian import Guardian
from .kernel_lease import end_group_with_pipe

_LAST_WAIT: Final = 3.0


class Tether:
    """One command's hold on its guardian; close it when the command and its group have ended.

    The reading end of the guardian's pipe is open here and in the command, each time as the same open file: so it lasts
    while the node is stopped, when the command has closed what it does not know, and when the node was killed.
    """

    def __init__(self, guardian: Guardian, closed: Callable[[], object]) -> None:
        """Raises GuardianGone, or OSError where the system cannot do it."""
        self._guardian = guardian
        self._closed = closed
        # an open file of its own, not a copy of a descriptor: the kernel keeps one group to be ended for each
        self.descriptor = guardian.life()

    def __enter__(self) -> "Tether":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)
        self._closed()

    def bind(self, group: int) -> None:
        """From now on the group ends with the guardian; call it while its leader is not reaped."""
        end_group_with_pipe(self.descriptor, group)
        if self.cut():  # it ended before this, and the kernel tells of that only once
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def cut(self) -> bool:
        """Whether the guardian has ended."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def reason(self) -> str | None:
        """Why the guardian, which has ended, ended all; None where it was killed by somebody else."""
        self._guardian.gone.wait(_LAST_WAIT)
        return self._guardian.reason
