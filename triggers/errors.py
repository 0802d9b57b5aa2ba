"""The errors of this floor, and the root of all of the house.

QschedError
  TriggerError (ValueError)       something about when, or about a definition, is wrong
    CronError                     an expression that cannot be read, or can never fire
    ScheduleError                 any other schedule that makes no sense
    ZoneError                     an unknown time zone
    DefinitionError               a stored or given definition that this version cannot read
  DeclarationError (ValueError)   a YAML declaration is wrong; carries every problem with its place
"""


class QschedError(Exception):
    """Every error that qsched raises on purpose."""


class TriggerError(QschedError, ValueError):
    """Something about *when* is wrong; the message names the field, the value and one next step."""


class CronError(TriggerError):
    """A cron or quartz expression that cannot be read, or that can never fire."""


class ScheduleError(TriggerError):
    """A schedule other than cron that makes no sense."""


class ZoneError(TriggerError):
    """A time zone this machine does not know; the message names the nearest known one."""


class DefinitionError(TriggerError):
    """A trigger or job definition (from the store or the API) that cannot be read."""
