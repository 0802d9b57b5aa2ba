"""A process that stands in for a node: runs one body in a worker process, under a lease that it renews as it is told.

Arguments: the folder for its marks, the lease in seconds, and whether it goes on renewing it (`renews`, `once`, `never`).
Once the body has begun it writes what runs where, and at the end how the body ended.
"""

import json
import os
import sys
import threading
from pathlib import Path

from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import context_for, request_for
from qsched.triggers.job import JobDefinition, JobPolicies

from support import process_jobs as jobs
from support.waiting import wait_until


def main(folder: Path, lease: float, how: str, job: str) -> None:
    clock, over = SystemClock(), threading.Event()
    runner = Runner(clock)

    def renew() -> None:
        while not over.is_set():
            runner.renew(clock.monotonic() + lease)
            if how == "once":
                return
            clock.wait(over, lease / 5)

    if how != "never":
        threading.Thread(target=renew, daemon=True).start()
        wait_until(lambda: True, "the first lease")
    mark = folder / "mark"
    if job.endswith("command"):
        text = f"trap '' TERM; sleep 600 & touch {mark}; wait; sleep 600"
        policies = JobPolicies(request_recovery=job.startswith("recoverable"))
        definition = JobDefinition("c", "command", text, policies=policies)
        ctx = JobContext(request_for(definition), clock)
    else:
        ctx = context_for(getattr(jobs, job), clock, fire_data={"mark": str(mark)})
    threading.Thread(target=_tell_when_begun, args=(folder, mark), daemon=True).start()
    outcome = runner.run(ctx)
    over.set()
    _say(folder / "outcome", json.dumps([outcome.kind, outcome.error_message]))
    runner.renew(clock.monotonic() + 60)
    again = runner.run(context_for(jobs.who, clock))
    _say(folder / "again", again.kind)
    runner.close()


def _tell_when_begun(folder: Path, mark: Path) -> None:
    wait_until(mark.exists, "the body to begin", within=60)
    _say(folder / "began", str(os.getpid()))


def _say(file: Path, text: str) -> None:
    """Whole or not at all."""
    (written := file.with_suffix(".new")).write_text(text)
    written.rename(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4])
