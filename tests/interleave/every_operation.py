"""Every operation by its name; those first that arrange the most: no other may have declared their node dead before."""

from collections.abc import Mapping

from .acts import OPERATIONS as ACTS
from .job_acts import JOB_OPERATIONS
from .seat import Operation

OPERATIONS: Mapping[str, Operation] = {**JOB_OPERATIONS, **ACTS}
