"""Two hours without a database: a page of log, every line says for how long, and the database is asked without hurry."""

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from qsched.cluster.health import Health
from qsched.cluster.loop import Loop, Rhythm
from qsched.scheduler.errors import StoreUnavailable

from support.hand_node import HandNode, World, every

TWO_HOURS = 7200.0


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def loops_of(node: HandNode) -> dict[str, Loop]:
    """All that a node runs but its settler, which waits within its step."""
    beat = Rhythm(1.0, (0.25, 0.25), lambda: node.check_in.trouble)
    trusted = Rhythm(trouble=lambda: untrusted(node))
    loops = {
        "check-in": Loop("check-in", node.check_in.step, node.clock, beat),
        "planner": Loop("planner", node.planner.step, node.clock, trusted),
        "upkeep": Loop("upkeep", node.upkeep.step, node.clock),
        "rescuer": Loop("rescuer", node.rescuer.step, node.clock, trusted),
        "self-fence": Loop("self-fence", node.self_fence.step, node.clock),
        # The planner of a node that is not trusted does not ask; these two stand for what does.
        "listener": Loop("listener", _asking(node), node.clock),
        "elector": Loop("elector", _asking(node), node.clock),
    }
    loops["health"] = Loop("health", Health(node.clock, loops).step, node.clock)
    for loop in loops.values():
        loop._thread = threading.current_thread()
    return loops


def untrusted(node: HandNode) -> str | None:
    return None if node.parts.who.may_start(node.clock.monotonic()) else "no check-in lands"


def _asking(node: HandNode) -> Callable[[], float]:
    def step() -> float:
        node.store.read("ask", lambda tx: tx.now())
        return 1.0

    return step


def live(world: World, loops: dict[str, Loop], seconds: float) -> None:
    """Let the time pass."""
    due = dict.fromkeys(loops, world.elapsed)
    until = world.elapsed + seconds
    while (now := min(due.values())) < until:
        world.pass_time(max(0.0, now - world.elapsed))
        name = min(due, key=lambda each: due[each])
        due[name] = world.elapsed + max(0.001, loops[name].turn())


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)  # no database is asked in those two hours
def test_two_hours_without_a_database_are_less_than_two_hundred_lines(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.apply(every("tick", 60))
    node, settling = (world.node(name, own_store=True) for name in ("one", "two"))
    loops = loops_of(node)
    world.pass_time(60)
    world.hear()
    taken = settling.turn()
    settling.end(taken[0])
    live(world, loops, 10)
    caplog.clear()

    asked = _away_for(node, TWO_HOURS)
    live(world, loops, TWO_HOURS)
    away = [record.getMessage() for record in caplog.records]
    # The check-in four times a second and a little more, for its pauses are not the same everywhere; the others seldom.
    assert TWO_HOURS < len(asked) < 4 * TWO_HOURS / 0.75 + 8 * TWO_HOURS / 3.75
    caplog.clear()
    live(world, loops, 10)
    back = [record.getMessage() for record in caplog.records]

    caplog.clear()
    _away_for(settling, TWO_HOURS)
    settling.settle()
    away += [record.getMessage() for record in caplog.records]

    assert 30 <= len(away) + len(back) <= 200
    every_line_says_for_how_long(away)
    (available,) = (line for line in back if line.startswith("store.available"))
    assert re.fullmatch(r"store\.available after=72\d\d\.\ds due=1", available)
    assert {line.split(".")[0] for line in back if "goes_on after=7" in line} >= {
        "upkeep",
        "listener",
        "elector",
    }
    assert sum(line.startswith("health.green") for line in back) >= 3


def every_line_says_for_how_long(lines: list[str]) -> None:
    """Of each kind the first says that it begins; every later one how long it has lasted."""
    kinds: dict[str, list[float]] = {}
    for line in lines:
        found = re.search(r"for=([\d.]+)s|no success for (\d+) s", line)
        if found is not None:
            kinds.setdefault(line.split(" ")[0] + line.partition("loop=")[2][:9], []).append(
                float(found[1] or found[2])
            )
        else:
            assert line.startswith(("store.unavailable", "node.untrusted", "settle.goes_on")), line
    assert all(lasted == sorted(lasted) for lasted in kinds.values()), kinds
    assert max(kinds["upkeep.waiting"]) > TWO_HOURS / 2
    assert max(kinds["store.still_unavailable"]) > TWO_HOURS / 2
    assert max(kinds["settle.waiting"]) > TWO_HOURS / 2


def _away_for(node: HandNode, seconds: float) -> list[str]:
    """Its database is away for so long; the names of what was tried in vain."""
    until, tried = node.world.elapsed + seconds, []
    real = {name: getattr(node.store, name) for name in ("transaction", "read")}

    def away(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(name: str, *arguments: Any, **options: Any) -> Any:
            if node.world.elapsed >= until:
                return verb(name, *arguments, **options)
            tried.append(name)
            raise StoreUnavailable("it is away")

        return call

    vars(node.store).update({name: away(verb) for name, verb in real.items()})
    return tried
