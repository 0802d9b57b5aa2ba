"""The repository as data for the architecture tests: its files, their syntax trees, and who imports what."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLOORS = ("triggers", "scheduler", "cluster", "cli")
HOUSE = ("qsched", *FLOORS)
PYTHON = (*HOUSE, "tests", "benchmarks", "examples")

_MADE = {"__pycache__", "build", "dist", "node_modules"}


def files(*folders: str, ending: str = "") -> list[Path]:
    """The files people wrote under these folders of the repository (all of them, without a folder)."""
    tops = [ROOT / folder for folder in folders] or [ROOT]
    return sorted(path for top in tops for path in _written(top) if path.name.endswith(ending))


def _written(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        made = path.name in _MADE or path.name.endswith((".egg-info", ".db", ".db-wal", ".db-shm"))
        hidden = path.name.startswith(".") and path.name not in {".ci", ".gitignore"}
        if made or hidden:
            continue
        if path.is_dir():
            yield from _written(path)
        else:
            yield path


def shown(path: Path) -> str:
    """How a message names a file."""
    return path.relative_to(ROOT).as_posix()


def refuse(offences: Iterable[str], rule: str) -> None:
    """Fail with the rule and every place that breaks it."""
    found = sorted(offences)
    if found:
        raise AssertionError("\n  ".join([f"{rule}:", *found]))


@cache
def syntax(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@dataclass(frozen=True)
class Import:
    """One import: the absolute name of what a file asks for, and how it asks."""

    path: Path
    line: int
    name: str  # for `from a import b` this is a.b
    relative: bool

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line}: imports {self.name}"

    def reaches(self, module: str) -> bool:
        """Whether it asks for this module or something inside it."""
        return self.name == module or self.name.startswith(f"{module}.")


def imports(path: Path) -> list[Import]:
    """Every import of a file, wherever it stands in it."""
    found: list[Import] = []
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            found += [Import(path, node.lineno, alias.name, False) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = _package(path, node.level) if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
            found += [Import(path, node.lineno, name, bool(node.level)) for name in names]
    return found


def module_name(path: Path) -> str:
    """The installed name of a house file: scheduler/store/tx.py is qsched.scheduler.store.tx."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] != "qsched":
        parts.insert(0, "qsched")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_file(name: str) -> Path | None:
    """The house file behind an installed name, or None."""
    inside = name.split(".")[1:]
    for folder in (ROOT, ROOT / "qsched"):
        place = folder.joinpath(*inside)
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if inside and path.is_file() and (folder != ROOT or inside[0] in FLOORS):
                return path
    return ROOT / "qsched" / "__init__.py" if name == "qsched" else None


def _package(path: Path, level: int) -> list[str]:
    """The package that `level` dots mean in this file."""
    parts = module_name(path).split(".")
    if path.name != "__init__.py":
        parts.pop()
    return parts[: len(parts) - (level - 1)]
