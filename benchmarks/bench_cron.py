"""How fast the cron engine finds the next slot through its public face, aware datetime in, aware datetime out.

Each figure is slots per core-second (CPU time of this process): the median of several runs over the same walk, in
which each slot is computed from the one before. `0 0 31 2 *` can never fire: its figure is refusals per
core-second, parsing included, and stays out of the mean.
"""

import statistics
import time
from datetime import UTC, datetime
from itertools import count
from zoneinfo import ZoneInfo

from qsched.triggers.cron import Cron, Dialect
from qsched.triggers.errors import CronError

EXPRESSIONS: tuple[tuple[str, Dialect], ...] = (
    ("*/5 * * * *", "unix"),
    ("0 9 * * 1-5", "unix"),
    ("30 2 1 * *", "unix"),
    ("15 14 1 1 *", "unix"),
    ("0 0 29 2 1", "unix"),
    ("0 0 29 2 */7", "unix"),
    ("0 0 0 ? 2 1#5", "quartz"),
)
ZONES = ("UTC", "America/New_York")
REPEATS = 7
STEPS = 15_000
LAST_YEAR = 2200
BAR_MEAN, BAR_LOWEST = 250_000, 100_000


def walk(cron: Cron, start: datetime) -> float:
    """Slots per core-second of one walk of STEPS slots from `start`, begun again where it leaves 2200."""
    moment = start
    begun = time.process_time()
    for _ in range(STEPS):
        found = cron.next_after(moment)
        moment = start if found is None or found.year > LAST_YEAR else found
    return STEPS / (time.process_time() - begun)


def next_slots() -> dict[tuple[str, str], float]:
    """The median speed of each expression in each zone."""
    speeds = {}
    for expr, dialect in EXPRESSIONS:
        for zone in ZONES:
            cron = Cron(expr, dialect, zone)
            start = datetime(2024, 1, 1, tzinfo=ZoneInfo(zone))
            walk(cron, start)
            speeds[expr, zone] = statistics.median(walk(cron, start) for _ in range(REPEATS))
    return speeds


def per_second(calls: int, seconds: float) -> str:
    return f"{calls / seconds / 1000:8.1f}k"


def refusals() -> str:
    begun = time.process_time()
    for _ in range(500):
        try:
            Cron("0 0 31 2 *")
        except CronError:
            continue
        raise AssertionError("0 0 31 2 * was accepted")
    return per_second(500, time.process_time() - begun)


def compilations() -> str:
    """Distinct expressions built and asked once, none of them seen before."""
    distinct = [f"{n % 60} {n // 60 % 24} {n // 1440 % 28 + 1} * *" for n in range(2000)]
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    begun = time.process_time()
    for expr in distinct:
        Cron(expr, time_zone="America/New_York").next_after(moment)
    return per_second(2000, time.process_time() - begun)


def by_instant(name: str) -> str:
    """The integer face that the planner uses."""
    cron = Cron("*/5 * * * *", time_zone="America/New_York")
    call = getattr(cron, name)
    start = 1_704_067_200_000_000
    begun = time.process_time()
    for n in count():
        if n == 20_000:
            break
        call(start + n * 300_000_000)
    return per_second(20_000, time.process_time() - begun)


def backlog() -> str:
    """Ten years of a one-second schedule, found, counted and closed."""
    cron = Cron("* * * * * ?", "quartz", "America/New_York")
    first, last = 1_388_534_400_000_000, 1_704_067_200_000_000
    begun = time.process_time()
    cron.slot_after(first)
    cron.latest_before(last)
    counted = cron.count_between(first, last)
    return f"{(time.process_time() - begun) * 1000:8.2f} ms ({counted - 1:,} and more)"


def main() -> None:
    speeds = next_slots()
    print(f"{'next slots per core-second':32}" + "".join(f"{zone:>18}" for zone in ZONES))
    for expr, dialect in EXPRESSIONS:
        figures = "".join(f"{speeds[expr, zone] / 1000:17.0f}k" for zone in ZONES)
        print(f"{dialect + ': ' + expr:32}{figures}")
    mean, lowest = statistics.geometric_mean(speeds.values()), min(speeds.values())
    print(
        f"geometric mean {mean / 1000:.0f}k (bar {BAR_MEAN // 1000}k), lowest {lowest / 1000:.0f}k", end=" "
    )
    print(f"(bar {BAR_LOWEST // 1000}k): {'held' if mean >= BAR_MEAN and lowest >= BAR_LOWEST else 'MISSED'}")
    print(f"refusals of 0 0 31 2 *        {refusals()} /s")
    print(f"distinct compile + first slot {compilations()} /s")
    print(f"slot_after (integers)         {by_instant('slot_after')} /s")
    print(f"latest_before (integers)      {by_instant('latest_before')} /s")
    print(f"ten years of a 1-s backlog    {backlog()}")


if __name__ == "__main__":
    main()
