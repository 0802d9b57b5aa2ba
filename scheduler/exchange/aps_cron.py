"""APScheduler 3's cron fields in our words: eight named fields, Monday is 0, and day *and* weekday must both match."""

import re
from collections.abc import Mapping

from ...triggers.errors import DefinitionError
from ...triggers.weekdays import WEEKDAYS

FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
"""All of them, widest first, as APScheduler names them."""

_LOWEST = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
_PLACES = {"1st": "#1", "2nd": "#2", "3rd": "#3", "4th": "#4", "5th": "#5", "last": "L"}
_PLACE = re.compile(r"(1st|2nd|3rd|4th|5th|last) +([a-z]{3}|[0-6])", re.IGNORECASE)
_RANGE = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/([0-9]+))?")


def whole(said: Mapping[str, object]) -> dict[str, str]:
    """All eight fields of a cron trigger: what lies below the last one said is at its lowest, what lies above is `*`."""
    texts = {name: str(said[name]).strip() for name in FIELDS if said.get(name) is not None}
    last = max((FIELDS.index(name) for name in texts), default=-1)
    filled = {
        name: _LOWEST.get(name, "*") if texts and place > last else "*" for place, name in enumerate(FIELDS)
    }
    return {**filled, **texts}


def cron_schedule(said: Mapping[str, object]) -> dict[str, object]:
    """The `schedule` of these fields: five-field cron where that can say it, else Quartz, both days as `all`.

    Raises DefinitionError for what no schedule of ours says (`week`), naming the field.
    """
    fields = whole(said)
    if fields["week"] != "*":
        raise DefinitionError(
            f"week={fields['week']!r}: no schedule here counts ISO weeks: write an rrule with BYWEEKNO"
        )
    days, weekdays = day_of_month(fields["day"]), weekday(fields["day_of_week"])
    placed = [part for part in days if "#" in part or (part.endswith("L") and part != "L")]
    if placed and (len(days) > 1 or weekdays != ["*"]):
        raise DefinitionError(f"day={fields['day']!r} beside other days: write one trigger for each")
    if placed:
        return {"quartz": _quartz(fields, "?", placed[0])}
    if days != ["*"] and weekdays != ["*"]:
        both = (_quartz(fields, ",".join(days), "?"), _quartz(fields, "?", ",".join(weekdays)))
        return {"all": [{"quartz": text} for text in both]}
    if fields["second"] == "0" and fields["year"] == "*" and days != ["L"]:
        parts = [_plain(fields["minute"]), _plain(fields["hour"]), ",".join(days)]
        return {"cron": " ".join([*parts, _plain(fields["month"]), ",".join(weekdays).lower()])}
    day, of_week = ("?", ",".join(weekdays)) if weekdays != ["*"] else (",".join(days), "?")
    return {"quartz": _quartz(fields, day, of_week)}


def day_of_month(text: str) -> list[str]:
    """`day`'s elements; `2nd fri` becomes FRI#2, `last` L."""
    found = []
    for part in _parts(text):
        place = _PLACE.fullmatch(part)
        if place is not None:
            name = place[2].lower()
            name = WEEKDAYS[int(name)] if name.isdigit() else name
            if name not in WEEKDAYS:
                raise DefinitionError(f"day={text!r}: {name!r} is no weekday")
            found.append(f"{name.upper()}{_PLACES[place[1].lower()]}")
        else:
            found.append("L" if part.lower() == "last" else part)
    return found


def weekday(text: str) -> list[str]:
    """`day_of_week`'s elements by name: 0 is Monday there, in `from_crontab` too."""
    found: list[int] = []
    for part in _parts(text):
        match = _RANGE.fullmatch(part.lower())
        if match is None:
            raise DefinitionError(f"day_of_week={text!r} is not readable")
        first, last, step = match.groups()
        if first == "*" and step is None:
            return ["*"]
        low = 0 if first == "*" else _number(first, text)
        high = _number(last, text) if last else 6 if first == "*" or step else low
        found += range(low, high + 1, int(step or 1))
    return ["*"] if len(set(found)) == 7 else [WEEKDAYS[day].upper() for day in sorted(set(found))]


def _number(name: str, text: str) -> int:
    if name.isdigit() and int(name) < 7:
        return int(name)
    if name[:3] in WEEKDAYS:
        return WEEKDAYS.index(name[:3])
    raise DefinitionError(f"day_of_week={text!r}: {name!r} is no weekday (0 is Monday)")


def _quartz(fields: Mapping[str, str], day: str, of_week: str) -> str:
    parts = [*(_plain(fields[name]) for name in ("second", "minute", "hour")), day]
    parts += [_plain(fields["month"]), of_week]
    return " ".join(parts if fields["year"] == "*" else [*parts, _plain(fields["year"])])


def _plain(text: str) -> str:
    return ",".join(_parts(text))


def _parts(text: str) -> list[str]:
    return [part for part in re.split(" *, *", text.strip()) if part]
