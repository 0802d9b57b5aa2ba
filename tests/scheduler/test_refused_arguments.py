"""What cannot travel with a job is refused when it is said, naming the key; and what is said again stays byte for byte (B60)."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from qsched.triggers.errors import DefinitionError
from qsched.triggers.job import canonical

from qsched import Scheduler, job


@job
def report(**data: Any) -> None:
    """A job that takes anything."""


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    with Scheduler(f"sqlite:///{tmp_path / 'q.db'}") as made:
        made.add("known", job=report, every="1h")
        yield made


UNFIT: dict[str, Any] = {
    "file": lambda: Path(__file__).open(),  # noqa: SIM115  (the test closes it)
    "function": lambda: lambda: None,
    "set": lambda: {1},
    "datetime": lambda: datetime(2026, 1, 1, tzinfo=UTC),
    "decimal": lambda: Decimal("1.10"),
    "nan": lambda: float("nan"),
    "infinite": lambda: float("-inf"),
    "bytes": lambda: b"x",
    "object": object,
}


@pytest.mark.parametrize("kind", UNFIT)
def test_what_json_cannot_carry_is_refused_at_once_and_named(scheduler: Scheduler, kind: str) -> None:
    value = UNFIT[kind]()
    ways: list[Callable[[Any], object]] = [
        lambda data: scheduler.add("new", job=report, every="1h", data=data),
        lambda data: scheduler.fire("known", data=data),
        lambda data: job(data=data),
    ]
    try:
        for way in ways:
            with pytest.raises(DefinitionError, match=r"order\.lines\[1\] is .*: pass "):
                way({"fine": 1, "order": {"lines": [0, value]}})
    finally:
        if kind == "file":
            value.close()
    assert {item["name"] for item in scheduler.triggers()} == {"known"}


def test_what_no_other_process_could_find_is_refused_as_a_job(scheduler: Scheduler) -> None:
    @job
    def nested() -> None:
        """Lives in a test."""

    with pytest.raises(DefinitionError, match="other processes cannot import"):
        scheduler.add("new", job=nested, every="1h")
    with pytest.raises(DefinitionError, match="not marked @job"):
        scheduler.add("new", job=lambda: None, every="1h")
    with pytest.raises(DefinitionError, match="a lambda cannot be a job"):
        job(lambda: None)


def test_data_that_are_said_a_hundred_times_stay_byte_for_byte(scheduler: Scheduler) -> None:
    data = {"b": [1.5, 'ä\n"\\', None, {"z": 1, "a": True}], "a": {"deep": [[], {}]}, "n": 2**60}

    def stored() -> str:
        store = scheduler._open(create=False)
        statement = "SELECT spec FROM qsched_triggers WHERE name = 'again'"
        text = str(store.read("look", lambda tx: tx.run(statement).one())[0])
        return text[text.index('"data":') : text.index(',"job":')]

    said = set()
    for count in range(100):  # each time with another schedule, so that it is written each time
        assert scheduler.add("again", job=report, every=f"{count + 1}h", data=data)
        said.add(stored())
    assert said == {f'"data":{canonical(data)}'}
