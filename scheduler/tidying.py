"""Once an hour and cluster: what grows beside the history is cut, in short transactions too."""

import logging
from collections.abc import Callable
from typing import Any

from ..triggers.instant import DAY
from ..triggers.retention import Retention
from .parts import Parts
from .store.tidy_rows import delete_audit, delete_nodes, delete_permits
from .store.tx import Tx

NODES = 30 * DAY
"""How long a node that has ended is known; longer where the history that names it is kept longer."""
AUDIT = 90 * DAY

log = logging.getLogger("qsched.pruner")


def tidy(parts: Parts, keep: Retention) -> dict[str, Any]:
    """Delete old rows of nodes and audit, and permits that nobody needs; answers how many of each."""
    ages = [NODES, keep.succeeded, keep.failed]
    known = [age for age in ages if age is not None]
    nodes = _all(parts, lambda tx: delete_nodes(tx, tx.now() - max(known))) if len(known) == len(ages) else 0
    audit = _all(parts, lambda tx: delete_audit(tx, tx.now() - AUDIT))
    permits = _permits(parts)
    if nodes or audit or permits:
        log.info("store.tidied nodes=%s audit=%s permits=%s", nodes, audit, permits)
    return {"nodes": nodes, "audit": audit, "permits": permits}


def _all(parts: Parts, work: Callable[[Tx], int]) -> int:
    total = 0
    while not parts.stopping.is_set() and (gone := parts.store.transaction("tidy", work)):
        total += gone
    return total


def _permits(parts: Parts) -> int:
    total, after = 0, 0
    while not parts.stopping.is_set():
        gone, following = parts.store.transaction("tidy", lambda tx, a=after: delete_permits(tx, a))  # type: ignore[misc]
        total += gone
        if following is None:
            break
        after = following
    return total
