"""What is doubtful about a retry policy: names that mean no exception, and important work that fails unseen."""

import builtins
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .declaration_fields import Wrong, nearest
from .declaration_files import Source
from .declaration_jobs import complain
from .error_names import BARE_ALIASES, TRANSIENT
from .job import JobDefinition
from .retry import DISCARD, RetryPolicy
from .yaml_tree import Path

_FILTERS: Final = ("retry_on", "no_retry_on")
_BUILTINS: Final = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
)
_OURS: Final = frozenset(
    {
        "PermanentError",
        "RetryAfter",
        "RetryNow",
        "ExitCode",
        "KilledBySignal",
        "HttpStatus",
    }  # these three: of commands, http
)
KNOWN_NAMES: Final = _BUILTINS | _OURS | BARE_ALIASES | {TRANSIENT}
"""What a name without a module may mean; any other means a class of that name in whatever module."""


def lint_names(source: Source) -> None:
    """Warn of each name in `retry_on` and `no_retry_on` of a file that no built-in exception has and that names no module."""
    for path in _retries(source.document.tree):
        for key, retry in ((key, _at(source.document.tree, path)) for key in _FILTERS):
            said = retry.get(key) if isinstance(retry, Mapping) else None
            listed = said if isinstance(said, list) else [said]
            for index, name in enumerate(listed):
                if not isinstance(name, str) or not name.isidentifier() or name in KNOWN_NAMES:
                    continue
                meant = nearest(name, KNOWN_NAMES)
                hint = (
                    f"did you mean `{meant}`?"
                    if meant
                    else "write its module too, as in httpx.TimeoutException"
                )
                at = (key, index) if isinstance(said, list) else (key,)
                message = f"`{name}` is no built-in exception: it means any class of that name"
                complain(source, path, Wrong("W009", message, hint, at))


def discards_important(policy: RetryPolicy, job: JobDefinition | None) -> Wrong | None:
    """The warning for a policy that makes a failure look like a cancellation, where the job says that it must not be lost."""
    if policy.on_exhausted != DISCARD or job is None:
        return None
    said = [
        f"`{name}`"
        for name in ("request_recovery", "key")
        if getattr(job.policies, name) not in (None, False)
    ]
    if not said:
        return None
    message = (
        f"the job has {' and '.join(said)}, so its work matters, and `discard` hides that it failed: don't"
    )
    return Wrong("W008", message, "leave out on_exhausted, or write `on_exhausted: fail`", ("retry",))


def _retries(tree: Any) -> Iterator[Path]:
    """The places of a file at which a retry policy may stand."""
    yield from (("defaults", "retry"), ("cluster", "retry"))
    for section in ("jobs", "triggers"):
        named = tree.get(section) if isinstance(tree, Mapping) else None
        for name in named if isinstance(named, Mapping) else ():
            yield (section, name, "retry")


def _at(tree: Any, path: Path) -> Any:
    for part in path:
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree
