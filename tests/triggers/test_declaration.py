"""What a declaration means: jobs, triggers, times, inline jobs, and the picture of many errors at once."""

from pathlib import Path

import pytest
from qsched.triggers.declaration import Declarations, load, load_text
from qsched.triggers.declaration_problem import DeclarationError, Problem
from qsched.triggers.instant import HOUR, MINUTE, SECOND, rfc3339
from qsched.triggers.job import JobDefinition
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy
from qsched.triggers.trigger import TriggerDefinition

NOW = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z
ROOT = Path(__file__).parents[2]


def read(text: str, known_jobs: tuple[str, ...] = ()) -> Declarations:
    return load_text(text, now=NOW, known_jobs=known_jobs)


def jobs(found: Declarations) -> dict[str, JobDefinition]:
    return {job.name: job for job in found.jobs}


def triggers(found: Declarations) -> dict[str, TriggerDefinition]:
    return {trigger.key: trigger for trigger in found.triggers}


def first_error(text: str) -> Problem:
    with pytest.raises(DeclarationError) as raised:
        load_text(text, now=NOW)
    return raised.value.problems[0]


def test_the_example_of_the_design_means_what_it_says() -> None:
    found = read("""
qsched: 1
namespace: bookstore
defaults: {time_zone: Europe/Istanbul}
jobs:
  fetch_rates:
    python: bookstore.jobs:fetch_rates
    data: {base: EUR}
    request_recovery: true
    overlap: queue
    timeout: 10m
    retry: {max_retries: 3, delay: 2s, multiplier: 2}
triggers:
  nightly_rates: {job: fetch_rates, cron: "15 2 * * *", misfire: fire_once}
  month_close:   {job: fetch_rates, quartz: "0 30 18 LW * ?", data: {month_close: true}, priority: 8}
  heartbeat:     {every: 10s, command: "echo alive"}
""")
    assert found.namespace == "bookstore"
    job = jobs(found)["fetch_rates"]
    assert (job.kind, job.target, job.data) == ("python", "bookstore.jobs:fetch_rates", {"base": "EUR"})
    assert (job.policies.request_recovery, job.policies.overlap, job.policies.timeout) == (
        True,
        "queue",
        10 * MINUTE,
    )
    assert job.policies.retry == RetryPolicy.exponential(3, "2s", 2.0)
    assert jobs(found)["heartbeat"] == JobDefinition("heartbeat", "command", "echo alive")
    by_key = triggers(found)
    assert by_key["nightly_rates"] == TriggerDefinition(
        "nightly_rates", "fetch_rates", {"cron": "15 2 * * *"}, time_zone="Europe/Istanbul"
    )
    assert by_key["month_close"].schedule == {"quartz": "0 30 18 LW * ?"}
    assert (by_key["month_close"].priority, by_key["month_close"].data) == (8, {"month_close": True})
    assert by_key["heartbeat"].schedule == {"every": 10 * SECOND}
    assert found.warnings == ()


def test_every_key_of_a_trigger_arrives() -> None:
    (found,) = read("""
qsched: 1
triggers:
  t:
    command: [ls, -l]
    every: 1h
    anchor: 2025-02-01 00:10
    start_at: 2025-02-01
    end_at: 2025-03-01T00:00:00Z
    max_fires: 7
    priority: -2
    time_zone: Europe/Istanbul
    misfire: {policy: fire_all, threshold: 0s, window: 3h, limit: 9}
    retry: none
    data: {a: [1, {b: null}]}
    paused: true
    tags: [x, y, x]
    group: billing
    run_on: gpu
    description: what for
    renamed_from: old/name
""").triggers
    assert found == TriggerDefinition(
        name="t",
        job="billing/t",
        schedule={"every": HOUR, "anchor": 1_738_357_800_000_000},
        group="billing",
        time_zone="Europe/Istanbul",
        start_at=1_738_357_200_000_000,
        end_at=1_740_787_200_000_000,
        max_fires=7,
        misfire=MisfireRule("fire_all", 0, 3 * HOUR, 9),
        retry=RetryPolicy.none(),
        data={"a": [1, {"b": None}]},
        priority=-2,
        paused=True,
        tags=("x", "y"),
        run_on=("gpu",),
        description="what for",
        renamed_from="old/name",
    )


def test_every_key_of_a_job_arrives() -> None:
    found = read("""
qsched: 1
jobs:
  p:
    python: a.b:c.d
    data: {x: 1}
    request_recovery: false
    max_recoveries: 0
    overlap: cancel
    timeout: PT1M
    retry: hangfire
    run_in: thread
    run_on: [a, b]
    key: "mail:{x}"
    group: g
    tags: t
    description: d
  c: {command: 'echo "${HOME}"', env: {PORT: 8080, ON: yes, E: ""}, cwd: /srv}
triggers: {a: {every: 5s, job: p}}
""")
    job = jobs(found)["p"]
    assert job.policies.to_spec() == {
        "request_recovery": False,
        "max_recoveries": 0,
        "overlap": "cancel",
        "timeout": MINUTE,
        "retry": RetryPolicy.hangfire().to_spec(),
        "run_in": "thread",
        "run_on": ["a", "b"],
        "key": "mail:{x}",
    }
    assert (job.target, job.data, job.group, job.tags, job.description) == (
        "a.b:c.d",
        {"x": 1},
        "g",
        ("t",),
        "d",
    )
    command = jobs(found)["c"]
    assert (command.target, command.cwd) == ('echo "${HOME}"', "/srv")
    assert command.env == {"PORT": "8080", "ON": "yes", "E": ""}


def test_an_inline_job_takes_the_policies_that_a_job_can_have() -> None:
    found = read("""
qsched: 1
triggers:
  a: {every: 5s, command: ls, timeout: 3s, overlap: skip, request_recovery: true, env: {A: b}, cwd: /, group: g}
  b: {every: 5s, python: "m:f", run_in: async, data: {x: 1}, retry: 2}
""")
    assert triggers(found)["g/a"].job == "g/a"
    job = jobs(found)["g/a"]
    assert (job.group, job.env, job.cwd) == ("g", {"A": "b"}, "/")
    assert job.policies.to_spec() == {"request_recovery": True, "overlap": "skip", "timeout": 3 * SECOND}
    assert jobs(found)["b"] == JobDefinition.from_spec("b", {"python": "m:f", "run_in": "async"})
    assert triggers(found)["b"].retry == RetryPolicy(max_retries=2)
    assert triggers(found)["b"].data == {"x": 1}


def test_a_trigger_may_name_a_function_directly() -> None:
    text = 'qsched: 1\ntriggers:\n  a: {every: 5s, job: "m.n:f"}\n  b: {every: 6s, job: "m.n:f"}\n'
    for known in ((), ("m.n:f",)):  # a name that the store knows must not change what a file means
        found = read(text, known)
        assert found.jobs == (JobDefinition("m.n:f", "python", "m.n:f"),)
        assert {trigger.job for trigger in found.triggers} == {"m.n:f"}


def test_a_job_of_the_code_is_known_by_name_only() -> None:
    text = "qsched: 1\ntriggers: {a: {every: 5s, job: send_mail}}\n"
    assert first_error(text).code == "E024"
    found = read(text, ("send_mail",))
    assert found.jobs == ()
    assert found.triggers[0].job == "send_mail"
    with pytest.raises(DeclarationError, match="did you mean `send_mail`"):
        read(text.replace("send_mail", "sendmail"), ("send_mail",))


def test_a_trigger_may_run_the_inline_job_of_another() -> None:
    found = read("qsched: 1\ntriggers: {b: {every: 6s, job: a}, a: {every: 5s, command: ls}}\n")
    assert {trigger.job for trigger in found.triggers} == {"a"}


@pytest.mark.parametrize(
    ("written", "zone", "instant"),
    [
        ("2025-03-30 02:30", "Europe/Berlin", "2025-03-30T01:00:00Z"),  # does not exist: the end of the gap
        ("2025-03-30 02:00", "Europe/Berlin", "2025-03-30T01:00:00Z"),
        ("2025-03-30 03:00", "Europe/Berlin", "2025-03-30T01:00:00Z"),
        ("2025-03-30 01:59:59", "Europe/Berlin", "2025-03-30T00:59:59Z"),
        ("2025-10-26 02:30", "Europe/Berlin", "2025-10-26T00:30:00Z"),  # comes twice: the first
        ("2025-10-26 02:30+01:00", "Europe/Berlin", "2025-10-26T01:30:00Z"),
        ("2011-12-30 12:00", "Pacific/Apia", "2011-12-30T10:00:00Z"),  # a whole day that never was
        ("2025-10-05 02:15", "Australia/Lord_Howe", "2025-10-04T15:30:00Z"),  # a gap of half an hour
    ],
)
def test_a_local_time_in_a_gap_is_its_end_and_one_that_repeats_the_first(
    written: str, zone: str, instant: str
) -> None:
    text = f"qsched: 1\ntriggers: {{a: {{at: '{written}', time_zone: {zone}, command: ls}}}}\n"
    assert rfc3339(read(text).triggers[0].schedule["at"]) == instant


def test_every_without_anchor_counts_from_its_start_else_from_the_epoch() -> None:
    text = "qsched: 1\ntriggers: {a: {every: 7h, command: ls%s}}\n"
    assert read(text % "").triggers[0].compile().latest_before(NOW) == NOW - NOW % (7 * HOUR)
    started = read(text % ", start_at: 2026-01-01 00:10").triggers[0]
    assert started.schedule == {"every": 7 * HOUR}
    assert rfc3339(started.compile().slot_after(NOW) or 0) == "2026-01-01T00:10:00Z"
    anchored = read(text % ", start_at: 2026-01-01 00:10, anchor: 2020-01-01").triggers[0]
    assert "anchor" in anchored.schedule
    assert rfc3339(anchored.compile().slot_after(NOW) or 0) != "2026-01-01T00:10:00Z"


def test_the_order_of_keys_and_quotes_change_no_digest() -> None:
    one = read("qsched: 1\ntriggers: {a: {cron: '0 0 * * *', command: ls, tags: [x], data: {a: 1, b: 2}}}\n")
    two = read(
        'qsched: 1\ntriggers:\n  a:\n    data: {b: 2, a: 1}\n    tags: x\n    command: "ls"\n    cron: 0 0 * * *\n'
    )
    assert one.triggers[0].digest() == two.triggers[0].digest()
    assert one.jobs[0].digest() == two.jobs[0].digest()
    assert one.revision_digest != two.revision_digest


def test_the_example_file_is_right() -> None:
    found = load([ROOT / "examples" / "qsched.yaml"], now=NOW, environ={})
    assert found.warnings == ()
    assert {job.kind for job in found.jobs} == {"python", "command"}
    assert {kind for trigger in found.triggers for kind in trigger.schedule} == {
        "cron",
        "quartz",
        "every",
        "at",
    }


def test_ten_thousand_triggers_are_no_trouble() -> None:
    rows = "".join(
        f"  t{n}: {{job: j, cron: '{n % 60} {n // 60 % 24} * * *', misfire: skip}}\n" for n in range(10_000)
    )
    found = read(
        f"qsched: 1\njobs: {{j: {{command: ls, retry: {{max_retries: 2, delay: 5m}}}}}}\ntriggers:\n{rows}"
    )
    assert len(found.triggers) == 10_000


MANY_ERRORS = """\
qsched: 1
defaults: {timezone: Europe/Berlin}
jobs:
  fetch: {python: shop.jobs, timeout: 10}
triggers:
  nightly: {job: fetsh, cron: "0 0 30 2 *", time_zone: Europe/Berln}
  often:
    command: ls
    every: 10s
    retry: {max_retries: 3, delay: 10s}
    paused: yes
  often: {every: 5s, command: ls}
"""

PICTURE = """\
error[E011]: unknown key `timezone` in `defaults`
 --> shop.yaml:2:12
  |
2 | defaults: {timezone: Europe/Berlin}
  |            ^^^^^^^^ did you mean `time_zone`?

error[E036]: `shop.jobs` does not name a function
 --> shop.yaml:4:19
  |
4 |   fetch: {python: shop.jobs, timeout: 10}
  |                   ^^^^^^^^^ write module:function, as in bookstore.jobs:fetch_rates

error[E015]: '10' is not a duration
 --> shop.yaml:4:39
  |
4 |   fetch: {python: shop.jobs, timeout: 10}
  |                                       ^^ write a number with its unit, as in 30s, 5m, 1h30m, 7d or PT1H30M

error[E024]: there is no job `fetsh`
 --> shop.yaml:6:18
  |
6 |   nightly: {job: fetsh, cron: "0 0 30 2 *", time_zone: Europe/Berln}
  |                  ^^^^^ did you mean `fetch`?

error[E022]: day-of-month '30', month '2': no such date exists, so it can never fire
 --> shop.yaml:6:31
  |
6 |   nightly: {job: fetsh, cron: "0 0 30 2 *", time_zone: Europe/Berln}
  |                               ^^^^^^^^^^^^ choose days that these months have

error[E018]: time zone 'Europe/Berln' is not known here
 --> shop.yaml:6:56
  |
6 |   nightly: {job: fetsh, cron: "0 0 30 2 *", time_zone: Europe/Berln}
  |                                                        ^^^^^^^^^^^^ did you mean 'Europe/Berlin'?

warning[W004]: the first retry comes 10s after a failure, and the next slot may be 10s after the last: it is dropped then
  --> shop.yaml:10:12
   |
10 |     retry: {max_retries: 3, delay: 10s}
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ retry sooner, or write `retry: none`

error[E010]: expected true or false, and this is `yes`
  --> shop.yaml:11:13
   |
11 |     paused: yes
   |             ^^^ write true or false

error[E004]: the key `often` is given on line 7 and again on line 12
  --> shop.yaml:12:3
   |
12 |   often: {every: 5s, command: ls}
   |   ^^^^^ keep one, or rename one

8 errors, 1 warning in 1 file"""


def test_many_errors_are_shown_as_one_picture() -> None:
    with pytest.raises(DeclarationError) as raised:
        load_text(MANY_ERRORS, now=NOW, file="shop.yaml")
    assert raised.value.render() == PICTURE


def test_a_request_is_kept_as_written_and_comes_back_from_its_stored_form() -> None:
    found = read("""
qsched: 1
jobs:
  long:
    http:
      method: PUT
      url: https://${HOST}/orders/{order.id}
      headers: {Authorization: "Bearer ${TOKEN}", X-Count: 1.10}
      json: {a: 1, b: [x, null, "${T}"]}
      expected_status: [200-299, 304]
      follow_redirects: 0
      max_response: 1000
    retry: {max_retries: 3, retry_on: [http.429, http.5xx, TimeoutError]}
triggers:
  short: {every: 10s, http: "https://shop.example/health"}
  nightly: {every: 1h, job: long, data: {order: {id: 1}}}
""")
    long, short = jobs(found)["long"], jobs(found)["short"]
    assert (long.kind, long.target) == ("http", "https://${HOST}/orders/{order.id}")
    assert long.request == {
        "method": "PUT",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Count": "1.10"},
        "json": {"a": 1, "b": ["x", None, "${T}"]},
        "expected_status": ["200-299", "304"],
        "follow_redirects": 0,
        "max_response": 1000,
    }
    assert (short.kind, short.target, short.request) == ("http", "https://shop.example/health", {})
    for job in (long, short):
        assert JobDefinition.from_spec(job.name, job.to_spec()) == job
