"""How the value under each kind of key is read: text, names, numbers, durations, zones, data."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic_core import PydanticCustomError

from .declaration_problem import PathPart
from .declaration_times import Moment, parse_moment
from .declaration_variables import HELP, malformed
from .duration import parse_duration
from .errors import TriggerError, ZoneError
from .job import canonical
from .retention import FOREVER
from .yaml_scalars import OLD_BOOLEANS, Plain, is_null, resolve
from .zone import find_zone

LONGEST_NAME = 200
LARGEST_DATA = 256 * 1024
LONGEST_TEXT = 4096

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TARGET = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
_ENVIRONMENT_NAME = re.compile(r"[^=\x00]+\Z")


class Wrong(NamedTuple):
    """What a reader has against a value: `at` leads to the part of it that is wrong."""

    code: str
    message: str
    hint: str = ""
    at: tuple[PathPart, ...] = ()
    on_key: bool = False


def refused(*wrongs: Wrong) -> PydanticCustomError:
    """The exception that carries `wrongs` through pydantic."""
    return PydanticCustomError("qsched", "refused", {"wrongs": wrongs})


def _kind(value: object) -> str:
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else "nothing"


def scalar(value: object, wanted: str) -> str:
    """The text of what stands there; `wanted` says what else was expected."""
    if not isinstance(value, str):
        raise refused(
            Wrong("E010", f"expected {wanted}, and this is {_kind(value)}", "quote it if it is text")
        )
    if is_null(value):
        raise refused(
            Wrong("E010", f"expected {wanted}, and nothing is given", "give a value, or leave the key out")
        )
    return str(value)


def read_text(value: object) -> str:
    """Text as it is written, whatever YAML would make of it (`1.10` stays `1.10`)."""
    text = scalar(value, "text")
    if "${" in text:
        raise refused(Wrong("E028", "`${` is expanded only in env, http and data", "write the value itself"))
    if "\0" in text:
        raise refused(Wrong("E010", "text cannot hold a NUL character", "remove it"))
    if len(text) > LONGEST_TEXT:
        raise refused(Wrong("E010", f"this text is longer than {LONGEST_TEXT} characters", "shorten it"))
    return text


def name_fault(name: str) -> Wrong | None:
    """Why `name` cannot be the name of a job, trigger, group or tag; None when it can."""
    if not 1 <= len(name) <= LONGEST_NAME:
        hint = f"use 1 to {LONGEST_NAME} characters"
        return Wrong("E017", f"a name of {len(name)} characters" if name else "an empty name", hint)
    if "/" in name:
        hint = f"write `{name.rpartition('/')[2]}`, with `group: {name.rpartition('/')[0] or '…'}`"
        return Wrong("E017", f"the name `{name}` holds a `/`", hint)
    if _CONTROL.search(name):
        return Wrong("E017", f"the name {name!r} holds a control character", "remove it")
    if name != name.strip():
        return Wrong("E017", f"the name {name!r} begins or ends with a blank", "remove the blank")
    if "${" in name:
        return Wrong("E028", "`${` is expanded only in env, http and data", "write the name itself")
    return None


def read_name(value: object) -> str:
    """A name: 1 to 200 characters, no `/`, no control characters, no blank at its ends."""
    name = scalar(value, "a name")
    if (fault := name_fault(name)) is not None:
        raise refused(fault)
    return name


def read_names(value: object) -> list[str]:
    """A list of names, or one name that stands for a list of one."""
    return list(dict.fromkeys(_each(read_name, value if isinstance(value, list) else [value])))


def read_texts(value: object) -> list[str]:
    """A list of texts, or one text that stands for a list of one."""
    return _each(read_text, value if isinstance(value, list) else [value])


def _each(read: Callable[[object], str], items: list[object]) -> list[str]:
    """Every item read; all that is wrong with them is told together."""
    done: list[str] = []
    wrongs: list[Wrong] = []
    for index, item in enumerate(items):
        try:
            done.append(read(item))
        except PydanticCustomError as error:
            wrongs += [wrong._replace(at=(index, *wrong.at)) for wrong in wrongs_of(error)]
    if wrongs:
        raise refused(*wrongs)
    return done


def wrongs_of(error: PydanticCustomError) -> tuple[Wrong, ...]:
    """What `refused` put into an error."""
    context: Any = error.context
    return tuple(context["wrongs"])


def read_key(value: object) -> str:
    """A trigger's key: `name` or `group/name`."""
    text = scalar(value, "a trigger's name or group/name")
    for part in text.split("/", 1):
        if (fault := name_fault(part)) is not None:
            raise refused(fault)
    return text


def read_boolean(value: object) -> bool:
    """`true` or `false`, as YAML 1.2 has them."""
    text = scalar(value, "true or false")
    resolved = resolve(text) if isinstance(value, Plain) else text
    if not isinstance(resolved, bool):
        hint = "write true or false" if text in OLD_BOOLEANS else "write true or false, without quotes"
        raise refused(Wrong("E010", f"expected true or false, and this is `{text}`", hint))
    return resolved


def read_number(value: object) -> int | float:
    """A number, not in quotes."""
    text = scalar(value, "a number")
    try:
        resolved = resolve(text) if isinstance(value, Plain) else text
    except ValueError:
        resolved = text
    if isinstance(resolved, bool) or not isinstance(resolved, int | float) or not math.isfinite(resolved):
        hint = "write digits, without quotes" if text.isascii() else "write digits 0 to 9"
        raise refused(Wrong("E019", f"expected a number, and this is `{text[:40]}`", hint))
    return resolved


def whole(least: int, most: int) -> Callable[[object], int]:
    """A reader of whole numbers from `least` to `most`."""

    def read(value: object) -> int:
        number = read_number(value)
        if not isinstance(number, int) or not least <= number <= most:
            shown = f"{number:.40}" if isinstance(number, float) else str(number)[:40]
            raise refused(Wrong("E019", f"{shown} is not a whole number from {least} to {most}", "change it"))
        return number

    return read


def read_version(value: object) -> int:
    """The version of the format: 1."""
    number = read_number(value)
    if number != 1 or not isinstance(number, int):
        hint = "write `qsched: 1`, or use a newer qsched"
        raise refused(Wrong("E035", f"this version reads format 1, and the file says {number}", hint))
    return number


def word_of(*words: str, aliases: Mapping[str, str] | None = None) -> Callable[[object], str]:
    """A reader of one of `words`; `aliases` are other schedulers' words for them."""

    def read(value: object) -> str:
        text = scalar(value, f"one of {', '.join(words)}")
        if text in words:
            return text
        meant = (aliases or {}).get(text) or nearest(text, words)
        hint = f"did you mean `{meant}`?" if meant else f"write one of {', '.join(words)}"
        raise refused(Wrong("E014", f"`{text[:80]}` is not one of {', '.join(words)}", hint))

    return read


def nearest(text: str, words: object) -> str | None:
    """The known word that is most like `text`, whatever its letter case; None when none is near."""
    import difflib

    folded = {str(word).casefold().replace("-", "_"): str(word) for word in words}  # type: ignore[attr-defined]
    close = difflib.get_close_matches(text.casefold().replace("-", "_"), folded, 1, 0.6)
    return folded[close[0]] if close else None


def _duration_text(value: object, *, zero: bool = False) -> str:
    text = scalar(value, "a duration")
    try:
        parse_duration(text, zero=zero)
    except TriggerError as error:
        raise refused(Wrong("E015", *_split(error))) from error
    return text


def read_duration_text(value: object) -> str:
    """A duration > 0, left as text."""
    return _duration_text(value)


def read_duration(value: object) -> int:
    """A duration > 0 in microseconds."""
    return parse_duration(_duration_text(value))


def read_duration_or_zero(value: object) -> int:
    """A duration ≥ 0 in microseconds."""
    return parse_duration(_duration_text(value, zero=True), zero=True)


def read_duration_or_forever(value: object) -> int | str:
    """A duration > 0 in microseconds, or the word `forever`."""
    return FOREVER if value == FOREVER else parse_duration(_duration_text(value))


def read_durations(value: object) -> list[str]:
    """A list of durations > 0, left as text."""
    if not isinstance(value, list):
        raise refused(Wrong("E010", "expected a list of durations", "write [2s, 10s, 1m]"))
    return _each(read_duration_text, value)


def read_moment(value: object) -> Moment:
    """A date, or a date and time."""
    text = scalar(value, "a date or time")
    try:
        return parse_moment(text)
    except TriggerError as error:
        message, _, hint = str(error).rpartition("; ")
        raise refused(Wrong("E016", message, hint)) from error


def read_zone(value: object) -> str:
    """An IANA time zone that this machine knows."""
    text = read_text(value)
    try:
        return find_zone(text).key
    except ZoneError as error:
        message, _, hint = str(error).rpartition("; ")
        raise refused(Wrong("E018", message, hint)) from error


def read_target(value: object) -> str:
    """`module:function`."""
    text = read_text(value)
    if not is_target(text):
        hint = "write module:function, as in bookstore.jobs:fetch_rates"
        raise refused(Wrong("E036", f"`{text}` does not name a function", hint))
    return text


def is_target(text: str) -> bool:
    """Whether text reads as `module:function`."""
    return _TARGET.match(text) is not None


def read_command(value: object) -> str | list[str]:
    """A text for the shell, or a list of arguments; nothing in it is expanded here."""
    parts = value if isinstance(value, list) else [value]
    if not parts:
        raise refused(Wrong("E036", "an empty command", "write a text for the shell, or a list of arguments"))
    texts = []
    for index, part in enumerate(parts):
        if isinstance(value, list) and isinstance(part, str):
            text = str(part)  # `echo null` passes the word null
        else:
            text = scalar(part, "a command: text or a list of texts")
        if "\0" in text or (index == 0 and not text.strip()):
            raise refused(Wrong("E036", "a command cannot be empty or hold a NUL character", "correct it"))
        texts.append(text)
    return texts if isinstance(value, list) else texts[0]


def read_environment(value: object) -> dict[str, str]:
    """Names and values as they are written; `${…}` stays, to be expanded where the command runs."""
    if not isinstance(value, dict):
        raise refused(Wrong("E010", f"expected a mapping, and this is {_kind(value)}", "write {NAME: value}"))
    read, wrongs = {}, []
    for name, item in value.items():
        if not isinstance(item, str) or is_null(item):
            hint = 'write a text; "" is the empty one'
            wrongs.append(Wrong("E010", f"the variable `{name}` needs a text", hint, (name,)))
        elif _ENVIRONMENT_NAME.match(name) is None or "\0" in item:
            hint = "use letters, digits and _"
            wrongs.append(Wrong("E017", f"{name!r} cannot be an environment variable", hint, (name,), True))
        elif malformed(item) is not None:
            wrongs.append(Wrong("E028", "a `${…}` that cannot be read", HELP, (name,)))
        else:
            read[name] = str(item)
    if wrongs:
        raise refused(*wrongs)
    return read


def read_data(value: object) -> dict[str, Any]:
    """A mapping of JSON values of at most 256 KiB; `${…}` stays, to be expanded where the job runs."""
    if not isinstance(value, dict):
        raise refused(Wrong("E010", "expected a mapping", "write {name: value}"))
    read: dict[str, Any] = read_json(value)
    return read


def read_json(value: object) -> Any:
    """Any JSON value of at most 256 KiB; `${…}` stays in its texts."""
    wrongs: list[Wrong] = []
    read = _json(value, (), wrongs)
    if not wrongs and len(canonical(read).encode()) > LARGEST_DATA:
        wrongs.append(
            Wrong("E034", f"data of more than {LARGEST_DATA // 1024} KiB", "store it elsewhere and name it")
        )
    if wrongs:
        raise refused(*wrongs)
    return read


def _json(value: Any, at: tuple[PathPart, ...], wrongs: list[Wrong]) -> Any:
    if isinstance(value, dict):
        return {str(name): _json(item, (*at, name), wrongs) for name, item in value.items()}
    if isinstance(value, list):
        return [_json(item, (*at, index), wrongs) for index, item in enumerate(value)]
    if isinstance(value, str) and malformed(value) is not None:
        wrongs.append(Wrong("E028", "a `${…}` that cannot be read", HELP, at))
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        wrongs.append(
            Wrong("E034", "half of a surrogate pair is no character", "write the whole character", at)
        )
    if not isinstance(value, Plain):
        return value
    try:
        resolved = resolve(str(value))
    except ValueError:
        wrongs.append(Wrong("E034", "a number with too many digits", "quote it", at))
        return None
    if isinstance(resolved, float) and not math.isfinite(resolved):
        wrongs.append(Wrong("E034", f"`{value}` cannot be kept as JSON", "quote it, or leave it out", at))
    return resolved


def _split(error: TriggerError) -> tuple[str, str]:
    message, _, hint = str(error).partition(": ")
    return message, hint or "write it as in 30s, 5m or 1h30m"
