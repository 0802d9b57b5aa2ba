"""The errors of this floor, and the words a job body raises on purpose.

QschedError (triggers/errors.py)
  SchedulerError                  carries an optional `hint`: the one next step
    StoreError                    the job store cannot be used
      StoreUnavailable            it cannot be reached, or refuses us
      ConstraintHit                 it refused a row that breaks a key
      StoreMissing                there is none yet, and reading never creates one
      SchemaOutdated              its schema is older than this version
      SchemaTooNew                its schema is newer than this version
    UnknownTrigger                no trigger has that key
    UnknownFiring                 no firing has that id
    UnknownJob                    no job has that name
      JobUnloadable                 this node cannot, or may not, run that job
    UnknownNode                   no live node has that name
    SourceError                   what shall be imported cannot be read, or holds nothing for us
    AppError                      a module given with --app cannot be loaded
      StartupFailed                 a hook that it marked on_startup raised
    Conflict                      somebody else owns it, or changed it first
    Refused                       a guard says no
  JobError                        raised by jobs, read by the verdict
    PermanentError                trying again is no use
    RetryAfter                    try again, but not before so many seconds
    RetryNow                      run again at once (at most ten times)
    JobCancelled                  raised by ctx.check() and ctx.sleep() in a job that was told to stop
"""

import math
from datetime import timedelta
from typing import Final

from ..triggers.errors import QschedError

# Why a body is told to stop (`ctx.cancel_reason`).
SHUTDOWN: Final = "shutdown"
OVERLAP: Final = "overlap"
INTERRUPT: Final = "interrupt"
TIMEOUT: Final = "timeout"
LEASE_LOST: Final = "lease_lost"


class SchedulerError(QschedError):
    """Something about *what happens* is wrong; `hint` is the one next step, where there is one to name."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class StoreError(SchedulerError):
    """The job store cannot be used."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or refuses us; `in_doubt`: the answer to a COMMIT was lost."""

    def __init__(self, message: str, *, hint: str | None = None, in_doubt: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.in_doubt = in_doubt


class ConstraintHit(StoreError):
    """The database refused a row that breaks a key: such as a second firing for a decided slot."""


class StoreMissing(StoreError):
    """There is no job store yet, and reading never creates one."""


class SchemaOutdated(StoreError):
    """The job store's schema is older than this version of qsched."""


class SchemaTooNew(StoreError):
    """The job store's schema is newer than this version of qsched."""


class UnknownTrigger(SchedulerError):
    """No trigger has that key."""


class UnknownFiring(SchedulerError):
    """No firing has that id."""


class UnknownJob(SchedulerError):
    """No job has that name, or its code cannot be found here."""


class JobUnloadable(UnknownJob):
    """This node cannot run a job, or its operator did not allow it; another node may."""


class UnknownNode(SchedulerError):
    """No live node has that name."""


class SourceError(SchedulerError):
    """What shall be imported cannot be read, or holds nothing that becomes a trigger."""


class AppError(SchedulerError):
    """Modules given with --app cannot be imported; one line for each."""


class StartupFailed(AppError):
    """A function that is marked on_startup raised: the node does not start. What it raised is the cause."""


class Conflict(SchedulerError):
    """Somebody else owns it, or changed it first."""


class Refused(SchedulerError):
    """A guard says no; the hint names the flag that would say yes, where there is one."""


class JobError(QschedError):
    """What a job body raises on purpose to say how it wants to be judged."""


class PermanentError(JobError):
    """Trying again is no use: the firing fails without a retry."""


class RetryAfter(JobError):
    """Try again in `seconds`, in place of the policy's delay; it counts as one of the policy's retries."""

    def __init__(self, seconds: float | timedelta, message: str = "") -> None:
        wait = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if isinstance(wait, bool) or not isinstance(wait, int | float) or not math.isfinite(wait):
            raise ValueError(
                f"RetryAfter needs a number of seconds or a timedelta, and {seconds!r} is neither"
            )
        super().__init__(message or f"asked to be retried after {max(wait, 0):g} s")
        self.seconds: float = max(wait, 0)  # a Retry-After date may already have passed


class RetryNow(JobError):
    """Run this firing again at once; not counted as a retry, and possible ten times for one firing."""


class JobCancelled(JobError):
    """The job was told to stop; `reason` is shutdown, timeout, lease_lost, or what an operator said."""

    def __init__(self, reason: str = "cancelled") -> None:
        super().__init__(reason)
        self.reason = reason
