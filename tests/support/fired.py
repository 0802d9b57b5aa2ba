"""Jobs of one file on real nodes: fired by hand, and what their rows say."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from qsched.scheduler.apply import apply
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.control import fire
from qsched.scheduler.store.schema import open_store
from qsched.triggers.declaration import load

from .declared import rows
from .nodes import NodeProcess, Nodes
from .waiting import wait_until

FINAL = ("succeeded", "failed", "lost", "cancelled", "skipped")


class Fired:
    """A store with the jobs of `yaml` (lines below `jobs:`), each with a trigger of its name that never comes.

    A context manager: it leaves no node behind.
    """

    def __init__(self, folder: Path, url: str, yaml: str, triggers: str = "") -> None:
        self.nodes = Nodes(folder, url)
        names = [
            line.strip().partition(":")[0] for line in yaml.splitlines() if line[:2] == "  " != line[2:4]
        ]
        text = "".join(f'  {name}: {{job: {name}, cron: "0 0 1 1 *"}}\n' for name in names)
        self.file = folder / "qsched.yaml"
        self.file.write_text(f"qsched: 1\njobs:\n{yaml}\ntriggers:\n{text}{triggers}")
        self.store = open_store(url, create=True)
        apply(self.store, load([self.file], now=SystemClock().wall()), who="test")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes.__exit__()
        self.store.close()

    def node(
        self, name: str, *options: str, environment: Mapping[str, str] | None = None, ready: bool = True
    ) -> NodeProcess:
        """A node that has not seen the file."""
        node = self.nodes.start(name, *options, environment=environment)
        if ready:
            node.wait_ready()
        return node

    def fire(self, trigger: str, **data: Any) -> int:
        return fire(self.store, trigger, data=data)

    def row(self, firing: int, columns: str = "state, outcome") -> tuple[Any, ...]:
        (found,) = rows(self.store, f"SELECT {columns} FROM qsched_firings WHERE id = ?", firing)
        return found

    def ended(self, firing: int, columns: str = "state, outcome", within: float = 60.0) -> tuple[Any, ...]:
        """These columns of a firing, once it has ended for good."""
        wait_until(lambda: self.row(firing, "state")[0] in FINAL, f"firing {firing} to end", within=within)
        return self.row(firing, columns)

    def until(self, true: Callable[[], object], what: str, within: float = 60.0) -> None:
        """Wait for what must come true."""
        wait_until(true, what, within=within)
