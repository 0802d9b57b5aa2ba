"""What may travel with a job: JSON of a bounded size; what is not is refused early, and by name."""

import math
from collections.abc import Mapping
from typing import Any

from ..triggers.errors import DefinitionError
from ..triggers.job import canonical

LARGEST_PAYLOAD = 256 * 1024
"""Bytes of JSON that a job, a trigger or a fire may carry."""
_DEEPEST = 50


def checked_data(data: object, *, of: str) -> dict[str, Any]:
    """`data` as plain dicts, lists, text, numbers, booleans and None.

    Raises DefinitionError naming `of` (whose data they are), the key and what to do instead.
    """
    if not isinstance(data, Mapping):
        raise DefinitionError(f"data of {of} must be a mapping of names to values, and {_short(data)} is not")
    plain = {_name(key, of): _plain(value, str(key), of, 1) for key, value in data.items()}
    size = len(canonical(plain).encode("utf-8", "surrogatepass"))
    if size > LARGEST_PAYLOAD:
        raise DefinitionError(
            f"data of {of} take {size:,} bytes, more than {LARGEST_PAYLOAD:,}:"
            " store them yourself and pass their id"
        )
    return plain


def _name(key: object, of: str) -> str:
    if not isinstance(key, str):
        raise DefinitionError(f"data of {of} have the key {_short(key)}, which is not text: quote it")
    return key


def _plain(value: object, at: str, of: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise DefinitionError(
            f"data of {of} are nested deeper than {_DEEPEST} levels at {at[:80]}: flatten them"
        )
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(str(value), at, of)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DefinitionError(
                f"data of {of}: {at} is {value}, which JSON cannot carry: pass None or text"
            )
        return float(value)
    if isinstance(value, Mapping):
        return {_name(key, of): _plain(item, f"{at}.{key}", of, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{at}[{index}]", of, depth + 1) for index, item in enumerate(value)]
    raise DefinitionError(
        f"data of {of}: {at} is {_short(value)} ({type(value).__qualname__}), which JSON cannot carry:"
        f" {_ADVICE.get(type(value).__name__, 'pass text or numbers that identify it')}"
    )


_ADVICE = {
    "datetime": "pass its isoformat()",
    "date": "pass its isoformat()",
    "time": "pass its isoformat()",
    "timedelta": "pass its total_seconds()",
    "Decimal": "pass str() of it",
    "UUID": "pass str() of it",
    "set": "pass a sorted list",
    "frozenset": "pass a sorted list",
    "bytes": "pass base64 text",
    "function": "pass a name, or make it a job of its own",
    "TextIOWrapper": "pass the path and open it in the job",
}


def _text(value: str, at: str, of: str) -> str:
    if "\0" in value:
        raise DefinitionError(f"data of {of}: {at} holds a NUL character, which databases refuse: remove it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DefinitionError(
            f"data of {of}: {at} holds half a surrogate pair, which is no text: repair it"
        ) from None
    return value


def _short(value: object) -> str:
    try:
        shown = repr(value)
    except Exception:  # a value's own repr may raise anything
        shown = f"<{type(value).__qualname__}>"
    return shown if len(shown) <= 60 else shown[:57] + "…"
