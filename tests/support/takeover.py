"""Real nodes that are killed or stopped in the middle of a job, and how long it takes until another one runs it."""

import signal
import sys
from typing import Any

from qsched.scheduler.clock import SystemClock

from qsched import Scheduler

from .ledger import Ledger
from .nodes import JOBS, NodeProcess, Nodes
from .waiting import wait_until

TAKEOVER_JOBS = "support.takeover_jobs"
DECLARED = f"""\
qsched: 1
jobs:
  hold: {{python: "{TAKEOVER_JOBS}:hold", request_recovery: true}}
  hold_alone: {{python: "{TAKEOVER_JOBS}:hold_alone", request_recovery: true, overlap: queue}}
  fragile: {{python: "{TAKEOVER_JOBS}:fragile"}}
  hog: {{python: "{TAKEOVER_JOBS}:hog"}}
triggers:
  hold: {{job: hold, cron: "0 0 1 1 *"}}
  hold_alone: {{job: hold_alone, cron: "0 0 1 1 *"}}
  fragile: {{job: fragile, cron: "0 0 1 1 *"}}
  hog: {{job: hog, cron: "0 0 1 1 *"}}
"""
"""Said in YAML: what somebody fires by hand before any node has loaded the code knows nothing of its decorator."""

_clock = SystemClock()


class Rivals:
    """The nodes of one cluster; `pace` is their (check-in, lease).

    `fire` has a job begin on one of them; what follows is read in a ledger.
    """

    def __init__(
        self, nodes: Nodes, cluster: str, *, pace: tuple[str, str] = ("1s", "15s"), capacity: int = 2
    ) -> None:
        self.nodes = nodes
        self.cluster = cluster
        check_in, lease = pace
        self._arguments = ("--check-in", check_in, "--lease", lease, "--capacity", str(capacity))
        self._client = Scheduler(nodes.url, cluster=cluster)
        self._started = 0
        self.living: list[NodeProcess] = []
        self.ledger = Ledger(nodes.folder / f"{cluster}.ledger")

    def __enter__(self) -> "Rivals":
        file = self.nodes.folder / f"{self.cluster}.yaml"
        file.write_text(DECLARED)
        self._client.apply(file)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def start(self, name: str | None = None, *, url: str | None = None) -> NodeProcess:
        """One more node; `url` is its own way to the store."""
        self._started += 1
        store = url or self.nodes.url
        command = [
            sys.executable,
            "-m",
            "qsched",
            "--store",
            store,
            "--cluster",
            self.cluster,
            "node",
        ]
        command += ["--app", JOBS, "--app", TAKEOVER_JOBS, *self._arguments]
        if name is not None:
            command += ["--name", name]
        node = self.nodes.launch(f"{self.cluster}-{self._started}", command)
        self.living.append(node)
        return node

    def start_ready(self, count: int = 2) -> list[NodeProcess]:
        """So many nodes that are ready."""
        started = [self.start() for _ in range(count)]
        for node in started:
            node.wait_ready()
        return started

    def fire(self, job: str = "hold", **data: Any) -> int:
        """Have a job begin somewhere; the firing's id."""
        return self._client.fire(job, data={"ledger": str(self.ledger.path), **data})

    def began(self, firing: int, fence: int = 1, within: float = 60.0) -> dict[str, Any]:
        """The line of a run's beginning, as soon as it is there."""
        return self._line("began", firing, fence, within)

    def ended(self, firing: int, fence: int = 1, within: float = 60.0) -> dict[str, Any]:
        return self._line("ended", firing, fence, within)

    def lines(self, what: str, firing: int) -> list[dict[str, Any]]:
        return [line for line in self.ledger.lines(what) if line["firing"] == firing]

    def _line(self, what: str, firing: int, fence: int, within: float) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [line for line in self.lines(what, firing) if line["fence"] == fence]
            return bool(found)

        wait_until(look, f"run {fence} of firing {firing} to have {what}", within=within)
        return found[0]

    def node_of(self, line: dict[str, Any]) -> NodeProcess:
        """The node that wrote a line."""
        return next(node for node in self.living if node.pid == line["pid"])

    def kill(self, node: NodeProcess) -> int:
        """kill -9; the instant (µs) of it."""
        self.living.remove(node)
        at = _clock.wall()
        node.signal(signal.SIGKILL)
        return at

    def stop(self, node: NodeProcess) -> int:
        """SIGSTOP: its sockets, and so its session lock, stay; the instant (µs) of it."""
        at = _clock.wall()
        node.signal(signal.SIGSTOP)
        return at


def states(url: str, cluster: str) -> list[dict[str, Any]]:
    """The firings of a cluster as `firings list` tells them, oldest first."""
    from qsched.scheduler.store.firing_reports import Wanted, firings
    from qsched.scheduler.store.schema import open_store

    store = open_store(url, cluster=cluster, create=False, read_only=True)
    try:
        return sorted(firings(store, Wanted()), key=lambda item: item["id"])
    finally:
        store.close()
