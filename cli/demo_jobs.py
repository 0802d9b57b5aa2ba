"""What the demo runs: two jobs as anybody would write them."""

from ..scheduler.context import JobContext
from ..scheduler.jobs import job


@job
def greet(ctx: JobContext, name: str = "world") -> None:
    """Say hello, and for which slot."""
    ctx.log.info("hello, %s — due at %s", name, f"{ctx.scheduled_at:%H:%M:%S}")


@job
async def count_stock(ctx: JobContext) -> None:
    """An async job; they run on one loop beside the threads."""
    ctx.log.info("stock counted for %s", f"{ctx.scheduled_at:%H:%M:%S}")
