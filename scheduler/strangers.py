"""Jobs whose code a leader does not have: those who have it get time to load it, and to say in the job's row what it says."""

from .definitions import Definitions, KnownJob

LEARNING = 5_000_000
"""µs of the database's time: two check-ins until the others have heard of it, and some to load it."""


class Strangers:
    """One per node. What was waited for once needs no more waiting: its row says by then what others act by."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._met: dict[tuple[int, object], int] = {}

    def to_load(self, job: KnownJob) -> bool:
        """Whether this node has still to try for itself."""
        known = self._definitions
        return _has_code(job) and known.loaded(job) is None and job.id not in known.unloadable()

    def is_known(self, job: KnownJob, now: int) -> bool:
        """Whether the job's row says all that its code says, so that it can be decided by those who do not have that."""
        if not _has_code(job) or self._definitions.loaded(job) is not None:
            return True
        assert job.definition is not None
        return now - self._met.setdefault((job.id, job.definition.target), now) >= LEARNING


def _has_code(job: KnownJob) -> bool:
    """Whether a decorator may say something of it."""
    return job.definition is not None and job.definition.kind == "python"
