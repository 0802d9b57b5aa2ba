"""The shape of one mapping of a declaration: which keys it may have and what may stand under them."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from .declaration_fields import Wrong, nearest
from .declaration_keys import (
    LATER,
    OTHER_WORDS,
    AfterKeys,
    CalendarKeys,
    ClusterKeys,
    DefaultsKeys,
    FileKeys,
    GroupKeys,
    HttpKeys,
    JobKeys,
    MisfireKeys,
    RetentionKeys,
    RetryKeys,
    TriggerKeys,
)
from .declaration_problem import Problem
from .declaration_schedules import CalendarIntervalKeys, DailyWindowKeys, PartKeys
from .yaml_scalars import is_null
from .yaml_tree import Document, Path, is_mapped

_PLACES: Mapping[str, Any] = {
    "defaults": DefaultsKeys,
    "jobs": JobKeys,
    "triggers": TriggerKeys,
    "cluster": ClusterKeys,
    "retry": RetryKeys,
    "misfire": MisfireKeys,
    "after": AfterKeys,
    "groups": GroupKeys,
    "calendars": CalendarKeys,
    "calendar_interval": CalendarIntervalKeys,
    "daily_window": DailyWindowKeys,
    "any": PartKeys,
    "all": PartKeys,
    "http": HttpKeys,
    "retention": RetentionKeys,
    "": FileKeys,
}
_FEW = 12
_SAID_OF = {
    "triggers": "a trigger",
    "jobs": "a job",
    "defaults": "`defaults`",
    "cluster": "`cluster`",
    "retry": "`retry`",
    "misfire": "`misfire`",
    "after": "`after`",
    "groups": "a group",
    "calendars": "a calendar",
    "calendar_interval": "`calendar_interval`",
    "daily_window": "`daily_window`",
    "any": "an item of `any`",
    "all": "an item of `all`",
    "http": "`http`",
    "retention": "`retention`",
    "": "the top of the file",
}


@cache
def adapter(keys: Any) -> TypeAdapter[dict[str, Any]]:
    """pydantic's reader of a mapping with these keys."""
    return TypeAdapter(keys)


def read_shape(keys: Any, raw: object, document: Document, path: Path) -> dict[str, Any]:
    """What `raw` says, by key; whatever is wrong becomes a problem of the document and is left out."""
    if not is_mapped(raw):
        document.problems.append(not_a_mapping(raw, document, path))
        return {}
    reader = adapter(keys)
    try:
        return reader.validate_python(raw)
    except ValidationError as error:
        details = error.errors(include_url=False)
    for detail in details:
        for wrong in _wrongs(keys, detail):
            at = (*path, *detail["loc"], *wrong.at)
            document.problems.append(
                document.at_path(at, wrong.code, wrong.message, hint=wrong.hint, key=wrong.on_key)
            )
    bad = {detail["loc"][0] for detail in details}
    return reader.validate_python({key: value for key, value in raw.items() if key not in bad})


def not_a_mapping(raw: object, document: Document, path: Path) -> Problem:
    """What to say where keys are expected and something else stands."""
    name = str(path[-1]) if path else "a declaration"
    if is_null(raw):
        return document.at_path(
            path, "E010", f"`{name}` is empty", hint="give it keys, or leave it out", key=True
        )
    hint = "write `key: value`"
    if isinstance(raw, str) and ":" in raw and " " not in raw:
        key, _, value = str(raw).partition(":")
        hint = f"write a blank after the colon: `{key}: {value}`"
    elif isinstance(raw, list):
        hint = "write `name: …` without the leading `-`"
    return document.at_path(path, "E010", f"{name} must be a mapping of keys", hint=hint)


def _wrongs(keys: Any, detail: ErrorDetails) -> tuple[Wrong, ...]:
    context: Any = detail.get("ctx") or {}
    if "wrongs" in context:
        found: tuple[Wrong, ...] = context["wrongs"]
        return found
    where = _inner(keys, detail["loc"])
    name = str(detail["loc"][-1]) if detail["loc"] else ""
    if detail["type"] == "extra_forbidden":
        return (unknown_key(name, where, empty=detail["input"] == ""),)
    if detail["type"] == "dict_type":
        return (Wrong("E010", f"`{name}` must be a mapping of keys", "write `key: value` below it"),)
    if detail["type"] == "list_type":
        return (Wrong("E010", f"`{name}` must be a list", "write [one, two]"),)
    return (Wrong("E010", f"`{name}`: {detail['msg']}", "correct it"),)


def _inner(keys: Any, at: tuple[int | str, ...]) -> tuple[str, Mapping[str, Any]]:
    """The name and the keys of the place that an error's location is in."""
    place = next((place for place, known in _PLACES.items() if known is keys), "")
    for part in at[:-1]:
        if part in _PLACES:
            place = str(part)
        elif part == "dst":
            return "dst", {"gap": None, "overlap": None}
    return place, _PLACES[place].__annotations__


def unknown_key(name: str, where: tuple[str, Mapping[str, Any]], *, empty: bool = False) -> Wrong:
    """What to say about a key that is not known at this place."""
    place, known = where
    said = _SAID_OF.get(place, f"`{place}`")
    if name in LATER and place in ("triggers", "jobs", "defaults", ""):
        hint = "leave it out, or wait for a version that has it"
        return Wrong("E012", f"`{name}` is not supported by this version yet", hint, on_key=True)
    if " " in name and not known.keys() & {name}:
        return Wrong(
            "E011", f"unknown key `{name}` in {said}", "a `,` ends a value in {…}: quote it", on_key=True
        )
    meant = OTHER_WORDS.get(name.casefold().replace("-", "_"))
    if meant not in known:
        meant = None if name in _elsewhere(place) else nearest(name, known)
    if meant:
        return Wrong("E011", f"unknown key `{name}` in {said}", f"did you mean `{meant}`?", on_key=True)
    if places := _elsewhere(place).get(name):
        return Wrong(
            "E011", f"the key `{name}` does not belong to {said}", f"it belongs to {places}", on_key=True
        )
    if empty:
        hint = "a `,` ends a value in {…}: quote the value before"
    elif len(known) > _FEW:
        hint = "`qsched schema` lists the keys"
    else:
        hint = f"known are {', '.join(known)}"
    return Wrong("E011", f"unknown key `{name}` in {said}", hint, on_key=True)


@cache
def _elsewhere(place: str) -> dict[str, str]:
    """The keys of all other places, with the name of the first that has them."""
    found: dict[str, str] = {}
    for other, keys in _PLACES.items():
        if other != place:
            for name in keys.__annotations__:
                found.setdefault(name, _SAID_OF[other])
    return found
