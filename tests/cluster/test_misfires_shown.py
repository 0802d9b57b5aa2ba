"""The same misfires through the command line, as JSON: `triggers list`, `misfires list`, `firings list`."""

import json
import subprocess
import sys
from typing import Any

from qsched.triggers.instant import SECOND, rfc3339
from qsched.triggers.misfire import MisfireRule

from support.hand_node import START, World, every


def shown(world: World, *words: str) -> list[dict[str, Any]]:
    """The items a command answers with."""
    command = [sys.executable, "-m", "qsched", "--store", world.url, "--cluster", world.cluster, *words]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return found


def test_what_a_late_node_did_is_seen_from_the_command_line(world: World) -> None:
    world.apply(
        every("once", 10),
        every("skips", 10, misfire=MisfireRule("skip")),
        every("all", 10, misfire=MisfireRule("fire_all", limit=5)),
        every("seconds", 1),
        every("fine", 40),
    )
    world.pass_time(95.5)
    world.node().work()

    triggers = {item["name"]: item for item in shown(world, "triggers", "list")}
    seen = {name: (item["fires"], item["misfires"]) for name, item in triggers.items()}
    assert seen == {"once": (1, 9), "skips": (0, 9), "all": (5, 9), "seconds": (1, 95), "fine": (2, 0)}
    assert triggers["once"]["last_misfire"] == {
        "scheduled_at": rfc3339(START + 90 * SECOND),
        "first_scheduled_at": rfc3339(START + 10 * SECOND),
        "noticed_at": rfc3339(world.time),
        "late": 85.5,
        "cause": "node_down",
        "policy": "fire_once",
        "decision": "ran the last of 9",
    }
    assert triggers["fine"]["last_misfire"] is None
    assert {item["state"] for item in triggers.values()} == {"waiting"}

    misfires = shown(world, "misfires", "list")
    told = sorted(
        (item["trigger"], item["state"], item["covers"], item["misfire"]["decision"]) for item in misfires
    )
    assert told == [
        ("all", "skipped", 4, "beyond limit"),
        *[("all", "succeeded", 1, "ran each of 5")] * 5,
        ("once", "succeeded", 9, "ran the last of 9"),
        ("seconds", "succeeded", 95, "ran the last of 95"),
        ("skips", "skipped", 9, "skipped 9"),
    ]
    firings = shown(world, "firings", "list")
    assert len(firings) == len(misfires) + 2
    assert [item["reason"] for item in firings if item["misfire"] is None] == ["schedule"] * 2
    (one,) = shown(world, "firings", "list", "--trigger", "once")
    assert one in misfires
