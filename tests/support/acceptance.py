"""The main promise on real processes: one YAML of one-second triggers, several nodes, every slot once (B01)."""

import threading
from dataclasses import dataclass
from pathlib import Path

from qsched.scheduler.clock import SystemClock
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from .ledger import Judgement, Ledger, judge_runs
from .nodes import JOBS, Nodes
from .slots import expected
from .waiting import wait_until

TRIGGERS = 20


@dataclass(frozen=True)
class Result:
    """What one run showed: by the ledger, by the store, by the nodes' ends."""

    judgement: Judgement
    rows_missing: int
    rows_double: int
    rows_other: int
    """Rows of the window that are anything but a regular, succeeded firing of one slot."""
    exit_codes: list[int]
    troubles: list[str]


def write_yaml(folder: Path, triggers: int = TRIGGERS) -> tuple[Path, list[str]]:
    """A file of one-second triggers, half of each kind, and their keys."""
    lines = [
        "qsched: 1",
        "jobs:",
        f"  note: {{python: '{JOBS}:note', data: {{ledger: '{folder / 'ledger'}'}}}}",
    ]
    lines.append("triggers:")
    keys = [f"t{number:02}" for number in range(triggers)]
    for number, key in enumerate(keys):
        schedule = "every: 1s" if number % 2 else "quartz: '* * * * * ?'"
        lines.append(f"  {key}: {{job: note, {schedule}}}")
    file = folder / "qsched.yaml"
    file.write_text("\n".join(lines) + "\n")
    return file, keys


def four_nodes(nodes: Nodes, file: Path, *arguments: str) -> None:
    """Four `qsched node` processes, all with the file and these arguments."""
    for number in range(4):
        nodes.start(f"node{number}", *arguments, file=file)
    for node in nodes.all:
        node.wait_ready()


def forked_workers(nodes: Nodes, file: Path, how: str) -> None:
    """Four forked workers of one application; the file is applied beforehand, as a deploy does."""
    from qsched.scheduler.apply import apply
    from qsched.triggers.declaration import load

    store = open_store(nodes.url, create=True)
    apply(store, load([file], now=SystemClock().wall()), who="test")
    store.close()
    nodes.start_forked("workers", how, "4").wait_ready(5 if how == "started" else 4)


def run_for(nodes: Nodes, keys: list[str], seconds: int, working: int) -> Result:
    """Watch `working` nodes for so many whole seconds, stop them, and compare with an independent list of slots.

    The watch begins when each has run something: in a few seconds chance may leave one of them without.
    """
    ledger = Ledger(nodes.folder / "ledger")
    wait_until(
        lambda: len({line["node"] for line in ledger.lines()}) >= working,
        f"a first run on each of {working} nodes",
        within=60,
    )
    first = (SystemClock().wall() // SECOND + 2) * SECOND
    last = first + (seconds - 1) * SECOND
    threading.Event().wait((last + 1.5 * SECOND - SystemClock().wall()) / SECOND)
    codes = nodes.stop()
    wanted = expected(keys, first, last, SECOND)
    judgement = judge_runs(ledger.lines("ran"), wanted, SECOND)
    store = open_store(nodes.url, create=False)
    try:
        return Result(judgement, *_compared(store, wanted, first, last), codes, nodes.troubles())
    finally:
        store.close()


def _compared(store: Store, wanted: set[tuple[str, int]], first: int, last: int) -> tuple[int, int, int]:
    """(missing, double, other) among the ledger's rows of the window."""
    rows = store.read(
        "firings",
        lambda tx: [
            tuple(row)
            for row in tx.run(
                "SELECT trigger_name, scheduled_at, state, reason, covers, attempt FROM qsched_firings"
                " WHERE scheduled_at >= ? AND first_scheduled_at <= ?",
                first,
                last,
            )
        ],
    )
    found = [(row[0], row[1]) for row in rows]
    other = sum(row[2:] != ("succeeded", "schedule", 1, 0) for row in rows)
    return len(wanted - set(found)), len(found) - len(set(found)), other
