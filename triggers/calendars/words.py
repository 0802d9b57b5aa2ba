"""A calendar's spec in plain words, for lists."""

from collections.abc import Mapping
from typing import Any

_FEW = 3


def calendar_words(spec: Mapping[str, Any], within: str | None = None) -> str:
    """What a calendar leaves out, shortened: `sat, sun; 22:00-06:00; holidays TR`; its zone, unless that is `within`."""
    own = spec.get("time_zone", within)
    parts: list[str] = []
    if weekly := spec.get("weekly"):
        parts.append(", ".join(weekly))
    dates = [_range(*each) for key in ("dates", "yearly") for each in spec.get(key, ())]
    if dates:
        parts.append(_some(dates, "ranges of dates"))
    if daily := spec.get("daily"):
        parts.append(", ".join(f"{begin}-{end}" for begin, end in daily))
    parts += [f"{key} {spec[key]}" for key in ("cron", "quartz") if key in spec]
    if holidays := spec.get("holidays"):
        parts.append(
            " ".join(["holidays", holidays["country"], *filter(None, [holidays.get("subdivision")])])
        )
    events = sum(len(spec.get(key, ())) for key in ("spans", "days", "recurring"))
    if events:
        parts.append(f"{events} event{'' if events == 1 else 's'}")
    parts += [calendar_words(each, own) for each in spec.get("any", ())]
    zone = f" ({own})" if own not in (None, within) else ""
    return "; ".join(parts) + zone


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first}..{last}"


def _some(texts: list[str], what: str) -> str:
    if len(texts) <= _FEW:
        return ", ".join(texts)
    return f"{', '.join(texts[:_FEW])}, … ({len(texts)} {what})"
