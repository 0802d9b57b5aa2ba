"""Histories written by hand: a small clean one to doctor, so that each rule is seen to catch what it is for."""

import json
from dataclasses import dataclass, field
from typing import Any

from .audit import COLUMNS
from .evidence import Body, Change, Evidence, Process, Settings, Spell
from .timeline import Hands
from .workload import COUNTED, JobFacts, TriggerFacts, Workload

BASE = 1_800_000_000_000_000.0
"""µs: the wall at monotonic zero."""
SECOND = 1_000_000
LEASE, CHECK_IN = 1.5, 0.5

JOBS = (
    JobFacts("tick"),
    JobFacts("again", recovery=True),
    JobFacts("alone", overlap="queue", recovery=True),
    JobFacts("deaf", {"deaf": True}, overlap="queue", recovery=True),
    JobFacts("apart", {"deaf": True}, overlap="queue", recovery=True, process=True),
    JobFacts("flaky", delays=(0.3, 0.3)),
    JobFacts("hog", function="hog"),
    JobFacts(COUNTED, overlap="queue", recovery=True),
)
TRIGGERS = (
    TriggerFacts("tick_1", "tick", every=1),
    TriggerFacts("once_2", "tick", every=2, policy="fire_once", threshold=2.0),
    TriggerFacts("all_2", "tick", every=2, policy="fire_all", threshold=2.0),
    TriggerFacts("skip_2", "tick", every=2, policy="skip", threshold=2.0),
    TriggerFacts("again_5", "again", every=5),
    TriggerFacts("alone_3", "alone", every=3),
    TriggerFacts("flaky_6", "flaky", seconds=(0, 6, 12)),
    TriggerFacts("after_any", "tick", after=COUNTED),
)


def wall(mono: float) -> int:
    """Database time of a moment."""
    return round(BASE + mono * SECOND)


@dataclass
class Story:
    """A history as it grows; what is in its lists may be changed before `evidence` is asked for."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    spells: list[Spell] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    server_log: str = ""
    leaks: list[str] = field(default_factory=list)
    steps: list[tuple[float, float]] = field(default_factory=list)
    _firings: int = 0

    # -- what happens --------------------------------------------------------------------------------------------------

    def write(
        self, table: str, mono: float, op: str = "UPDATE", backend: int | None = None, **row: Any
    ) -> Change:
        """One version of a row: the last one of the same key, with this changed."""
        key = {"nodes": "incarnation", "permits": "permit_key"}.get(table, "id")
        before = self.last(table, key, row[key]) if op == "UPDATE" and table != "attempts" else {}
        said = {**dict.fromkeys(COLUMNS[table]), **before, **row}
        change = Change(len(self.changes) + 1, wall(mono), backend, table, op, said, mono)
        self.changes.append(change)
        return change

    def last(self, table: str, key: str, value: Any) -> dict[str, Any]:
        rows = [change.row for change in self.changes if change.table == table and change.row[key] == value]
        return rows[-1] if rows else {}

    def node(self, name: str, incarnation: int, mono: float, until: float, dead: float | None = None) -> None:
        """A process, its registration, and its check-ins until it ends (or goes silent)."""
        pid = 100 + incarnation
        self.processes.append(Process(name, incarnation, pid, mono - 1, until))
        row: dict[str, Any] = {
            "name": name,
            "pid": pid,
            "state": "up",
            "renew_seq": 1,
            "checked_in_at": wall(mono),
        }
        self.write("nodes", mono, "INSERT", incarnation=incarnation, **row)
        at, number = mono + CHECK_IN, 2
        while at < (until if dead is None else min(until, dead - LEASE)):
            self.write("nodes", at, incarnation=incarnation, renew_seq=number, checked_in_at=wall(at))
            at, number = at + CHECK_IN, number + 1

    def dead(self, incarnation: int, mono: float, kind: str) -> Change:
        return self.write("nodes", mono, incarnation=incarnation, state="dead", dead_verdict=kind)

    def trigger(self, key: str, number: int, mono: float, spec: dict[str, Any] | None = None) -> None:
        """A trigger's row and its clock."""
        said: dict[str, Any] = {
            "group_name": "default",
            "name": key,
            "state": "waiting",
            "spec": json.dumps(spec or {}),
        }
        self.write(
            "triggers", mono, "INSERT", id=number, created_at=wall(mono), updated_at=wall(mono), **said
        )
        self.write("trigger_clocks", mono, "INSERT", id=number, version=1, fires=0, watermark=wall(mono))

    def decide(self, key: str, slots: tuple[int, ...], mono: float, **row: Any) -> int:
        """One decided row for these slots (seconds since the epoch), which runs or is skipped; answers its firing."""
        self._firings += 1
        trigger = next((each for each in TRIGGERS if each.key == key), None)
        job = next(job for job in JOBS if job.name == (trigger.job if trigger else "tick"))
        first, last = slots[0] * SECOND, slots[-1] * SECOND
        said = {
            "trigger_id": 1,
            "trigger_name": key,
            "job_name": job.name,
            "first_scheduled_at": first,
            "scheduled_at": last,
            "covers": len(slots),
            "reason": "schedule",
            "state": "running",
            "run_at": last,
            "fence": 1,
            "attempt": 0,
            "recoveries": 0,
            "incarnation": 1,
            "noticed_at": wall(mono),
            "request_recovery": int(job.recovery),
            "permit_key": None if job.overlap == "allow" else job.name,
        }
        self.write("firings", mono, "INSERT", 1, id=self._firings, **{**said, **row})
        return self._firings

    def body(self, firing: int, began: float, ended: float | None, **said: Any) -> Body:
        """The run of a firing under its present fence."""
        row = self.last("firings", "id", firing)
        body = Body(
            firing=firing,
            fence=row["fence"],
            attempt=row["attempt"],
            pid=100 + row["incarnation"],
            node=f"n{row['incarnation']}",
            trigger=row["trigger_name"],
            job=row["job_name"],
            slot=row["scheduled_at"],
            key=f"uuid/{row['trigger_name']}/{row['scheduled_at']}",
            recovering=row["recoveries"] > 0,
            began=began,
            ended=ended,
            how=None if ended is None else "ok",
            until=float("inf") if ended is None else ended,
        )
        for name, value in said.items():
            setattr(body, name, value)
        self.bodies.append(body)
        return body

    def end(
        self, firing: int, mono: float, state: str = "succeeded", outcome: str = "succeeded", **row: Any
    ) -> None:
        """A final state, or due again: then an attempts row says how this one ended."""
        before = self.last("firings", "id", firing)
        if state == "due":
            ended = {"incarnation": before["incarnation"], "finished_at": wall(mono), "outcome": outcome}
            next_run_at = row.get("run_at", wall(mono))
            who = {"firing_id": firing, "fence": before["fence"], "attempt": before["attempt"]}
            self.write("attempts", mono, "INSERT", **who, **ended, next_run_at=next_run_at)
            self.write("firings", mono, id=firing, state="due", incarnation=None, **row)
        else:
            self.write("firings", mono, backend=1, id=firing, state=state, outcome=outcome, **row)

    def take(self, firing: int, mono: float, incarnation: int) -> None:
        """A due firing runs again."""
        fence = self.last("firings", "id", firing)["fence"] + 1
        self.write("firings", mono, id=firing, state="running", fence=fence, incarnation=incarnation)

    def ran(self, key: str, slot: int, incarnation: int = 1, seconds: float = 0.1) -> int:
        """A slot that ran as it should, 10 ms after its time."""
        mono = slot - BASE / SECOND + 0.01
        firing = self.decide(key, (slot,), mono, incarnation=incarnation)
        self.body(firing, mono + 0.01, mono + 0.01 + seconds)
        self.end(firing, mono + 0.02 + seconds)
        return firing

    # -- what is left of it --------------------------------------------------------------------------------------------

    def evidence(self, coordination: str | None = None) -> Evidence:
        final: dict[str, list[dict[str, Any]]] = {}
        for table in COLUMNS:
            key = {"nodes": "incarnation", "permits": "permit_key", "attempts": "firing_id"}.get(table, "id")
            changes = [change for change in self.changes if change.table == table]
            rows = {
                (change.row[key], change.row["fence"] if table == "attempts" else 0): change.row
                for change in changes
            }
            final[table] = list(rows.values())
        return Evidence(
            settings=Settings("story", "postgresql", CHECK_IN, LEASE, coordination=coordination),
            load=Workload(JOBS, TRIGGERS),
            lines=sorted(self.lines, key=lambda line: line["mono"]),
            bodies=self.bodies,
            changes=self.changes,
            final=final,
            processes=self.processes,
            spells=self.spells,
            hands=Hands(BASE, tuple(self.steps)),
            logs=self.logs,
            server_log=self.server_log,
            leaks=self.leaks,
        )


def slot_at(mono: float) -> int:
    """The whole second (since the epoch) at this moment of a story."""
    return int(BASE // SECOND + mono)


def clean() -> Story:
    """Ten quiet seconds of two nodes: every rule has something to look at, and nothing to say."""
    story = Story()
    story.node("n1", 1, 10.0, 40.0)
    story.node("n2", 2, 10.1, 40.0)
    for number, trigger in enumerate(TRIGGERS, 1):
        story.trigger(trigger.key, number, 12.5)
    for mono in range(13, 34):
        slot = slot_at(mono)
        for trigger in TRIGGERS:
            if trigger.after:
                continue
            due = slot % 60 in trigger.seconds if trigger.seconds else slot % trigger.every == 0
            if due:
                story.ran(trigger.key, slot)
    for what, at in (("all_healed", 28.0), ("at_rest", 31.0), ("ending", 33.5)):
        story.lines.append({"what": what, "mono": at, "wall": wall(at)})
    for mono in range(10, 34):
        story.lines.append({"what": "tick", "mono": float(mono), "wall": wall(mono)})
    return story
