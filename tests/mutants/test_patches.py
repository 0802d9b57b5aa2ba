"""Every mutant still fits the code: one that does not would be counted as caught by nothing."""

import subprocess

import pytest

from mutants.catalog import MUTANTS
from mutants.mutant import PATCHES, Mutant
from mutants.workshop import ROOT, copy_of_the_house, run_in


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.number}-{mutant.name}")
def test_a_mutant_fits_the_code(mutant: Mutant) -> None:
    done = subprocess.run(
        ["git", "apply", "--check", str(mutant.patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"the code moved, write the mutant anew:\n{done.stderr}"


def test_every_patch_is_in_the_catalogue() -> None:
    assert {path.stem for path in PATCHES.iterdir()} == {f"{each.number}-{each.name}" for each in MUTANTS}


def test_what_runs_in_a_copy_of_the_house_is_the_copy() -> None:
    asked = "import qsched.cluster.node as n, qsched.scheduler.store.take_rows as t, support; print(n.__file__, t.__file__)"
    with copy_of_the_house(None) as folder:
        code, said = run_in(folder, ("-c", asked), 60)
        assert code == 0, said
        places = said.split()
        assert len(places) == 2
        assert all(place.startswith(str(folder)) for place in places)
