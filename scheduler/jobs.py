"""`@job` marks a function as something qsched may run, and keeps beside it what the code says about how."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, TypedDict, TypeVar, Unpack, overload

from ..triggers.duration import parse_duration
from ..triggers.errors import DefinitionError, TriggerError
from ..triggers.job import OVERLAPS, JobPolicies
from ..triggers.retry import RetryPolicy
from .around.marks import SCOPE, checked, place_of
from .key_template import template_names
from .payload import checked_data

MARK = "__qsched_job__"
"""The attribute of a function that holds its JobDeclaration."""

RUN_IN = ("thread", "async", "process")
_LONGEST_NAME = 200

Function = TypeVar("Function", bound=Callable[..., Any])


class JobOptions(TypedDict, total=False):
    """What `@job(...)` may say; what it leaves out comes from YAML or from the cluster's defaults."""

    name: str
    request_recovery: bool
    max_recoveries: int
    retry: RetryPolicy
    overlap: str
    timeout: str | timedelta
    run_in: str
    key: str
    data: Mapping[str, Any]
    persist_data: bool
    scope: Callable[..., Any] | None


@dataclass(frozen=True, slots=True)
class JobDeclaration:
    """A job as its code declares it."""

    name: str
    function: Callable[..., Any]
    policies: JobPolicies = field(default_factory=JobPolicies)
    data: Mapping[str, Any] = field(default_factory=dict)
    scopes: tuple[Callable[..., Any], ...] | None = None
    """What is opened for each of its attempts; None: whatever its node finds marked @scope."""


@overload
def job(function: Function, /) -> Function: ...
@overload
def job(**options: Unpack[JobOptions]) -> Callable[[Function], Function]: ...
def job(function: Any = None, /, **options: Unpack[JobOptions]) -> Any:
    """Mark a function as a job, as `@job` or `@job(timeout="10m", …)`; the function itself stays what it was.

    The job's name is `name`, else the function's; `module:function` always reaches it too.
    Raises DefinitionError at once for an option, or a function, that could not work.
    """
    if function is None:
        said = _checked_options(options)
        return lambda marked: _mark(marked, said)
    if options or not callable(function):
        raise DefinitionError("@job takes a function, or options by name, as in @job(timeout='10m')")
    return _mark(function, {})


def declaration_of(value: object) -> JobDeclaration | None:
    """What `@job` said about a function; None for what is not marked."""
    try:
        found = inspect.getattr_static(
            value, MARK, None
        )  # objects with a __getattr__ of their own answer everything
    except Exception:
        return None
    return found if isinstance(found, JobDeclaration) else None


def target_of(function: Callable[..., Any]) -> str:
    """`module:function` of a marked function; raises DefinitionError for what no node could find by it."""
    declared = declaration_of(function)
    name = getattr(function, "__qualname__", repr(function))
    if declared is None:
        raise DefinitionError(f"{name} is not marked @job: add the decorator above its def")
    if "." in name or "<" in name:
        raise DefinitionError(
            f"job {declared.name!r} is {name}, which other processes cannot import:"
            " define it at the top of a module"
        )
    module = getattr(function, "__module__", None)
    if module == "__main__":
        raise DefinitionError(
            f"job {declared.name!r} lives in the script that was started (__main__), where other processes"
            " cannot find it: move it to a module"
        )
    return f"{module}:{name}"


def _mark(function: Any, said: dict[str, Any]) -> Any:
    name = str(said.get("name") or getattr(function, "__name__", ""))
    _check_function(function, name)
    policies = JobPolicies(**{key: value for key, value in said.items() if key in _POLICIES})
    try:
        policies.in_turns(None)
    except DefinitionError as error:
        raise DefinitionError(f"job {name!r}: {error}") from error
    _check_run_in(function, name, policies.run_in)
    scopes = said.get("scope")
    _check_scopes(function, name, scopes or ())
    setattr(function, MARK, JobDeclaration(name, function, policies, said.get("data", {}), scopes))
    return function


def _check_function(function: Any, name: str) -> None:
    if not inspect.isfunction(function):
        raise DefinitionError(f"@job marks functions, and {function!r} is not one: write a def that calls it")
    if name == "<lambda>":
        raise DefinitionError("a lambda cannot be a job: no other process could find it; write a def")
    if declaration_of(function) is not None and getattr(function, MARK).function is function:
        raise DefinitionError(f"{name} is already marked @job: keep one of the two decorators")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"job {name!r} is a generator, of which a call runs nothing: leave out yield")
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DefinitionError(
                f"job {name!r} takes {parameter.name} by position only, and data are passed by name:"
                " remove the '/'"
            )


def check_run_in(run_in: str | None, *, is_async: bool) -> str | None:
    """Why a function cannot run where it should; None when it can."""
    if run_in is None or run_in in ("process", "async" if is_async else "thread"):
        return None
    if run_in not in RUN_IN:
        return f"run_in {run_in!r} is not one of {', '.join(RUN_IN)}"
    if is_async:
        return "it is an async function, which runs on the node's loop: leave out run_in, or write process"
    return "run_in: async needs an async function: write `async def`, or leave out run_in"


def _check_run_in(function: Any, name: str, run_in: str | None) -> None:
    if problem := check_run_in(run_in, is_async=inspect.iscoroutinefunction(function)):
        raise DefinitionError(f"job {name!r}: {problem}")


def _check_scopes(function: Any, name: str, scopes: tuple[Callable[..., Any], ...]) -> None:
    for each in scopes:
        if checked(SCOPE, each) and not inspect.iscoroutinefunction(function):
            raise DefinitionError(
                f"job {name!r}: its scope {place_of(each)} is async, and the function is not: choose a plain one"
            )


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name, value in options.items():
        check = _CHECKS.get(name)
        if check is None:
            close = get_close_matches(name, _CHECKS, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(_CHECKS)}"
            raise DefinitionError(f"@job does not know {name}: {hint}")
        said[name] = check(value)
    return said


def _job_name(value: object) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= _LONGEST_NAME
        or value != value.strip()
        or any(character in "/:" or not character.isprintable() for character in value)
    ):
        raise DefinitionError(
            f"@job name {value!r} is not a name: use 1 to {_LONGEST_NAME} printable characters,"
            " without '/' and ':', with no blank at the ends"
        )
    return value


def _flag(name: str) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        if not isinstance(value, bool):
            raise DefinitionError(f"@job {name} must be True or False, and {value!r} is neither")
        return value

    return check


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1000:
        raise DefinitionError(
            f"@job max_recoveries must be a whole number from 0 to 1000, and {value!r} is not"
        )
    return value


def _retry(value: object) -> RetryPolicy:
    if not isinstance(value, RetryPolicy):
        raise DefinitionError(
            f"@job retry must be a RetryPolicy, as in RetryPolicy.fixed(3, '2s'), not {value!r}"
        )
    return value


def _overlap(value: object) -> str:
    if value not in OVERLAPS:
        raise DefinitionError(f"@job overlap {value!r} is not one of {', '.join(OVERLAPS)}")
    return str(value)


def _timeout(value: object) -> int:
    if isinstance(value, timedelta):
        if value <= timedelta(0):
            raise DefinitionError(f"@job timeout must be more than zero, and {value!r} is not")
        return value // timedelta(microseconds=1)
    if not isinstance(value, str):
        raise DefinitionError(
            f"@job timeout must be text with a unit, as in '10m', or a timedelta, not {value!r}"
        )
    try:
        return parse_duration(value)
    except TriggerError as error:
        raise DefinitionError(f"@job timeout: {error}") from error


def _run_in(value: object) -> str:
    if value not in RUN_IN:
        raise DefinitionError(f"@job run_in {value!r} is not one of {', '.join(RUN_IN)}")
    return str(value)


def _key(value: object) -> str:
    template_names(value)  # type: ignore[arg-type]  # it says itself what is no text
    return str(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": _job_name,
    "request_recovery": _flag("request_recovery"),
    "max_recoveries": _count,
    "retry": _retry,
    "overlap": _overlap,
    "timeout": _timeout,
    "run_in": _run_in,
    "key": _key,
    "persist_data": _flag("persist_data"),
    "data": lambda value: checked_data(value, of="@job"),
    "scope": lambda value: () if value is None else (value,),
}
_POLICIES = _CHECKS.keys() - {"name", "data", "scope"}
