"""How far a long piece of work is, where nobody looks at a terminal."""

import pytest
from qsched.cli.bar import Bar
from qsched.scheduler.testing import ManualClock


def test_a_bar_says_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    bar = Bar("copy", 1000, clock)
    for done in (50, 100, 1000):
        clock.advance(1)
        bar.at(done)
    assert capsys.readouterr().err.splitlines() == [
        "copy 100/1000 (10 %) · 50/s · 18s left",
        "copy 1000/1000 (100 %) · 333/s",
    ]
