"""`python -m sim`: thousands of seeds of the whole protocol in virtual time, or one of them told in full."""

import argparse
import os
import sys

from qsched.scheduler.clock import SystemClock

from .batch import run_batch, same_hashes
from .result import Choice, Result, play
from .shrink import Shrinker


def main() -> int:
    """Play what the arguments say; 0 when every invariant held and nothing was void."""
    same_hashes()
    args = _arguments()
    choice = _choice(args)
    if args.seed is not None:
        return _one(args, choice)
    return _many(args, choice)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first one")
    parser.add_argument("--minutes", type=float, default=10, help="virtual time of each")
    parser.add_argument("--nodes", default="3-5", help="how many nodes: 3 or 3-5")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=int, default=5, help="stop after so many failing seeds")
    parser.add_argument("--shrink", type=int, default=120, help="plays to make a failing seed small; 0: none")
    parser.add_argument(
        "--may-be-void", action="store_true", help="a batch too small to have seen everything is no failure"
    )
    parser.add_argument("--seed", type=int, help="play this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: tell all that happened")
    parser.add_argument("--shuffle", type=int, default=0, help="another interleaving of the same plan")
    parser.add_argument("--until", type=float, help="cut the run off after so many minutes")
    for name in ("strikes", "verbs", "triggers"):
        parser.add_argument(f"--{name}", help=f"only these of the plan's {name}: 0,3,5 or - for none")
    return parser.parse_args()


def _choice(args: argparse.Namespace) -> Choice:
    least, _, most = args.nodes.partition("-")
    return Choice(
        minutes=args.minutes,
        nodes=(int(least), int(most or least)),
        shuffle=args.shuffle,
        until=args.until,
        strikes=_places(args.strikes),
        verbs=_places(args.verbs),
        triggers=_places(args.triggers),
    )


def _places(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    return () if text == "-" else tuple(int(each) for each in text.split(","))


def _one(args: argparse.Namespace, choice: Choice) -> int:
    result = play(args.seed, choice, told=args.trace)
    if args.trace:
        _say(*_plan_lines(args.seed, choice))
    _say(*result.story)
    _say(
        f"seed {result.seed}: digest {result.digest}, {result.firings} firings, {result.bodies} bodies,"
        f" {result.transactions} transactions, {sum(result.faults.values())} faults, {result.seconds:.2f} s"
    )
    _say(*(f"{each.code}: {each.text}" for each in result.complaints))
    return 1 if result.complaints else 0


def _plan_lines(seed: int, choice: Choice) -> list[str]:
    plan = choice.plan(seed)
    parts = {"job": plan.jobs, "trigger": plan.triggers, "strike": plan.strikes, "verb": plan.verbs}
    lines = [
        f"{plan.nodes} nodes of {plan.capacities}, {plan.coordination} {plan.elector or ''}, {plan.timing}"
    ]
    lines += [f"{name} {place}: {each}" for name, every in parts.items() for place, each in enumerate(every)]
    return lines


def _many(args: argparse.Namespace, choice: Choice) -> int:
    clock = SystemClock()
    began = clock.monotonic()

    def told(result: Result) -> None:
        if result.complaints:
            _say(f"seed {result.seed} failed: {result.complaints[0].code}: {result.complaints[0].text}")

    seeds = range(args.first, args.first + args.seeds)
    tally = run_batch(seeds, choice, workers=args.workers, told=told, most_failures=args.failures)
    took = clock.monotonic() - began
    for result in tally.failed[:3]:
        _explain(result, choice, args.shrink)
    _say(*tally.lines(), f"{took:.0f} s, {tally.runs / took:.2f} seeds/s, {len(tally.failed)} failed")
    void = bool(tally.missing()) and not args.may_be_void
    return 1 if tally.failed or void else 0


def _explain(result: Result, choice: Choice, plays: int) -> None:
    """A failing seed, made small where that works."""
    code = result.complaints[0].code
    _say(f"--- seed {result.seed}", *(f"{each.code}: {each.text}" for each in result.complaints[:8]))
    if plays:
        shrinker = Shrinker(result.seed, choice, code, most=plays)
        choice = shrinker.run()
        result = shrinker.result or result
        _say("--- made small:", *(f"{each.code}: {each.text}" for each in result.complaints[:8]))
    _say(*result.story, f"again: PYTHONPATH=tests {choice.words(result.seed)} --trace")


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
