"""Firings per second of one node with no-op jobs on PostgreSQL, beside the raw-SQL floor: same rows, no scheduler.

A backlog of due triggers is worked off by one node; each firing is a trigger advanced, a ledger row that is durable before
the job starts, and a durable end. The floor does just these statements with psycopg, without deciding, running or judging
anything. Both run in alternating rounds on one private PostgreSQL with stock durability; the figure is their ratio.

The node's capacity is twice the batch, so that one batch runs and is settled while the next is taken: with a capacity of
one batch (`--capacity`) it waits for each settle, which costs about a tenth.
"""

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from qsched.scheduler import planner
from qsched.scheduler.apply import apply
from qsched.scheduler.planner import BATCH
from qsched.scheduler.store.schema import open_store
from qsched.triggers.declaration import Declarations
from qsched.triggers.job import JobDefinition
from qsched.triggers.trigger import TriggerDefinition

from qsched import Node, job
from support.servers import postgres_server

HOUR = 3_600_000_000
_ran = 0
_all_ran = threading.Event()
_wanted = 0


@job
def nothing() -> None:
    """A job that does nothing but be counted."""
    global _ran
    _ran += 1
    if _ran >= _wanted:
        _all_ran.set()


def node_round(url: str, backlog: int, capacity: int) -> float:
    """Firings per second of one node working off `backlog`; exactly-once is verified in the ledger."""
    global _ran, _wanted
    _ran, _wanted = 0, backlog
    _all_ran.clear()
    start = time.time_ns() // 1000
    store = open_store(url, cluster="default", create=True, now=lambda: start - 1)
    triggers = tuple(
        TriggerDefinition(f"t{n}", "nothing", {"every": HOUR, "anchor": start}) for n in range(backlog)
    )
    target = JobDefinition("nothing", "python", f"{__name__}:nothing")
    apply(store, Declarations("default", (target,), triggers, {}, "bench"))
    store.close()
    began = time.perf_counter()
    with Node(url, app=[__name__], capacity=capacity, lease=60_000_000) as node:
        node.wait_ready(30)
        ready = time.perf_counter()
        assert _all_ran.wait(120), f"only {_ran} of {backlog} ran"
        assert node.wait_idle(30), "not all ends were settled"  # durable ends, as the floor's
        took = time.perf_counter() - ready
    verify(url, backlog)
    print(f"  node  {backlog / took:9,.0f}/s   ({took:.2f} s, start-up {ready - began:.2f} s)", flush=True)
    return backlog / took


def verify(url: str, backlog: int) -> None:
    """One succeeded row per trigger and slot, and as many job runs."""
    with psycopg.connect(url.replace("+psycopg", "")) as conn:
        row = conn.execute(
            "SELECT count(*), count(DISTINCT (trigger_id, scheduled_at)), count(*) FILTER (WHERE state = 'succeeded'),"
            " count(DISTINCT trigger_id) FROM qsched_firings"
        ).fetchone()
    assert row == (backlog, backlog, backlog, backlog), row
    assert _ran == backlog, (_ran, backlog)


FLOOR_TABLES = """
CREATE TABLE trig (id bigint PRIMARY KEY, state int NOT NULL, next_at bigint NOT NULL, period bigint NOT NULL,
  prev_at bigint, version bigint NOT NULL, fires bigint NOT NULL, priority int NOT NULL, job_id bigint NOT NULL,
  name text NOT NULL, spec text NOT NULL, misfires bigint NOT NULL) WITH (fillfactor = 70);
CREATE INDEX ON trig (next_at) WHERE state = 0;
CREATE TABLE firing (trig_id bigint NOT NULL, sched_at bigint NOT NULL, state int NOT NULL, node int NOT NULL,
  started_at bigint NOT NULL, ended_at bigint, job_id bigint NOT NULL, attempt int NOT NULL, outcome int,
  PRIMARY KEY (trig_id, sched_at)) WITH (fillfactor = 70);
"""
SELECT = """SELECT id, next_at, period, job_id FROM trig WHERE state = 0 AND next_at <= %s
 ORDER BY next_at LIMIT %s FOR UPDATE SKIP LOCKED"""
CLAIM = """WITH n AS (SELECT * FROM
 unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) AS n(id, sched, nxt, job)),
 u AS (UPDATE trig t SET next_at = n.nxt, prev_at = n.sched, version = version + 1, fires = fires + 1 FROM n WHERE t.id = n.id)
 INSERT INTO firing (trig_id, sched_at, state, node, started_at, job_id, attempt) SELECT id, sched, 1, 1, %s, job, 0 FROM n"""
DONE = """UPDATE firing f SET state = 2, ended_at = %s, outcome = 0
 FROM unnest(%s::bigint[], %s::bigint[]) AS n(id, sched) WHERE f.trig_id = n.id AND f.sched_at = n.sched"""
GUARDS = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"


def floor_round(url: str, backlog: int, batch: int, *, pipelined: bool) -> float:
    """Firings per second of the bare statements; pipelined: one commit a batch, the ends of one ride with the next."""
    plain = url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True, options=GUARDS) as conn:
        conn.execute(FLOOR_TABLES)
        conn.execute(
            "INSERT INTO trig SELECT g, 0, 1000, 3600000000, NULL, 0, 0, 5, 1, 't' || g, repeat('x', 150), 0"
            " FROM generate_series(1, %s) g",
            (backlog,),
        )
        conn.execute("ANALYZE trig")
    with psycopg.connect(plain, options=GUARDS) as conn:
        run = _floor_pipelined if pipelined else _floor_plain
        began = time.perf_counter()
        done = run(conn, batch)
        took = time.perf_counter() - began
        row = conn.execute("SELECT count(*), count(*) FILTER (WHERE state = 2) FROM firing").fetchone()
    assert (done, row) == (backlog, (backlog, backlog))
    shape = "pipe2" if pipelined else "cte"
    print(f"  floor {backlog / took:9,.0f}/s   ({shape})", flush=True)
    return backlog / took


def _columns(rows: list[tuple[int, ...]]) -> tuple[list[int], list[int], list[int], list[int]]:
    return (
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[1] + row[2] for row in rows],
        [row[3] for row in rows],
    )


def _floor_plain(conn: psycopg.Connection[Any], batch: int) -> int:
    done = 0
    while rows := conn.execute(SELECT, (2000, batch)).fetchall():
        ids, sched, following, jobs = _columns(rows)
        conn.execute(CLAIM, (ids, sched, following, jobs, 1))
        conn.commit()
        conn.execute(DONE, (2, ids, sched))
        conn.commit()
        done += len(rows)
    return done


def _floor_pipelined(conn: psycopg.Connection[Any], batch: int) -> int:
    done = 0
    ended: tuple[list[int], list[int]] = ([], [])
    with conn.pipeline() as pipeline:
        while True:
            if ended[0]:
                conn.execute(DONE, (2, *ended))
            cursor = conn.execute(SELECT, (2000, batch))
            pipeline.sync()
            rows = cursor.fetchall()
            if not rows:
                conn.commit()
                return done
            ids, sched, following, jobs = _columns(rows)
            conn.execute(CLAIM, (ids, sched, following, jobs, 1))
            conn.commit()
            pipeline.sync()
            ended = (ids, sched)
            done += len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backlog", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=BATCH, help="rows a transaction, of node and floor")
    parser.add_argument("--capacity", type=int, help="of the node  [default: twice the batch]")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    capacity = options.capacity or 2 * options.batch
    planner.BATCH = options.batch
    figures: dict[str, list[float]] = {"node": [], "cte": [], "pipe2": []}
    print(
        f"backlog {options.backlog:,}, batch {options.batch}, {options.rounds} alternating rounds, stock durability"
    )
    with postgres_server() as server:
        rounds: dict[str, Callable[[str], float]] = {
            "cte": lambda url: floor_round(url, options.backlog, options.batch, pipelined=False),
            "node": lambda url: node_round(url, options.backlog, capacity),
            "pipe2": lambda url: floor_round(url, options.backlog, options.batch, pipelined=True),
        }
        for _ in range(options.rounds):
            for name, run in rounds.items():
                figures[name].append(run(server.new_database()))
    medians = {name: statistics.median(values) for name, values in figures.items()}
    floor = max(medians["cte"], medians["pipe2"])
    print(json.dumps({name: round(value) for name, value in medians.items()}))
    print(f"node / floor (the faster of the two) = {medians['node'] / floor:.2f}   (bar 0.25)")


if __name__ == "__main__":
    sys.modules.setdefault("bench_firings", sys.modules["__main__"])
    __name__ = "bench_firings"
    main()
