"""What the cluster under test is given to do: about forty triggers of every kind, as a file, and as facts for the checker."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

JOBS = "fault.fault_jobs"
ELSEWHERE = "fault.fault_elsewhere"
LIMITS = {"heavy": 2}
"""How many firings of a group's jobs run at once."""
COUNTED = "counted"
"""The job that counts its runs in what it keeps, and is followed."""
FOLLOWERS = {"after_any": "any", "after_good": "succeeded", "after_bad": "failed"}
"""The triggers that follow it, and which ends."""
POISONED = "poisoned_2"
"""A trigger whose row is spoilt by hand once all nodes work."""
SECRET = "FAULT_SECRET"
"""The variable that one job's data name; its value must be found nowhere."""


@dataclass(frozen=True)
class JobFacts:
    """One job of the file."""

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    function: str = "work"
    recovery: bool = False
    overlap: str = "allow"
    delays: tuple[float, ...] = ()
    """Seconds before each retry, as declared."""
    process: bool = False
    group: str = "default"
    keeps: bool = False

    def declared(self) -> dict[str, Any]:
        module = ELSEWHERE if self.function == "work_elsewhere" else JOBS
        said: dict[str, Any] = {"python": f"{module}:{self.function}"}
        if self.data:
            said["data"] = dict(self.data)
        if self.recovery:
            said["request_recovery"] = True
        if self.overlap != "allow":
            said["overlap"] = self.overlap
        if self.delays:
            said["retry"] = {"delays": [f"{round(delay * 1000)}ms" for delay in self.delays]}
        if self.process:
            said["run_in"] = "process"
        if self.group in LIMITS:
            said["group"] = self.group
        if self.keeps:
            said["persist_data"] = True
        return said


@dataclass(frozen=True)
class TriggerFacts:
    """One trigger: its schedule in plain arithmetic (`every`: seconds since the epoch; `quartz`: seconds of each minute)."""

    key: str
    job: str
    every: int = 0
    seconds: tuple[int, ...] = ()
    at: int = 0
    """A single slot, µs."""
    policy: str = "fire_once"
    threshold: float = 60.0
    after: str = ""
    """The job that it follows: it has no slots."""

    def declared(self) -> dict[str, Any]:
        said: dict[str, Any] = {"job": self.job}
        if self.after:
            said["after"] = {"job": self.after, "on": FOLLOWERS[self.key]}
        elif self.every:
            said["every"] = f"{self.every}s"
        elif self.seconds:
            said["quartz"] = f"{','.join(map(str, self.seconds))} * * * * ?"
        else:
            said["at"] = _rfc3339(self.at)
        if self.threshold != 60.0:
            said["misfire"] = {"policy": self.policy, "threshold": f"{round(self.threshold * 1000)}ms"}
        return said


@dataclass(frozen=True)
class Workload:
    """All of it."""

    jobs: tuple[JobFacts, ...]
    triggers: tuple[TriggerFacts, ...]

    def write(self, file: Path) -> None:
        """As a declaration; JSON is YAML."""
        said = {
            "qsched": 1,
            "namespace": "fault",
            "groups": {name: {"limit": limit} for name, limit in LIMITS.items()},
            "jobs": {job.name: job.declared() for job in self.jobs},
            "triggers": {trigger.key: trigger.declared() for trigger in self.triggers},
        }
        file.write_text(json.dumps(said, indent=1))

    def facts(self) -> dict[str, Any]:
        return {
            "jobs": [asdict(job) for job in self.jobs],
            "triggers": [asdict(each) for each in self.triggers],
        }

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "Workload":
        jobs = tuple(JobFacts(**{**job, "delays": tuple(job["delays"])}) for job in facts["jobs"])
        triggers = tuple(
            TriggerFacts(**{**each, "seconds": tuple(each["seconds"])}) for each in facts["triggers"]
        )
        return cls(jobs, triggers)


_TOGETHER = (
    JobFacts("heavy", {"seconds": 0.8}, group="heavy"),
    JobFacts("heavy_again", {"seconds": 0.8}, recovery=True, group="heavy"),
    JobFacts("heavy_alone", {"seconds": 0.4}, overlap="queue", group="heavy"),
    JobFacts(
        COUNTED,
        {"seconds": 0.2, "fail": 0.1},
        function="count",
        recovery=True,
        overlap="queue",
        keeps=True,
    ),
    JobFacts("follows", {"seconds": 0.02}, recovery=True),
)
"""Jobs that share the permits of a group, that keep data, and that run behind another."""


def workload(start: int, seconds: float, lease: float, *, processes: bool = False) -> Workload:
    """The load of one run that begins at `start` (µs) and lasts so long."""
    jobs = [
        JobFacts("tick", {"seconds": 0.005, "token": f"${{{SECRET}}}"}),
        JobFacts("brisk", {"seconds": 0.05}, function="work_async"),
        JobFacts("once", {"seconds": 0.02}, recovery=True),
        JobFacts("slow", {"seconds": round(lease * 0.8, 2)}),
        JobFacts("slow_again", {"seconds": round(lease * 0.8, 2)}, recovery=True),
        JobFacts("slow_async", {"seconds": round(lease * 0.7, 2)}, function="work_async", recovery=True),
        JobFacts("deaf", {"seconds": round(lease * 1.6, 2), "deaf": True}, recovery=True),
        JobFacts("deaf_once", {"seconds": round(lease * 1.6, 2), "deaf": True}),
        JobFacts("alone", {"seconds": 0.25}, overlap="queue"),
        JobFacts("alone_again", {"seconds": 0.8}, overlap="queue", recovery=True),
        JobFacts(
            "alone_deaf", {"seconds": round(lease * 1.3, 2), "deaf": True}, overlap="queue", recovery=True
        ),
        JobFacts("alone_skip", {"seconds": 0.7}, overlap="skip", recovery=True),
        JobFacts("alone_cancel", {"seconds": 2.5}, overlap="cancel"),
        JobFacts("flaky", {"fail": 0.3}, delays=(0.3, 0.3, 0.3)),
        JobFacts(
            "flaky_later", {"fail": 0.3, "seconds": 0.1}, recovery=True, delays=(0.2, 0.4, 0.8, 1.0, 1.0)
        ),
        JobFacts("hopeless", {"fail": 1.0}, delays=(0.2, 0.4)),
        JobFacts("rude", {"exits": True}),
        JobFacts("hog", {"seconds": lease * 2}, function="hog"),
        JobFacts("elsewhere", {"seconds": 0.05}, function="work_elsewhere"),
        *_TOGETHER,
    ]
    if processes:
        jobs += [
            JobFacts("apart", {"seconds": round(lease * 0.7, 2), "beats": True}, recovery=True, process=True),
            JobFacts(
                "apart_alone",
                {"seconds": round(lease * 1.2, 2), "beats": True},
                overlap="queue",
                recovery=True,
                process=True,
            ),
        ]
    return Workload(tuple(jobs), tuple(_triggers(start, seconds, processes=processes)))


def _triggers(start: int, seconds: float, *, processes: bool) -> list[TriggerFacts]:
    found = [TriggerFacts(f"tick_{n}", "tick", every=1) for n in range(6)]
    found += [TriggerFacts(f"even_{n}", "tick", seconds=tuple(range(0, 60, 2))) for n in range(2)]
    found += [
        TriggerFacts("sevens", "once", seconds=tuple(range(0, 60, 7))),
        TriggerFacts("elevens", "tick", seconds=tuple(range(3, 60, 11))),
        TriggerFacts("odd_times", "brisk", seconds=(0, 1, 5, 8, 13, 21, 34, 55)),
        TriggerFacts("brisk_1", "brisk", every=1),
        TriggerFacts("brisk_3", "brisk", every=3),
        TriggerFacts("slow_2", "slow", every=2),
        TriggerFacts("slow_again_2", "slow_again", every=2),
        TriggerFacts("slow_again_3", "slow_again", every=3),
        TriggerFacts("slow_async_3", "slow_async", every=3),
        TriggerFacts("deaf_4", "deaf", every=4),
        TriggerFacts("deaf_7", "deaf", every=7),
        TriggerFacts("deaf_once_5", "deaf_once", every=5),
        TriggerFacts("alone_1", "alone", every=1),
        TriggerFacts("alone_3", "alone", every=3),
        TriggerFacts("alone_again_2", "alone_again", every=2),
        TriggerFacts("alone_again_5", "alone_again", every=5),
        TriggerFacts("alone_deaf_4", "alone_deaf", every=4),
        TriggerFacts("alone_skip_1", "alone_skip", every=1),
        TriggerFacts("alone_cancel_4", "alone_cancel", every=4),
        TriggerFacts("flaky_3", "flaky", every=3),
        TriggerFacts("flaky_later_6", "flaky_later", every=6),
        TriggerFacts("hopeless_4", "hopeless", every=4),
        TriggerFacts("rude_5", "rude", every=5),
        TriggerFacts("hog", "hog", every=86_400),  # fired by hand
        TriggerFacts("elsewhere_2", "elsewhere", every=2),
        TriggerFacts(POISONED, "tick", every=2),
        TriggerFacts("heavy_2", "heavy", every=2),
        TriggerFacts("heavy_again_3", "heavy_again", every=3),
        TriggerFacts("heavy_alone_3", "heavy_alone", every=3),
        TriggerFacts("counted_1", COUNTED, every=1),
    ]
    found += [TriggerFacts(key, "follows", after=COUNTED) for key in FOLLOWERS]
    for policy in ("fire_once", "fire_all", "skip"):
        found += [
            TriggerFacts(f"{policy}_{n}", "tick", every=1, policy=policy, threshold=2.0) for n in range(3)
        ]
    spread = max(1, int(seconds // 8))
    found += [
        TriggerFacts(f"at_{n}", "once", at=start + (8 * n + 5) * 1_000_000 + 123_456) for n in range(spread)
    ]
    if processes:
        found += [
            TriggerFacts("apart_3", "apart", every=3),
            TriggerFacts("apart_alone_5", "apart_alone", every=5),
        ]
    return found


def _rfc3339(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1_000_000, UTC).isoformat().replace("+00:00", "Z")
