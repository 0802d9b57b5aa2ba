"""What people do meanwhile: pause, resume, edit, delete, fire; from a client with its own way to the database."""

from random import Random
from typing import TYPE_CHECKING

from qsched.scheduler.apply import apply
from qsched.scheduler.control import delete, fire, pause, resume
from qsched.scheduler.errors import ConstraintHit, SchedulerError, StoreUnavailable
from qsched.scheduler.groups import pause_group, resume_group
from qsched.triggers.trigger import TriggerDefinition

from support.declared import Declared

from .plan import Strike, Verb
from .seam import NodeStore
from .timeline import SECOND, Life

if TYPE_CHECKING:
    from .world import World

_AGAIN = 500_000
CLIENT = -2
"""The operators' number among the nodes."""


class Operators:
    """Plays the plan's verbs; each is said again until the database has heard it."""

    node = CLIENT
    name = "operator"
    incarnation = 0

    def __init__(self, world: "World", random: Random) -> None:
        self.world = world
        self.random = random
        self.life = Life(world.timeline, self.name)
        self.store = NodeStore(world.database, world.weather, self, world.plan.timing.lease)  # type: ignore[arg-type]
        self._declared: dict[str, TriggerDefinition] = {each.key: each for each in world.plan.triggers}
        self.fired: dict[str, set[int]] = {}
        """{request key: the firings it was answered with}"""
        self._limits = world.plan.limits[0]

    def start(self) -> None:
        for verb in self.world.plan.verbs:
            self.life.after(verb.at, lambda each=verb: self._begin(each))  # type: ignore[misc]

    def _begin(self, verb: Verb) -> None:
        self.life.spawn(f"{verb.kind} {verb.key}", lambda: self._insist(verb))

    def _insist(self, verb: Verb) -> None:
        """Say it until it was heard; what is refused is refused."""
        until = self.world.timeline.now + 60 * SECOND
        while self.world.timeline.now < until:
            self.tell(f"{verb.kind} {verb.key} …")
            try:
                getattr(self, f"_{verb.kind}")(verb)
            except StoreUnavailable:
                self.sleep(_AGAIN)
            except SchedulerError as error:
                self.tell(f"{verb.kind} {verb.key}: {error}")
                return
            else:
                self.tell(f"{verb.kind} {verb.key}: done")
                self.world.history.seen[f"verb {verb.kind}"] += 1
                return

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def _pause(self, verb: Verb) -> None:
        until = self.world.database.clock() + verb.span if verb.span else None
        pause(self.store, [verb.key], until=until, reason="simulated")

    def _resume(self, verb: Verb) -> None:
        resume(self.store, [verb.key], catch_up=bool(verb.number % 3 == 0))

    def _pause_group(self, verb: Verb) -> None:
        pause_group(self.store, verb.key)

    def _resume_group(self, verb: Verb) -> None:
        resume_group(self.store, verb.key)

    def _fire(self, verb: Verb) -> None:
        key = f"request-{verb.number}"
        firing = fire(self.store, verb.key, request_key=key)
        self.fired.setdefault(key, set()).add(firing)

    def _delete(self, verb: Verb) -> None:
        self._declared.pop(verb.key, None)
        delete(self.store, [verb.key])

    def _apply(self, verb: Verb) -> None:
        """The same file again."""
        apply(self.store, self._file(), prune="keep")

    def _edit(self, verb: Verb) -> None:
        """The file with one trigger changed, or brought back."""
        edited = self.world.plan.edits[verb.number]
        self._declared[edited.key] = edited
        apply(self.store, self._file(f"edit {verb.number}"), prune="keep")

    def _limit(self, verb: Verb) -> None:
        """The file with other limits of its groups."""
        self._limits = self.world.plan.limits[verb.number]
        apply(self.store, self._file(f"limit {verb.number}"), prune="keep")

    def _file(self, comment: str = "") -> Declared:
        triggers, jobs = tuple(self._declared.values()), self.world.plan.jobs
        return Declared(triggers, jobs, limits=self._limits, comment=comment)

    # -- what the seam asks of whoever uses a store --------------------------------------------------------------------

    def sleep(self, delay: int) -> None:
        self.life.sleep(delay)

    def tell(self, what: str) -> None:
        self.world.history.tell(self.world.timeline.now, self.name, what)

    def seen(self, what: str) -> None:
        self.world.history.seen[what] += 1

    def count(self, name: str) -> None:
        self.world.history.transactions[name] += 1

    def struck(self, strike: Strike, name: str) -> None:
        self.world.history.faults[strike.kind] += 1
        self.tell(f"{strike.kind} at {name!r}")

    def hit(self, name: str, error: ConstraintHit) -> None:
        self.world.complain("I12", f"operator: a constraint was hit in {name!r}: {error}")

    def pause(self, span: int, *, suspended: bool = False) -> None:
        """An operator that is stopped is only slow."""
        self.life.sleep(span)

    def crash(self, down: int) -> None:
        """An operator that is killed just says it again."""
        raise StoreUnavailable("the operator was interrupted")
