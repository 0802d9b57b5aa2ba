"""`qsched nodes drain NAME`: who is meant, what is written, what the watcher is told, and how it exits."""

import json
import threading
from typing import Any

from support.command_line import NOW, Command, Filled
from support.waiting import wait_until


def node(filled: Filled, name: str, state: str = "up", **columns: Any) -> int:
    """A node's row as the node would have left it."""
    row = {
        "cluster": 1,
        "name": name,
        "host": "h",
        "pid": 7,
        "state": state,
        "started_at": NOW,
        "checked_in_at": NOW,
        "lease_until": 1 << 60,
        "renew_seq": 1,
        "capacity": 20,
        "running": 2,
        "version": "0.1.0",
        **columns,
    }
    filled.sql(
        f"INSERT INTO qsched_nodes ({','.join(row)}) VALUES ({','.join('?' * len(row))})", *row.values()
    )
    return int(filled.sql("SELECT max(incarnation) FROM qsched_nodes")[0][0])


def ends(
    filled: Filled, incarnation: int, state: str = "stopped", broken_off: int | None = 0
) -> threading.Thread:
    """A thread that ends the node as soon as it has been asked to drain."""

    def watch() -> None:
        asked = "SELECT 1 FROM qsched_nodes WHERE incarnation = ? AND drain_requested_at IS NOT NULL"
        wait_until(lambda: filled.sql(asked, incarnation), "the request")
        end = "UPDATE qsched_nodes SET state = ?, running = 0, handed_over = ? WHERE incarnation = ?"
        filled.sql(end, state, broken_off, incarnation)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def requests(filled: Filled) -> list[tuple[Any, ...]]:
    rows = filled.sql(
        "SELECT name, drain_requested_at IS NOT NULL, drain_requested_by FROM qsched_nodes ORDER BY incarnation"
    )
    return [tuple(row) for row in rows]


def test_a_drain_is_asked_for_in_the_nodes_row_once_and_is_audited(qsched: Command, filled: Filled) -> None:
    node(filled, "a")
    b = node(filled, "b")
    said = qsched("nodes", "drain", "b")
    assert (said.code, said.out) == (0, "b draining\n")
    ((_, first, _), (_, asked, who)) = requests(filled)
    assert (first, asked) == (0, 1)
    assert "@" in who
    again = qsched("nodes", "drain", "b")
    assert (again.code, again.out) == (0, "b draining\n")
    assert "already" in again.err
    ((verb, name, detail, by),) = filled.sql("SELECT verb, object, detail, who FROM qsched_audit")
    assert (verb, name, json.loads(detail), by) == ("drain", "b", {"incarnation": b}, who)


def test_a_node_that_was_asked_is_listed_as_draining(qsched: Command, filled: Filled) -> None:
    node(filled, "a")
    qsched("nodes", "drain", "a")
    (item,) = qsched("nodes", "list", "-o", "json").items
    assert item["state"] == "draining"
    assert item["drain_requested_at"] is not None
    assert "@" in item["drain_requested_by"]
    assert "◐ draining" in qsched("nodes", "list").out


def test_a_mistyped_name_is_exit_4_with_what_was_meant(qsched: Command, filled: Filled) -> None:
    node(filled, "worker-1")
    node(filled, "worker-9", state="stopped")
    said = qsched("nodes", "drain", "worker1")
    assert said.code == 4
    assert said.err == "error: no node 'worker1': did you mean 'worker-1'?\n"
    said = qsched("nodes", "drain", "worker-9")
    assert said.code == 4
    assert "does not live any more: it is stopped" in said.err


def test_a_silent_node_hears_nothing_and_is_said_to_be_silent(qsched: Command, filled: Filled) -> None:
    node(filled, "a", lease_until=NOW)
    said = qsched("nodes", "drain", "a")
    assert said.code == 4
    assert "silent" in said.err
    assert requests(filled) == [("a", 0, None)]


def test_the_live_bearer_of_a_name_is_meant_and_not_those_before_it(qsched: Command, filled: Filled) -> None:
    node(filled, "a", state="dead")
    node(filled, "a")
    node(filled, "a", state="stopped")
    assert qsched("nodes", "drain", "a").code == 0
    assert [asked for _, asked, _ in requests(filled)] == [0, 1, 0]


def test_waiting_says_how_it_goes_and_exits_0_when_all_ended(qsched: Command, filled: Filled) -> None:
    thread = ends(filled, node(filled, "a"))
    said = qsched("nodes", "drain", "a", "--wait")
    thread.join()
    assert (said.code, said.out) == (0, "a stopped\n")
    assert "a: has not heard yet, 2 running" in said.err


def test_waiting_exits_8_when_something_was_broken_off(qsched: Command, filled: Filled) -> None:
    thread = ends(filled, node(filled, "a"), broken_off=3)
    said = qsched("nodes", "drain", "a", "--wait", "--timeout", "20s")
    thread.join()
    assert (said.code, said.out) == (8, "a stopped, 3 handed over or cancelled\n")


def test_waiting_ends_with_1_when_the_node_is_declared_dead(qsched: Command, filled: Filled) -> None:
    thread = ends(filled, node(filled, "a"), state="dead", broken_off=None)
    said = qsched("nodes", "drain", "a", "--wait")
    thread.join()
    assert said.code == 1
    assert "declared dead" in said.err


def test_waiting_has_an_end_of_its_own_and_the_drain_goes_on(qsched: Command, filled: Filled) -> None:
    node(filled, "a", state="draining")
    said = qsched("nodes", "drain", "a", "--timeout", "300ms", "-o", "json")
    assert said.code == 1
    assert "after 0.3s a runs 2 firings still" in said.err
    assert requests(filled)[0][1] == 1


def test_json_says_what_became_of_it(qsched: Command, filled: Filled) -> None:
    thread = ends(filled, node(filled, "a"), broken_off=1)
    (item,) = qsched("nodes", "drain", "a", "--wait", "-o", "json").items
    thread.join()
    assert item == {"name": "a", "incarnation": 1, "state": "stopped", "running": 0, "handed_over": 1}
