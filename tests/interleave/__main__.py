"""`python -m interleave`: all pairs of operations on both servers, or what is asked for; 1 when a promise was broken."""

import argparse
import logging
import subprocess
import sys
from collections.abc import Sequence

from qsched.scheduler.clock import SystemClock

from .duel import Duel, Found, Pair, pairs
from .every_operation import OPERATIONS
from .explorer import Given
from .setting import Setting
from .turnstile import Event
from .waiters import SERVERS

LIMIT = 1000
_SHOWN = 3
"""Violations of a pair that are shown with all that happened."""


def main(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m interleave", description=__doc__)
    parser.add_argument(
        "--server", choices=sorted(SERVERS), help="one server (default: each in a process of its own)"
    )
    parser.add_argument(
        "--pair", action="append", default=[], help=f"a:b or a:b:within, of {', '.join(OPERATIONS)}"
    )
    parser.add_argument(
        "--limit", type=int, default=LIMIT, help="orders of a pair that are played before some are chosen"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the orders that are drawn by chance")
    parser.add_argument("--replay", help="play one order of one pair, and tell all that happens")
    parser.add_argument("--first", action="store_true", help="stop at the first pair with a violation")
    given = parser.parse_args(arguments)
    if given.server is None:
        return _on_each_server(arguments)
    logging.disable(logging.CRITICAL)
    chosen = [_pair(text) for text in given.pair] or list(pairs())
    with SERVERS[given.server]() as server:
        setting = Setting(server.new_database())
        try:
            if given.replay is not None:
                return _replay(setting, chosen[0], given.replay)
            return _all(setting, chosen, given)
        finally:
            setting.close()


def _on_each_server(arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", __package__, *arguments]
    running = [subprocess.Popen([*command, "--server", name]) for name in SERVERS]
    return max(process.wait() for process in running)


def _pair(text: str) -> Pair:
    first, second, *place = text.split(":")
    if first not in OPERATIONS or second not in OPERATIONS:
        raise SystemExit(f"no such pair {text!r}: there are {', '.join(OPERATIONS)}")
    return Pair(first, second, *place)


def _all(setting: Setting, chosen: Sequence[Pair], given: argparse.Namespace) -> int:
    clock, total = SystemClock(), Found(Pair("all", "pairs"))
    broken = incomplete = 0
    begun = clock.monotonic()
    for pair in chosen:
        since = clock.monotonic()
        found = Duel(setting, pair).every_order(given.limit, given.seed)
        _say(f"{given.server:10} {_told(found)}  {clock.monotonic() - since:.1f} s")
        _tell_violations(found)
        _add(total, found)
        broken += len(found.violations)
        incomplete += not found.complete
        if broken and given.first:
            break
    waited = sum(total.waited.values())
    _say(
        f"{given.server}: {len(chosen)} pairs, {total.played} interleavings ({incomplete} pairs had more than"
        f" {given.limit}), {total.steps} steps, {waited} blocked, {total.deadlocks} deadlocks,"
        f" {broken} violations, {clock.monotonic() - begun:.0f} s"
    )
    return 1 if broken else 0


def _add(total: Found, found: Found) -> None:
    total.played += found.played
    total.steps += found.steps
    total.waited += found.waited
    total.deadlocks += found.deadlocks


def _told(found: Found) -> str:
    more = " ".join(f"[{number} x {text}]" for text, number in found.refused.items() if number)
    return (
        f"{found.pair!s:30} {found.played:5} {'all ' if found.complete else 'some'} blocked"
        f" {sum(found.waited.values()):4} deadlocks {found.deadlocks:2} ends {len(found.ends):2}"
        f" ledgers {len(found.ledgers)} unserial {len(found.strange())} violations {len(found.violations)} {more}"
    )


def _tell_violations(found: Found) -> None:
    shown: set[str] = set()
    for order, problems, events in found.violations:
        kinds = {problem.partition(":")[0] for problem in problems}
        if kinds <= shown or len(shown) >= _SHOWN:
            continue
        shown |= kinds
        for problem in problems:
            _say(f"  violation: {problem}")
        _say(f"  again: python -m interleave --pair {found.pair} --replay {order}")
        _tell(events)


def _tell(events: Sequence[Event]) -> None:
    for event in events:
        rest = " (waited)" if event.waited else ""
        rest += f" ({event.failed})" if event.failed else ""
        _say(f"    {'ab'[event.side]} {str(event.step)[:200]}{rest}")


def _replay(setting: Setting, pair: Pair, order: str) -> int:
    duel = Duel(setting, pair)
    events = duel.play(Given(order))
    _tell(events)
    _tell_violations(duel.found)
    return 1 if duel.found.violations else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
