"""What one node can find out about the ends of others: their process on this host, or else their freed session lock."""

from collections.abc import Sequence

from .identity import Identity
from .running.process_mark import is_gone
from .store.database import Store
from .store.rescue_rows import Observed
from .store.session_lock import freed


class Witness:
    """One per node; `host` is this node's, as its row says it."""

    def __init__(self, store: Store, who: Identity, host: str) -> None:
        self._store = store
        self._who = who
        self._host = host

    def gone(self, suspects: Sequence[Observed]) -> dict[int, bool]:
        """{incarnation: whether that is certain} of those that seem to be gone.

        A process that is seen to live here is not gone, whatever its lock says: its connection was cut, no more. A lock
        that was freed by a node elsewhere is strong evidence, and not certain: it may run on, cut off.
        """
        found: dict[int, bool] = {}
        elsewhere: list[int] = []
        for each in suspects:
            here = self._gone_here(each)
            if here:
                found[each.incarnation] = True
            elif here is None and each.session_lock:
                elsewhere.append(each.incarnation)
        if elsewhere:
            uuid = self._who.cluster_uuid
            free = self._store.read("session locks", lambda tx: freed(tx, uuid, elsewhere))
            found |= dict.fromkeys(free, False)
        return found

    def _gone_here(self, each: Observed) -> bool | None:
        if each.host != self._host or each.pid_started_at is None:
            return None
        return is_gone(each.pid, each.pid_started_at)
