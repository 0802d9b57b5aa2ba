"""What a mutant is: one breakage as a patch, and what is expected to catch it, cheapest first."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PATCHES = Path(__file__).parent / "patches"


@dataclass(frozen=True)
class Killer:
    """A command of `python` that fails on the mutant, and what it then says it saw."""

    tier: str
    """sim (A) | interleave (B) | fault (C) | tests"""
    arguments: tuple[str, ...]
    says: str
    """A pattern of its output whose first group names the invariant or the test; a crash without it is no catch."""

    def caught(self, code: int, output: str) -> str | None:
        """What it caught the mutant by, or None."""
        if code == 0:
            return None
        found = re.search(self.says, output)
        return found.group(1) if found else None


def by_sim(seeds: int = 60, first: int = 1) -> Killer:
    """So many seeds of the simulator, up to the first that fails."""
    batch = ("--seeds", str(seeds), "--from", str(first), "--failures", "1", "--shrink", "0", "--may-be-void")
    return Killer("sim", ("-m", "sim", *batch), r"seed \d+ failed: (\w+)")


def by_interleaving(pair: str, server: str = "postgresql", limit: int = 1000) -> Killer:
    """The orders of one pair of operations, statement by statement, on one server."""
    chosen = ("--server", server, "--pair", pair, "--limit", str(limit), "--first")
    return Killer("interleave", ("-m", "interleave", *chosen), r"violation: ([^:\n]+)")


def by_tests(*places: str) -> Killer:
    """Tests of the ordinary kind."""
    return Killer("tests", ("-m", "pytest", "-x", "-p", "no:cacheprovider", *places), r"FAILED \S*::(\w+)")


@dataclass(frozen=True)
class Mutant:
    """One breakage. `number` is its row in the specification's table, with a letter where a row names several."""

    number: str
    name: str
    killers: Sequence[Killer]
    alone: str | None = None
    """Of a redundant defence: the reason that it survives alone, so that it is removed together with another."""

    @property
    def patch(self) -> Path:
        return PATCHES / f"{self.number}-{self.name}.patch"
