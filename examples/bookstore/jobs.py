"""The jobs that qsched.yaml beside this folder names; run them with `qsched node -f qsched.yaml` in that folder."""

from qsched import JobContext, job


@job(request_recovery=True)
def fetch_rates(ctx: JobContext, base: str = "EUR", month_close: bool = False) -> str:
    """A job with arguments: `data` of job and trigger become keywords."""
    ctx.log.info("slot %s, %.1f s late, attempt %s", ctx.scheduled_at, ctx.late, ctx.attempt)
    return f"rates of {base} fetched{', books closed' if month_close else ''}"
