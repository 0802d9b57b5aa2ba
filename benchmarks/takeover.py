"""How long until another node runs what a dead one was running, against the formulas: `python benchmarks/takeover.py`.

Gone (kill -9): at most 4 × check_in + poll. Silent (stopped, or with `--how blackhole` cut off by a proxy that swallows all it
is given; both keep the session lock): at most lease + 2 × check_in + poll. Several clusters of two nodes each in one database,
a victim at a time in each.
"""

import argparse
import random
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from qsched.scheduler.clock import SystemClock
from qsched.scheduler.store.schema import open_store
from qsched.triggers.duration import parse_duration
from sqlalchemy import make_url

from fault.proxy import Link, Loop
from support.nodes import NodeProcess, Nodes
from support.servers import mariadb_server, postgres_server
from support.takeover import Rivals

STORES = ("sqlite", "postgresql", "mariadb")
POLL = 0.25


@contextmanager
def database(store: str, folder: Path) -> Iterator[str]:
    """An empty store."""
    if store == "sqlite":
        yield f"sqlite:///{folder / 'qsched.db'}"
    elif store == "postgresql":
        with postgres_server() as postgres:
            yield postgres.new_database()
    else:
        with mariadb_server() as mariadb:
            yield mariadb.new_database()


class Measure:
    """What the victims of all clusters have shown."""

    def __init__(self, kills: int, silent: int) -> None:
        self._lock = threading.Lock()
        self._left = {"gone": kills, "silent": silent}
        self.seconds: dict[str, list[float]] = {"gone": [], "silent": []}
        self.troubles: list[str] = []

    def next_victim(self) -> str | None:
        """How the next one is to die; None when there were enough."""
        with self._lock:
            for how, left in self._left.items():
                if left > 0:
                    self._left[how] -= 1
                    return how
        return None

    def note(self, how: str, seconds: float) -> None:
        with self._lock:
            self.seconds[how].append(seconds)

    def trouble(self, text: str) -> None:
        with self._lock:
            self.troubles.append(text)


class Ways:
    """Each node's own way to the server, where hosts are cut off."""

    def __init__(self, url: str, how: str) -> None:
        self._url = make_url(url)
        self._loop = Loop() if how == "blackhole" and self._url.host else None
        self._links: dict[int, Link] = {}

    def start(self, rivals: Rivals) -> None:
        """One more node, that is ready."""
        if self._loop is None:
            rivals.start().wait_ready()
            return
        server = (self._url.get_backend_name(), self._url.port or 0)
        link = Link(self._loop, rivals.cluster, server, lambda *_, **__: None)
        url = self._url.set(host="127.0.0.1", port=link.port)
        node = rivals.start(url=url.render_as_string(hide_password=False))
        self._links[node.pid] = link
        node.wait_ready()

    def silence(self, rivals: Rivals, victim: NodeProcess) -> int:
        """Cut its host off, or stop it; the instant (µs) of it."""
        if self._loop is None:
            return rivals.stop(victim)
        at = SystemClock().wall()
        self._links[victim.pid].hold()
        return at

    def forget(self, victim: NodeProcess) -> None:
        """It is gone."""
        if (link := self._links.pop(victim.pid, None)) is not None:
            link.close()

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        if self._loop is not None:
            self._loop.close()


def one_victim(rivals: Rivals, how: str, job: str, ways: Ways) -> float:
    """Seconds from the death of whoever runs a job to its next run's first instruction."""
    while len(rivals.living) < 2:
        ways.start(rivals)
    firing = rivals.fire(job)
    first = rivals.began(firing)
    threading.Event().wait(random.uniform(1.5, 2.5))  # anywhere between two check-ins
    victim = rivals.node_of(first)
    at = rivals.kill(victim) if how == "gone" else ways.silence(rivals, victim)
    again = rivals.began(firing, 2)
    if how == "silent":
        rivals.kill(victim)
    victim.kill()
    ways.forget(victim)
    return float(again["at"] - at) / 1_000_000


def victims(nodes: Nodes, cluster: str, said: argparse.Namespace, measure: Measure) -> None:
    """One cluster's part of them."""
    ways = Ways(nodes.url, said.how)
    try:
        with Rivals(nodes, cluster, pace=(said.check_in, said.lease)) as rivals:
            while (how := measure.next_victim()) is not None:
                measure.note(how, one_victim(rivals, how, said.job, ways))
            for node in rivals.living:
                node.signal()
    except BaseException as error:
        measure.trouble(f"{cluster}: {error}")
    finally:
        ways.close()


def measured(store: str, said: argparse.Namespace) -> Measure:
    measure = Measure(said.kills, said.silent)
    with (
        tempfile.TemporaryDirectory(prefix="qsched-takeover-") as name,
        database(store, Path(name)) as url,
        Nodes(Path(name), url) as nodes,
    ):
        open_store(url, create=True).close()
        threads = [
            threading.Thread(target=victims, args=(nodes, f"c{number}", said, measure))
            for number in range(min(said.clusters, said.kills + said.silent))
        ]
        for thread in threads:
            thread.start()
            threading.Event().wait(1.0)  # what starts together measures the start
        for thread in threads:
            thread.join()
    return measure


def line(store: str, how: str, seconds: list[float], bar: float) -> str:
    if not seconds:
        return f"{store:<12}{how:<8}{0:>7}"
    return (
        f"{store:<12}{how:<8}{len(seconds):>7}{min(seconds):>9.2f}{statistics.median(seconds):>9.2f}"
        f"{max(seconds):>9.2f}{bar:>9.2f}  {'held' if max(seconds) <= bar else 'BROKEN'}"
    )


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--store", choices=STORES, action="append", help="all three, if not given")
    words.add_argument("--kills", type=int, default=50)
    words.add_argument("--silent", type=int, default=20)
    words.add_argument("--check-in", default="1s")
    words.add_argument("--lease", default="15s")
    words.add_argument("--clusters", type=int, default=4, help="victims at a time")
    words.add_argument("--how", default="stop", choices=("stop", "blackhole"), help="how one falls silent")
    words.add_argument("--job", default="hold", choices=("hold", "hold_alone"))
    said = words.parse_args()
    check_in, lease = (parse_duration(text) / 1_000_000 for text in (said.check_in, said.lease))
    bars = {"gone": 4 * check_in + POLL, "silent": lease + 2 * check_in + POLL}
    print(f"{'store':<12}{'how':<8}{'victims':>7}{'min':>9}{'median':>9}{'max':>9}{'bar':>9}   (seconds)")
    held = True
    for store in said.store or STORES:
        measure = measured(store, said)
        for how, bar in bars.items():
            print(line(store, how, measure.seconds[how], bar), flush=True)
            held = held and all(seconds <= bar for seconds in measure.seconds[how])
        for trouble in measure.troubles:
            print(f"  {trouble}", flush=True)
        held = held and not measure.troubles
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
