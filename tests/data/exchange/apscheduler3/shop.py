"""A shop's scheduler, as APScheduler's first page shows one."""

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger


def send_invoices(month_close: bool = False) -> None:
    """Send them."""


def refresh_rates(base: str) -> None:
    """Fetch them."""


scheduler = BackgroundScheduler(timezone="Europe/Berlin", job_defaults={"coalesce": True, "max_instances": 1})
scheduler.add_job(send_invoices, "cron", id="invoices", hour=2, minute=15, misfire_grace_time=3600)
scheduler.add_job(refresh_rates, "interval", id="rates", minutes=15, args=["EUR"], max_instances=3)
scheduler.add_job(
    send_invoices, CronTrigger(day="last", hour=18, minute=30, timezone="Europe/Berlin"), id="month_close",
    kwargs={"month_close": True},
)  # fmt: skip
scheduler.add_job(lambda: None, "interval", id="heartbeat", seconds=30)
