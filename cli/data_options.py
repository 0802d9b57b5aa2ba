"""`--data JSON` and `--set NAME=VALUE`: the data that a command gives to a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from .exits import USAGE, CommandError

_EXAMPLE = """write '{"key": "value"}'"""


def data_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Both options, for a command that takes them as `data` and `values`."""
    said = click.option("--data", metavar="JSON", help="""Its data, as in '{"day": "2026-12-24"}'.""")
    each = click.option(
        "--set",
        "values",
        multiple=True,
        metavar="NAME=VALUE",
        help="One of its data, over --data; a VALUE that is JSON is that, another is text.",
    )
    return said(each(function))


def data_of(text: str | None, values: Sequence[str]) -> dict[str, Any]:
    """What both say together; a CommandError for what they cannot say."""
    data = _object(text)
    for pair in values:
        name, equals, value = pair.partition("=")
        if not (equals and name):
            raise CommandError(f"--set {pair!r} is not NAME=VALUE", code=USAGE, hint="write --set day=monday")
        data[name] = _value(value)
    return data


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--data is not JSON ({error})", code=USAGE, hint=_EXAMPLE) from error
    if not isinstance(value, dict):
        raise CommandError("--data must be a JSON object", code=USAGE, hint=_EXAMPLE)
    return value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
