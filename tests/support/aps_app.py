"""An APScheduler 3 application as people write them: a scheduler in each worker, twenty jobs every second.

Only its job store is a setting; what is scheduled, and what tells the ledger, is the same with each.
"""

import os
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apscheduler.events import EVENT_JOB_SUBMITTED
from apscheduler.schedulers.background import BackgroundScheduler

JOBS = 20
LEDGER = Path(os.environ.get("APP_LEDGER", "ledger"))


def tell(*words: object) -> None:
    """One line, whole: appended in one write."""
    with LEDGER.open("ab", buffering=0) as file:
        file.write((" ".join(map(str, words)) + "\n").encode())


def work(name: str) -> None:
    """A job that takes a while."""
    tell("begin", name, os.getpid())
    threading.Event().wait(0.25)
    tell("end", name, os.getpid())


def submitted(event: Any) -> None:
    """Each run that this worker's executor was given, by its slot."""
    for at in event.scheduled_run_times:
        tell("slot", event.job_id, int(at.astimezone(UTC).timestamp()), os.getpid())


def jobstore(setting: str) -> dict[str, Any]:
    """The one line that differs."""
    kind, _, url = setting.partition(" ")
    return {"type": kind, "url": url} if url else {"type": kind}


def main() -> None:
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    scheduler = BackgroundScheduler(
        jobstores={"default": jobstore(os.environ["APP_JOBSTORE"])},
        executors={"default": {"type": "threadpool", "max_workers": JOBS}},
        timezone="UTC",
    )
    scheduler.add_listener(submitted, EVENT_JOB_SUBMITTED)
    for number in range(JOBS):
        name = f"job-{number:02}"
        scheduler.add_job(
            "support.aps_app:work", "cron", second="*", id=name, args=[name], replace_existing=True
        )
    scheduler.start()
    tell("ready", datetime.now(UTC).isoformat(), os.getpid())  # noqa: TID251  # an application's own
    leaving.wait()
    scheduler.shutdown()


if __name__ == "__main__":
    main()
