"""Which scopes a job has: those that its node finds marked, or the one that it names; what could not work is refused."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from qsched.scheduler.context import JobContext
from qsched.scheduler.errors import JobUnloadable, PermanentError
from qsched.scheduler.loaded_job import check_arguments
from qsched.scheduler.registry import JobRegistry
from qsched.scheduler.testing import context_for
from qsched.triggers.errors import DefinitionError
from qsched.triggers.job import JobDefinition

from qsched import job, middleware, scope
from support.seen_scope import Seen, among
from support.written_app import WriteApp


@pytest.fixture
def seen() -> Seen:
    return Seen(session="S")


# -- which scope -------------------------------------------------------------------------------------------------------


def test_marked_scopes_are_nested_in_their_order(seen: Seen) -> None:
    seen.values = None  # type: ignore[assignment]
    inner, outer = scope(seen.factory("inner")), scope(seen.factory("outer"))
    scope(order=-1)(first := seen.factory("first"))
    chain = among(lambda: None, outer, first, inner)
    assert chain is not None
    chain.call(context_for(lambda: None), lambda given: seen.events.append("body"))
    assert seen.events == [
        *("open first", "open inner", "open outer", "body", "close outer", "close inner", "close first"),
    ]


def test_when_an_inner_scope_cannot_be_closed_the_outer_ones_hear_of_it(seen: Seen) -> None:
    seen.values = None  # type: ignore[assignment]
    outer, inner = scope(seen.factory("outer")), scope(seen.factory("inner", closing="disk full"))
    chain = among(lambda: None, outer, inner)
    assert chain is not None
    with pytest.raises(OSError, match="disk full"):
        chain.call(context_for(lambda: None), lambda given: None)
    assert seen.events == ["open outer", "open inner", "close inner", "thrown OSError outer", "close outer"]


def test_when_an_inner_scope_cannot_be_opened_the_outer_ones_are_closed(seen: Seen) -> None:
    outer, inner = scope(seen.factory("outer")), scope(seen.factory("inner", opening="no database"))
    chain = among(lambda: None, outer, inner)
    assert chain is not None
    with pytest.raises(ConnectionError):
        chain.call(context_for(lambda: None), lambda given: None)
    assert seen.events[-2:] == ["thrown ConnectionError outer", "close outer"]


def test_two_scopes_that_give_the_same_name_are_an_error(seen: Seen) -> None:
    chain = among(lambda: None, scope(seen.factory()), scope(seen.factory()))
    assert chain is not None
    with pytest.raises(PermanentError, match="'session', which another scope gives"):
        chain.call(context_for(lambda: None), lambda given: None)


def test_a_job_that_names_its_scope_has_no_other(seen: Seen) -> None:
    marked = scope(seen.factory())
    own = seen.factory("own")
    chosen = among(job(scope=own)(plain()), marked)
    assert chosen is not None
    assert [each.name.rpartition(":")[2] for each in chosen.scopes] == [own.__qualname__]
    assert among(job(scope=None)(plain()), marked) is None


def plain() -> Callable[[], None]:
    """A fresh function to mark."""

    def work() -> None: ...

    return work


def test_a_job_with_nothing_around_it_has_no_chain(seen: Seen) -> None:
    @middleware
    async def other_kind(ctx: JobContext, call_next: Callable[[], Any]) -> None: ...

    assert among(plain()) is None
    assert among(plain(), other_kind) is None


def test_an_async_scope_of_a_plain_function_is_refused_where_it_is_written(app: WriteApp) -> None:
    async def connection(ctx: JobContext) -> AsyncIterator[None]:
        yield

    with pytest.raises(DefinitionError, match="is async"):
        job(scope=connection)(plain())
    name = app(
        jobs="""
        from qsched import scope

        @scope
        async def connection(ctx):
            yield

        @job
        def work(): ...

        @job
        async def work_async(): ...
        """
    )
    registry = JobRegistry([f"{name}.jobs"])
    with pytest.raises(JobUnloadable, match=r"its scope .*connection is async.* scope=None"):
        registry.resolve(JobDefinition("j", "python", f"{name}.jobs:work"))
    assert registry.resolve(JobDefinition("j", "python", f"{name}.jobs:work_async")).chain is not None


# -- where they are found ----------------------------------------------------------------------------------------------

MARKED = """
    from qsched import scope

    @scope
    def session(ctx):
        yield {"session": "S"}

    @job
    def work(session, n): ...
"""


def test_a_mark_is_found_in_the_apps_modules_once_however_often_it_is_re_exported(app: WriteApp) -> None:
    name = app(jobs=MARKED, __init__="from .jobs import session")
    loaded = JobRegistry([name]).resolve(JobDefinition("work", "python", "work"))
    assert loaded.chain is not None
    assert [each.name for each in loaded.chain.scopes] == [f"{name}.jobs:session"]


def test_a_mark_of_another_module_is_none(app: WriteApp) -> None:
    other = app(jobs=MARKED)
    name = app(jobs=f"from {other}.jobs import session\n@job\ndef work(): ...")
    assert JobRegistry([f"{name}.jobs"]).resolve(JobDefinition("work", "python", "work")).chain is None


def test_a_mark_is_found_in_a_module_that_the_nodes_file_names(app: WriteApp) -> None:
    name = app(jobs=MARKED, mail="@job\ndef send(): ...", broken="import no_such_module_x")
    declared = [JobDefinition(each, "python", f"{name}.{each}:x") for each in ("jobs", "mail", "broken")]
    registry = JobRegistry(declared=declared)
    assert [function.__name__ for _, function in registry.around()] == ["session"]
    assert registry.resolve(JobDefinition("send", "python", f"{name}.mail:send")).chain is not None


def test_what_a_job_lacks_may_come_from_its_scope_and_check_says_nothing_of_it(app: WriteApp) -> None:
    name = app(jobs=MARKED)
    loaded = JobRegistry([f"{name}.jobs"]).resolve(JobDefinition("work", "python", "work"))
    assert check_arguments(loaded, {"n": 1}) == []
    assert check_arguments(loaded, {}) == []
    (problem,) = check_arguments(loaded, {"n": 1, "sesion": 2})
    assert "does not know 'sesion'" in problem


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("@scope\ndef s(): yield", "must take one argument"),
        ("@scope\ndef s(ctx, more): yield", "must take one argument"),
        ("@scope\nasync def s(ctx): return {}", "must yield"),
        ("@scope\nclass S: ...", "takes a function"),
        ("@scope(order='1')\ndef s(ctx): yield", "order must be a whole number"),
        ("@scope\n@scope\ndef s(ctx): yield", "already marked"),
        ("@job(scope=7)\ndef work(): ...", "takes a function"),
        ("@middleware\ndef m(call_next): ...", "must take two arguments"),
        ("@middleware\ndef m(ctx, call_next): yield", "is a generator"),
        ("@on_startup\ndef h(ctx): ...", "must take no arguments"),
        ("@on_shutdown\nasync def h(): yield", "is a generator"),
        ("on_startup(lambda: None)", "a name"),
    ],
)
def test_a_mark_that_could_not_work_is_refused_where_it_is_written(said: str, says: str) -> None:
    names: dict[str, Any] = {"__name__": "shop"}
    exec("from qsched import job, middleware, on_shutdown, on_startup, scope", names)
    with pytest.raises(DefinitionError, match=says):
        exec(said, names)
