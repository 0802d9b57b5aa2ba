"""The idempotency key's template, `invoice-email:{order_id}`: names in braces stand for data."""

import re
from collections.abc import Mapping
from typing import Any

from ..triggers.errors import DefinitionError
from .errors import PermanentError

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\}")
LONGEST_KEY = 500


def template_names(template: str) -> tuple[str, ...]:
    """The names a template uses, in order; raises DefinitionError for a template that cannot be read."""
    if not isinstance(template, str) or not template.strip():
        raise DefinitionError(
            f"key {template!r} is not a template: write text with names of data in braces,"
            " as in email:{order_id}"
        )
    rest = _NAME.sub("", template)
    if "{" in rest or "}" in rest:
        raise DefinitionError(
            f"key {template!r} has a brace that holds no name of data: write {{order_id}} or {{order.id}}"
        )
    return tuple(dict.fromkeys(_NAME.findall(template)))


def render_key(template: str, data: Mapping[str, Any]) -> str:
    """The key for these data; raises PermanentError naming what is missing, or what is no plain value."""
    key = _NAME.sub(lambda found: plain_value(found[1], data, of=f"key {template!r}"), template)
    if len(key) > LONGEST_KEY:
        raise PermanentError(
            f"the idempotency key from {template!r} has {len(key)} characters, more than {LONGEST_KEY}:"
            " build it from short values, as ids are"
        )
    return key


def missing_names(template: str, data: Mapping[str, Any]) -> list[str]:
    """The names a template uses that these data do not have."""
    return [name for name in template_names(template) if not has_name(name, data)]


_MISSING = object()


def _found(name: str, data: Mapping[str, Any]) -> Any:
    value: Any = data
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def plain_value(name: str, data: Mapping[str, Any], *, of: str) -> str:
    """A text or number of data, as text; raises PermanentError, beginning with `of`, for what is missing or neither."""
    value = _found(name, data)
    if value is _MISSING:
        raise PermanentError(f"{of} names {name}, which the data do not have: add it to data")
    if isinstance(value, bool | None) or not isinstance(value, str | int | float):
        raise PermanentError(
            f"{of} names {name}, whose value is no text or number: choose one that identifies the work"
        )
    return str(value)


def has_name(name: str, data: Mapping[str, Any]) -> bool:
    """Whether data have what `{name}` stands for."""
    return _found(name, data) is not _MISSING
