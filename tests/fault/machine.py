"""How busy the machine is: a promise in seconds is kept by a machine that has the time."""

import os


def busy() -> float:
    """Processes that want to run, per processor, over the last minute; above 1 they wait for each other."""
    return round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)


def slack(loads: list[float]) -> float:
    """Seconds that a machine so busy may add to a formula before it counts as broken.

    One second on a machine that has the time; where processes wait for each other, as much longer as they wait.
    """
    ordered = sorted(loads)
    typical = ordered[int(len(ordered) * 0.9)] if ordered else 0.0
    return round(max(1.0, 0.5 * typical), 2)
