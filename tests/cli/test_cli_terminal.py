"""On a terminal: colours unless refused, lines as wide as it is, questions that can be answered; and golden tables."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from qsched.triggers.instant import SECOND

from support.command_line import NOW, START, Command, Filled, clean_environment

FILE = """
qsched: 1
namespace: shop
jobs: {j: {command: "true"}}
triggers:
  a-trigger-with-a-rather-long-name: {job: j, cron: "0 2 * * 0", time_zone: Europe/Istanbul}
  late: {job: j, every: 10s}
"""


def on_terminal(
    folder: Path, url: str, *arguments: str, width: int = 80, answer: str = "", **environment: str
) -> tuple[int, str]:
    """Run a command with a terminal of `width` as all its streams; answers (exit code, what was seen)."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    kept = {
        name: value
        for name, value in clean_environment(QSCHED_STORE=url, TERM="xterm").items()
        if name != "COLUMNS"
    }
    child = subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        cwd=folder,
        env={**kept, **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    if answer:
        os.write(ours, answer.encode())
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:
        pass  # the last process on the terminal has left it
    os.close(ours)
    return child.wait(timeout=60), seen.decode().replace("\r\n", "\n")


@pytest.fixture
def misfired(filled: Filled) -> Filled:
    """Two triggers, one of which has misfired."""
    filled.declare(FILE)
    slot = NOW - 5 * SECOND
    filled.firing(
        "late",
        scheduled_at=slot,
        first_scheduled_at=slot - 80 * SECOND,
        covers=9,
        reason="misfire",
        noticed_at=NOW,
        first_started_at=NOW,
        started_at=NOW,
        finished_at=NOW + SECOND,
        outcome="succeeded",
        misfire_cause="no_capacity",
        misfire_policy="fire_once",
        misfire_decision="ran the last of 9",
    )
    filled.clock("late", fires=1, misfires=9, last_fire_at=slot, last_misfire_at=slot)
    return filled


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_lines_are_never_wider_than_the_terminal(misfired: Filled, tmp_path: Path, width: int) -> None:
    code, seen = on_terminal(tmp_path, misfired.url, "triggers", "list", width=width, NO_COLOR="1")
    assert code == 0
    lines = seen.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= width
    assert "MISFIRES" in lines[0], "misfires stay to the last"
    assert "\x1b" not in seen


def test_states_are_coloured_and_the_words_stay(misfired: Filled, tmp_path: Path) -> None:
    _, seen = on_terminal(tmp_path, misfired.url, "triggers", "list", width=200)
    assert "\x1b[32m● waiting" in seen
    assert re.sub(r"\x1b\[\d+m", "", seen).count("● waiting") == 2


@pytest.mark.parametrize(("no_color", "term"), [("1", "xterm"), ("", "dumb")])
def test_colours_can_be_refused(misfired: Filled, tmp_path: Path, no_color: str, term: str) -> None:
    _, seen = on_terminal(tmp_path, misfired.url, "triggers", "list", NO_COLOR=no_color, TERM=term)
    assert "● waiting" in seen
    assert "\x1b" not in seen


def test_a_wide_table_is_not_cut_even_on_a_terminal(misfired: Filled, tmp_path: Path) -> None:
    _, seen = on_terminal(tmp_path, misfired.url, "triggers", "list", "-o", "wide", NO_COLOR="1")
    assert "a-trigger-with-a-rather-long-name" in seen
    assert "no_capacity" in seen
    assert "shop" in seen


@pytest.mark.parametrize(("said", "code", "left"), [("y\n", 0, 1), ("n\n", 7, 2)])
def test_a_person_is_asked_before_a_trigger_is_deleted(
    qsched: Command, misfired: Filled, tmp_path: Path, said: str, code: int, left: int
) -> None:
    ended, seen = on_terminal(tmp_path, misfired.url, "triggers", "delete", "late", answer=said)
    assert "Delete late?" in seen
    assert ended == code
    assert len(qsched("triggers", "list", "-o", "name").out.splitlines()) == left


def test_a_person_is_asked_before_a_paused_trigger_fires(
    qsched: Command, misfired: Filled, tmp_path: Path
) -> None:
    qsched("triggers", "pause", "late")
    code, seen = on_terminal(tmp_path, misfired.url, "triggers", "fire", "late", answer="y\n")
    assert code == 0
    assert "is paused" in seen


def test_errors_of_a_declaration_show_their_source_on_a_terminal(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "qsched.yaml").write_text(FILE.replace("every: 10s", "evry: 10s"))
    code, seen = on_terminal(tmp_path, sqlite_url, "check")
    assert code == 3
    assert "--> qsched.yaml:7:" in seen
    assert "^^^^" in seen


GOLDEN = """\
TRIGGER                            STATE      SCHEDULE   NEXT                      LAST      OUTCOME      MISFIRES  \
LAST MISFIRE              LATE   DECISION           REASON
a-trigger-with-a-rather-long-name  ● waiting  0 2 * * 0  Sun 22 Dec 2019 02:00:00  -         -                   0  \
-                              -  -                  -
late                               ● waiting  every 10s  Thu 19 Dec 2019 03:00:10  … ago     ✔ succeeded         9  \
Thu 19 Dec 2019 02:58:35  1m25s  ran the last of 9  -
"""


def test_the_list_as_it_is_printed(qsched: Command, misfired: Filled) -> None:
    said = qsched("triggers", "list", "--tz", "Europe/Istanbul").out
    said = re.sub(r"due \d+d\d+h ago, and no node has decided it", "-", said)  # the store is of 2019
    assert re.sub(r"\d+d\d+h ago", "… ago", said).split() == GOLDEN.split()


MISFIRES = """\
FIRING  TRIGGER  DUE                       NOTICED                    LATE  SLOTS  CAUSE        POLICY     DECISION\
           STATE
     1  late     Wed 18 Dec 2019 23:58:35  Thu 19 Dec 2019 00:00:00  1m25s      9  no_capacity  fire_once  \
ran the last of 9  ✔ succeeded
"""


def test_the_misfires_as_they_are_printed(qsched: Command, misfired: Filled) -> None:
    assert qsched("misfires", "list").out == MISFIRES


def test_a_trigger_shown_on_a_narrow_terminal_keeps_to_its_width(
    qsched: Command, filled: Filled, tmp_path: Path
) -> None:
    note = "retries exhausted after 2: " + "x" * 200
    filled.declare(FILE)
    filled.firing("late", state="failed", outcome="failed", note=note, started_at=1, finished_at=2)
    _, seen = on_terminal(tmp_path, filled.url, "triggers", "show", "late", width=100, NO_COLOR="1")
    table = seen.partition("\n\n")[2].splitlines()
    assert max(map(len, table)) <= 100
    assert "DETAIL" in table[0]
    assert qsched("triggers", "show", "late").out.splitlines()[-1].endswith(note)
