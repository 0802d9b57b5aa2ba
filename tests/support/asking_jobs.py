"""Jobs that have other jobs run: from a thread, from the loop, and from a process."""

from typing import Any

from qsched.scheduler.errors import SchedulerError
from qsched.triggers.errors import QschedError

from qsched import JobContext, job

from .ledger_jobs import append


def _ask(ctx: JobContext, ledger: str, by: str) -> None:
    """Twice the same request, and one that cannot be."""
    said: dict[str, Any] = {"ledger": ledger, "by": by}
    key = f"{ctx.idempotency_key}/{by}"
    first = ctx.enqueue(asked, said, request_key=key)
    again = ctx.enqueue("support.asking_jobs:asked", said, request_key=key)
    problems = []
    for wrong in ({"job": "nobody"}, {"job": asked, "data": {"x": {1}}}, {"job": asked, "priority": "high"}):
        try:
            ctx.enqueue(**wrong)
        except QschedError as error:
            problems.append(f"{type(error).__name__}: {error}")
    append(ledger, what="asked", by=by, first=list(first), again=list(again), problems=problems)


@job
def asked(ctx: JobContext, ledger: str, by: str) -> None:
    """What the others ask for."""
    append(ledger, what="ran", by=by, trigger=ctx.trigger)


@job
def ask_in_thread(ctx: JobContext, ledger: str) -> None:
    _ask(ctx, ledger, "thread")


@job
async def ask_on_loop(ctx: JobContext, ledger: str) -> None:
    _ask(ctx, ledger, "loop")


@job(run_in="process")
def ask_in_process(ctx: JobContext, ledger: str) -> None:
    _ask(ctx, ledger, "process")
    try:
        ctx.enqueue(asked, connection=object())
    except SchedulerError as error:
        append(ledger, what="refused", why=str(error))
