"""`python -m mutants`: break the house in every known way, and see each breakage noticed."""

import argparse
import sys
from collections.abc import Sequence

from .catalog import MUTANTS
from .mutant import Killer, Mutant
from .workshop import PatchFailed, copy_of_the_house, run_in

SECONDS = 240.0


def main(words: Sequence[str]) -> int:
    """Run the mutants (all, or those whose number or name contains a given word); 0 when every one is caught."""
    parser = argparse.ArgumentParser(prog="mutants")
    parser.add_argument("which", nargs="*", help="numbers or parts of names; all without")
    parser.add_argument(
        "--sound", action="store_true", help="only see that the killers pass on the sound house"
    )
    chosen = parser.parse_args(words)
    mutants = [each for each in MUTANTS if not chosen.which or _named(each, chosen.which)]
    if not sound(mutants) or chosen.sound:
        return 0 if chosen.sound else 1
    caught = sum(_caught(each) for each in mutants)
    _say(f"mutants: {caught}/{len(mutants)} caught")
    return 0 if caught == len(mutants) else 1


def sound(mutants: Sequence[Mutant]) -> bool:
    """Whether every killer passes on the house as it is: one that fails there proves nothing."""
    killers = list(dict.fromkeys(killer for each in mutants for killer in each.killers))
    passed = True
    with copy_of_the_house(None) as folder:
        for killer in killers:
            code, output = run_in(folder, killer.arguments, SECONDS)
            if code != 0:
                passed = False
                _say(f"unsound: {_command(killer)} fails without a mutant:\n{output[-3000:]}")
    return passed


def _caught(mutant: Mutant) -> bool:
    title = f"{mutant.number:>4} {mutant.name}"
    try:
        with copy_of_the_house(mutant.patch) as folder:
            for killer in mutant.killers:
                code, output = run_in(folder, killer.arguments, SECONDS)
                by = killer.caught(code, output)
                if by is not None:
                    _say(f"{title}: caught by {killer.tier}: {by}")
                    return True
                if code != 0:
                    _say(f"{title}: {_command(killer)} broke (exit {code}):\n{output[-1500:]}")
    except PatchFailed as error:
        _say(f"{title}: {error}")
        return False
    _say(f"{title}: SURVIVED {', '.join(_command(killer) for killer in mutant.killers)}")
    return False


def _named(mutant: Mutant, words: Sequence[str]) -> bool:
    return any(word == mutant.number or word in mutant.name for word in words)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _command(killer: Killer) -> str:
    return f"python {' '.join(killer.arguments)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
