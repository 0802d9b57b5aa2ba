"""Files to import: one, a folder's, or standard input, under the names that the report shows."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import SourceError
from .reading import Options, Place, Reading

MOST_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file, and how to find one that stands beside it."""

    name: str
    text: str
    folder: Path | None = None

    def at(self, line: int = 0) -> Place:
        return Place(self.name, line)

    def beside(self, name: str) -> "Source | None":
        """The file `name` in the same folder; None when there is none."""
        path = None if self.folder is None else self.folder / Path(name).name
        return None if path is None or not path.is_file() else _read(path, path.name)


def sources(where: str, suffixes: Sequence[str] = ()) -> list[Source]:
    """The files that `where` names: `-`, a file, or a folder's files (those with these suffixes, if any are given).

    Raises SourceError when there is none, or one cannot be read as text.
    """
    if where == "-":
        return [Source("-", sys.stdin.read())]
    path = Path(where)
    if not path.is_dir():
        return [_read(path, path.name)]
    found = [
        each
        for each in sorted(path.iterdir())
        if each.is_file() and not each.name.startswith(".") and (not suffixes or each.suffix in suffixes)
    ]
    if not found:
        wanted = f" that ends in {' or '.join(suffixes)}" if suffixes else ""
        raise SourceError(f"the folder {where} holds no file{wanted}", hint="name a file, or another folder")
    return [_read(each, each.name) for each in found]


def of_files(
    read: Callable[[Source, Options, Reading], None], suffixes: Sequence[str] = ()
) -> Callable[[str, Options], Reading]:
    """An importer that reads file by file into one Reading."""

    def importer(where: str, options: Options) -> Reading:
        reading = Reading()
        for source in sources(where, suffixes):
            read(source, options, reading)
        return reading

    return importer


def _read(path: Path, name: str) -> Source:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SourceError(f"{name} is larger than {MOST_BYTES} bytes", hint="split it")
        return Source(name, path.read_text(encoding="utf-8"), path.parent)
    except OSError as error:
        raise SourceError(
            f"{name} cannot be read: {error.strerror or error}", hint="name another file"
        ) from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{name} is not UTF-8 text (byte {error.start})", hint="convert it") from error
