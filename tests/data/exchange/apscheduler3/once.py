"""What runs once, what is paused, what another executor runs."""

from datetime import datetime

from apscheduler.schedulers.background import BackgroundScheduler


def migrate(version: int) -> None:
    """Go over."""


def clean() -> None:
    """Throw away."""


scheduler = BackgroundScheduler(timezone="UTC")
scheduler.add_job(migrate, "date", id="cutover", run_date=datetime(2026, 12, 24, 18), kwargs={"version": 2})
scheduler.add_job(
    clean,
    "interval",
    id="clean",
    hours=6,
    start_date=datetime(2026, 1, 1),
    executor="processpool",
    next_run_time=None,
)
scheduler.add_job(clean, "cron", id="night", hour="1-5/2", name="clean at night", max_instances=2)
