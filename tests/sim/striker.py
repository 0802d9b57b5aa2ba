"""What strikes: the planned faults, each at its moment, on whoever is there then."""

from random import Random
from typing import TYPE_CHECKING

from .plan import Strike
from .seam import AT_TRANSACTIONS
from .timeline import SECOND, Life
from .weather import REFUSED, SILENT, Cut

if TYPE_CHECKING:
    from .world import World


class Striker:
    """Plays the plan's strikes."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world = world
        self._random = random
        self._life = Life(world.timeline, "striker")

    def start(self) -> None:
        for strike in self._world.plan.strikes:
            self._life.after(strike.at, lambda each=strike: self._strike(each))  # type: ignore[misc]
        self._life.after(max(self._world.plan.length - self._world.plan.quiet, 0), self._quiet)

    def _strike(self, strike: Strike) -> None:
        if strike.kind in AT_TRANSACTIONS:
            self._world.weather.armed.append(strike)
            return
        words = strike.kind.split()
        struck: bool = getattr(self, f"_{words[0]}")(strike, words[-1])
        if struck:
            self._world.history.faults[strike.kind] += 1

    def _quiet(self) -> None:
        """Nothing more strikes; what is broken is mended."""
        weather = self._world.weather
        weather.armed.clear()
        weather.outage.until = min(weather.outage.until, self._world.timeline.now)
        redis = self._world.redis
        for cut in (redis.outage, *redis.partitions.values(), *weather.partitions.values()):
            cut.until = min(cut.until, self._world.timeline.now)
        self._tell("all", "the quiet begins")

    # -- strikes: each answers whether there was somebody to strike ----------------------------------------------------

    def _crash(self, strike: Strike, _: str) -> bool:
        process = self._world.processes[strike.node]
        if process is None:
            return False
        process.crash(strike.span)
        return True

    def _pause(self, strike: Strike, _: str) -> bool:
        return self._stop(strike, suspended=False)

    def _suspend(self, strike: Strike, _: str) -> bool:
        return self._stop(strike, suspended=True)

    def _stop(self, strike: Strike, *, suspended: bool) -> bool:
        process = self._world.processes[strike.node]
        if process is None or process.life.frozen:
            return False
        process.pause(strike.span, suspended=suspended)
        return True

    def _partition(self, strike: Strike, manner: str) -> bool:
        self._world.weather.cut_off(strike.node, strike.span, manner)
        self._tell(f"n{strike.node}", f"{strike.kind} for {strike.span / SECOND:.1f} s")
        return True

    def _outage(self, strike: Strike, manner: str) -> bool:
        self._world.weather.cut_off(-1, strike.span, manner)
        self._tell("database", f"{strike.kind} for {strike.span / SECOND:.1f} s")
        return True

    def _flush(self, strike: Strike, _: str) -> bool:
        self._tell("redis", "forgets everything")
        return self._world.redis.flush()

    def _redis(self, strike: Strike, manner: str) -> bool:
        redis, now = self._world.redis, self._world.timeline.now
        cut = redis.partitions.setdefault(strike.node, Cut()) if strike.node >= 0 else redis.outage
        cut.begin(now + strike.span, SILENT if manner == SILENT else REFUSED)
        self._tell("redis", f"{strike.kind} {strike.node} for {strike.span / SECOND:.1f} s")
        if (
            self._world.plan.on_redis_loss == "stop" and strike.node < 0
        ):  # then nothing is decided until it is back
            ttl = self._world.plan.timing.leader_ttl
            self._world.weather.was_ill(-1, now, now + strike.span + 2 * ttl)
        return self._world.plan.elector == "redis"

    def _jump(self, strike: Strike, _: str) -> bool:
        self._world.database.jump(strike.size)
        now = self._world.timeline.now  # set back, leases last longer and slots come later by as much
        self._world.weather.was_ill(-1, now, now + max(-strike.size, 0))
        self._tell("database", f"its clock is set by {strike.size / SECOND:+.1f} s")
        return True

    def _skew(self, strike: Strike, _: str) -> bool:
        self._world.skews[strike.node] = strike.size
        process = self._world.processes[strike.node]
        if process is not None:
            process.clock.skew = strike.size
        self._tell(f"n{strike.node}", f"its wall clock is wrong by {strike.size / SECOND:+.1f} s")
        return True

    def _drain(self, strike: Strike, _: str) -> bool:
        process = self._world.processes[strike.node]
        if process is None or not process.up or process.draining:
            return False
        process.drain(strike.span)
        return True

    def _tell(self, who: str, what: str) -> None:
        self._world.history.tell(self._world.timeline.now, who, what)
