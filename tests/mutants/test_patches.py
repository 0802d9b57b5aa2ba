"""Every mutant still fits the code: one that does not would be counted as caught by nothing."""

import subprocess

import pytest

from mutants.catalog import MUTANTS
from mutants.mutant import PATCHES, Mutant
from mutants.workshop import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.number}-{mutant.name}")
def test_a_mutant_fits_the_code(mutant: Mutant) -> None:
    done = subprocess.run(
        ["git", "apply", "--check", str(mutant.patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"the code moved, write the mutant anew:\n{done.stderr}"


def test_every_patch_is_in_the_catalogue() -> None:
    assert {path.stem for path in PATCHES.iterdir()} == {f"{each.number}-{each.name}" for each in MUTANTS}
