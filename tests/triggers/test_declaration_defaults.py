"""Every default that a file or the cluster can set changes what it is the default of, key by key (field bug B64)."""

from typing import Any

import pytest
from qsched.triggers.declaration import Declarations, load_text
from qsched.triggers.declaration_keys import ClusterKeys, DefaultsKeys, DstKeys, MisfireKeys, RetryKeys
from qsched.triggers.declaration_problem import DeclarationError
from qsched.triggers.errors import DefinitionError
from qsched.triggers.instant import HOUR, MINUTE, SECOND
from qsched.triggers.job import JobPolicies
from qsched.triggers.retention import Retention
from qsched.triggers.retry import RetryPolicy

NOW = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z


def read(defaults: str, job: str = "", trigger: str = "", *, section: str = "defaults") -> Declarations:
    text = (
        f"qsched: 1\n{section}: {{{defaults}}}\n"
        f"jobs: {{j: {{python: 'a:b'{job}}}}}\n"
        f"triggers: {{t: {{cron: 0 0 * * *, job: j{trigger}}}}}\n"
    )
    return load_text(text, now=NOW)


def value(found: Declarations, way: str) -> Any:
    """`trigger.misfire.limit`, `job.policies.overlap` of the only trigger or job."""
    start, *names = way.split(".")
    thing: Any = found.triggers[0] if start == "trigger" else found.jobs[0]
    for name in names:
        thing = getattr(thing, name)
    return thing


# default, where it arrives, the value it has there, what overrides it and where, the value then
DEFAULTS: list[tuple[str, str, Any, str, Any]] = [
    ("time_zone: Europe/Istanbul", "trigger.time_zone", "Europe/Istanbul", "time_zone: UTC", "UTC"),
    ("dst: {gap: skip}", "trigger.dst_gap", "skip", "dst: {gap: run_after}", "run_after"),
    ("dst: {overlap: twice}", "trigger.dst_overlap", "twice", "dst: {overlap: once}", "once"),
    ("misfire: skip", "trigger.misfire.policy", "skip", "misfire: fire_once", "fire_once"),
    ("misfire: {policy: skip}", "trigger.misfire.policy", "skip", "misfire: {policy: fire_all}", "fire_all"),
    ("misfire: {threshold: 5m}", "trigger.misfire.threshold", 5 * MINUTE, "misfire: {threshold: 1s}", SECOND),
    ("misfire: {policy: fire_all, window: 3h}", "trigger.misfire.window", 3 * HOUR, "misfire: {window: 1h}", HOUR),
    ("misfire: {policy: fire_all, limit: 7}", "trigger.misfire.limit", 7, "misfire: {limit: 8}", 8),
    ("priority: 9", "trigger.priority", 9, "priority: 5", 5),
    ("request_recovery: true", "job.policies.request_recovery", True, "request_recovery: false", False),
    ("max_recoveries: 9", "job.policies.max_recoveries", 9, "max_recoveries: 0", 0),
    ("overlap: queue", "job.policies.overlap", "queue", "overlap: allow", "allow"),
    ("timeout: 5m", "job.policies.timeout", 5 * MINUTE, "timeout: 1m", MINUTE),
    ("run_in: async", "job.policies.run_in", "async", "run_in: thread", "thread"),
    ("run_on: [a, b]", "job.policies.run_on", ("a", "b"), "run_on: [c]", ("c",)),
    ("retry: 7", "job.policies.retry.max_retries", 7, "retry: {max_retries: 1}", 1),
    ("retry: {max_retries: 7, delay: 9s}", "job.policies.retry.delay", 9 * SECOND, "retry: {delay: 1s}", SECOND),
    ("retry: {max_retries: 7, multiplier: 3}", "job.policies.retry.multiplier", 3.0, "retry: {multiplier: 2}", 2.0),
    ("retry: {max_retries: 7, max_delay: 9m}", "job.policies.retry.max_delay", 9 * MINUTE, "retry: {max_delay: 5m}",
     5 * MINUTE),
    ("retry: {max_retries: 7, jitter: 0.5}", "job.policies.retry.jitter", 0.5, "retry: {jitter: 0}", 0.0),
    ("retry: {delays: [1s, 2s]}", "job.policies.retry.delays", (SECOND, 2 * SECOND), "retry: {delays: [3s]}",
     (3 * SECOND,)),
    ("retry: {preset: hangfire}", "job.policies.retry.preset", "hangfire", "retry: {max_retries: 1, delay: 1s}", None),
    ("retry: {max_retries: 7, retry_on: [ValueError]}", "job.policies.retry.retry_on", ("ValueError",),
     "retry: {retry_on: OSError}", ("OSError",)),
    ("retry: {max_retries: 7, no_retry_on: KeyError}", "job.policies.retry.no_retry_on", ("KeyError",),
     "retry: {no_retry_on: []}", ()),
    ("retry: {max_retries: 7, give_up_after: 9h}", "job.policies.retry.give_up_after", 9 * HOUR,
     "retry: {give_up_after: 1h}", HOUR),
    ("retry: {max_retries: 7, on_exhausted: discard}", "job.policies.retry.on_exhausted", "discard",
     "retry: {on_exhausted: fail}", "fail"),
]  # fmt: skip


@pytest.mark.parametrize(("default", "way", "expected", "said", "instead"), DEFAULTS)
def test_a_default_reaches_what_does_not_say_otherwise(
    default: str, way: str, expected: Any, said: str, instead: Any
) -> None:
    plain = "retry: 0" if ".retry." in way else ""
    assert value(read(plain), way) != expected
    assert value(read(default), way) == expected
    overridden = read(default, **{way.split(".")[0]: f", {said}"})
    assert value(overridden, way) == instead


def test_every_key_of_defaults_is_tested() -> None:
    tested = {default.partition(":")[0] for default, *_ in DEFAULTS}
    assert tested == set(DefaultsKeys.__annotations__)
    ways = {way for _, way, *_ in DEFAULTS}
    assert {f"trigger.dst_{name}" for name in DstKeys.__annotations__} <= ways
    assert {f"trigger.misfire.{name}" for name in MisfireKeys.__annotations__} <= ways
    assert {f"job.policies.retry.{name}" for name in RetryKeys.__annotations__} <= ways


def test_maps_merge_and_the_rest_of_a_default_stays() -> None:
    found = read("misfire: {policy: fire_all, threshold: 5m, limit: 3}, dst: {gap: skip}",
                 trigger=", misfire: {limit: 4}, dst: {overlap: twice}")  # fmt: skip
    (trigger,) = found.triggers
    assert (trigger.misfire.policy, trigger.misfire.threshold, trigger.misfire.limit) == (
        "fire_all",
        5 * MINUTE,
        4,
    )
    assert (trigger.dst_gap, trigger.dst_overlap) == ("skip", "twice")


@pytest.mark.parametrize(
    ("default", "said", "policy"),
    [
        ("{max_retries: 3, delay: 2s}", "{max_retries: 5}", RetryPolicy.fixed(5, "2s")),
        ("{max_retries: 3, delay: 2s}", "{delays: [1s, 4s]}", RetryPolicy.explicit(["1s", "4s"])),
        ("{max_retries: 3, delay: 2s}", "hangfire", RetryPolicy.hangfire()),
        ("{max_retries: 3, delay: 2s}", "none", RetryPolicy.none()),
        ("{max_retries: 3, delay: 2s}", "4", RetryPolicy.fixed(4, "2s")),
        ("{delays: [1s, 4s]}", "{max_retries: 3, delay: 2s}", RetryPolicy.fixed(3, "2s")),
        ("none", "{max_retries: 3, delay: 2s}", RetryPolicy.fixed(3, "2s")),
        ("hangfire", "2", RetryPolicy.hangfire(2)),
        ("nightly", "{jitter: 0}", RetryPolicy(5, 300 * SECOND, 2.0, give_up_after=6 * HOUR)),
    ],
)
def test_a_retry_completes_its_default_only_as_far_as_the_two_go_together(
    default: str, said: str, policy: RetryPolicy
) -> None:
    assert read(f"retry: {default}", job=f", retry: {said}").jobs[0].policies.retry == policy
    assert read(f"retry: {default}", trigger=f", retry: {said}").triggers[0].retry == policy


def test_a_default_retry_is_the_jobs_and_leaves_the_trigger_to_it() -> None:
    found = read("retry: 3, run_on: [a]", job=", retry: 2, run_on: [b]")
    assert found.triggers[0].retry is None
    assert found.triggers[0].run_on == ()
    assert found.jobs[0].policies.retry == RetryPolicy(max_retries=2)
    assert found.jobs[0].policies.run_on == ("b",)


def test_inline_jobs_and_named_functions_have_the_defaults_too() -> None:
    text = "qsched: 1\ndefaults: {timeout: 5m, run_in: async}\ntriggers:\n"
    text += "  a: {every: 5s, command: ls}\n  b: {every: 5s, job: 'm:f'}\n  c: {every: 5s, python: 'm:f', timeout: 1m}\n"
    found = {job.name: job.policies.to_spec() for job in load_text(text, now=NOW).jobs}
    assert found == {
        "a": {"timeout": 5 * MINUTE},  # how a command runs is not a choice
        "m:f": {"timeout": 5 * MINUTE, "run_in": "async"},
        "c": {"timeout": MINUTE, "run_in": "async"},
    }


def test_a_job_of_the_code_has_the_defaults_that_triggers_carry_and_a_warning_for_the_others() -> None:
    text = "qsched: 1\ndefaults: {retry: 4, run_on: [a], timeout: 5m, overlap: skip}\n"
    text += "triggers: {t: {cron: 0 0 * * *, job: known}}\n"
    found = load_text(text, now=NOW, known_jobs=["known"])
    assert found.triggers[0].retry == RetryPolicy(max_retries=4)
    assert found.triggers[0].run_on == ("a",)
    told = [(problem.code, problem.line, problem.column) for problem in found.warnings]
    assert told == [("W006", 2, 35), ("W006", 2, 48)]
    assert "`known`" in found.warnings[0].message


def test_the_defaults_of_the_cluster_arrive_key_by_key() -> None:
    text = {
        "request_recovery": "true",
        "max_recoveries": "2",
        "overlap": "queue",
        "timeout": "5m",
        "retry": "{max_retries: 3, delay: 2s}",
        "run_in": "async",
        "run_on": "[a]",
    }
    assert set(text) == set(ClusterKeys.__annotations__) - {"retention"}
    for name, written in text.items():
        found = read(f"{name}: {written}", section="cluster")
        assert set(found.cluster_defaults) == {name}
        assert JobPolicies.from_spec(found.cluster_defaults).to_spec() == found.cluster_defaults
        assert found.jobs[0].policies == JobPolicies()
    assert read("").cluster_defaults == {}


def test_how_long_history_is_kept_is_the_clusters() -> None:
    found = read("retention: {succeeded: 1d12h, failed: forever, per_trigger: 500}", section="cluster")
    assert found.cluster_defaults == {
        "retention": {"succeeded": 36 * HOUR, "failed": "forever", "per_trigger": 500}
    }
    kept = Retention.from_spec(found.cluster_defaults["retention"])
    assert kept == Retention(36 * HOUR, None, 500)
    assert JobPolicies.from_spec(found.cluster_defaults) == JobPolicies()
    assert read("retention: {}", section="cluster").cluster_defaults == {}


def test_seven_and_thirty_days_and_ten_thousand_rows_are_kept_unless_said_otherwise() -> None:
    assert str(Retention.from_spec(None)) == "succeeded 7d, failed 30d, per_trigger 10000"
    assert Retention.from_spec({"failed": "forever"}) == Retention(failed=None)


@pytest.mark.parametrize(
    "spec", [3, {"succeeded": "soon"}, {"failed": 0}, {"per_trigger": 0}, {"per_trigger": True}]
)
def test_a_stored_retention_that_cannot_be_meant_is_refused(spec: object) -> None:
    with pytest.raises(DefinitionError, match="apply it again"):
        Retention.from_spec(spec)


@pytest.mark.parametrize(
    ("said", "code", "column", "words"),
    [
        ("failed: 30", "E015", 31, "duration"),
        ("per_trigger: 0", "E019", 36, "1"),
        ("sucseeded: 7d", "E011", 23, "`succeeded`"),
    ],
)
def test_what_is_wrong_in_a_retention_is_told_at_its_place(
    said: str, code: str, column: int, words: str
) -> None:
    text = f"qsched: 1\ncluster: {{retention: {{{said}}}}}\ntriggers: {{a: {{every: 5s, command: ls}}}}\n"
    with pytest.raises(DeclarationError) as caught:
        load_text(text, now=NOW)
    (problem,) = caught.value.problems
    assert (problem.code, problem.line, problem.column) == (code, 2, column)
    assert words in f"{problem.message} {problem.hint}"
