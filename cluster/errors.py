"""The errors of this floor.

QschedError (triggers/errors.py)
  ClusterError
    NodeSettingsError (ValueError)   a node was given settings that make no sense
    LeaseUnavailable                 whoever grants the leader's lease cannot be asked
"""

from ..triggers.errors import QschedError


class ClusterError(QschedError):
    """Something about *on which node* is wrong."""


class NodeSettingsError(ClusterError, ValueError):
    """A node was given settings that make no sense; the message names the setting, the value and what is allowed."""


class LeaseUnavailable(ClusterError):
    """Whoever grants the lease cannot be asked, or does not answer as it should. It is not won then, and not renewed."""
