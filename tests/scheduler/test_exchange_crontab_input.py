"""What a crontab gives a command on standard input behind `%`, as a shell reads the command that is imported."""

import subprocess
from pathlib import Path

import pytest
from qsched.scheduler.exchange.crontab import read
from qsched.scheduler.exchange.reading import Options


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("cat%one%two", "one\ntwo\n"),
        ("cat && echo done%one", "one\ndone\n"),
        ("cat # in the comment%one", "one\n"),
    ],
)
def test_all_of_the_command_has_it(tmp_path: Path, command: str, told: str) -> None:
    file = tmp_path / "crontab.txt"
    file.write_text(f"0 5 * * * {command}\n")
    (item,) = read(str(file), Options(now=0)).items
    done = subprocess.run(
        ["/bin/sh", "-c", item.trigger["command"]], capture_output=True, text=True, check=True
    )
    assert done.stdout == told
