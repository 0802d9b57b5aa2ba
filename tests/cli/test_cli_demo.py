"""`qsched demo`, which is `make demo`: triggers fire, a misfire is on screen, and the list at its end can be read."""

from support.command_line import Command


def test_the_demo_ends_with_a_list_that_shows_misfires(qsched_process: Command) -> None:
    said = qsched_process("demo", "-o", "json")
    assert said.code == 0, said.err
    items = {item["name"]: item for item in said.items}
    assert items.keys() == {"hello", "stock", "beat", "invoices"}
    for name, policy in (("stock", "fire_once"), ("beat", "skip")):
        misfire = items[name]["last_misfire"]
        assert items[name]["misfires"] >= 1
        assert (misfire["policy"], misfire["cause"]) == (policy, "node_down")
    assert items["hello"]["fires"] >= 3
    assert items["hello"]["last_outcome"] == "succeeded"
    assert "hello, demo" in said.err
    assert "qsched misfires list" in said.err
