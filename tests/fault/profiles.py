"""The stores under test: which servers, how many nodes, which settings, and how many faults of each class a full run has."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

NODE_FAULTS = {
    "kill": 48,
    "stop_half": 8,
    "stop_long": 16,
    "stop_3": 16,
    "drain": 10,
    "drain_twice": 6,
    "rolling": 5,
    "hog": 7,
}
LINK_FAULTS = {
    "hold": 10,
    "hold_replies": 10,
    "delay": 8,
    "half_close": 8,
    "reset": 7,
    "cut_before": 12,
    "cut_after": 12,
    "cut_late": 9,
}
SERVER_FAULTS = {"db_restart": 8, "db_pause": 5, "terminate": 6}
CLOCK_FAULTS = {"clock": 8}
REDIS_FAULTS = {
    "redis_kill": 13,
    "redis_stop": 13,
    "redis_flush": 12,
    "redis_pause": 13,
    "redis_empty": 13,
    "redis_readonly": 13,
    "redis_hold": 12,
}
SQLITE_FAULTS = {
    "kill": 34,
    "stop_half": 8,
    "stop_long": 10,
    "stop_3": 8,
    "drain": 8,
    "drain_twice": 4,
    "hog": 4,
    "lock": 12,
    "disk_full": 13,
    "read_only": 12,
}


@dataclass(frozen=True)
class Profile:
    """One store and how its cluster is set up; durations in seconds."""

    name: str
    database: str
    nodes: int
    quotas: Mapping[str, int]
    """How many faults of each class a run of `minutes` has."""
    minutes: float
    redis: bool = False
    coordination: str | None = None
    capacity: int = 8
    check_in: float = 0.5
    lease: float = 1.5
    drain_timeout: float = 3.0
    leader_ttl: float = 2.0
    processes: bool = False
    """Whether jobs run in processes of their own, too."""

    @property
    def faults(self) -> int:
        return sum(self.quotas.values())

    def scaled(self, minutes: float) -> "Profile":
        """The same mixture over another time; no class is left out that there is time for."""
        share = minutes / self.minutes
        quotas = {kind: max(1, round(count * share)) for kind, count in self.quotas.items()}
        return replace(self, minutes=minutes, quotas=quotas)


def _share(share: float) -> dict[str, int]:
    return {kind: max(1, round(count * share)) for kind, count in _SERVER.items()}


# Only PostgreSQL's clock is moved: MariaDB waits by the wall's hand, and a moved one would stop the server itself.
_SERVER = {**NODE_FAULTS, **LINK_FAULTS, **SERVER_FAULTS, **CLOCK_FAULTS}
PROFILES = {
    profile.name: profile
    for profile in (
        Profile("postgresql", "postgresql", 4, {**_SERVER, "db_clock": 11}, minutes=8.5, processes=True),
        Profile(
            "postgresql+redis",
            "postgresql",
            4,
            {**_share(0.40), **REDIS_FAULTS},
            minutes=6.5,
            redis=True,
            coordination="leader",
        ),
        Profile("mariadb", "mariadb", 4, _share(0.78), minutes=6.5, processes=True),
        Profile("sqlite", "sqlite", 2, SQLITE_FAULTS, minutes=4.5, processes=True, capacity=12),
    )
}
