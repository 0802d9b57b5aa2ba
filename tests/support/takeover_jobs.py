"""Jobs that are there to be killed under: each says when it began, what it was told, and how it ended."""

from qsched.scheduler.clock import SystemClock

from qsched import JobContext, job

from .ledger_jobs import append, said

_clock = SystemClock()


def _hold(ctx: JobContext, ledger: str, seconds: float) -> None:
    append(ledger, what="began", at=_clock.wall(), recovering=ctx.recovering, **said(ctx))
    try:
        if ctx.fence_token == 1:
            ctx.sleep(seconds)
    finally:
        append(ledger, what="ended", at=_clock.wall(), told=ctx.cancel_reason, **said(ctx))


@job(request_recovery=True)
def hold(ctx: JobContext, ledger: str, seconds: float = 3600.0) -> None:
    """Lasts until its node dies; its next run ends at once."""
    _hold(ctx, ledger, seconds)


@job(request_recovery=True, overlap="queue")
def hold_alone(ctx: JobContext, ledger: str, seconds: float = 3600.0) -> None:
    """The same, never beside itself."""
    _hold(ctx, ledger, seconds)


@job
def fragile(ctx: JobContext, ledger: str, seconds: float = 3600.0) -> None:
    """The same, and is not run again."""
    _hold(ctx, ledger, seconds)


@job
def hog(ctx: JobContext, ledger: str, seconds: float) -> None:
    """Pure Python that never waits."""
    append(ledger, what="began", at=_clock.wall(), **said(ctx))
    until = _clock.monotonic() + seconds
    while _clock.monotonic() < until and not ctx.cancelled:
        pass
    append(ledger, what="ended", at=_clock.wall(), told=ctx.cancel_reason, **said(ctx))
