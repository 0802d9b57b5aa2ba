"""A Redis of virtual time: the few verbs the leader's lease speaks, and all the ways in which it forgets or is away."""

from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from .timeline import Timeline
from .weather import SILENT, Cut

if TYPE_CHECKING:
    from .process import Process

MILLISECOND = 1000


class VirtualRedis:
    """The one server of a run; its clock is the truth."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._keys: dict[str, tuple[str, int]] = {}
        self.outage = Cut()
        self.partitions: dict[int, Cut] = {}

    def flush(self) -> bool:
        """Forget everything, as FLUSHALL, a restart without data or a replica that lagged do."""
        forgot = bool(self._keys)
        self._keys.clear()
        return forgot

    def cut_of(self, node: int) -> Cut | None:
        now = self._timeline.now
        for cut in (self.outage, self.partitions.get(node)):
            if cut is not None and cut.until > now:
                return cut
        return None

    def get(self, key: str) -> str | None:
        value, until = self._keys.get(key, (None, 0))
        return value if until > self._timeline.now else None

    def put(self, key: str, value: str, milliseconds: int) -> None:
        self._keys[key] = (value, self._timeline.now + milliseconds * MILLISECOND)

    def drop(self, key: str) -> None:
        self._keys.pop(key, None)


class RedisClient:
    """One process's client: what `redis.Redis` is to the lease."""

    def __init__(self, process: "Process", server: VirtualRedis, timeout: int) -> None:
        self._process = process
        self._server = server
        self._timeout = timeout

    def set(self, key: str, value: str, *, nx: bool, px: int) -> bool | None:
        assert nx
        self._travel()
        free = self._server.get(key) is None
        if free:
            self._server.put(key, value, px)
        self._travel()
        return True if free else None

    def eval(self, script: str, numkeys: int, key: str, value: str, *arguments: Any) -> int:
        """Compare the value, then renew the key or drop it, whichever the script does."""
        self._travel()
        ours = self._server.get(key) == value
        if ours and "PEXPIRE" in script:
            self._server.put(key, value, int(arguments[0]))
        elif ours:
            self._server.drop(key)
        self._travel()
        return int(ours)

    def _travel(self) -> None:
        """There, or back: an answer may be lost as well as a request."""
        self._process.sleep(self._process.world.weather.travel())
        cut = self._server.cut_of(self._process.node)
        if cut is None:
            return
        if cut.manner == SILENT:
            self._process.sleep(self._timeout)
            raise RedisTimeoutError("timeout")
        raise RedisConnectionError("refused")
