"""Rolling deploys under load: no double run, no lost slot, no retry burnt, nothing called lost, no body beside its successor."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from support.declared import rows
from support.ledger import Judgement, Ledger, judge_runs
from support.nodes import JOBS, NodeProcess, Nodes
from support.slots import expected
from support.waiting import wait_until

YAML = """
qsched: 1
jobs:
  note: {{python: "{jobs}:note", data: {{ledger: "{ledger}"}}, retry: {{max_retries: 3, delay: 1s}}}}
  long:
    python: "{jobs}:linger"
    data: {{ledger: "{ledger}", seconds: 5}}
    request_recovery: true
    retry: {{max_retries: 3, delay: 1s}}
triggers:
{triggers}
"""
SHORT = [f"t{number}" for number in range(10)]
"""One-second triggers of a job that is over at once."""
LONG = [f"l{number}" for number in range(5)]
"""Every four seconds, of a job that lasts longer than a drain waits: each drain breaks some off."""
NODES = 4


class Deploy:
    """Four nodes on one file, replaced one after the other while it goes on firing."""

    def __init__(self, folder: Path, url: str, *options: str) -> None:
        self.ledger = Ledger(folder / "ledger")
        self.nodes = Nodes(folder, url)
        self.options = options
        lines = [f"  {key}: {{job: note, every: 1s}}" for key in SHORT]
        lines += [f"  {key}: {{job: long, every: 4s}}" for key in LONG]
        self.file = folder / "qsched.yaml"
        self.file.write_text(
            YAML.format(jobs=JOBS, ledger=self.ledger.path, triggers="\n".join(lines)),
        )
        self.live: list[NodeProcess] = []
        self.codes: list[int] = []
        self._started = 0

    def __enter__(self) -> "Deploy":
        self.live = [self.start() for _ in range(NODES)]
        for node in self.live:
            node.wait_ready()
        self.store: Store = open_store(self.nodes.url, create=False)
        self.first = (SystemClock().wall() // SECOND + 1) * SECOND
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes.__exit__()
        self.store.close()

    def start(self) -> NodeProcess:
        self._started += 1
        return self.nodes.start(
            f"node{self._started}", "--drain-timeout", "700ms", *self.options, file=self.file
        )

    def roll(self, *, surge: bool) -> None:
        """Replace every node by a new one: with `surge` the new one starts while the old one drains."""
        for number, old in enumerate(self.live):
            old.signal()
            if not surge:
                self.codes.append(old.wait())
            self.live[number] = self.start()
            if surge:
                self.codes.append(old.wait())
            self.live[number].wait_ready()

    def judge(self) -> Judgement:
        """Let all slots up to now run, and compare with an independent list of them."""
        last = SystemClock().wall() // SECOND * SECOND
        wanted = expected(SHORT, self.first, last, SECOND)
        wait_until(
            lambda: wanted <= {(line["trigger"], line["slot"]) for line in self.ledger.lines("ran")},
            "every slot to run",
            within=60,
        )
        return judge_runs(self.ledger.lines("ran"), wanted, SECOND)

    def stop(self) -> None:
        for node in self.live:
            node.signal()
        self.codes += [node.wait() for node in self.live]

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return rows(self.store, statement)


@pytest.fixture
def short(sqlite_url: str, tmp_path: Path) -> Iterator[Deploy]:
    with Deploy(tmp_path, sqlite_url) as deploy:
        yield deploy


def test_a_rolling_deploy_under_load_loses_and_doubles_nothing(short: Deploy) -> None:
    # One that outlasts the roll runs when that begins: on whatever node it is, its drain breaks it off.
    wait_until(lambda: short.ledger.lines("began"), "a long body")
    short.roll(surge=True)
    holds(short)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_rolling_deploys_under_load_lose_and_double_nothing(store_url: str, tmp_path: Path) -> None:
    with Deploy(tmp_path, store_url) as deploy:
        ten_times(deploy)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("elector", ["sql", "redis"])
def test_nor_do_they_where_a_leader_decides_who_resigns_when_its_turn_comes(
    postgresql_url: str, redis_url: str, tmp_path: Path, elector: str
) -> None:
    options = ("--coordination", "leader") if elector == "sql" else ("--redis", redis_url)
    with Deploy(tmp_path, postgresql_url, *options) as deploy:
        ten_times(deploy)
        assert any("leader.resigned" in node.log() for node in deploy.nodes.all)


def ten_times(deploy: Deploy) -> None:
    for number in range(10):
        deploy.roll(surge=number % 2 == 1)
    holds(deploy)


def holds(deploy: Deploy) -> None:
    judged = deploy.judge()
    deploy.stop()
    assert (judged.missing, judged.double, judged.strange, judged.early) == (set(), set(), set(), 0)
    assert 8 in deploy.codes, "no drain broke anything off: this run shows nothing"
    assert set(deploy.codes) <= {0, 8}
    assert deploy.nodes.troubles() == []
    assert deploy.sql("SELECT count(*) FROM qsched_firings WHERE attempt > 0 OR recoveries > 0") == [(0,)]
    assert deploy.sql("SELECT count(*) FROM qsched_attempts WHERE outcome <> 'interrupted'") == [(0,)]
    ended = "SELECT DISTINCT state FROM qsched_firings WHERE state NOT IN ('succeeded', 'due')"
    assert deploy.sql(ended) == []
    assert deploy.sql("SELECT DISTINCT state FROM qsched_nodes") == [("stopped",)]
    each_slot_is_decided_once(deploy)
    no_body_ran_beside_its_successor(deploy)


def each_slot_is_decided_once(deploy: Deploy) -> None:
    """The rows of each trigger cover its slots without a gap and without an overlap."""
    slots: dict[str, list[int]] = defaultdict(list)
    for name, slot, covers in deploy.sql(
        "SELECT trigger_name, scheduled_at, covers FROM qsched_firings ORDER BY scheduled_at"
    ):
        assert covers == 1
        slots[name].append(slot)
    assert set(slots) == {*SHORT, *LONG}
    for name, found in slots.items():
        gap = (1 if name in SHORT else 4) * SECOND
        assert found == list(range(found[0], found[-1] + 1, gap)), name


def no_body_ran_beside_its_successor(deploy: Deploy) -> None:
    """What was broken off began again after its earlier run was settled, under a larger fence; and what ended did so once."""
    settled = {
        (firing, fence): at
        for firing, fence, at in deploy.sql("SELECT firing_id, fence, finished_at FROM qsched_attempts")
    }
    assert settled
    begun: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in deploy.ledger.lines("began"):
        begun[line["firing"]].append(line)
    for firing, runs in begun.items():
        for before, after in pairwise(runs):
            assert before["fence"] < after["fence"]
            assert settled[firing, before["fence"]] <= after["at"]
    ended = [line["firing"] for line in deploy.ledger.lines("ended")]
    assert len(ended) == len(set(ended))
