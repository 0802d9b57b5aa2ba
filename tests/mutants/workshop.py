"""A copy of the house with a mutant in it: made in a folder of its own, used through PYTHONPATH, thrown away."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("qsched", "triggers", "scheduler", "cluster", "cli", "tests", "examples", "pyproject.toml")
_FLOORS = ("triggers", "scheduler", "cluster", "cli")


class PatchFailed(Exception):
    """A patch does not fit the code any more: the code moved, and the mutant must be written anew."""


@contextmanager
def copy_of_the_house(patch: Path | None) -> Iterator[Path]:
    """A folder with the house, changed by `patch`; raises PatchFailed when it does not fit exactly."""
    with tempfile.TemporaryDirectory(prefix="qsched-mutant-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # servers that run as another account look into it
        for part in _COPIED:
            _copy(ROOT / part, folder / part)
        if patch is not None:
            apply_patch(folder, patch)
        _link(folder)
        yield folder


def apply_patch(folder: Path, patch: Path) -> None:
    """Change the copy; every line around a change must be as it was when the patch was written."""
    command = ["git", "apply", "--unsafe-paths", f"--directory={folder}", str(patch)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PatchFailed(f"{patch.name} does not fit the code any more:\n{done.stderr.strip()}")


def run_in(folder: Path, arguments: Sequence[str], seconds: float) -> tuple[int, str]:
    """(exit code, output) of `python …` with the copy's house; a run without end counts as 124."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "tests")]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = error.output or b""
        return 124, output.decode(errors="replace") if isinstance(output, bytes) else output
    return done.returncode, done.stdout


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    else:
        shutil.copy(source, target)


def _link(folder: Path) -> None:
    """The floors within the package, so that nothing of it is looked for where it is installed."""
    for floor in _FLOORS:
        (folder / "qsched" / floor).symlink_to(folder / floor)
