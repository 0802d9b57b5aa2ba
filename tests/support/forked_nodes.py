"""A pre-forking application that embeds a Node, as web servers do: `python -m support.forked_nodes URL HOW WORKERS`.

HOW is `inside` (each worker makes its node), `made` (made before the fork, started in each worker) or `started` (started
before the fork: the parent's goes on, and each worker's copy starts anew).
"""

import logging
import os
import signal
import sys
import threading
from contextlib import suppress

from qsched import Node

from .nodes import JOBS


def main(url: str, how: str, workers: int) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    node = None if how == "inside" else Node(url, app=[JOBS])
    if how == "started" and node is not None:
        node.start()
        node.wait_ready(60)
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    children = []
    for _ in range(workers):
        child = os.fork()
        if child == 0:
            os._exit(_work(node or Node(url, app=[JOBS]), leaving))
        children.append(child)
    leaving.wait()
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if how == "started" and node is not None:
        codes.append(node.stop())
    logging.getLogger("forked").info("exit codes %s", codes)
    return max(codes)


def _work(node: Node, leaving: threading.Event) -> int:
    try:
        node.start()
        leaving.wait()
        return node.stop()
    except BaseException:
        logging.exception("a worker failed")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
