"""What the lists say: every field of the JSON contract, misfires at a glance, bad rows shown as such, nothing changed."""

import json
from typing import Any

import pytest
from qsched.triggers.instant import DAY, HOUR, SECOND

from support.command_line import NOW, SHOP, Command, Filled, copies, misfired

TRIGGER_FIELDS = [
    *("name", "group", "job", "schedule", "time_zone", "state", "paused", "next_fire_at", "prev_fire_at"),
    *("last_outcome", "fires", "misfires", "last_misfire", "error"),
]
FIRING_FIELDS = [
    *(
        "id",
        "trigger",
        "job",
        "scheduled_at",
        "first_scheduled_at",
        "covers",
        "noticed_at",
        "reason",
        "state",
    ),
    *(
        "outcome",
        "attempt",
        "recovering",
        "node",
        "started_at",
        "finished_at",
        "late",
        "duration",
        "error",
        "misfire",
    ),
]
NODE_FIELDS = [
    *("name", "incarnation", "state", "host", "pid", "checked_in_at", "capacity", "running", "clock_offset"),
    *("leader", "version", "revision"),
]


def test_a_trigger_has_every_field_of_the_contract(qsched: Command, filled: Filled) -> None:
    misfired(filled)
    hourly, nightly = qsched("triggers", "list", "-o", "json").items
    assert list(nightly)[: len(TRIGGER_FIELDS) + 1] == [
        *TRIGGER_FIELDS[:5],
        "namespace",
        *TRIGGER_FIELDS[5:],
    ]
    expected: dict[str, Any] = {
        "name": "nightly",
        "group": "default",
        "job": "j",
        "schedule": "0 2 * * 0",
        "time_zone": "Europe/Istanbul",
        "namespace": "shop",
        "state": "waiting",
        "paused": None,
        "next_fire_at": "2019-12-21T23:00:00Z",
        "prev_fire_at": "2019-12-18T23:59:55Z",
        "last_outcome": "failed",
        "fires": 1,
        "misfires": 9,
        "error": None,
    }
    assert {name: nightly[name] for name in expected} == expected
    assert nightly["last_misfire"] == {
        "scheduled_at": "2019-12-18T23:59:55Z",
        "noticed_at": "2019-12-19T00:00:00Z",
        "late": 85.0,
        "cause": "node_down",
        "policy": "fire_once",
        "decision": "ran the last of 9",
        "first_scheduled_at": "2019-12-18T23:58:35Z",
    }
    assert (hourly["name"], hourly["group"], hourly["schedule"]) == (
        "billing/hourly",
        "billing",
        "quartz 0 0 * * * ?",
    )
    assert hourly["paused"].keys() >= {"at", "by", "until", "reason"}
    assert hourly["next_fire_at"] is None


def test_a_firing_has_every_field_of_the_contract(qsched: Command, filled: Filled) -> None:
    number = misfired(filled)
    (firing,) = qsched("firings", "list", "-o", "json").items
    assert list(firing)[: len(FIRING_FIELDS)] == FIRING_FIELDS
    assert firing["id"] == number
    assert (firing["late"], firing["duration"], firing["covers"]) == (85.0, 1.5, 9)
    assert firing["error"] == {"type": "builtins.OSError", "message": "no route"}
    assert firing["misfire"] == {"cause": "node_down", "policy": "fire_once", "decision": "ran the last of 9"}
    (shown,) = qsched("firings", "show", str(number), "-o", "json").items
    assert {name: shown[name] for name in firing} == firing
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["failed"]


def test_a_firing_shows_the_attempts_that_went_before(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    number = filled.firing("nightly", attempt=1, fence=2, started_at=NOW + 9 * SECOND, state="running")
    filled.sql(
        "INSERT INTO qsched_attempts (firing_id, fence, cluster, attempt, recovering, started_at, finished_at,"
        " outcome, error, note, next_run_at) VALUES (?, 1, 1, 0, 0, ?, ?, 'failed', ?, 'retry 1 of 3', ?)",
        *(number, NOW, NOW + SECOND, '{"type": "OSError", "message": "x"}', NOW + 3 * SECOND),
    )
    (shown,) = qsched("firings", "show", str(number), "-o", "json").items
    first, second = shown["attempts"]
    assert (first["attempt"], first["outcome"], first["duration"]) == (0, "failed", 1.0)
    assert (second["attempt"], second["outcome"], second["finished_at"]) == (1, None, None)
    assert first["error"] == {"type": "OSError", "message": "x", "traceback": None}
    table = qsched("firings", "show", str(number)).out
    states = [line.split()[4:6] for line in table.split("\n\n")[1].splitlines()[1:]]
    assert states == [["due", "0"], ["running", "0"], ["failed", "0"], ["due", "0"], ["running", "1"]]
    assert [step["state"] for step in shown["trail"]] == ["due", "running", "failed", "due", "running"]
    assert "OSError: x" in table
    assert "retry 1 of 3, at 2019-12-19T00:00:03Z" in table


def test_a_node_has_every_field_of_the_contract(qsched: Command, filled: Filled) -> None:
    filled.sql(
        "INSERT INTO qsched_nodes (cluster, name, host, pid, state, started_at, checked_in_at, lease_until, renew_seq,"
        " capacity, running, clock_offset, version) VALUES (?, 'a', 'h', 7, 'up', ?, ?, ?, 1, 20, 3, 4000, '0.1.0')",
        *(filled.store.cluster_id, NOW, NOW, NOW),
    )
    (node,) = qsched("nodes", "list", "-o", "json").items
    assert node["state"] == "silent", "its lease has passed by the clock of the command"
    assert "✖ silent" in qsched("nodes", "list").out
    filled.sql("UPDATE qsched_nodes SET lease_until = ?", 1 << 60)
    (node,) = qsched("nodes", "list", "-o", "json").items
    assert set(node) >= set(NODE_FIELDS)
    assert (node["leader"], node["clock_offset"], node["running"]) == (False, 0.004, 3)
    line = qsched("nodes", "list").out.splitlines()[1]
    assert "● up" in line
    assert "3/20" in line
    assert "+4ms" in line


def test_misfires_are_seen_at_a_glance(qsched: Command, filled: Filled) -> None:
    misfired(filled)
    head, _hourly, nightly = qsched("triggers", "list").out.splitlines()
    for title, cell in [
        ("NEXT", "Sat 21 Dec"),
        ("OUTCOME", "✖ failed"),
        ("MISFIRES", "       9"),
        ("LAST MISFIRE", "Wed 18 Dec"),
        ("LATE", "1m25s"),
        ("DECISION", "ran the last of 9"),
    ]:
        assert nightly[head.index(title) :].startswith(cell) or nightly[head.index(title) - 1 :].startswith(
            cell
        )
    (misfire,) = qsched("misfires", "list", "-o", "json").items
    assert misfire["misfire"]["cause"] == "node_down"
    told = qsched("misfires", "list").out
    assert "node_down" in told
    assert "fire_once" in told


def test_only_firings_that_carry_a_misfire_are_misfires(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    filled.firing("nightly")
    filled.firing(
        "nightly",
        scheduled_at=NOW + DAY,
        state="skipped",
        reason="paused",
        misfire_decision="skipped 3: paused",
    )
    assert qsched("misfires", "list", "-o", "json").items == []
    assert qsched("misfires", "list").err == "no misfires\n"


def test_firings_are_chosen_by_trigger_state_age_and_number(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    old = filled.firing("nightly", scheduled_at=NOW - 3 * DAY)
    new = filled.firing("nightly", scheduled_at=NOW - HOUR, state="failed", outcome="failed")
    other = filled.firing("hourly", scheduled_at=NOW - HOUR)
    by_hand = filled.firing(
        "nightly", trigger_id=None, requested_trigger_id=filled.trigger_id("nightly"), reason="manual"
    )

    def ids(*arguments: str) -> list[int]:
        return [item["id"] for item in qsched("firings", "list", "-o", "json", *arguments).items]

    assert ids() == [by_hand, other, new, old]
    assert ids("--trigger", "nightly") == [by_hand, new, old]
    assert ids("--trigger", "billing/hourly") == [other]
    assert ids("--state", "failed") == [new]
    assert ids("--limit", "2") == [by_hand, other]
    assert ids("--since", "2019-12-18T00:00:00Z") == [by_hand, other, new]
    assert qsched("firings", "list", "--trigger", "nightli").code == 4
    assert "did you mean 'nightly'" in qsched("misfires", "list", "--trigger", "nightli").err


def test_more_firings_than_a_page_come_once_each_and_in_order(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    number = filled.firing("nightly")
    filled.sql(copies("qsched_firings", "id, scheduled_at", "id + n, scheduled_at + n", 4500, number))
    ids = [int(line) for line in qsched("firings", "list", "-o", "name").out.splitlines()]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == len(set(ids)) == 4501
    assert len(qsched("firings", "list", "-o", "name", "--limit", "2001").out.splitlines()) == 2001


def test_jobs_say_what_they_run(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    j, r = qsched("jobs", "list", "-o", "json").items
    assert (j["name"], j["kind"], j["target"], j["triggers"]) == ("j", "command", "true", 1)
    assert (r["kind"], r["target"]) == ("python", "no.such.module:rates")
    assert (r["request_recovery"], r["timeout"], r["overlap"]) == (True, 600.0, "skip")
    assert "no.such.module:rates" in qsched("jobs", "list").out


def test_a_request_is_listed_with_method_and_url_and_without_its_headers(
    qsched: Command, filled: Filled
) -> None:
    request = "{url: 'https://a.example/{id}', json: 1, headers: {X-Key: secret}}"
    filled.declare(
        f"qsched: 1\njobs: {{call: {{http: {request}}}}}\ntriggers: {{t: {{job: call, every: 1h}}}}\n"
    )
    (item,) = qsched("jobs", "list", "-o", "json").items
    assert (item["kind"], item["target"]) == ("http", "POST https://a.example/{id}")
    assert "secret" not in qsched("jobs", "list", "-o", "json").out + qsched("jobs", "list", "-o", "wide").out


@pytest.mark.parametrize(
    ("schedule", "day"),
    [
        ('cron: "0 2 * * 0"', "Sun 22 Dec 2019 02:00:00"),
        ('cron: "0 2 * * 7"', "Sun 22 Dec 2019 02:00:00"),
        ('cron: "0 2 * * SUN"', "Sun 22 Dec 2019 02:00:00"),
        ('cron: "30 7 * * 4"', "Thu 19 Dec 2019 07:30:00"),
        ('quartz: "0 0 2 ? * 1"', "Sun 22 Dec 2019 02:00:00"),
        ('quartz: "0 0 2 ? * 7"', "Sat 21 Dec 2019 02:00:00"),
    ],
)
def test_the_weekday_of_the_next_fire_is_named(
    qsched: Command, filled: Filled, schedule: str, day: str
) -> None:
    filled.declare(f"qsched: 1\njobs: {{j: {{command: 'true'}}}}\ntriggers: {{t: {{job: j, {schedule}}}}}\n")
    assert day in qsched("triggers", "list", "--store", filled.url).out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_an_empty_list_is_a_document_too(qsched: Command, filled: Filled, form: str) -> None:
    import yaml

    said = qsched("triggers", "list", "-o", form)
    assert yaml.safe_load(said.out) == {"apiVersion": "qsched/v1", "kind": "TriggerList", "items": []}


def test_yaml_says_what_json_says(qsched: Command, filled: Filled) -> None:
    import yaml

    misfired(filled)
    document = yaml.safe_load(qsched("triggers", "list", "-o", "yaml").out)
    assert document["items"] == qsched("triggers", "list", "-o", "json").items


def test_names_alone_are_one_key_a_line(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    assert qsched("triggers", "list", "-o", "name").out == "billing/hourly\nnightly\n"


def test_times_are_shown_in_the_zone_asked_for(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    assert "Sun 22 Dec 2019 02:00:00" in qsched("triggers", "list", "--tz", "Europe/Istanbul").out
    assert "Sat 21 Dec 2019 23:00:00" in qsched("triggers", "list").out


def test_an_unknown_cluster_is_said(qsched: Command, filled: Filled) -> None:
    said = qsched("triggers", "list", "--cluster", "defualt")
    assert said.code == 5
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "note", "detail"),
    [
        ('{"type": "OSError", "message": "no route"}', "retries exhausted after 2: OSError: no route", None),
        ('{"type": "JobCancelled", "message": "shutdown"}', "interrupted: shutdown; due again", None),
        ('{"type": "OSError", "message": "no route\\nat all"}', "no retry policy: OSError: no route", None),
        ('{"type": "Empty", "message": ""}', "no retry policy: Empty", None),
        ('{"type": "OSError", "message": "no route"}', None, "OSError: no route"),
        ('{"type": "OSError", "message": "no route"}', "retry 1 of 3", "OSError: no route · retry 1 of 3"),
        (None, "wrote 6 bytes", None),
    ],
)
def test_an_error_is_said_once(
    qsched: Command, filled: Filled, error: str | None, note: str | None, detail: str | None
) -> None:
    filled.declare(SHOP)
    number = filled.firing(
        "nightly", state="failed", outcome="failed", error=error, note=note, started_at=NOW, finished_at=NOW
    )
    for command in (("firings", "list"), ("firings", "show", str(number))):
        assert qsched(*command).out.splitlines()[-1].endswith(f"  {detail or note}")


def test_a_failed_firing_shows_where_its_code_raised(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    trace = 'Traceback (most recent call last):\n  File "shop.py", line 7, in pay\nOSError: no \x1b[31mroute'
    error = json.dumps({"type": "OSError", "message": "no route", "traceback": trace})
    ended: dict[str, Any] = {"state": "failed", "outcome": "failed", "started_at": NOW, "finished_at": NOW}
    number = filled.firing("nightly", error=error, **ended)
    assert "\n\n" + trace.replace("\x1b", " ") in qsched("firings", "show", str(number)).out
    (shown,) = qsched("firings", "show", str(number), "-o", "json").items
    assert shown["attempts"][0]["error"]["traceback"] == trace
    assert "traceback" not in shown["error"], "once is enough"


def test_a_busy_trigger_says_since_when_and_how_many_slots_were_skipped_for_it(
    qsched: Command, filled: Filled
) -> None:
    """B07: the hung run is seen where one looks."""
    filled.declare(SHOP)
    filled.sql(
        "INSERT INTO qsched_nodes (incarnation, cluster, name, host, pid, state, started_at, checked_in_at, lease_until,"
        " renew_seq, capacity, running, clock_offset, version) VALUES (9, ?, 'a', 'h', 7, 'up', ?, ?, ?, 1, 20, 1, 0, '0')",
        *(filled.store.cluster_id, NOW, NOW, 1 << 60),
    )
    number = filled.firing("nightly", state="running", incarnation=9, first_started_at=NOW, started_at=NOW)
    (nightly,) = [
        item for item in qsched("triggers", "list", "-o", "json").items if item["name"] == "nightly"
    ]
    assert nightly["running"] == {
        "firing": number,
        "since": "2019-12-19T00:00:00Z",
        "attempt": 0,
        "node": "a",
        "skipped": 0,
    }
    for slot, covers in ((1, 1), (2, 3)):
        columns = {"state": "skipped", "misfire_cause": "overlap", "misfire_policy": "skip", "covers": covers}
        filled.firing("nightly", scheduled_at=NOW + slot * HOUR, **columns)
    (nightly,) = [
        item for item in qsched("triggers", "list", "-o", "json").items if item["name"] == "nightly"
    ]
    assert nightly["running"]["skipped"] == 4
    words = f"on a (firing {number}), 4 slots skipped"
    assert words in qsched("triggers", "list", "-o", "wide").out
    assert (
        f"\nRunning   since Thu 19 Dec 2019 00:00:00 {words}\n"
        in qsched("triggers", "show", "nightly", "--tz", "UTC").out
    )


def test_show_counts_the_retries_that_were_dropped(qsched: Command, filled: Filled) -> None:
    """B9: a retry that was left and not made is no silence."""
    filled.declare(SHOP)
    for hour, why in enumerate(["superseded", "superseded", "given up"]):
        number = filled.firing("nightly", scheduled_at=NOW + hour * HOUR, state="failed", retry_dropped=why)
    (item,) = qsched("triggers", "show", "nightly", "-o", "json").items
    assert item["retries_dropped"] == {"given up": 1, "superseded": 2}
    assert "Retries dropped  1 given up, 2 superseded\n" in qsched("triggers", "show", "nightly").out
    (firing,) = qsched("firings", "show", str(number), "-o", "json").items
    assert firing["retry_dropped"] == "given up"


def test_a_job_that_no_live_node_can_load_is_said_at_once(qsched: Command, filled: Filled) -> None:
    """B08: what one node cannot load another may; where none can, its triggers say why."""
    filled.declare(SHOP)
    job = filled.sql("SELECT job_id FROM qsched_triggers WHERE name = 'nightly'")[0][0]
    said = json.dumps({job: [NOW, "cannot import shop.jobs:rates"]})
    for incarnation, unloadable in ((8, said), (9, None)):
        filled.sql(
            "INSERT INTO qsched_nodes (incarnation, cluster, name, host, pid, state, started_at, checked_in_at, lease_until,"
            " renew_seq, capacity, running, clock_offset, version, unloadable)"
            " VALUES (?, ?, 'a', 'h', 7, 'up', ?, ?, ?, 1, 20, 1, 0, '0', ?)",
            *(incarnation, filled.store.cluster_id, NOW, NOW, 1 << 60, unloadable),
        )
    assert "cannot import" not in qsched("triggers", "list", "-o", "wide").out
    filled.sql("UPDATE qsched_nodes SET unloadable = ?", said)
    assert (
        "no node can load its job: cannot import shop.jobs:rates"
        in qsched("triggers", "list", "-o", "wide").out
    )
    (item,) = qsched("triggers", "show", "nightly", "-o", "json").items
    assert item["trouble"] == "cannot import shop.jobs:rates"
    assert item["next_fire_at"] is not None
    filled.sql(
        "UPDATE qsched_triggers SET state = 'error', error_kind = 'unloadable', error = 'x' WHERE name = 'nightly'"
    )
    (item,) = qsched("triggers", "show", "nightly", "-o", "json").items
    assert (item["state"], item["next_fire_at"] is None) == ("error", False)
