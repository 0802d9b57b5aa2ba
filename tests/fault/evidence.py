"""All that is known of a finished run, as values: bodies, database changes in order, processes, faults, and one time for all."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .audit import COLUMNS
from .history import lines_of
from .machine import slack
from .timeline import Hands
from .workload import JobFacts, TriggerFacts, Workload

FOREVER = float("inf")


@dataclass(frozen=True)
class Settings:
    """What of a profile the rules are made of; seconds."""

    profile: str
    database: str
    check_in: float
    lease: float
    poll: float = 0.25
    slack: float = 1.0
    """What a loaded machine may add to a formula before it counts as broken; reported beside it."""
    coordination: str | None = None
    capacity: int = 8


@dataclass
class Body:
    """One run of a job's code. Times are monotonic seconds; `until` is its end, or its process's."""

    firing: int
    fence: int
    attempt: int
    pid: int
    node: str
    trigger: str | None
    job: str
    slot: int
    key: str
    recovering: bool
    began: float
    ended: float | None = None
    how: str | None = None
    """ok, raised, exit or told; None where it did not end."""
    told: str | None = None
    until: float = FOREVER
    beaten: float | None = None
    """The last sign of life of a body that gives any."""


@dataclass(frozen=True)
class Change:
    """One version of one row, as the database wrote it."""

    seq: int
    at: int
    """Database time, µs."""
    backend: int | None
    table: str
    op: str
    row: dict[str, Any]
    mono: float = 0.0


@dataclass
class Process:
    """One life of a node's process."""

    node: str
    life: int
    pid: int
    started: float
    ended: float = FOREVER
    code: int | None = None
    killed: float | None = None
    told: float | None = None
    """When it was first told to stop."""

    @property
    def log(self) -> str:
        """The name of its folder, and of its log."""
        return f"{self.node}-{self.life:02}"


@dataclass(frozen=True)
class Spell:
    """A fault as it really was done."""

    n: int
    kind: str
    target: str
    began: float
    ended: float
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Evidence:
    """One run."""

    settings: Settings
    load: Workload
    lines: list[dict[str, Any]]
    bodies: list[Body]
    changes: list[Change]
    final: dict[str, list[dict[str, Any]]]
    processes: list[Process]
    spells: list[Spell]
    hands: Hands
    logs: dict[str, str] = field(default_factory=dict)
    server_log: str = ""
    leaks: list[str] = field(default_factory=list)
    """Files in which the secret was found."""
    derived: dict[str, Any] = field(default_factory=dict)
    """What was worked out of all this once."""

    # -- by key --------------------------------------------------------------------------------------------------------

    @cached_property
    def jobs(self) -> dict[str, JobFacts]:
        return {job.name: job for job in self.load.jobs}

    @cached_property
    def triggers(self) -> dict[str, TriggerFacts]:
        return {trigger.key: trigger for trigger in self.load.triggers}

    @cached_property
    def of_table(self) -> dict[str, list[Change]]:
        found: dict[str, list[Change]] = defaultdict(list)
        for change in self.changes:
            found[change.table].append(change)
        return found

    @cached_property
    def of_firing(self) -> dict[int, list[Change]]:
        """Each firing's versions, in order."""
        found: dict[int, list[Change]] = defaultdict(list)
        for change in self.of_table["firings"]:
            found[change.row["id"]].append(change)
        return found

    @cached_property
    def of_node(self) -> dict[int, list[Change]]:
        """Each incarnation's versions, in order."""
        found: dict[int, list[Change]] = defaultdict(list)
        for change in self.of_table["nodes"]:
            found[change.row["incarnation"]].append(change)
        return found

    @cached_property
    def body_of(self) -> dict[tuple[int, int], list[Body]]:
        """{(firing, fence): bodies}; more than one is a violation."""
        found: dict[tuple[int, int], list[Body]] = defaultdict(list)
        for body in self.bodies:
            found[body.firing, body.fence].append(body)
        return found

    @cached_property
    def ended_attempts(self) -> dict[tuple[int, int], dict[str, Any]]:
        """{(firing, fence): the attempts row}."""
        return {(row["firing_id"], row["fence"]): row for row in self.final["attempts"]}

    def process_of(self, incarnation: int) -> Process | None:
        """The process that registered this incarnation."""
        versions = self.of_node.get(incarnation)
        if not versions:
            return None
        first = versions[0]
        found = [
            each
            for each in self.processes
            if each.pid == first.row["pid"] and each.started - 0.5 <= first.mono <= each.ended + 0.5
        ]
        return found[-1] if found else None

    def working_from(self, process: Process) -> float:
        """When this process's node had registered and found its feet; its end where it never did."""
        first = [
            versions[0].mono
            for incarnation, versions in self.of_node.items()
            if versions[0].row["pid"] == process.pid and self.process_of(incarnation) is process
        ]
        return min(first, default=process.ended) + 3 * self.settings.check_in

    def moment(self, what: str) -> dict[str, Any] | None:
        """The first line that says so."""
        return next((line for line in self.lines if line["what"] == what), None)

    def said(self, what: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["what"] == what]

    def of_kinds(self, *kinds: str) -> list[Spell]:
        return [spell for spell in self.spells if spell.kind in kinds]


def read(folder: Path) -> Evidence:
    """The evidence of the run in `folder`."""
    facts = json.loads((folder / "facts.json").read_text())
    profile = facts["profile"]
    lines = lines_of(folder / "history.jsonl")
    hands = Hands.of(lines)
    processes = _processes(lines)
    nodes = sorted((folder / "nodes").glob("*/")) if (folder / "nodes").exists() else []
    return Evidence(
        settings=Settings(
            profile["name"],
            profile["database"],
            profile["check_in"],
            profile["lease"],
            coordination=profile["coordination"],
            capacity=profile["capacity"],
            slack=slack([line["load"] for line in lines if "load" in line]),
        ),
        load=Workload.of_facts(facts),
        lines=lines,
        bodies=_bodies([line for node in nodes for line in lines_of(node / "bodies.jsonl")], processes),
        changes=_changes(lines_of(folder / "audit.jsonl"), hands),
        final={table: lines_of(folder / f"final_{table}.jsonl") for table in COLUMNS},
        processes=processes,
        spells=_spells(lines),
        hands=hands,
        logs={node.name: (node / "log").read_text(errors="replace") for node in nodes},
        server_log=_text(folder / "server.log"),
        leaks=_leaks(folder),
    )


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _changes(found: list[dict[str, Any]], hands: Hands) -> list[Change]:
    changes, last = [], None
    for line in found:
        last = hands.mono(line["at"], near=last)
        changes.append(Change(**line, mono=last))
    return changes


def _processes(lines: list[dict[str, Any]]) -> list[Process]:
    found: dict[tuple[str, int], Process] = {}
    for line in lines:
        key = (line.get("node", ""), line.get("life", 0))
        if line["what"] == "started":
            found[key] = Process(line["node"], line["life"], line["pid"], line["mono"])
        elif line["what"] == "ended":
            found[key].ended, found[key].code = line["mono"], line["code"]
        elif line["what"] == "killed":
            found[key].killed = line["mono"]
        elif line["what"] == "told_to_stop" and found[key].told is None:
            found[key].told = line["mono"]
    for process in found.values():
        if process.killed is not None:
            process.ended = min(process.ended, process.killed)
    return list(found.values())


def _spells(lines: list[dict[str, Any]]) -> list[Spell]:
    healed = {line["n"]: line for line in lines if line["what"] == "healed"}
    found = []
    for line in lines:
        if line["what"] == "fault":
            end = healed.get(line["n"])
            if end is not None and end["unmet"]:
                continue  # a cut that met no COMMIT is no fault
            until = FOREVER if end is None else end["mono"]
            found.append(Spell(line["n"], line["kind"], line["target"], line["mono"], until, line["options"]))
    return found


def _bodies(lines: list[dict[str, Any]], processes: list[Process]) -> list[Body]:
    begun: dict[tuple[int, int, int], list[Body]] = defaultdict(list)
    found: list[Body] = []
    for line in sorted(lines, key=lambda line: line["mono"]):
        key = (line["firing"], line["fence"], line["pid"])
        if line["what"] == "begin":
            said = {name: line[name] for name in Body.__annotations__ if name in line}
            body = Body(**said, began=line["mono"])
            begun[key].append(body)
            found.append(body)
        elif line["what"] == "beat" and begun[key]:
            begun[key][-1].beaten = line["mono"]
        elif begun[key]:
            body = begun[key][-1]
            body.ended, body.how, body.told = line["mono"], line["how"], line["told"]
    for body in found:
        body.until = _until(body, processes)
    return found


def _until(body: Body, processes: list[Process]) -> float:
    if body.ended is not None:
        return body.ended
    if body.beaten is not None:
        return body.beaten
    homes = [each for each in processes if each.node == body.node.partition("-")[0]]
    lived = [each.ended for each in homes if each.started <= body.began <= each.ended]
    return lived[-1] if lived else FOREVER


def _leaks(folder: Path) -> list[str]:
    secret = _text(folder / "secret").encode()
    if not secret:
        return []
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "secret" and secret in path.read_bytes()
    ]
