"""The one contract of both electors: the right to lead, held for a while by one node, and believed for a little less."""

from typing import Final, Protocol

from ..scheduler.identity import Term

MARGIN: Final = 5
"""A term is believed for one part in so many less than the lease lasts: before anybody else can win it, the holder stops."""


class Lease(Protocol):
    """Who may lead. A call may wait for its server, but not for long; used from one thread.

    Each may raise LeaseUnavailable: then nothing was won or renewed, and what was believed before ends when it would have.
    """

    elector: str
    """Its name in the cluster's row: sql | redis."""
    ttl: int
    """How long it lasts, µs."""

    def acquire(self, incarnation: int) -> Term | None:
        """Win the lease and take over in the database, under a new epoch. None: somebody else holds it, or may lead."""

    def renew(self, incarnation: int, term: Term) -> Term | None:
        """Hold it for its whole time again, if it is still ours. None: it is not."""

    def release(self, incarnation: int, term: Term) -> None:
        """Give it up, if it is still ours; what somebody else holds meanwhile is not touched."""

    def close(self) -> None:
        """Close its connections."""


def believed(epoch: int, sent: float, ttl: int) -> Term:
    """The term that a request sent at `sent` (monotonic) has won or renewed: counted from before it could be granted."""
    lasts = ttl / 1_000_000
    return Term(epoch, sent + lasts - lasts / MARGIN)
