"""What a leader cannot decide or load: the others see to it, and only what nobody can becomes an error."""

from typing import Any

import pytest
from qsched.scheduler import deciding
from qsched.scheduler.jobs import job
from qsched.triggers.decide import Decision
from qsched.triggers.decide import decide as real_decide
from qsched.triggers.misfire import MisfireRule

from support.hand_node import every, python
from support.led import Led, LedNode


def error_of(led: Led, name: str) -> tuple[Any, ...]:
    return led.world.clock_of(name, "t.state, t.error_kind")


def live(led: Led, seconds: float) -> None:
    """As `led.live`, with every node's upkeep."""

    def upkeep() -> None:
        for node in led.nodes:
            node.hand.upkeep.step()

    led.live(seconds, upkeep)


def only_here(node: LedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """This node's decisions fail, as with a broken extra; the others' do not."""
    turn = node.hand.planner.step

    def decide(*arguments: Any, **options: Any) -> Decision | None:
        if deciding_here:
            raise RuntimeError("a holidays extra that is missing here")
        return real_decide(*arguments, **options)

    deciding_here: list[bool] = []

    def step() -> float:
        deciding_here.append(True)
        try:
            return turn()
        finally:
            deciding_here.clear()

    monkeypatch.setattr(deciding, "decide", decide)
    monkeypatch.setattr(node.hand.planner, "step", step)


def test_what_the_leader_cannot_decide_another_decides(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, other = led.node("a"), led.node("b")
    led.elect()
    led.world.apply(every("tick", 10))
    only_here(leader, monkeypatch)
    live(led, 60)
    rows = led.world.firings("state, incarnation")
    assert len(rows) >= 5
    assert set(rows) == {("succeeded", other.who.incarnation)}
    late = led.world.firings("(noticed_at - scheduled_at) / 1000000")
    assert max(seconds for (seconds,) in late) <= 5
    assert error_of(led, "tick") == ("waiting", None)
    assert led.leader() is leader  # one bad trigger is no reason to resign


def test_what_no_node_can_decide_is_in_error_as_soon_as_all_have_said_so(
    led: Led, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        led.node(name)
    led.elect()

    def decide(due: Any, **options: Any) -> Decision | None:
        if due.rule.limit == 77:
            raise RuntimeError("nobody knows")
        return real_decide(due, **options)

    monkeypatch.setattr(deciding, "decide", decide)
    led.world.apply(every("tick", 10, misfire=MisfireRule(limit=77)), every("well", 10))
    live(led, 40)
    assert error_of(led, "tick") == ("error", "undecidable")
    assert error_of(led, "well") == ("waiting", None)


def test_a_job_that_the_leader_cannot_load_runs_where_it_can_be_loaded(
    led: Led, caplog: pytest.LogCaptureFixture
) -> None:
    leader, other = led.node("a", cannot=["report"]), led.node("b")
    led.elect()
    led.world.apply(every("tick", 10))
    live(led, 60)
    rows = led.world.firings("state, incarnation, (noticed_at - scheduled_at) / 1000000")
    assert len(rows) == 6
    assert {row[:2] for row in rows} == {("succeeded", other.who.incarnation)}
    assert rows[0][2] <= 8  # once it waits for what the code says
    assert all(row[2] == 0 for row in rows[1:])
    assert caplog.text.count("job.unloadable") == 1
    assert led.leader() is leader


def test_what_only_the_code_says_holds_before_the_first_firing(led: Led) -> None:
    """The leader does not have the code, whose decorator says that nothing may run beside it."""
    led.node("a", cannot=["alone"])
    other = led.node("b")

    @job(overlap="skip", request_recovery=True)
    def alone() -> None:
        """A job."""

    led.world.functions["alone"] = alone
    led.elect()
    led.world.apply(every("tick", 10, job="alone"), jobs=[python("alone")])
    for _ in range(80):
        led.pass_time(0.5)
        for node in led.nodes:
            node.turn()
    assert len(other.hand.taken) == 1
    states = led.world.firings("state, request_recovery")
    assert states[0] == ("running", 1)
    assert {state for state, _ in states[1:]} == {"skipped"}
    assert led.world.firings("permit_key IS NULL")[0] == (0,)


@pytest.mark.long
def test_a_job_nobody_can_load_keeps_its_trigger_waiting_until_it_is_in_error(led: Led) -> None:
    leader, other = led.node("a", cannot=["report"]), led.node("b", cannot=["report"])
    led.elect()
    led.world.apply(every("tick", 60))
    live(led, 60 * 10 + 30)
    assert error_of(led, "tick") == ("waiting", None)
    assert led.world.firings("id") == []
    live(led, 120)
    assert error_of(led, "tick") == ("error", "unloadable")
    registry: Any = other.hand.parts.definitions.registry
    registry.cannot.clear()
    live(led, 180)
    assert error_of(led, "tick") == ("waiting", None)
    rows = led.world.firings("reason, state")
    assert rows[0] == ("error", "skipped")
    assert ("schedule", "succeeded") in rows
    assert led.leader() is leader


def test_a_definition_nobody_can_read_is_in_error_at_once(led: Led) -> None:
    led.node("a")
    led.elect()
    led.world.apply(every("bad", 10), every("good", 10))
    led.world.sql(
        "UPDATE qsched_triggers SET spec = '{broken' WHERE name = 'bad' AND cluster = ?",
        led.world.store.cluster_id,
    )
    led.world.sql(
        "UPDATE qsched_trigger_clocks SET definition_hash = 0 WHERE cluster = ?", led.world.store.cluster_id
    )
    live(led, 12)
    assert error_of(led, "bad") == ("error", "poison")
    assert led.world.firings("trigger_name, state") == [("good", "succeeded")]


def test_a_leader_that_cannot_decide_anything_still_lets_the_others(
    led: Led, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, _ = led.node("a"), led.node("b")
    led.elect()
    led.world.apply(*(every(f"t{n}", 10) for n in range(10)))
    only_here(leader, monkeypatch)
    live(led, 32)
    assert len(led.world.firings("id", "state = 'succeeded'")) >= 20
