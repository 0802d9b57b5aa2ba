"""Many seeds on all cores, told as they come."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from .result import Choice, Result, play
from .sometimes import Tally


def run_batch(
    seeds: range,
    choice: Choice,
    *,
    workers: int,
    told: Callable[[Result], object],
    most_failures: int = 1 << 30,
) -> Tally:
    """Play every seed; `told` hears each result as it comes, in whatever order."""
    tally = Tally()
    with _results(seeds, choice, workers) as results:
        for result in results:
            tally.add(result)
            told(result)
            if len(tally.failed) >= most_failures:
                break
    return tally


@contextmanager
def _results(seeds: range, choice: Choice, workers: int) -> Iterator[Iterator[Result]]:
    one = partial(play_bare, choice=choice)
    if workers <= 1:
        yield map(one, seeds)
        return
    os.environ.setdefault("PYTHONHASHSEED", "0")  # for the children: a set's order must be the same in each
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, maxtasksperchild=None) as pool:
        yield pool.imap_unordered(one, seeds, chunksize=4)


def play_bare(seed: int, choice: Choice) -> Result:
    """Play, and on any error of the simulation itself say which seed it was."""
    try:
        return play(seed, choice)
    except Exception as error:
        raise RuntimeError(f"seed {seed}: {type(error).__name__}: {error}") from error


def same_hashes() -> None:
    """Begin anew with the hash seed that the batches have, so that a seed plays here as it did there."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "sim", *sys.argv[1:]])
