"""What a node may run: only marked functions of named modules, and every refusal says why on one line."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from qsched.scheduler.errors import AppError, JobUnloadable
from qsched.scheduler.loaded_job import check_arguments
from qsched.scheduler.registry import JobRegistry
from qsched.triggers.job import JobDefinition, JobPolicies
from qsched.triggers.retry import RetryPolicy

from support.written_app import WriteApp


def python(target: str, name: str = "j", **said: object) -> JobDefinition:
    return JobDefinition(name=name, kind="python", target=target, **said)  # type: ignore[arg-type]


def refusal(registry: JobRegistry, definition: JobDefinition) -> str:
    with pytest.raises(JobUnloadable) as refused:
        registry.resolve(definition)
    text = str(refused.value)
    assert "\n" not in text
    return text


JOBS = """
    @job
    def rates(base, day=None): ...

    @job(name="mail", data={"lang": "en", "n": 1}, timeout="5m", overlap="queue")
    async def send(ctx, lang, n): ...

    def unmarked(): ...
"""


def test_a_function_is_reached_by_module_and_name(app: WriteApp) -> None:
    name = app(jobs=JOBS)
    loaded = JobRegistry([f"{name}.jobs"]).resolve(python(f"{name}.jobs:rates"))
    assert loaded.function is sys.modules[f"{name}.jobs"].rates
    assert (loaded.name, loaded.is_async, loaded.wants_ctx) == ("j", False, False)


def test_a_function_is_reached_by_its_jobs_name(app: WriteApp) -> None:
    name = app(jobs=JOBS)
    loaded = JobRegistry([f"{name}.jobs"]).resolve(python("mail", "mail"))
    assert loaded.function is sys.modules[f"{name}.jobs"].send
    assert (loaded.is_async, loaded.wants_ctx) == (True, True)


def test_an_app_opens_the_modules_below_it_and_no_others(app: WriteApp) -> None:
    name, other = app(jobs=JOBS), app(jobs=JOBS)
    registry = JobRegistry([name])
    assert registry.resolve(python(f"{name}.jobs:rates")).function is not None
    assert refusal(registry, python(f"{other}.jobs:rates")) == (
        f"cannot load {other}.jobs:rates: module {other}.jobs is not among --app modules ({name}):"
        f" add --app {other}.jobs"
    )
    assert f"{other}.jobs" not in sys.modules
    assert "not among --app" in refusal(registry, python(f"{name}x:rates"))


def test_what_yaml_says_stands_over_the_decorator(app: WriteApp) -> None:
    name = app(jobs=JOBS)
    policies = JobPolicies(timeout=7, retry=RetryPolicy.fixed(1, "1s"))
    loaded = JobRegistry([name]).resolve(python(f"{name}.jobs:send", data={"n": 2}, policies=policies))
    assert loaded.policies == JobPolicies(timeout=7, overlap="queue", retry=RetryPolicy.fixed(1, "1s"))
    assert loaded.data == {"lang": "en", "n": 2}


def test_what_cannot_be_loaded_says_why(app: WriteApp) -> None:
    name = app(jobs=JOBS, broken="1 / 0", needs="import nowhere_to_be_found")
    registry = JobRegistry([name])
    cases = {
        f"{name}.jobs:old": f"cannot import {name}.jobs:old: module '{name}.jobs' has no attribute 'old'",
        f"{name}.jobs:rats": f"module '{name}.jobs' has no attribute 'rats' (did you mean rates?)",
        f"{name}.jobs:unmarked": f"{name}.jobs:unmarked is not marked @job: add the decorator above its def",
        f"{name}.jobs:rates.__globals__": "write module:function",
        f"{name}.jobs:": "write module:function",
        f"{name}.broken:f": f"cannot import {name}.broken:f: ZeroDivisionError: division by zero",
        f"{name}.needs:f": "No module named 'nowhere_to_be_found': is its folder on PYTHONPATH?",
        f"{name}.none:f": f"No module named '{name}.none'",
        "os:getcwd": "module os is not among --app modules",
        "rats": f"no job named 'rats' in the --app modules ({name}): did you mean 'rates'?",
        "qqq": "write module:function, or add its module with --app",
    }
    for target, text in cases.items():
        assert text in refusal(registry, python(target))


def test_one_bad_job_leaves_the_others_alone_and_can_come_back(app: WriteApp, tmp_path: Path) -> None:
    name = app(jobs=JOBS)
    registry = JobRegistry([name])
    refusal(registry, python(f"{name}.later:f"))
    assert registry.resolve(python(f"{name}.jobs:rates")).function is not None
    (tmp_path / name / "later.py").write_text("from qsched import job\n@job\ndef f(): ...\n")
    assert registry.resolve(python(f"{name}.later:f")).function is not None


def test_apps_that_cannot_be_imported_are_named_together_one_line_each(app: WriteApp) -> None:
    name = app(
        good=JOBS,
        leaves="raise SystemExit(3)",
        stops="raise KeyboardInterrupt",
        raises="raise RuntimeError('two\\nlines')",
        sour="class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        syntax="def (",
    )
    apps = [f"{name}.{module}" for module in ("good", "leaves", "stops", "raises", "sour", "syntax", "none")]
    with pytest.raises(AppError) as refused:
        JobRegistry(apps)
    assert str(refused.value).splitlines()[:4] == [
        f"--app {name}.leaves: cannot import {name}.leaves: SystemExit: 3",
        f"--app {name}.stops: cannot import {name}.stops: KeyboardInterrupt was raised",
        f"--app {name}.raises: cannot import {name}.raises: RuntimeError: two lines",
        f"--app {name}.sour: cannot import {name}.sour: E (its text cannot be read)",
    ]
    assert len(str(refused.value).splitlines()) == 6


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("scheduler", "did you mean qsched.scheduler?"),
        ("cli.main", "did you mean qsched.cli.main?"),
        ("a:b", "did you mean a?"),
        ("jobs.py:x y", "not the name of a module"),
        ("", "not the name of a module"),
        ("..", "not the name of a module"),
    ],
)
def test_names_that_are_no_apps_are_refused(given: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    with pytest.raises(AppError) as refused:
        JobRegistry([given])
    assert text in str(refused.value)
    assert given.partition(".")[0] not in sys.modules


def test_somebody_elses_module_may_be_called_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scheduler.py").write_text("from qsched import job\n@job\ndef f(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert [found.name for found in JobRegistry(["scheduler"]).jobs()] == ["f"]
    finally:
        sys.modules.pop("scheduler", None)


def test_a_job_that_is_imported_by_others_is_listed_once(app: WriteApp) -> None:
    name = app(jobs=JOBS, again="from .jobs import rates, send")
    registry = JobRegistry([f"{name}.jobs", f"{name}.again"])
    assert [found.name for found in registry.jobs()] == ["mail", "rates"]


def test_a_name_that_two_functions_claim_is_refused_until_one_is_chosen(app: WriteApp) -> None:
    name = app(a="@job\ndef same(): ...\n", b="@job\ndef same(): ...\n")
    registry = JobRegistry([f"{name}.a", f"{name}.b"])
    assert f"declared more than once ({name}.a:same, {name}.b:same)" in refusal(registry, python("same"))
    assert registry.resolve(python(f"{name}.b:same")).function is sys.modules[f"{name}.b"].same


def test_jobs_imported_from_elsewhere_are_not_taken_for_the_apps_own(app: WriteApp) -> None:
    library = app(jobs=JOBS)
    name = app(jobs=f"from {library}.jobs import rates\n")
    registry = JobRegistry([f"{name}.jobs"])
    assert registry.jobs() == []
    assert "no job named" in refusal(registry, python("rates"))


def test_a_nodes_own_file_opens_the_module_it_names(app: WriteApp) -> None:
    name = app(jobs=JOBS, other="@job\ndef f(): ...\n")
    registry = JobRegistry(declared=[python(f"{name}.jobs:rates")])
    assert registry.resolve(python(f"{name}.jobs:rates")).function is not None
    assert "not among --app modules (none are given)" in refusal(registry, python(f"{name}.other:f"))


def test_run_in_must_suit_the_function(app: WriteApp) -> None:
    name = app(jobs=JOBS)
    registry = JobRegistry([name])
    for target, run_in, text in (
        ("rates", "async", "needs an async function"),
        ("send", "thread", "runs on the node's loop"),
    ):
        definition = python(f"{name}.jobs:{target}", policies=JobPolicies(run_in=run_in))
        assert text in refusal(registry, definition)


def test_both_kinds_of_functions_may_run_in_a_process_which_is_told_where_to_find_them(app: WriteApp) -> None:
    name = app(jobs=JOBS, other="@job\ndef f(): ...\n")
    registry = JobRegistry([f"{name}.jobs"], [python(f"{name}.other:f")])
    for target, place in (
        (f"{name}.jobs:rates", f"{name}.jobs:rates"),
        ("mail", f"{name}.jobs:send"),
    ):
        loaded = registry.resolve(python(target, policies=JobPolicies(run_in="process")))
        assert loaded.in_process
        assert not loaded.on_loop
        assert loaded.place == place
        assert loaded.allowed == ((f"{name}.jobs",), (f"{name}.other",))


def test_a_worker_process_may_load_what_the_nodes_file_names_and_no_more(app: WriteApp) -> None:
    name = app(jobs=JOBS, other="@job\ndef f(): ...\n")
    registry = JobRegistry(modules=[f"{name}.other"])
    assert registry.resolve(python(f"{name}.other:f")).function is not None
    assert "not among --app modules" in refusal(registry, python(f"{name}.jobs:rates"))


def test_the_clusters_word_holds_where_nothing_nearer_says_anything(app: WriteApp) -> None:
    name = app(jobs=JOBS)
    registry = JobRegistry([name], allow={"command"})
    cluster = {"run_in": "process", "request_recovery": True}
    plain = registry.resolve(python(f"{name}.jobs:rates"))
    assert plain.by_default(cluster).in_process
    assert plain.by_default(cluster).policies.request_recovery is True
    assert plain.by_default({"run_in": "async"}) is plain
    said = JobPolicies(run_in="thread", request_recovery=False)
    loaded = registry.resolve(python(f"{name}.jobs:rates", policies=said)).by_default(cluster)
    assert loaded.policies == said.over(plain.policies)
    command = registry.resolve(COMMAND).by_default(cluster)
    assert (command.policies.run_in, command.policies.request_recovery) == (None, True)


COMMAND = JobDefinition("echo", "command", "echo alive", env={"A": "1"})


def test_commands_run_only_where_they_are_allowed_or_declared() -> None:
    assert "may not run commands of others" in refusal(JobRegistry(), COMMAND)
    assert JobRegistry(allow={"command"}).resolve(COMMAND).function is None
    registry = JobRegistry(declared=[COMMAND])
    assert registry.resolve(JobDefinition("other", "command", "echo alive", env={"A": "1"})).function is None
    changed = [
        JobDefinition("echo", "command", "rm -rf /", env={"A": "1"}),
        JobDefinition("echo", "command", "echo alive", env={"A": "1", "LD_PRELOAD": "x.so"}),
        JobDefinition("echo", "command", "echo alive", env={"A": "1"}, cwd="/tmp"),
    ]
    for definition in changed:
        assert "may not run commands of others" in refusal(registry, definition)


def test_a_command_has_no_run_in() -> None:
    definition = JobDefinition("c", "command", "true", policies=JobPolicies(run_in="thread"))
    assert "has no run_in" in refusal(JobRegistry(allow={"command"}), definition)


REQUEST = JobDefinition("call", "http", "https://a.example/{id}", request={"headers": {"X-A": "{name}"}})


def test_requests_are_made_only_where_they_are_allowed_or_declared() -> None:
    assert "may not make requests of others: start it with --allow http" in refusal(
        JobRegistry(allow={"command"}), REQUEST
    )
    assert JobRegistry(allow={"http"}).resolve(REQUEST).function is None
    registry = JobRegistry(declared=[REQUEST])
    assert registry.resolve(REQUEST).definition == REQUEST
    for changed in ({"target": "https://b.example/{id}"}, {"request": {"headers": {"X-A": "${TOKEN}"}}}):
        assert "may not make requests of others" in refusal(registry, replace(REQUEST, **changed))


def test_what_a_request_names_is_checked_against_the_data() -> None:
    loaded = JobRegistry(declared=[REQUEST]).resolve(REQUEST)
    assert check_arguments(loaded, {"id": 1, "name": "x"}) == []
    assert check_arguments(loaded, {"id": 1}) == [
        "job 'call': its request names name, which the data do not have"
    ]


def test_a_kind_this_version_does_not_know_is_left_to_others() -> None:
    assert "of kind pigeon, which this version cannot run" in refusal(
        JobRegistry(allow={"http"}), JobDefinition("h", "pigeon", "north")
    )


def test_arguments_are_checked_by_name(app: WriteApp) -> None:
    name = app(
        jobs="""
        @job(key="k:{order}")
        def f(order, lang="en", *, ctx): ...

        @job
        def anything(context: "JobContext", **rest): ...
        """
    )
    registry = JobRegistry([name])
    loaded = registry.resolve(python(f"{name}.jobs:f"))
    assert check_arguments(loaded, {"order": 1}) == []
    where = f"job 'j' ({name}.jobs:f)"
    assert check_arguments(loaded, {"ordr": 1, "ctx": 2}) == [
        f"{where}: 'order' is needed and not in data",
        f"{where}: 'ctx' is given by qsched and cannot be in data",
        f"{where}: it does not know 'ordr' (did you mean 'order'?)",
        "job 'j': key 'k:{order}' names order, which the data do not have",
    ]
    anything = registry.resolve(python(f"{name}.jobs:anything"))
    assert anything.arguments.context == "context"
    assert check_arguments(anything, {"x": 1, "y": 2}) == []
    assert check_arguments(anything, {"context": 1}) != []


def test_many_threads_may_ask_at_once(app: WriteApp) -> None:
    name = app(jobs=JOBS, slow=JOBS)
    registry = JobRegistry([name])
    targets = [f"{name}.{module}:{job}" for module in ("jobs", "slow") for job in ("rates", "send")] * 8
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda target: registry.resolve(python(target)), targets))
    assert len({id(each.function) for each in loaded}) == 4
