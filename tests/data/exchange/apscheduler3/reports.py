"""Weekly reports: weekday numbers, ISO weeks, and triggers within triggers."""

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger


def report(kind: str) -> None:
    """Write one."""


scheduler = BackgroundScheduler(timezone="UTC", executors={"default": {"type": "threadpool"}})
scheduler.add_job(
    report, "cron", id="weekly", day_of_week="0", hour=6, kwargs={"kind": "week"}, misfire_grace_time=None
)
scheduler.add_job(report, "cron", id="iso", week="*/2", day_of_week="fri", hour=6, kwargs={"kind": "iso"})
scheduler.add_job(
    report,
    OrTrigger([CronTrigger(hour=6, timezone="UTC"), CronTrigger(hour=18, minute=30, timezone="UTC")]),
    id="twice_a_day",
    kwargs={"kind": "day"},
)
scheduler.add_job(
    report,
    AndTrigger(
        [CronTrigger(day=13, hour=6, timezone="UTC"), CronTrigger(day_of_week="fri", hour=6, timezone="UTC")]
    ),
    id="friday_13th",
    kwargs={"kind": "luck"},
)
scheduler.add_job(report, "cron", id="spread", minute=0, jitter=120, kwargs={"kind": "hour"}, coalesce=False)
