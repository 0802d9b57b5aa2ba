"""A thousand firings that end in every way there is leave nothing behind: no row, no permit, no place, no process (B07)."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from qsched.cluster.services import Services
from sqlalchemy.pool import QueuePool

from qsched import Node
from support.declared import rows
from support.fired import Fired
from support.http_server import serving
from support.waiting import wait_until

HERE = "support.containment_jobs"
JOBS = f"""\
  well: {{python: "{HERE}:in_thread", data: {{deed: well}}}}
  alone: {{python: "{HERE}:in_thread", data: {{deed: well}}, overlap: queue}}
  alone_and_bad: {{python: "{HERE}:in_thread", data: {{deed: bottom}}, overlap: queue}}
  raises: {{python: "{HERE}:in_thread", data: {{deed: system_exit}}}}
  again: {{python: "{HERE}:in_thread", data: {{deed: mute}}, retry: {{max_retries: 2, delay: 10ms}}}}
  on_loop: {{python: "{HERE}:on_loop", data: {{deed: well}}}}
  raises_on_loop: {{python: "{HERE}:on_loop", data: {{deed: keyboard_interrupt}}}}
  late: {{python: "{HERE}:waits", timeout: 20ms}}
  late_on_loop: {{python: "{HERE}:waits_on_loop", timeout: 20ms, overlap: queue}}
  late_in_process: {{python: "{HERE}:waits_in_process", timeout: 20ms}}
  stopped: {{python: "{HERE}:waits"}}
  stopped_on_loop: {{python: "{HERE}:waits_on_loop", overlap: queue}}
  in_process: {{python: "{HERE}:in_process", data: {{deed: well}}}}
  dies: {{python: "{HERE}:in_process", data: {{deed: leave}}, overlap: queue}}
  runs: {{command: "true"}}
  fails: {{command: "sleep 600 & exit 3"}}
  late_command: {{command: "exec sleep 600", timeout: 20ms}}
  stopped_command: {{command: "exec sleep 600"}}
  asks: {{http: "{{url}}/well"}}
  asks_in_vain: {{http: "{{url}}/gone"}}
  late_answer: {{http: {{url: "{{url}}/late"}}, timeout: 20ms}}
"""
MIX = {
    # job: how often of a thousand, how each ends
    "well": (200, "succeeded"),
    "alone": (40, "succeeded"),
    "alone_and_bad": (20, "failed"),
    "raises": (150, "failed"),
    "again": (40, "failed"),
    "on_loop": (150, "succeeded"),
    "raises_on_loop": (100, "failed"),
    "late": (40, "timed_out"),
    "late_on_loop": (20, "timed_out"),
    "late_in_process": (10, "timed_out"),
    "stopped": (40, "cancelled"),
    "stopped_on_loop": (10, "cancelled"),
    "in_process": (40, "succeeded"),
    "dies": (5, "failed"),
    "runs": (30, "succeeded"),
    "fails": (20, "failed"),
    "late_command": (15, "timed_out"),
    "stopped_command": (10, "cancelled"),
    "asks": (30, "succeeded"),
    "asks_in_vain": (20, "failed"),
    "late_answer": (10, "timed_out"),
}


def test_the_mix_is_a_thousand() -> None:
    assert sum(count for count, _ in MIX.values()) == 1000


@pytest.fixture
def url() -> Iterator[str]:
    """A server that says yes, no, or nothing for a while."""

    def answer(asked: Any) -> None:
        if asked.path == "/late":
            server.over.wait(60)
        asked.answer(200 if asked.path == "/well" else 404)

    with serving(answer) as server:
        yield server.url


def in_long_form(database: str) -> object:
    return pytest.param(database, marks=pytest.mark.long)


@pytest.mark.parametrize("database", ["postgresql", in_long_form("mariadb"), in_long_form("sqlite")])
def test_a_thousand_mixed_outcomes_leave_nothing(
    database: str, request: pytest.FixtureRequest, tmp_path: Path, url: str
) -> None:
    store_url = str(request.getfixturevalue(f"{database}_url"))
    counts = {name: count for name, (count, _) in MIX.items()}
    threads, children = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
    with Fired(tmp_path, store_url, JOBS.replace("{url}", url)) as stage:
        wanted = [name for turn in range(max(counts.values())) for name in counts if turn < counts[name]]
        for name in wanted:
            stage.fire(name)
        node = Node(
            store_url,
            app=[HERE],
            allow=["command", "http"],
            http_allow=["127.0.0.1"],
            capacity=20,
            name="one",
        )
        with node:
            assert node.wait_ready(60)
            services = node._life.services
            assert services is not None
            _stop_the_stopped(services, stage)
            assert node.wait_idle(60)
            _nothing_in_hand(services)
        outcomes = Counter(rows(stage.store, "SELECT trigger_name, outcome FROM qsched_firings"))
        assert outcomes == {(name, MIX[name][1]): count for name, count in counts.items()}
        assert rows(stage.store, "SELECT count(*) FROM qsched_firings WHERE finished_at IS NULL") == [(0,)]
        assert rows(stage.store, "SELECT count(*) FROM qsched_permits WHERE firing_id IS NOT NULL") == [(0,)]
        retried = rows(stage.store, "SELECT count(*) FROM qsched_attempts")
        assert retried == [(2 * counts["again"],)]
    wait_until(lambda: set(psutil.Process().children(recursive=True)) <= children, "no process to be left")
    wait_until(lambda: not _ours(set(threading.enumerate()) - threads), "no thread to be left")


def _stop_the_stopped(services: Services, stage: Fired) -> None:
    """Cancel what is there to be cancelled, as it begins, until everything has ended."""

    def all_ended() -> bool:
        for entry in services.pool.running():
            if entry.request.job.name.startswith("stopped") and entry.began is not None:
                services.pool.cancel(entry.request.firing_id, "stopped by ada")
        open_rows = "SELECT count(*) FROM qsched_firings WHERE finished_at IS NULL"
        return rows(stage.store, open_rows) == [(0,)]

    wait_until(all_ended, "all of them to end", within=240)


def _nothing_in_hand(services: Services) -> None:
    assert services.parts.hand.idle()
    assert services.parts.hand.running() == 0
    assert services.pool.running() == []
    assert services.pool.free == services.pool.capacity
    pools = [engine.pool for engine in services.parts.store._engines.values()]
    queues = [
        pool for pool in pools if isinstance(pool, QueuePool)
    ]  # an SQLite file has one connection a lane
    assert queues or services.parts.store.file is not None
    wait_until(lambda: not any(pool.checkedout() for pool in queues), "connections to be given back")


def _ours(threads: set[threading.Thread]) -> list[str]:
    return [thread.name for thread in threads if thread.name.startswith("qsched")]
