"""Runs a plain function in the thread that asks; it can be told to stop, but not be made to."""

from contextvars import Context

from ..clock import Clock
from ..context import JobContext
from ..outcome import Outcome
from .body import BodyTime, arguments_of, body_of, outcome_of_error, outcome_of_value, with_saved
from .deadlines import Deadlines


def run_in_thread(ctx: JobContext, clock: Clock, deadlines: Deadlines) -> Outcome:
    """Call the job's function and answer how it ended; never raises, not SystemExit either.

    A body that ends after its time-out has timed out, whatever it returns or raises.
    """
    request = ctx.request
    time = BodyTime(ctx, clock, deadlines)
    try:
        function = request.job.function
        assert function is not None
        # a context of its own, so that no job sees what another left in a ContextVar
        if (chain := request.job.chain) is None:
            value = Context().run(function, **arguments_of(request, ctx))
        else:
            value = Context().run(chain.call, ctx, body_of(ctx))
        outcome = outcome_of_value(value)
    except BaseException as error:
        outcome = outcome_of_error(error, ctx)
    if time.over() and time.timeout is not None:
        outcome = Outcome.timeout(time.timeout)
    return with_saved(ctx, outcome)
