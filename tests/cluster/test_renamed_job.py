"""A rename or a missing import costs no schedule (B08): nothing is removed, the trouble is shown, putting it back is enough."""

import base64
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.reports import trigger
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tables import metadata

from support.command_line import Command
from support.declared import rows
from support.hand_node import World, every
from support.house import search_path
from support.ledger import Ledger
from support.nodes import NodeProcess, Nodes
from support.waiting import wait_until

_MODULE = """
from qsched import JobContext, job
from support.ledger_jobs import append, said

@job
def first(ctx: JobContext, ledger: str) -> None:
    append(ledger, what="ran", **said(ctx))

@job
def {name}(ctx: JobContext, ledger: str) -> None:
    append(ledger, what="ran", **said(ctx))

@job
def third(ctx: JobContext, ledger: str) -> None:
    append(ledger, what="ran", **said(ctx))
"""
_FILE = """
qsched: 1
jobs:
  first: {{python: "app_jobs:first", data: {{ledger: {ledger}}}}}
  second: {{python: "app_jobs:second", data: {{ledger: {ledger}}}}}
  third: {{python: "app_jobs:third", data: {{ledger: {ledger}}}}}
triggers:
  first: {{job: first, every: 1s}}
  second: {{job: second, every: 1s}}
  third: {{job: third, every: 1s}}
"""


class Deploys:
    """One application whose code changes between the starts of its node, on one store."""

    def __init__(self, nodes: Nodes, ledger: Ledger) -> None:
        self.nodes, self.ledger = nodes, ledger

    def start(self, name: str, *arguments: str, **said: Any) -> NodeProcess:
        """A new node with the code as it is now; nothing is applied unless a file is given."""
        folder = self.nodes.folder
        environment = {"PYTHONPATH": f"{folder}:{search_path()}", "PYTHONDONTWRITEBYTECODE": "1"}
        node = self.nodes.start(name, "--app", "app_jobs", *arguments, environment=environment, **said)
        node.wait_ready()
        return node

    def code(self, name: str) -> None:
        """Write the module with its second function under this name."""
        (self.nodes.folder / "app_jobs.py").write_text(_MODULE.format(name=name))

    def ran(self, node: str) -> set[str]:
        return {line["trigger"] for line in self.ledger.lines("ran") if line["node"] == node}


def listed(qsched: Command) -> dict[str, Any]:
    """{trigger: what `triggers list` says of it}."""
    said = qsched("triggers", "list", "-o", "json")
    assert said.code == 0
    return {item["name"]: item for item in said.items}


def definitions(store: Store) -> list[tuple[Any, ...]]:
    """What nobody may touch, byte for byte."""
    return store.read(
        "definitions",
        lambda tx: [
            *tx.rows("SELECT name, spec, definition_digest, state FROM qsched_triggers ORDER BY name"),
            *tx.rows("SELECT name, spec, spec, state FROM qsched_jobs ORDER BY name"),
        ],
    )


def pickles(store: Store) -> list[str]:
    """The columns of all tables that hold bytes, or text that reads as a pickle."""
    return [
        f"{table.name}.{name}"
        for table in metadata.sorted_tables
        for row in rows(
            store, f"SELECT {', '.join(column.name for column in table.columns)} FROM {table.name}"
        )
        for name, value in zip(table.columns.keys(), row, strict=True)
        if isinstance(value, bytes | bytearray | memoryview) or (isinstance(value, str) and _is_pickle(value))
    ]


_PICKLED = re.compile(r"\x80|gA[I-X]|ccopy_reg\n|c__|\((dp|lp|i_)|[}\]()]q\x00")
"""How a pickle begins: of protocol 2 and later, as bytes or in base64; what protocols 0 and 1 write first."""


def _is_pickle(text: str) -> bool:
    return _PICKLED.match(text) is not None


def test_a_renamed_function_costs_no_schedule_and_putting_it_back_is_enough(
    sqlite_url: str, tmp_path: Path, qsched_process: Command
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    file = tmp_path / "qsched.yaml"
    file.write_text(_FILE.format(ledger=ledger.path))
    with Nodes(tmp_path, sqlite_url) as nodes:
        deploys = Deploys(nodes, ledger)
        deploys.code("second")
        before = deploys.start("before", file=file)
        wait_until(lambda: deploys.ran("before") == {"first", "second", "third"}, "all three to run")
        before.signal()
        assert before.wait() == 0
        store = open_store(sqlite_url, create=False)
        kept = definitions(store)

        deploys.code("renamed")
        renamed = deploys.start("renamed")
        wait_until(lambda: deploys.ran("renamed") == {"first", "third"}, "the two others to run")

        wait_until(lambda: listed(qsched_process)["second"]["trouble"], "the trouble to be told", within=60)
        item = listed(qsched_process)["second"]
        assert "cannot import app_jobs:second" in item["trouble"]
        assert item["next_fire_at"] is not None
        table = qsched_process("triggers", "list", "-o", "wide")
        assert table.code == 0
        assert "cannot import app_jobs:second" in table.out
        assert list(listed(qsched_process)) == ["first", "second", "third"]
        assert definitions(store) == kept
        assert "second" not in deploys.ran("renamed")
        late = [line for line in ledger.lines("ran") if line["node"] == "renamed"]
        assert len({(line["trigger"], line["slot"]) for line in late}) == len(late)
        renamed.signal()
        assert renamed.wait() == 0

        deploys.code("second")
        deploys.start("after")
        wait_until(lambda: deploys.ran("after") == {"first", "second", "third"}, "all three to run again")
        assert definitions(store) == kept
        assert pickles(store) == []
        store.close()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_in_a_store_would_be_noticed(protocol: int) -> None:
    data = pickle.dumps({"python": Deploys}, protocol)
    assert _is_pickle(data.decode("latin-1"))
    assert protocol < 2 or _is_pickle(base64.b64encode(data).decode())
    assert not _is_pickle('{"python": "app_jobs:second"}')


def test_what_nobody_can_load_for_long_is_an_error_that_keeps_its_next_time_and_clears_itself(
    world: World,
) -> None:
    world.apply(every("tick", 60), every("calm", 60, job="other"))
    world.functions["other"] = lambda: None
    node = world.node(cannot=["report"])

    def minutes(count: int) -> None:
        for _ in range(count * 4):
            world.pass_time(15)
            world.hear()
            node.work()
            node.upkeep.step()

    minutes(2)
    soon = trigger(world.store, "tick")
    assert soon is not None
    assert (soon["state"], soon["next_fire_at"]) == ("waiting", "2024-01-10T09:01:00Z")
    assert "cannot import report" in soon["trouble"]
    minutes(10)
    late = trigger(world.store, "tick")
    assert late is not None
    assert (late["state"], late["error_kind"], late["next_fire_at"]) == (
        "error",
        "unloadable",
        "2024-01-10T09:01:00Z",
    )
    assert "cannot import report" in late["error"]
    assert {row[0] for row in world.firings("state", "trigger_name = 'calm'")} == {"succeeded"}
    assert len(world.firings("id", "trigger_name = 'calm'")) == 12
    registry: Any = node.parts.definitions.registry
    registry.cannot.clear()
    minutes(3)
    again = trigger(world.store, "tick")
    assert again is not None
    assert (again["state"], again["error"], again["trouble"], again["last_outcome"]) == (
        "waiting",
        None,
        None,
        "succeeded",
    )
