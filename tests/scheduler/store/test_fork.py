"""A process that forks with an open store: both go on, each on its own connections, and no file is harmed."""

import subprocess
from collections.abc import Callable

import pytest
from qsched.scheduler.store.schema import open_store

Program = Callable[..., "subprocess.Popen[str]"]

PRELUDE = """
import os, sys, threading
from qsched.scheduler.store.schema import open_store

def bump(store):
    store.transaction("w", lambda tx: tx.run("UPDATE qsched_clusters SET epoch = epoch + 1"))

def fork(work):
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        print("child:", type(error).__name__, error, flush=True)
    else:
        os._exit(0)
    os._exit(1)

def join(children):
    print([os.waitpid(child, 0)[1] for child in children], flush=True)

store = open_store(sys.argv[1], create=True)
bump(store)
"""


def _said(program: Program, url: str, text: str) -> list[str]:
    said, _ = program(PRELUDE + text, url).communicate(timeout=120)
    return said.splitlines()


def _epoch(url: str) -> int:
    store = open_store(url, create=False)
    if url.startswith("sqlite"):
        assert store.read("r", lambda tx: tx.run("PRAGMA integrity_check").scalar()) == "ok"
    epoch = store.read("r", lambda tx: int(tx.run("SELECT epoch FROM qsched_clusters").scalar_one()))
    store.close()
    return epoch


def test_children_and_parent_go_on_with_the_same_store(made_url: str, program: Program) -> None:
    text = """
for _ in range(3):
    children = [fork(lambda: [bump(store) for _ in range(20)]) for _ in range(4)]
    for _ in range(20):
        bump(store)
    join(children)
bump(store)
store.close()
print("closed")
"""
    assert _said(program, made_url, text) == [str([0] * 4)] * 3 + ["closed"]
    assert _epoch(made_url) == 1 + 3 * 100 + 1


def test_children_may_open_stores_of_their_own(made_url: str, program: Program) -> None:
    text = """
def own():
    mine = open_store(sys.argv[1], create=False)
    for _ in range(20):
        bump(mine)
    mine.close()

children = [fork(own) for _ in range(4)]
bump(store)
store.close()
join(children)
"""
    assert _said(program, made_url, text) == [str([0] * 4)]
    assert _epoch(made_url) == 82


def test_a_fork_waits_for_threads_that_are_writing(made_url: str, program: Program) -> None:
    text = """
done = threading.Event()
written = []

def write():
    while not done.is_set():
        bump(store)
        written.append(1)

threads = [threading.Thread(target=write) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(3):
    join([fork(lambda: bump(store)) for _ in range(3)])
done.set()
for thread in threads:
    thread.join()
epoch = store.read("r", lambda tx: tx.run("SELECT epoch FROM qsched_clusters").scalar())
print(epoch == 1 + 9 + len(written))
store.close()
"""
    assert _said(program, made_url, text) == [str([0] * 3)] * 3 + ["True"]


def test_a_child_that_was_forked_inside_a_transaction_is_told_so(made_url: str, program: Program) -> None:
    text = """
def inside(tx):
    tx.run("UPDATE qsched_clusters SET epoch = epoch + 1")
    join([fork(lambda: bump(store))] if store.dialect.name == "sqlite" else [])

store.transaction("w", inside)
bump(store)
store.close()
"""
    said = _said(program, made_url, text)
    if made_url.startswith("sqlite"):
        assert said == ["child: StoreError this process was forked inside a transaction", "[256]"]
    assert _epoch(made_url) == 3


def test_a_store_in_memory_stays_with_the_parent(program: Program) -> None:
    text = """
join([fork(lambda: bump(store))])
print(store.read("r", lambda tx: tx.run("SELECT epoch FROM qsched_clusters").scalar()))
"""
    assert _said(program, "sqlite://", text) == ["[0]", "1"]


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
def test_a_child_that_ends_takes_no_connection_of_its_parent_with_it(
    scheme: str, request: pytest.FixtureRequest, program: Program
) -> None:
    ask = {"postgresql": "SELECT pg_backend_pid()", "mariadb": "SELECT CONNECTION_ID()"}[scheme]
    text = f"""
def session():
    return store.transaction("s", lambda tx: tx.run("{ask}").scalar())

mine = session()

def other():
    import gc
    gc.collect()
    assert session() != mine
    store.close()
    gc.collect()

join([fork(other) for _ in range(3)])
print(session() == mine)
store.close()
"""
    url = request.getfixturevalue(f"made_{scheme}").url
    assert _said(program, url, text) == ["[0, 0, 0]", "True"]
