"""A pre-forking application whose workers are nodes: `python forked_workers.py [STORE] [SECONDS]`, in this folder.

Every slot runs in one of the workers; a worker that ends hands over to the others.
"""

import os
import sys
import threading

from bookstore.jobs import fetch_rates

from qsched import Every, Node, Scheduler

WORKERS = 4


def work(node: Node, seconds: float) -> None:
    """What a worker does beside its own work: nothing but this `with`."""
    with node:
        threading.Event().wait(seconds)  # the application


def main(store: str = "sqlite:///workers.db", seconds: float = 10.0) -> None:
    """Declare a trigger, then fork the workers and wait for them."""
    with Scheduler(store) as scheduler:
        scheduler.add("rates", job=fetch_rates, schedule=Every("1s"), data={"base": "USD"})
    node = Node(store, app=["bookstore.jobs"])  # made here, started in each worker
    workers = []
    for _ in range(WORKERS):
        if (pid := os.fork()) == 0:
            work(node, seconds)
            os._exit(0)
        workers.append(pid)
    ended = [os.waitpid(pid, 0)[1] for pid in workers]
    with Scheduler(store) as scheduler:
        fires = next(iter(scheduler.triggers()))["fires"]
    print(f"{len(ended)} workers ended, {fires} slots ran")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(float, sys.argv[2:3]))
