"""One place that can run any loaded job, whatever its kind, and answers with an outcome whatever happens."""

import asyncio
from collections.abc import Callable

from ..clock import Clock
from ..context import JobContext
from ..outcome import Outcome
from .command_process import GRACE
from .deadlines import Deadlines
from .http_address import HttpAllow
from .live_commands import LiveCommands
from .process_pool import ProcessPool
from .run_async import run_async
from .run_command import run_command
from .run_http import run_http
from .run_process import run_in_process
from .run_thread import run_in_thread

_PUBLIC = HttpAllow()


class Runner:
    """Runs bodies; one per node. Its time-outs are kept by one thread, which starts with the first."""

    def __init__(self, clock: Clock, *, grace: float = GRACE, http_allow: HttpAllow = _PUBLIC) -> None:
        self._clock = clock
        self._deadlines = Deadlines(clock)
        self._grace = grace
        self._http_allow = http_allow
        self._processes = ProcessPool(clock)
        self._commands = LiveCommands(self._processes)

    def run(self, ctx: JobContext, may_begin: Callable[[], bool] = lambda: True) -> Outcome:
        """Run a body to its end from this thread (an async one on a loop of its own).

        Raises nothing but NotBegun: no process could be had for it, or not in time for `may_begin`.
        """
        job = ctx.request.job
        if job.definition.kind == "command":
            return run_command(ctx, self._clock, self._deadlines, self._commands, self._grace)
        if job.definition.kind == "http":
            return run_http(ctx, self._clock, self._deadlines, self._http_allow)
        if job.in_process:
            return run_in_process(ctx, self._deadlines, self._processes, self._grace, may_begin)
        if job.is_async:
            return asyncio.run(self.run_async(ctx))
        return run_in_thread(ctx, self._clock, self._deadlines)

    async def run_async(self, ctx: JobContext) -> Outcome:
        """Run an async body in the current task; never raises."""
        return await run_async(ctx, self._clock, self._deadlines)

    def kill_commands(self, *, leaving: bool = True) -> int:
        """End every running command and its group by force; answers how many.

        When `leaving`, which is the last thing before the process goes, none is started any more.
        """
        return self._commands.kill(leaving=leaving)

    def kill_processes(self, *, leaving: bool = True) -> int:
        """End every worker process by force, as `kill_commands` does commands; when `leaving` they are gone when it returns."""
        return self._processes.kill(leaving=leaving)

    def renew(self, trusted_until: float) -> None:
        """Bodies in processes may run until then, by the monotonic clock: a new lease. Never blocks."""
        self._processes.renew(trusted_until)

    def close(self) -> None:
        """End the thread that keeps the time-outs, and the processes that have no body."""
        self._processes.close()
        self._deadlines.close()
