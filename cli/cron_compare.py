"""How other libraries read a cron expression: second opinions, never a source of times."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..triggers.instant import from_instant, to_instant

if TYPE_CHECKING:
    from ..triggers.cron import Cron

Reader = Callable[["Cron", datetime], Iterator[datetime | None]]


def readings(schedule: Cron, start: int, count: int) -> dict[str, list[int] | str]:
    """{library: its next `count` times, or in words why it has none}."""
    from ..triggers.zone import find_zone

    moment = from_instant(start).astimezone(find_zone(schedule.time_zone).tz)
    found: dict[str, list[int] | str] = {}
    for name, reader in (("croniter", _croniter), ("apscheduler", _apscheduler)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                times = [
                    to_instant(time) for time in islice(reader(schedule, moment), count) if time is not None
                ]
        except ImportError:
            found[name] = "not installed"
        except Exception as error:  # whatever another library raises for what it does not know
            found[name] = f"cannot read it ({' '.join(str(error).split()) or type(error).__name__})"
        else:
            found[name] = times
    return found


def _croniter(schedule: Cron, moment: datetime) -> Iterator[datetime | None]:
    from croniter import croniter

    expression = schedule.expr
    # croniter reads seconds first only when told to, and knows no `?`.
    options: dict[str, Any] = {"second_at_beginning": True} if schedule.dialect == "quartz" else {}
    times = croniter(expression.replace("?", "*"), moment, ret_type=datetime, hash_id=schedule.key, **options)
    while True:
        yield times.get_next(datetime)


def _apscheduler(schedule: Cron, moment: datetime) -> Iterator[datetime | None]:
    from importlib import import_module

    trigger_class = import_module("apscheduler.triggers.cron").CronTrigger
    if schedule.dialect == "unix":
        trigger = trigger_class.from_crontab(schedule.expr, timezone=moment.tzinfo)
    else:
        trigger = trigger_class(**_quartz_fields(schedule.expr), timezone=moment.tzinfo)
    last = moment
    while True:
        found = trigger.get_next_fire_time(None, last + timedelta(microseconds=1))
        if found is None:
            return
        yield found
        last = found


def _quartz_fields(expression: str) -> dict[str, str]:
    names = ("second", "minute", "hour", "day", "month", "day_of_week", "year")
    return {name: text for name, text in zip(names, expression.split(), strict=False) if text != "?"}
