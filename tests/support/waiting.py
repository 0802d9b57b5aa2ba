"""Waiting for what must come true, instead of guessing how long it takes."""

from collections.abc import Callable
from threading import Event

_LOOK_SECONDS = 0.005


def wait_until(true: Callable[[], object], what: str, *, within: float = 30.0) -> None:
    """Return as soon as `true()` is; fail, naming `what` was awaited, after about `within` seconds."""
    pause = Event()
    for _ in range(max(1, int(within / _LOOK_SECONDS))):
        if true():
            return
        pause.wait(_LOOK_SECONDS)
    raise AssertionError(f"waited {within:g} s in vain for {what}")
