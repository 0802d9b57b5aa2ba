"""The checker: all rules over the evidence of one run."""

from collections.abc import Callable

from .check_control import check_answers, check_logs, check_pauses, check_poison, check_secrets
from .check_fences import check_fences
from .check_jobs import check_followers, check_limits, check_saved
from .check_leader import check_leader
from .check_order import check_early, check_growth, check_prompt
from .check_overlap import check_overlap
from .check_recovery import check_end, check_recovery, check_takeovers
from .check_retries import check_retries
from .check_slots import check_misfires, check_slots
from .evidence import Evidence
from .violation import Violation

RULES: tuple[Callable[[Evidence], list[Violation]], ...] = (
    check_slots,
    check_misfires,
    check_fences,
    check_recovery,
    check_takeovers,
    check_end,
    check_overlap,
    check_limits,
    check_saved,
    check_followers,
    check_leader,
    check_retries,
    check_growth,
    check_early,
    check_prompt,
    check_pauses,
    check_poison,
    check_answers,
    check_secrets,
    check_logs,
)


def check(evidence: Evidence) -> list[Violation]:
    """Every breach of every rule."""
    return [violation for rule in RULES for violation in rule(evidence)]
