"""Every operation by its name."""

from collections.abc import Mapping

from .acts import OPERATIONS as ACTS
from .job_acts import JOB_OPERATIONS
from .seat import Operation

OPERATIONS: Mapping[str, Operation] = {**ACTS, **JOB_OPERATIONS}
