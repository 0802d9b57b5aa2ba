"""`@job` leaves the function as it was, keeps what was said, and refuses at once what could not work."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from qsched.scheduler.jobs import JobDeclaration, declaration_of, job, target_of
from qsched.triggers.errors import DefinitionError
from qsched.triggers.job import JobPolicies
from qsched.triggers.retry import RetryPolicy


@job
def plain(a: int, b: int = 2) -> int:
    return a + b


@job(
    name="rates",
    request_recovery=True,
    max_recoveries=5,
    retry=RetryPolicy.fixed(3, "2s"),
    overlap="queue",
    timeout="10m",
    run_in="thread",
    key="rates:{base}",
    data={"base": "EUR"},
)
def fetch_rates(base: str) -> str:
    return base


def said(function: object) -> JobDeclaration:
    found = declaration_of(function)
    assert found is not None
    return found


def test_a_job_stays_callable_as_a_plain_function() -> None:
    assert plain(1) == 3
    assert fetch_rates("USD") == "USD"
    assert plain.__name__ == "plain"


def test_a_bare_job_is_named_after_its_function_and_says_nothing_else() -> None:
    assert said(plain) == JobDeclaration("plain", plain, JobPolicies(), {})


def test_what_the_decorator_says_is_kept() -> None:
    assert said(fetch_rates) == JobDeclaration(
        "rates",
        fetch_rates,
        JobPolicies(
            request_recovery=True,
            max_recoveries=5,
            overlap="queue",
            timeout=600_000_000,
            retry=RetryPolicy.fixed(3, "2s"),
            run_in="thread",
            key="rates:{base}",
        ),
        {"base": "EUR"},
    )


def test_data_are_copied_so_that_later_changes_do_not_reach_the_job() -> None:
    data = {"names": ["a"]}
    marked = job(data=data)(_new_function())
    data["names"].append("b")
    assert said(marked).data == {"names": ["a"]}


def test_a_timeout_may_be_a_timedelta() -> None:
    marked = job(timeout=timedelta(minutes=1, microseconds=5))(_new_function())
    assert said(marked).policies.timeout == 60_000_005


def test_async_functions_are_jobs_with_or_without_saying_so() -> None:
    async def work() -> None: ...

    async def more() -> None: ...

    assert said(job(work)).policies.run_in is None
    assert said(job(run_in="async")(more)).policies.run_in == "async"


def test_any_function_may_run_in_a_process() -> None:
    async def work() -> None: ...

    assert said(job(run_in="process")(work)).policies.run_in == "process"
    assert said(job(run_in="process")(_new_function())).policies.run_in == "process"


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"timeuot": "10m"}, "timeuot: did you mean timeout?"),
    ({"banana": 1}, "banana: known are name, "),
    ({"name": ""}, "name '' is not a name"),
    ({"name": " x"}, "is not a name"),
    ({"name": "a/b"}, "without '/'"),
    ({"name": "a:b"}, "is not a name"),
    ({"name": "a\nb"}, "is not a name"),
    ({"name": "x" * 201}, "1 to 200"),
    ({"name": 5}, "is not a name"),
    ({"request_recovery": "yes"}, "request_recovery must be True or False"),
    ({"max_recoveries": -1}, "max_recoveries must be"),
    ({"max_recoveries": True}, "max_recoveries must be"),
    ({"retry": 3}, "retry must be a RetryPolicy"),
    ({"overlap": "allways"}, "overlap 'allways' is not one of allow, queue, skip, cancel"),
    ({"timeout": 10}, "timeout must be text with a unit"),
    ({"timeout": "10"}, "timeout: '10' is not a duration"),
    ({"timeout": "0s"}, "greater than zero"),
    ({"timeout": timedelta(0)}, "more than zero"),
    ({"run_in": "rocket"}, "run_in 'rocket' is not one of thread, async, process"),
    ({"run_in": "async"}, "needs an async function"),
    ({"key": ""}, "key '' is not a template"),
    ({"key": "a:{"}, "brace"),
    ({"key": "a:{x.__class__!r}"}, "brace"),
    ({"key": 5}, "key 5 is not a template"),
    ({"data": [1]}, "must be a mapping"),
    ({"data": {1: 2}}, "key 1, which is not text"),
    ({"data": {"at": datetime(2024, 1, 1, tzinfo=UTC)}}, "at is datetime"),
    ({"data": {"a": {"b": [Decimal(1)]}}}, "a.b[0] is Decimal('1') (Decimal)"),
    ({"data": {"x": {1, 2}}}, "pass a sorted list"),
    ({"data": {"x": float("nan")}}, "x is nan"),
    ({"data": {"f": lambda: None}}, "(function)"),
    ({"data": {"f": b"x"}}, "base64"),
    ({"data": {"t": "a\0b"}}, "NUL"),
    ({"data": {"t": "\ud800"}}, "surrogate"),
    ({"data": {"t": "x" * 300_000}}, "more than 262,144"),
]


@pytest.mark.parametrize(
    ("options", "text"), BAD_OPTIONS, ids=[repr(options)[:40] for options, _ in BAD_OPTIONS]
)
def test_a_wrong_option_is_refused_at_decoration_and_named(options: Mapping[str, Any], text: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        job(**options)(_new_function())
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_data_with_a_value_whose_repr_raises_are_refused_all_the_same() -> None:
    class Sour:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(DefinitionError, match=r"x is <test_data_"):
        job(data={"x": Sour()})


def test_nested_and_circular_data_are_refused_instead_of_recursing() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(DefinitionError, match="nested deeper"):
        job(data={"x": circle})


def test_functions_that_cannot_run_as_jobs_are_refused() -> None:
    def stream() -> Iterator[int]:
        yield 1

    async def astream() -> AsyncIterator[int]:
        yield 1

    def positional(a: int, /) -> None: ...

    class Service:
        pass

    async def work() -> None: ...

    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: job(lambda: None), "lambda"),
        (lambda: job(stream), "generator"),
        (lambda: job(astream), "generator"),
        (lambda: job(positional), "by position only"),
        (lambda: job(Service), "is not one"),
        (lambda: job(functools.partial(plain, 1)), "is not one"),
        (lambda: job(print), "is not one"),
        (lambda: job(run_in="thread")(work), "leave out run_in"),
        (lambda: job(5), "takes a function"),  # type: ignore[call-overload]
        (lambda: job("rates"), "takes a function"),  # type: ignore[call-overload]
        (lambda: job(plain), "already marked"),
    ]
    for mark, text in cases:
        with pytest.raises(DefinitionError, match=text):
            mark()


def test_a_wrapper_around_a_job_carries_its_mark() -> None:
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert said(wrapper) is said(plain)


def test_things_that_answer_every_attribute_are_no_jobs() -> None:
    class Yes:
        def __getattr__(self, name: str) -> str:
            return name

    assert declaration_of(Yes()) is None
    assert declaration_of(5) is None


def test_the_target_of_a_job_names_its_module_and_function() -> None:
    assert target_of(fetch_rates) == f"{__name__}:fetch_rates"


def test_what_other_processes_could_not_import_has_no_target() -> None:
    with pytest.raises(DefinitionError, match="top of a module"):
        target_of(job(_new_function()))
    with pytest.raises(DefinitionError, match="not marked @job"):
        target_of(_new_function())
    main = job(_new_function())
    main.__module__, main.__qualname__ = "__main__", "main"
    with pytest.raises(DefinitionError, match="__main__"):
        target_of(main)


def _new_function() -> Callable[..., None]:
    def work(**data: Any) -> None: ...

    return work
