"""Answers on standard output in the form that was asked for; talk goes to standard error."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import click

from .settings import Settings
from .table import Column, Item, Table, View

API_VERSION = "qsched/v1"


@dataclass(frozen=True)
class Listing:
    """A kind of list: what its documents are called, its columns, and what stands for an item by name alone."""

    kind: str
    columns: Sequence[Column]
    name: str = "name"


def show(settings: Settings, listing: Listing, items: Iterable[Item], now: Callable[[], int]) -> None:
    """Write items as table, wide, json, yaml, or one name a line; a long list begins at once."""
    if settings.output in ("table", "wide"):
        _show_table(settings, listing, items, now)
    elif settings.output == "name":
        _write(f"{item[listing.name]}\n" for item in items)
    else:
        show_document(settings.output, listing.kind, items)


def show_document(form: str, kind: str, items: Iterable[Item]) -> None:
    """Write `{"apiVersion", "kind", "items"}` as json, or as yaml."""
    _write(_yaml(kind, items) if form == "yaml" else _json(kind, items))


def _show_table(settings: Settings, listing: Listing, items: Iterable[Item], now: Callable[[], int]) -> None:
    wide = settings.output == "wide"
    zone = settings.zone()  # an unknown zone is said before the store is asked
    lines = iter(items)
    first = list(islice(lines, 1))
    if not first:
        say(f"no {_plural(listing.kind)}")
        return
    table = fitting(listing.columns, wide=wide)
    _write(f"{line}\n" for line in table.lines(chain(first, lines), View(zone, now())))


def fitting(columns: Sequence[Column], *, wide: bool = False) -> Table:
    """A table that fits the terminal, if one is looking and `wide` did not ask for all of it."""
    terminal = sys.stdout.isatty()
    return Table(
        [column for column in columns if wide or not column.wide],
        width=shutil.get_terminal_size().columns if terminal and not wide else None,
        colour=terminal and colourful(),
    )


def colourful() -> bool:
    """Whether colours are welcome: NO_COLOR and a dumb terminal say no."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(text: str) -> None:
    """Talk: to standard error, so that it never mixes with an answer."""
    click.echo(text, err=True)


def answer(text: str) -> None:
    """A line of an answer, to standard output."""
    _write([f"{text}\n"])


def _write(pieces: Iterable[str]) -> None:
    write = sys.stdout.write
    for piece in pieces:
        write(piece)


def _plural(kind: str) -> str:
    words = kind.removesuffix("List").lower()
    return f"{words}s"


def _json(kind: str, items: Iterable[Item]) -> Iterator[str]:
    import json

    dumps = json.JSONEncoder(ensure_ascii=False).encode
    yield f'{{"apiVersion": "{API_VERSION}", "kind": {dumps(kind)}, "items": ['
    comma = "\n"
    for item in items:
        yield f"{comma}  {dumps(dict(item))}"
        comma = ",\n"
    yield "]}\n" if comma == "\n" else "\n]}\n"


def _yaml(kind: str, items: Iterable[Item]) -> Iterator[str]:
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    yield f"apiVersion: {API_VERSION}\nkind: {kind}\n"
    head = "items:\n"
    for item in items:
        yield head + yaml.dump(
            [dict(item)], Dumper=dumper, sort_keys=False, allow_unicode=True, width=1 << 20
        )
        head = ""
    if head:
        yield "items: []\n"
