"""Runs a command job: what it gets as its environment, and what its exit status means."""

import json
import os
from contextlib import nullcontext
from dataclasses import replace

from ...triggers.declaration_variables import expand
from ...triggers.instant import rfc3339
from ..clock import Clock
from ..context import JobContext
from ..errors import LEASE_LOST, PermanentError
from ..outcome import MESSAGE_BYTES, Outcome
from .body import BodyTime, outcome_of_error
from .command_process import GRACE, CommandProcess
from .deadlines import Deadlines
from .exit_status import failure_of_status
from .guardian import GuardianGone
from .live_commands import LiveCommands
from .process_pool import NotBegun
from .tether import Tether

SHELL = "/bin/sh"
_ROOM = MESSAGE_BYTES - 600
"""Bytes of output for which an outcome's message surely has room."""
_LARGEST_VARIABLE = 128 * 1024 - 64
"""Linux takes no longer text as one variable of an environment."""


def run_command(
    ctx: JobContext,
    clock: Clock,
    deadlines: Deadlines,
    live: LiveCommands,
    grace: float = GRACE,
) -> Outcome:
    """Run the command and answer how it ended; leaves no process of its group behind.

    Raises nothing but NotBegun: the node's lease has just ended. A time-out or cancel sends SIGTERM to the group, and
    SIGKILL after `grace` seconds; a lost lease sends SIGKILL at once. The kernel does so with the node, and with its lease
    where a successor may run by then. While it runs it is in `live`.
    """
    try:
        tether = live.processes.tether(leased=_may_have_successor(ctx))
    except GuardianGone as error:
        raise NotBegun("the guardian of this node's processes is gone") from error
    with tether or nullcontext():
        try:
            process = _started(ctx, clock, live, tether)
        except BaseException as error:
            return outcome_of_error(error, ctx)
        time = BodyTime(ctx, clock, deadlines)
        ctx.when_cancelled(lambda: process.stop(at_once=ctx.cancel_reason == LEASE_LOST))
        try:
            status = process.follow(grace)
        except BaseException as error:
            process.kill()
            return outcome_of_error(error, ctx)
        finally:
            live.ended(process)
            ctx.when_cancelled(None)
        outcome = _with_output(_judged(ctx, status, process, time), process)
        _log(ctx, outcome, process)
        return outcome


def _may_have_successor(ctx: JobContext) -> bool:
    """Whether somebody else may run this, or what must not run beside it, when this node is taken for dead.

    What cannot have one need not end with the lease: a database that is away for a minute must not break off its own dump.
    """
    return ctx.request.exclusive or bool(ctx.request.job.policies.request_recovery)


def _started(ctx: JobContext, clock: Clock, live: LiveCommands, tether: Tether | None) -> CommandProcess:
    definition = ctx.request.job.definition
    target = definition.target
    argv = [SHELL, "-c", target] if isinstance(target, str) else list(target)
    environment = command_environment(ctx)
    try:
        return live.start(lambda: CommandProcess(argv, environment, definition.cwd, clock, tether))
    except (OSError, ValueError) as error:
        raise PermanentError(_not_started(argv[0], definition.cwd, error)) from error


def command_environment(ctx: JobContext) -> dict[str, str]:
    """The node's environment without its QSCHED_ settings (the store's password!), then `env`, then ours.

    Raises PermanentError for data too long for an environment, VariableError for `${VAR}` without a value.
    """
    request = ctx.request
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QSCHED_")}
    environment.update(expand(request.job.definition.env, os.environ))
    data = json.dumps(dict(ctx.data), separators=(",", ":"))
    if len(data) > _LARGEST_VARIABLE:
        raise PermanentError(
            f"data take {len(data):,} characters, and the environment of a command holds"
            f" {_LARGEST_VARIABLE:,} at most: pass an id or a path"
        )
    environment.update(
        QSCHED_FIRING=str(request.firing_id),
        QSCHED_SCHEDULED_AT=rfc3339(request.scheduled_at),
        QSCHED_ATTEMPT=str(request.attempt),
        QSCHED_IDEMPOTENCY_KEY=ctx.idempotency_key,
        QSCHED_DATA=data,
    )
    if request.trigger is not None:
        environment["QSCHED_TRIGGER"] = request.trigger
    return environment


def _not_started(program: str, cwd: str | None, error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if cwd is not None and isinstance(error, OSError) and error.filename == cwd:
        return f"cannot start {program!r} in {cwd!r}: {reason}: correct cwd"
    return f"cannot start {program!r}: {reason}: correct the command, or install it on this node"


def _judged(ctx: JobContext, status: int, process: CommandProcess, time: BodyTime) -> Outcome:
    if time.over() and time.timeout is not None:
        outcome = Outcome.timeout(time.timeout)
    elif process.stopped and ctx.cancel_reason is not None:
        outcome = Outcome.cancelled(ctx.cancel_reason)
    elif process.cut and status != 0:
        reason = process.cut_reason()
        ended = Outcome.failure("KilledBySignal", "ended with the guardian of this node's processes")
        outcome = ended if reason is None else Outcome.cancelled(reason)
    elif status == 0:
        return Outcome.success(process.output.shortened(MESSAGE_BYTES - 100).rstrip() or None)
    else:
        outcome = Outcome.failure(*failure_of_status(status))
    tail = process.output.shortened(_ROOM).strip()
    return replace(outcome, error_message=f"{outcome.error_message}\n{tail}") if tail else outcome


def _with_output(outcome: Outcome, process: CommandProcess) -> Outcome:
    """The outcome, with all that is kept of an output that its message has no room for."""
    if process.output.size <= _ROOM:
        return outcome
    return replace(outcome, output=process.output.said())


def _log(ctx: JobContext, outcome: Outcome, process: CommandProcess) -> None:
    if process.output.size:
        ctx.log.info(
            "%s, wrote %d bytes:\n%s", outcome.kind, process.output.size, process.output.text().rstrip()
        )
