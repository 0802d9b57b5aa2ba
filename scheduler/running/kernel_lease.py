"""What the kernel is asked to end when nobody here can: at an instant, with a parent, with a pipe; stopped processes too."""

import ctypes
import errno
import fcntl
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from ..clock import Clock, boottime

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CLOCK_BOOTTIME, _TIMER_ABSTIME = 7, 1
_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None


class LeaseDeadline:
    """Turns the monotonic end of a node's trust into boot time, never into a later instant than it was meant.

    `SystemClock` counts boot time itself where the system does; another clock may not.

    The two clocks drift apart while the machine sleeps: monotonic time stands still then, and the lease does not. A
    renewal was asked for after the one before it had been heard, so the distance of the clocks that was seen then is
    no larger than it was when this renewal was sent; a sleep since only makes the deadline too early.
    """

    def __init__(self, clock: Clock, now: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._now = now
        self._distance = self._seen()

    def of(self, trusted_until: float) -> float:
        """The boot time at which `trusted_until` has certainly come; call it once for each renewal, in turn."""
        before = self._distance
        self._distance = max(before, self._seen())
        return trusted_until + before

    def _seen(self) -> float:
        booted = (
            self._now()
        )  # first: whatever passes between the two readings makes the distance look smaller
        return booted - self._clock.monotonic()


class KernelTimer:
    """Ends this process with SIGKILL at a boot time, whether it runs, sleeps or is stopped."""

    def __init__(self) -> None:
        """Make it, unarmed; raises OSError where the kernel has no such timer."""
        if _libc is None:
            raise OSError(errno.ENOSYS, "this system has no timers by boot time")
        self._timer = ctypes.c_void_p()
        event = _SignalEvent(signo=signal.SIGKILL)
        if _libc.timer_create(_CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._timer)) != 0:
            raise _last_error()

    def set(self, at: float) -> None:
        """Arm it anew; an instant that has passed ends the process here."""
        assert _libc is not None
        at = max(at, 1e-6)  # zero would disarm it
        when = _TimerSpec(seconds=int(at), nanoseconds=int((at - int(at)) * 1e9))
        if _libc.timer_settime(self._timer, _TIMER_ABSTIME, ctypes.byref(when), None) != 0:
            raise _last_error()


class _SignalEvent(ctypes.Structure):
    """`struct sigevent`: 64 bytes, of which a plain signal needs two."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_byte * 64),
    )


class _TimerSpec(ctypes.Structure):
    """`struct itimerspec`, without repetition."""

    _fields_ = (
        ("interval_seconds", ctypes.c_long),
        ("interval_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


def end_with_parent(parent: int) -> None:
    """From now on this process is killed when the *thread* that started it ends; at once if it has already.

    It outlasts exec, not fork. Where the kernel cannot do it, only the second half is done.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def adopt_orphans() -> None:
    """What this process started indirectly becomes its own child when it is orphaned, where the kernel does that."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_group_with_pipe(read_end: int, group: int) -> None:
    """The whole process group is killed when the pipe's last writing end is closed, be it by its owner's death.

    The kernel does it on behalf of `read_end`, which must stay open in some process of the group.
    """
    if not _LINUX:
        return
    with suppress(OSError):  # the group has ended before this
        fcntl.fcntl(read_end, fcntl.F_SETOWN, -group)
        fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(read_end, fcntl.F_SETFL, fcntl.fcntl(read_end, fcntl.F_GETFL) | os.O_ASYNC)


def opened_again(read_end: int) -> int:
    """The pipe once more, as an open file of its own: the kernel keeps one group to be ended for each. Raises OSError."""
    return os.open(f"/proc/self/fd/{read_end}", os.O_RDONLY | os.O_NONBLOCK)


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
