"""`python -m fault`: runs of one profile, of all, or one named scenario; exits 1 when anything is red or void."""

import argparse
import json
import logging
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .profiles import PROFILES
from .report import RunReport, batch_misses, batch_text, judged
from .run import Run
from .scenarios import NAMES, STORES, named
from .scene import play
from .schedule import planned
from .schedule import read as read_schedule


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; answers the exit code."""
    asked = _parser().parse_args(words)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # writing to what a fault has cut is no news
    folder = asked.history or Path(tempfile.mkdtemp(prefix="qsched-fault-"))
    if asked.check is not None:
        return _tell([judged(asked.check)])
    if asked.all:
        return _all(asked, folder)
    if asked.scenario is not None or asked.rolling is not None:
        name, amount = (
            ("rolling", asked.rolling) if asked.rolling is not None else (asked.scenario, asked.amount)
        )
        told = play(named(name, asked.store, amount), folder / f"{name}-{asked.store}")
        print(told)  # noqa: T201
        return int(told.verdict != "green")
    if asked.schedule is not None:
        return _replay(asked.schedule, folder)
    profile = PROFILES[asked.profile]
    if asked.minutes is not None:
        profile = profile.scaled(asked.minutes)
    seed = asked.seed if asked.seed is not None else random.randrange(1_000_000)
    run = Run(profile, seed, folder / f"{profile.name}-{seed}")
    run.play(planned(profile, seed))
    return _tell([judged(run.folder)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fault", description=__doc__)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="postgresql")
    parser.add_argument("--seed", type=int, help="of the faults; without it a new one is drawn and told")
    parser.add_argument("--minutes", type=float, help="length of the faults; the mixture stays the same")
    parser.add_argument("--schedule", type=Path, help="play this schedule.json again")
    parser.add_argument("--all", action="store_true", help="every profile in full, and the bars of the batch")
    parser.add_argument("--scenario", choices=NAMES, help="one named scenario")
    parser.add_argument("--store", choices=STORES, default="postgresql", help="of the scenario")
    parser.add_argument("--amount", type=float, help="the scenario's seconds, rounds or times")
    parser.add_argument(
        "--rolling", type=int, metavar="ROUNDS", help="a rolling deploy of all nodes, so many times"
    )
    parser.add_argument("--history", type=Path, help="where the histories are kept")
    parser.add_argument("--check", type=Path, help="judge the history in this folder once more")
    return parser


def _replay(schedule: Path, folder: Path) -> int:
    name, seed, minutes, faults = read_schedule(schedule)
    run = Run(PROFILES[name].scaled(minutes), seed, folder / f"{name}-{seed}-again")
    run.play(faults)
    return _tell([judged(run.folder)])


def _all(asked: argparse.Namespace, folder: Path) -> int:
    seed = asked.seed if asked.seed is not None else random.randrange(1_000_000)
    reports = []
    for profile in PROFILES.values():
        profile = profile if asked.minutes is None else profile.scaled(asked.minutes)
        run = Run(profile, seed, folder / f"{profile.name}-{seed}")
        run.play(planned(profile, seed))
        reports.append(judged(run.folder))
        print(reports[-1], flush=True)  # noqa: T201
    print(batch_text(reports))  # noqa: T201
    said = {"runs": [report.as_json() for report in reports], "missed": batch_misses(reports)}
    (folder / "batch.json").write_text(json.dumps(said, indent=1))
    red = any(report.verdict != "green" for report in reports)
    return 1 if red or (asked.minutes is None and batch_misses(reports)) else 0


def _tell(reports: list[RunReport]) -> int:
    for report in reports:
        print(report)  # noqa: T201
    return int(any(report.verdict != "green" for report in reports))


if __name__ == "__main__":
    raise SystemExit(main())
