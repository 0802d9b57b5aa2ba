"""Which house a process that a test starts is of: the one under test, which may be a copy before the installed one."""

import os
from pathlib import Path

_TESTS = Path(__file__).resolve().parent.parent


def search_path() -> str:
    """PYTHONPATH for such a process: what holds for this one, and the folder of the tests."""
    return os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_TESTS))))
