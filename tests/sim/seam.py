"""`Store.transaction` as the simulator sees it: a way there, a commit, a way back; and on each of them what can go wrong."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from qsched.scheduler.errors import ConstraintHit, StoreUnavailable
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.tx import Tx
from qsched.scheduler.taken import Fenced, StaleTerm

from .chronicle import clock
from .plan import Strike
from .thin import run_thin, thin_tx
from .timeline import Gone
from .weather import REFUSED

if TYPE_CHECKING:
    from .database import Database
    from .process import Process
    from .weather import Weather

T = TypeVar("T")

AT_TRANSACTIONS = (
    "refuse",
    "lose answer",
    "lose commit",
    "doubt landed",
    "doubt undone",
    "crash before",
    "crash after",
    "pause before",
    "pause after",
    "suspend after",
    "slow before",
    "slow after",
    "outage after",
    "partition after",
)
"""Faults that wait for a transaction."""


LOSING = ("lose answer", "doubt landed", "crash after", "outage after", "partition after")
"""After which of them nobody hears that the transaction was committed."""
ANSWERS_YIELD = 0.5
"""How often others come between a commit and what its process does then; before the next transaction they do in any case."""
READS_YIELD = 0.25
"""How often others come between a read and what was before it."""


class Undone(Exception):
    """Ends a transaction whose COMMIT never arrived."""


class NodeStore(Store):
    """The house's store over the run's one database, with the world in between."""

    def __init__(self, database: "Database", weather: "Weather", process: "Process", lease: int) -> None:
        super().__init__("sqlite://", now=database.clock, lease=lease)
        database.adopt(self)
        self._random = process.random
        self._database = database
        self._weather = weather
        self._process = process
        self._whole = process.world.whole

    def transaction(
        self, name: str, work: Callable[[Tx], T], *, urgent: bool = False, patience: float | None = None
    ) -> T:
        deadline = int(self._patience(urgent, patience) * 1_000_000) if urgent or patience else self.lease
        process, weather = self._process, self._weather
        process.count(name)
        strike = weather.strike_for(process.node, name) if weather.armed else None
        process.sleep(weather.travel())
        if strike is not None:
            self._before(strike, name)
        weather.reach(process, name, deadline)
        if weather.locked_until > weather.timeline.now:
            weather.wait_for_locks(process, name, deadline)
        result = self._commit(name, work, strike)
        if strike is not None:
            self._after(strike, name, deadline)
        if strike is not None or weather.random.random() < ANSWERS_YIELD:
            process.sleep(weather.travel())
        if (cut := weather.cut_of(process.node)) is not None:
            if (
                cut.manner != REFUSED
            ):  # what waits for it is not at work until then, long after the cut itself
                weather.was_ill(process.node, weather.timeline.now, weather.timeline.now + deadline)
            self._lost(name, 0 if cut.manner == REFUSED else deadline)
        return result

    def read(self, name: str, work: Callable[[Tx], T], *, urgent: bool = False) -> T:
        process, weather = self._process, self._weather
        process.count(name)
        if weather.random.random() < READS_YIELD:  # the transaction that follows yields in any case
            process.sleep(weather.travel())
        weather.reach(process, name, self.lease)
        if weather.before is None:
            return super().read(name, work, urgent=urgent)
        seen: Any = weather.read(lambda: super(NodeStore, self).read(name, work, urgent=urgent))
        return seen  # type: ignore[no-any-return]

    def _once(self, work: Callable[[Tx], T], manner: Any, stage: list[str], *rest: Any) -> T:
        if self._whole:
            return super()._once(work, manner, stage, *rest)
        tx = thin_tx(self._database.thin, self.cluster_id or 0, self._database.clock)
        return run_thin(self._database.thin, work, tx, stage, reading=manner.reading)

    # -- there ---------------------------------------------------------------------------------------------------------

    def _before(self, strike: Strike, name: str) -> None:
        process, kind = self._process, strike.kind
        if kind == "refuse":
            process.struck(strike, name)
            raise StoreUnavailable(f"{name}: refused")
        if kind == "slow before":
            process.struck(strike, name)
            process.sleep(strike.span)
        elif kind == "pause before":
            process.struck(strike, name)
            process.pause(strike.span)
        elif kind == "crash before":
            process.struck(strike, name)
            process.crash(strike.span)
            raise Gone

    def _commit(self, name: str, work: Callable[[Tx], T], strike: Strike | None) -> T:
        undone = strike is not None and strike.kind in ("lose commit", "doubt undone")
        if strike is not None and strike.kind == "doubt landed":
            self._weather.before = self._database.snapshot()
        self._database.begin()
        try:
            result: T = super().transaction(name, _losing(work) if undone else work)
        except Undone:
            assert strike is not None
            self._process.struck(strike, name)
            self._process.seen(f"{name} in doubt, undone")
            if strike.kind == "doubt undone":
                self._weather.locked_until = self._weather.timeline.now + strike.span
            self._lost(name, 0)
            raise
        except ConstraintHit as error:
            self._process.hit(name, error)
            raise
        except (Fenced, StaleTerm) as error:
            self._process.seen(f"{name} refused: {type(error).__name__}")
            raise
        told = strike is None or strike.kind not in LOSING
        if name == "register":
            registered: Any = result
            self._process.world.registered[registered[0]] = self._process
        self._database.committed(self._process.name, self._process.incarnation, name, told=told)
        return result

    # -- and back ------------------------------------------------------------------------------------------------------

    def _after(self, strike: Strike, name: str, deadline: int) -> None:
        process, kind = self._process, strike.kind
        if kind == "lose answer":
            process.struck(strike, name)
            process.seen(f"{name} in doubt, landed")
            self._lost(name, min(strike.span, deadline))
        elif kind in ("outage after", "partition after"):
            process.struck(strike, name)
            process.seen(f"{name} in doubt, landed")
            self._weather.cut_off(-1 if kind.startswith("outage") else process.node, strike.span, REFUSED)
            self._lost(name, 0)
        elif kind == "doubt landed":
            process.struck(strike, name)
            process.seen(f"{name} in doubt, landed")
            self._weather.locked_until = self._weather.timeline.now + strike.span
            self._lost(name, 0)
        elif kind == "crash after":
            process.struck(strike, name)
            process.crash(strike.span)
            raise Gone
        elif kind in ("pause after", "suspend after"):
            process.struck(strike, name)
            process.pause(strike.span, suspended=kind == "suspend after")
        elif kind == "slow after":
            process.struck(strike, name)
            process.sleep(strike.span)

    def _lost(self, name: str, wait: int) -> None:
        """The answer to COMMIT does not come, or comes too late."""
        if wait:
            self._process.sleep(wait)
        raise StoreUnavailable(
            f"{name}: the answer was lost at {clock(self._weather.timeline.now)}", in_doubt=True
        )


def _losing(work: Callable[[Tx], T]) -> Callable[[Tx], T]:
    def undone(tx: Tx) -> T:
        work(tx)
        raise Undone

    return undone
