"""The stores under test: which servers, how many nodes, which settings, and how many faults of each class a full run has."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

NODE_FAULTS = {
    "kill": 46,
    "stop_half": 10,
    "stop_long": 14,
    "stop_3": 14,
    "drain": 12,
    "drain_twice": 6,
    "rolling": 2,
    "hog": 6,
}
LINK_FAULTS = {
    "hold": 12,
    "hold_replies": 10,
    "delay": 8,
    "half_close": 8,
    "reset": 8,
    "cut_before": 12,
    "cut_after": 12,
    "cut_late": 8,
}
SERVER_FAULTS = {"db_restart": 8, "db_pause": 3, "terminate": 6}
CLOCK_FAULTS = {"clock": 8}
REDIS_FAULTS = {
    "redis_kill": 4,
    "redis_stop": 5,
    "redis_flush": 8,
    "redis_pause": 4,
    "redis_empty": 4,
    "redis_readonly": 4,
    "redis_hold": 6,
}
SQLITE_FAULTS = {
    "kill": 34,
    "stop_half": 10,
    "stop_long": 10,
    "stop_3": 8,
    "drain": 10,
    "drain_twice": 4,
    "hog": 4,
    "lock": 12,
    "disk_full": 10,
    "read_only": 6,
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


_SERVER = {**NODE_FAULTS, **LINK_FAULTS, **SERVER_FAULTS, **CLOCK_FAULTS}
_LIGHTER = {kind: max(1, round(count * 0.72)) for kind, count in _SERVER.items()}

PROFILES = {
    profile.name: profile
    for profile in (
        Profile("postgresql", "postgresql", 4, {**_SERVER, "db_clock": 5}, minutes=8.5),
        Profile(
            "postgresql+redis",
            "postgresql",
            4,
            {**{kind: max(1, round(count * 0.56)) for kind, count in _SERVER.items()}, **REDIS_FAULTS},
            minutes=6.2,
            redis=True,
            coordination="leader",
        ),
        Profile("mariadb", "mariadb", 4, _LIGHTER, minutes=6.2),
        Profile("sqlite", "sqlite", 2, SQLITE_FAULTS, minutes=4.5),
    )
}
