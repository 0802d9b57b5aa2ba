"""How long a cluster is without a leader, and what two leaders at once do: `PYTHONPATH=tests python benchmarks/leadership.py`.

--kills N         kill the leader N times for each elector and store (default 50): the gap until the next one leads,
                  beside its bar, ttl + check-in
--flush SECONDS   FLUSHALL every five seconds for so long (default 120), and each time the leader is stopped until
                  another has won the lease: two believe at once, and the plans of the first are refused by their epoch
STORE…            postgresql, mariadb or sqlite (default: the first two)
"""

import argparse
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from support.acceptance import write_yaml
from support.leaders import Leaders
from support.ledger import Ledger, judge_runs
from support.nodes import NodeProcess, Nodes
from support.servers import RedisServer, mariadb_server, postgres_server, redis_server
from support.slots import expected
from support.waiting import wait_until

TTL, CHECK_IN = 5.0, 1.0
STORES = ("postgresql", "mariadb", "sqlite")
ELECTORS = ("sql", "redis")


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


class Scene:
    """Nodes that a leader leads, with a file of one-second triggers."""

    def __init__(self, folder: Path, url: str, redis: RedisServer | None, triggers: int) -> None:
        self.nodes = Nodes(folder, url)
        self.file, self.keys = write_yaml(folder, triggers)
        self.redis = redis
        self._asked = ("--coordination", "leader") if redis is None else ("--redis", redis.url)
        self._url = url
        self._number = 0
        self.store: Store | None = None

    def start(self) -> NodeProcess:
        """One more node, ready."""
        self._number += 1
        node = self.nodes.start(f"node{self._number}", *self._asked, file=self.file)
        node.wait_ready()
        return node

    def leaders(self) -> Leaders:
        if self.store is None:
            self.store = open_store(self._url, create=False)
        return Leaders(self.nodes, self.store)

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes.__exit__()
        if self.store is not None:
            self.store.close()


@contextmanager
def scene(store: str, elector: str, triggers: int) -> Iterator[Scene]:
    """A cluster of three nodes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qsched-leadership-")))
        url = stack.enter_context(database(store, folder))
        redis = stack.enter_context(redis_server()) if elector == "redis" else None
        made = stack.enter_context(Scene(folder, url, redis, triggers))
        for _ in range(3):
            made.start()
        yield made


def kills(store: str, elector: str, times: int) -> bool:
    """Kill the leader so often; whether no gap was longer than the bar."""
    gaps = []
    with scene(store, elector, 4) as cluster:
        leaders = cluster.leaders()
        for _ in range(times):
            leader = leaders.leader()
            threading.Event().wait(random.uniform(1.0, 2.0))  # at any place between two renewals
            gaps.append(leaders.kill().after)
            leader.kill()
            cluster.nodes.all.remove(leader)
            cluster.start()
    bar = TTL + CHECK_IN
    middle = statistics.median(gaps)
    print(
        f"{store:<11}{elector:<7}{len(gaps):>6} kills   without a leader: median {middle:.2f} s, max {max(gaps):.2f} s"
        f"   (bar {bar:.2f} s)",
        flush=True,
    )
    return max(gaps) <= bar


def believe_twice(cluster: Scene, leaders: Leaders) -> None:
    """Redis forgets the lease while its holder stands still; another wins it; the holder wakes up and still believes."""
    assert cluster.redis is not None
    leader, epoch = leaders.leader(), leaders.row().epoch
    leader.signal(signal.SIGSTOP)
    cluster.redis.command("FLUSHALL")
    try:
        wait_until(lambda: leaders.row().epoch > epoch, "another leader", within=20)
    finally:
        leader.signal(signal.SIGCONT)


def flushes(store: str, seconds: int) -> bool:
    """Flush for so long; whether nothing ran twice or was lost, and stale plans were refused."""
    with scene(store, "redis", 20) as cluster:
        leaders, ledger = cluster.leaders(), Ledger(cluster.nodes.folder / "ledger")
        leaders.leader()
        wait_until(lambda: ledger.lines("ran"), "a first run", within=60)
        first = (time.time_ns() // 1000 // SECOND + 2) * SECOND
        times = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            believe_twice(cluster, leaders)
            times += 1
            time.sleep(max(0.0, 5.0 - (time.monotonic() - began)))
        last = (time.time_ns() // 1000 // SECOND) * SECOND
        time.sleep(5.0)
        epoch = leaders.row().epoch
        codes = cluster.nodes.stop()
        judged = judge_runs(ledger.lines("ran"), expected(cluster.keys, first, last, SECOND), SECOND)
        refused = sum(node.log().count("leader.stale_plan_refused") for node in cluster.nodes.all)
        print(
            f"{store:<11}redis  {times:>6} flushes, {epoch} epochs, {judged.firings} firings: missing {len(judged.missing)},"
            f" double {len(judged.double)}, early {judged.early}; stale plans refused {refused}; exits {codes}",
            flush=True,
        )
        return not judged.missing and not judged.double and judged.early == 0 and refused >= 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--flush", type=int, default=120)
    parser.add_argument("stores", nargs="*", metavar="STORE", default=list(STORES[:2]))
    options = parser.parse_args()
    well = True
    for store in options.stores:
        for elector in ELECTORS if options.kills else ():
            well &= kills(store, elector, options.kills)
        if options.flush:
            well &= flushes(store, options.flush)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
