"""How `retry_on` and `no_retry_on` name exceptions, and when such a name means an error that was raised."""

from collections.abc import Iterable
from typing import Final

TRANSIENT: Final = "transient"
"""The one word among names of exceptions: whatever passes by itself. The outcome bears it as one more class's name."""

_ALIASES: Final = {
    "IOError": "builtins.OSError",
    "EnvironmentError": "builtins.OSError",
    "socket.error": "builtins.OSError",
    "select.error": "builtins.OSError",
    "socket.timeout": "builtins.TimeoutError",
    "asyncio.TimeoutError": "builtins.TimeoutError",
    "concurrent.futures.TimeoutError": "builtins.TimeoutError",
}
"""Names that Python keeps for classes it calls otherwise since 3.11."""
BARE_ALIASES: Final = frozenset(name for name in _ALIASES if "." not in name)


def error_name(kind: type[BaseException]) -> str:
    """The dotted name of an exception class, as outcomes keep it: `builtins.ValueError`."""
    return f"{kind.__module__}.{kind.__qualname__}"


def error_classes(error: BaseException) -> tuple[str, ...]:
    """The dotted names of an error's class and of every exception class it is made of, nearest first."""
    return tuple(error_name(kind) for kind in type(error).__mro__ if issubclass(kind, BaseException))


def matches(names: Iterable[str], classes: Iterable[str]) -> bool:
    """Whether one of `names` (as declared) means one of `classes` (dotted, as `error_classes` gives them, and `transient`).

    A bare name (`Timeout`) means any class of that name; a dotted one its class in that module or a part of
    it, since packages show classes by shorter names: `requests.Timeout` means `requests.exceptions.Timeout`.
    """
    raised = tuple(classes)
    return any(_means(_ALIASES.get(name, name), dotted) for name in names for dotted in raised)


def _means(name: str, dotted: str) -> bool:
    if dotted == name or dotted.endswith(f".{name}"):
        return True
    package, dot, bare = name.rpartition(".")
    return bool(dot) and dotted.startswith(f"{package}.") and dotted.endswith(f".{bare}")
