"""A module of jobs that one node cannot import: an older release, a missing library."""

import os

from fault.fault_jobs import work
from qsched import JobContext, job

SEAT = "FAULT_SEAT"
"""Names the node, for its processes."""
WITHOUT = "n1"

if os.environ.get(SEAT) == WITHOUT:
    raise ImportError(f"{WITHOUT} has an older release")


@job
def work_elsewhere(ctx: JobContext, seconds: float = 0.0) -> None:
    """Work that only the other nodes can do."""
    work(ctx, seconds)
