"""`${VAR}`, `${VAR:-x}` and `${file:…}`: stored as written, so without secrets; expanded where jobs run."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import TriggerError

FILE = "file:"
LARGEST_FILE = 64 * 1024

_REFERENCE = re.compile(r"\$?\$\{([^{}]*)(\}?)")
_BODY = re.compile(
    r"(?:file:\s*(?P<file>\S.*)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-.*)?)\Z", re.DOTALL
)
HELP = "write ${VAR}, ${VAR:-default} or ${file:/path}; $${ stands for a plain ${"


class VariableError(TriggerError):
    """A `${…}` that cannot be read or has no value here; the message names the variable, never a value."""


def expand(value: Any, environ: Mapping[str, str]) -> Any:
    """`value` with every `${…}` in it replaced; raises VariableError naming the variable.

    `${VAR:-x}` gives x where VAR is unset or empty; `${file:…}` the file's text without its last line break;
    `$${` stands for a plain `${`. The keys of mappings are left alone.
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda found: _replaced(found, environ), value) if "${" in value else value
    if isinstance(value, Mapping):
        return {key: expand(item, environ) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(expand(item, environ) for item in value)
    return value


def malformed(text: str) -> str | None:
    """The first `${…}` of `text` that cannot be read, or None."""
    if "${" in text:
        for found in _REFERENCE.finditer(text):
            if not found[0].startswith("$$") and (not found[2] or _BODY.match(found[1]) is None):
                return found[0]
    return None


def unset(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The names of the variables in `text` that have neither a value in `environ` nor a default."""
    if "${" in text:
        for found in _REFERENCE.finditer(text):
            body = _BODY.match(found[1])
            if body is None or found[0].startswith("$$") or not body["name"] or body["default"]:
                continue
            if body["name"] not in environ:
                yield body["name"]


def _replaced(found: re.Match[str], environ: Mapping[str, str]) -> str:
    if found[0].startswith("$$"):
        return found[0][1:]
    body = _BODY.match(found[1]) if found[2] else None
    if body is None:
        raise VariableError(f"`{found[0].split(':')[0]}…` cannot be read: {HELP}")
    if body["file"]:
        return _file(body["file"].strip())
    name = body["name"]
    if body["default"]:
        return environ.get(name) or body["default"][2:]
    if name not in environ:
        raise VariableError(
            f"the variable {name} is not set: set it where the job runs, or write ${{{name}:-default}}"
        )
    return environ[name]


def _file(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as opened:
            text = opened.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise VariableError(f"${{file:{path}}} cannot be read: {reason}") from None
    if len(text) > LARGEST_FILE:
        raise VariableError(f"${{file:{path}}} is larger than {LARGEST_FILE // 1024} KiB")
    return text.removesuffix("\n").removesuffix("\r")
