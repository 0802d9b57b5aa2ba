"""The plan of a run's faults: made from a seed alone, kept in a file, and played again from it."""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .profiles import Profile

OVERLAPPING = 0.35
"""The share of faults that are set beside another on purpose; the bar is a fifth."""
_FIRST = 2.0
_CUT_OF = ("any", "take", "settle", "check-in")


@dataclass(frozen=True)
class Fault:
    """One fault: from `at` (seconds after the start of the faults), for so long; `target` is a node, or empty."""

    at: float
    kind: str
    target: str
    seconds: float
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def until(self) -> float:
        return self.at + self.seconds


def planned(profile: Profile, seed: int) -> list[Fault]:
    """The faults of one run, in order."""
    chance = random.Random(f"{profile.name}/{seed}")
    kinds = [kind for kind, count in profile.quotas.items() for _ in range(count)]
    chance.shuffle(kinds)
    length = profile.minutes * 60
    beside = int(len(kinds) * OVERLAPPING)
    alone = sorted(chance.uniform(_FIRST, length) for _ in range(len(kinds) - beside))
    faults = [_fault(profile, chance, kind, at) for kind, at in zip(kinds, alone, strict=False)]
    for kind in kinds[len(alone) :]:
        other = chance.choice(faults)
        faults.append(_fault(profile, chance, kind, chance.uniform(other.at, other.until)))
    return sorted(faults, key=lambda fault: fault.at)


def overlapping(faults: Sequence[Fault]) -> int:
    """How many of them have another beside them."""
    return sum(
        any(each is not other and each.at < other.until and other.at < each.until for other in faults)
        for each in faults
    )


def write(path: Path, profile: Profile, seed: int, faults: Sequence[Fault]) -> None:
    """Keep a plan, so that it can be played again."""
    said = {"profile": profile.name, "seed": seed, "minutes": profile.minutes}
    path.write_text(json.dumps({**said, "faults": [asdict(fault) for fault in faults]}, indent=1))


def read(path: Path) -> tuple[str, int, float, list[Fault]]:
    """(profile, seed, minutes, faults) of a plan that was kept."""
    said = json.loads(path.read_text())
    return said["profile"], said["seed"], said["minutes"], [Fault(**fault) for fault in said["faults"]]


def _fault(profile: Profile, chance: random.Random, kind: str, at: float) -> Fault:
    seconds, options = _shape(profile, chance, kind)
    whole = kind.startswith(("db_", "redis_")) and kind != "redis_hold"
    target = "" if whole or kind in ("terminate", "rolling", "lock", "read_only") else _node(profile, chance)
    return Fault(round(at, 3), kind, target, round(seconds, 3), options)


def _node(profile: Profile, chance: random.Random) -> str:
    return f"n{chance.randint(1, profile.nodes)}"


def _shape(profile: Profile, chance: random.Random, kind: str) -> tuple[float, dict[str, Any]]:
    """How long a fault of this kind lasts, and what else there is to say of it."""
    lease = profile.lease
    family = {"family": chance.random() < 0.5}
    if profile.database == "sqlite":
        family["holding"] = chance.random() < 0.5
    drop = {"drop": chance.random() < 0.5}
    late = chance.uniform(0.3, 1.0)
    shapes: dict[str, tuple[float, dict[str, Any]]] = {
        "kill": (chance.uniform(0, 2 * lease), {}),
        "stop_half": (0.5 * lease, family),
        "stop_long": (1.5 * lease, family),
        "stop_3": (3 * lease, family),
        "drain": (chance.uniform(0, lease), {}),
        "drain_twice": (chance.uniform(0, lease), {"again_after": late}),
        "rolling": (profile.nodes * 2.0, {}),
        "hog": (2 * lease, {}),
        "hold": (chance.choice((0.4, 1.0, 2.0)) * lease, drop),
        "hold_replies": (chance.choice((0.4, 1.0, 2.0)) * lease, drop),
        "delay": (chance.uniform(1, 3), {"delay": chance.uniform(0.02, 0.15)}),
        "half_close": (chance.uniform(0.5, 2), {}),
        "reset": (0.0, {}),
        "db_restart": (chance.choice((0.3, 1.0, 2.0 * lease)), {"power": chance.random() < 0.3}),
        "db_pause": (chance.uniform(0.5, 1.5) * lease, {}),
        "db_clock": (chance.uniform(2, 5), {"offset": chance.choice((-10.0, -3.0, 3.0, 10.0))}),
        "terminate": (chance.uniform(0.5, 3), {"share": chance.choice((0.3, 1.0))}),
        "clock": (chance.uniform(2, 12), {"offset": chance.choice((-60.0, 45.0, 3600.0, -3600.0))}),
        "redis_kill": (chance.choice((0.5, 2.0, 6.0)), {}),
        "redis_stop": (chance.choice((0.7, 2.5, 6.0)), {}),
        "redis_pause": (chance.uniform(0.5, 3), {}),
        "redis_readonly": (chance.uniform(1, 4), {}),
        "redis_hold": (chance.uniform(1, 6), drop),
        "lock": (chance.uniform(0.3, 3.0), {}),
        "disk_full": (chance.uniform(1, 3), {}),
        "read_only": (chance.uniform(1, 4), {}),
    }
    if kind.startswith("cut_"):
        return 1.5, {"of": chance.choice(_CUT_OF)}
    return shapes.get(kind, (0.0, {}))
