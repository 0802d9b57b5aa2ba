"""The face of qsched: the names users write, loaded when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Cron": "triggers.cron",
    "Every": "triggers.interval",
    "At": "triggers.once",
    "CalendarInterval": "triggers.calendar_interval",
    "DailyWindow": "triggers.daily_window",
    "Recurrence": "triggers.recurrence",
    "AnyOf": "triggers.combined",
    "AllOf": "triggers.combined",
    "RetryPolicy": "triggers.retry",
    "CronError": "triggers.errors",
    "QschedError": "triggers.errors",
    "job": "scheduler.jobs",
    "on_startup": "scheduler.around.marks",
    "on_shutdown": "scheduler.around.marks",
    "scope": "scheduler.around.marks",
    "middleware": "scheduler.around.marks",
    "JobContext": "scheduler.context",
    "PermanentError": "scheduler.errors",
    "RetryAfter": "scheduler.errors",
    "RetryNow": "scheduler.errors",
    "Scheduler": "scheduler.client",
    "Node": "cluster.node",
    "QschedJobStore": "cluster.apscheduler_store",
    "listener": "scheduler.around.marks",
    "Event": "scheduler.events",
    "Fact": "scheduler.events",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604

if TYPE_CHECKING:
    from .cluster.apscheduler_store import QschedJobStore as QschedJobStore
    from .cluster.node import Node as Node
    from .scheduler.around.marks import listener as listener
    from .scheduler.around.marks import middleware as middleware
    from .scheduler.around.marks import on_shutdown as on_shutdown
    from .scheduler.around.marks import on_startup as on_startup
    from .scheduler.around.marks import scope as scope
    from .scheduler.client import Scheduler as Scheduler
    from .scheduler.context import JobContext as JobContext
    from .scheduler.errors import PermanentError as PermanentError
    from .scheduler.errors import RetryAfter as RetryAfter
    from .scheduler.errors import RetryNow as RetryNow
    from .scheduler.events import Event as Event
    from .scheduler.events import Fact as Fact
    from .scheduler.jobs import job as job
    from .triggers.calendar_interval import CalendarInterval as CalendarInterval
    from .triggers.combined import AllOf as AllOf
    from .triggers.combined import AnyOf as AnyOf
    from .triggers.cron import Cron as Cron
    from .triggers.daily_window import DailyWindow as DailyWindow
    from .triggers.errors import CronError as CronError
    from .triggers.errors import QschedError as QschedError
    from .triggers.interval import Every as Every
    from .triggers.once import At as At
    from .triggers.recurrence import Recurrence as Recurrence
    from .triggers.retry import RetryPolicy as RetryPolicy


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'qsched' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
