"""A command that writes far more than a node could hold: it is read to its end, and the node stays as small as it was."""

import os
import sys
from pathlib import Path

import psutil

from support.fired import Fired

GROWTH = 50 * 1024 * 1024
PIECE = 1024 * 1024


def test_output_without_a_line_break_costs_the_node_no_memory(
    sqlite_url: str, tmp_path: Path, long_form: bool
) -> None:
    """500 MB in the long form, 80 in the short one: more than it may grow in either."""
    pieces = 500 if long_form else 80
    writes = f"import sys; w = sys.stdout.buffer.write; [w(b'x' * {PIECE}) for _ in range({pieces})]"
    yaml = f'  loud: {{command: [{sys.executable}, -c, "{writes}"]}}\n  quiet: {{command: echo quiet}}'
    with Fired(tmp_path, sqlite_url, yaml) as stage:
        node = stage.node("one", "--allow", "command", "--verbose")
        assert stage.ended(stage.fire("quiet"), "state, note") == ("succeeded", "quiet")
        process = psutil.Process(node.pid)
        before = most = process.memory_info().rss
        firing = stage.fire("loud")
        while stage.row(firing, "state")[0] in ("due", "running"):
            most = max(most, process.memory_info().rss)
        state, note = stage.ended(firing, "state, note", within=300)
        assert state == "succeeded"
        written = pieces * PIECE
        kept = note.count("x")
        assert f"… {written - kept:,} bytes left out …" in note
        assert 0 < kept < 10_000
        assert most - before < GROWTH
        assert f"wrote {written} bytes" in node.log()
        assert stage.nodes.stop() == [0]
        assert os.path.getsize(node.folder / "log") < 200_000
