"""A plan of faults comes from its seed alone, has every class often enough, and keeps many of them beside others."""

from pathlib import Path

import pytest

from fault.profiles import PROFILES
from fault.report import FAULTS
from fault.schedule import overlapping, planned, read, write

_EACH_CLASS = 10


@pytest.mark.parametrize("name", PROFILES)
def test_the_same_seed_plans_the_same_faults(name: str) -> None:
    assert planned(PROFILES[name], 5) == planned(PROFILES[name], 5)
    assert planned(PROFILES[name], 5) != planned(PROFILES[name], 6)


@pytest.mark.parametrize("name", PROFILES)
def test_a_plan_has_its_quotas_within_its_time(name: str) -> None:
    profile = PROFILES[name]
    faults = planned(profile, 1)
    assert len(faults) == profile.faults >= FAULTS[name]
    for kind, quota in profile.quotas.items():
        assert sum(fault.kind == kind for fault in faults) == quota
    assert all(0 <= fault.at <= profile.minutes * 60 + 30 for fault in faults)
    targets = {fault.target for fault in faults} - {""}
    assert targets == {f"n{number}" for number in range(1, profile.nodes + 1)}


@pytest.mark.parametrize("name", PROFILES)
def test_a_fifth_of_the_faults_at_least_stand_beside_others(name: str) -> None:
    for seed in range(5):
        faults = planned(PROFILES[name], seed)
        assert overlapping(faults) >= 0.2 * len(faults)


def test_over_all_profiles_every_class_comes_ten_times() -> None:
    totals: dict[str, int] = {}
    for profile in PROFILES.values():
        for kind, quota in profile.quotas.items():
            totals[kind] = totals.get(kind, 0) + quota
    assert {kind: total for kind, total in totals.items() if total < _EACH_CLASS} == {}


def test_a_plan_that_was_kept_is_played_as_it_was(tmp_path: Path) -> None:
    profile = PROFILES["mariadb"].scaled(1.0)
    faults = planned(profile, 9)
    write(tmp_path / "schedule.json", profile, 9, faults)
    assert read(tmp_path / "schedule.json") == ("mariadb", 9, 1.0, faults)
