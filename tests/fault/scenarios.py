"""The named scenarios: a rolling deploy, wrong clocks, hogs, an outage, a stall, and takeovers with the clock in hand."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from .check_fences import last_heard
from .evidence import Evidence
from .profiles import Profile
from .runs import outcome_of, takes_of, verdicts_of
from .scene import Scenario, Scene
from .violation import Violation, slice_of
from .workload import JobFacts, TriggerFacts, Workload, workload

STORES = ("postgresql", "mariadb", "sqlite")
_LONG = 3600.0


def _profile(database: str, name: str, nodes: int = 4, **settings: Any) -> Profile:
    given = {"check_in": 1.0, "lease": 15.0, "capacity": 20, "drain_timeout": 15.0, **settings}
    return Profile(name, database, nodes, {}, minutes=1.0, **given)


def _busy(start: int) -> Workload:
    """The load of the runs, without what is meant to be lost or cancelled."""
    full = workload(start, 60, 1.2)
    left_out = {"alone_cancel", "hog"}
    triggers = tuple(trigger for trigger in full.triggers if trigger.job not in left_out)
    return Workload(tuple(job for job in full.jobs if job.name not in left_out), triggers)


def nobody_died(evidence: Evidence) -> list[Violation]:
    """No incarnation was declared dead."""
    return [
        Violation(
            "nobody dies",
            f"incarnation {incarnation} was declared dead ({verdict.kind})",
            slice_of(evidence, incarnations=(incarnation,)),
        )
        for incarnation, verdict in verdicts_of(evidence).items()
    ]


def nothing_broken_off(evidence: Evidence) -> list[Violation]:
    """Every take ended by itself: nothing was lost, interrupted or run again without a failure."""
    found = []
    for take in takes_of(evidence):
        outcome = outcome_of(evidence, take)
        if outcome in ("lost", "interrupted"):
            shown = slice_of(evidence, firings=(take.firing,))
            found.append(
                Violation("nothing broken off", f"firing {take.firing}/{take.fence} ended {outcome}", shown)
            )
    return found


# -- a rolling deploy --------------------------------------------------------------------------------------------------


def rolling(database: str, rounds: int) -> Scenario:
    """All nodes, one after another, told to stop and started again, so many times, under load."""

    def script(scene: Scene) -> None:
        scene.wait(3)
        for _ in range(rounds):
            for seat in scene.seats:
                scene.replace(seat)
        scene.wait(3)

    profile = _profile(database, "rolling", 2 if database == "sqlite" else 4)
    return Scenario(
        "rolling",
        profile,
        _busy,
        script,
        lambda evidence: nobody_died(evidence) + nothing_broken_off(evidence),
    )


# -- clocks ------------------------------------------------------------------------------------------------------------


def clock(database: str, seconds: float) -> Scenario:
    """One node a minute behind, one 45 s ahead, one that steps by an hour back and forth, and one that is right."""

    def script(scene: Scene) -> None:
        behind, ahead, stepping = (seat.clock for seat in scene.seats[:3])
        assert behind is not None, "no compiler: no clock can be moved"
        assert ahead is not None
        assert stepping is not None
        healed = scene.fault("clock", "n1", offset=-60)
        behind.move(-60)
        ahead.move(45)
        until = scene.now() + seconds
        while scene.now() < until:
            for offset in (3600.0, -3600.0, 0.0):
                stepping.move(offset)
                scene.wait(2)
        healed()

    return Scenario("clock", _profile(database, "clock"), _busy, script, nobody_died)


# -- hogs --------------------------------------------------------------------------------------------------------------

_HOGS = 16


def hogs(database: str, seconds: float) -> Scenario:
    """Sixteen bodies of pure Python that never rest, on two nodes."""

    def load(start: int) -> Workload:
        jobs = (JobFacts("spin", {"seconds": seconds}, function="spin"), JobFacts("tick", {"seconds": 0.005}))
        hogs = [TriggerFacts(f"hog_{n}", "spin", at=start + 8_000_000 + n) for n in range(_HOGS)]
        return Workload(jobs, (*hogs, TriggerFacts("tick_1", "tick", every=5)))

    def script(scene: Scene) -> None:
        spinning = "SELECT count(*) FROM qsched_firings WHERE job_name = 'spin' AND state = 'running'"
        scene.until(lambda: scene.rows(spinning) == [(_HOGS,)], "the hogs")
        ended = "SELECT count(*) FROM qsched_firings WHERE job_name = 'spin' AND state = 'succeeded'"
        scene.until(lambda: scene.rows(ended) == [(_HOGS,)], "the end of the hogs", within=seconds * 2 + 60)

    def says(evidence: Evidence) -> dict[str, Any]:
        return {"longest time between two check-ins, s": round(_longest_silence(evidence), 3)}

    return Scenario("hogs", _profile(database, "hogs", 2), load, script, nobody_died, says)


def _longest_silence(evidence: Evidence) -> float:
    longest = 0.0
    for versions in evidence.of_node.values():
        heard = [
            v.mono
            for n, v in enumerate(versions)
            if n == 0 or v.row["renew_seq"] != versions[n - 1].row["renew_seq"]
        ]
        longest = max([longest, *(after - before for before, after in pairwise(heard))])
    return longest


# -- an outage ---------------------------------------------------------------------------------------------------------

_RESUMED = 5.0


def outage(database: str, seconds: float) -> Scenario:
    """The database is gone for a minute: what ended meanwhile lands, and firing goes on within five seconds."""

    def script(scene: Scene) -> None:
        scene.wait(5)
        server = scene.stage.database
        assert server is not None, "an SQLite file does not go away"
        healed = scene.fault("db_restart", "")
        server.kill()
        scene.wait(seconds)
        server.start()
        healed()
        scene.wait(12)

    def promise(evidence: Evidence) -> list[Violation]:
        found = nobody_died(evidence)
        if _resumed(evidence) > _RESUMED:
            found.append(
                Violation("outage", f"firing went on {_resumed(evidence):.2f} s after the database was back")
            )
        [spell] = evidence.of_kinds("db_restart")
        for take in takes_of(evidence):
            for body in evidence.body_of.get(take.key, []):
                if body.ended is None or not spell.began <= body.ended <= spell.ended or body.how == "told":
                    continue
                wanted = "succeeded" if body.how == "ok" else "failed"
                if outcome_of(evidence, take) != wanted:
                    text = f"firing {take.firing}/{take.fence} ended {body.how} in the outage and is {outcome_of(evidence, take)}"
                    found.append(Violation("outage", text, slice_of(evidence, firings=(take.firing,))))
        return found

    def says(evidence: Evidence) -> dict[str, Any]:
        [spell] = evidence.of_kinds("db_restart")
        ended = [b for b in evidence.bodies if b.ended is not None and spell.began <= b.ended <= spell.ended]
        return {
            "bodies that ended in the outage": len(ended),
            "firing went on after, s": round(_resumed(evidence), 3),
        }

    return Scenario("outage", _profile(database, "outage"), _busy, script, promise, says)


def _resumed(evidence: Evidence) -> float:
    [spell] = evidence.of_kinds("db_restart")
    taken = [take.begin.mono for take in takes_of(evidence) if take.begin.mono > spell.ended - 1]
    return min(taken, default=_LONG) - spell.ended


# -- a stall -----------------------------------------------------------------------------------------------------------


def stall(database: str, seconds: float) -> Scenario:
    """Each node is stopped for ten seconds, at default settings: nobody is declared dead, nothing runs twice."""

    def script(scene: Scene) -> None:
        scene.wait(3)
        for seat in scene.seats:
            life = seat.life
            assert life is not None
            healed = scene.fault("stop_half", seat.name, family=True)
            seat.stop(family=True)
            scene.wait(seconds)
            seat.go_on(life)
            healed()
            scene.wait(2)

    profile = _profile(database, "stall", 2 if database == "sqlite" else 4)
    return Scenario("stall", profile, _busy, script, nobody_died)


# -- takeovers ---------------------------------------------------------------------------------------------------------


def takeover(database: str, times: int, *, silent: bool = False, fast: bool = False) -> Scenario:
    """A node is killed (or falls silent) in the middle of a job, again and again: how long until another has it?"""
    profile = _profile(database, "takeover", 2, drain_timeout=8.0)
    if fast:
        profile = replace(profile, check_in=0.5, lease=1.5)

    def load(start: int) -> Workload:
        del start
        jobs = (JobFacts("long", {"seconds": 3.0 if fast else 6.0}, recovery=True),)
        return Workload(jobs, (TriggerFacts("long_1", "long", every=1),))

    def script(scene: Scene) -> None:
        for number in range(times):
            seat = scene.seats[number % 2]
            _await_work(scene, seat.name)
            if silent:
                _silence(scene, seat.name, profile.lease)
            else:
                seat.kill()
                scene.wait(4 * profile.check_in + 1.5)
                seat.start()
            scene.back(seat)
            scene.wait(2 * profile.check_in)

    def says(evidence: Evidence) -> dict[str, Any]:
        seconds = sorted(_takeovers(evidence))
        worst, middle = max(seconds, default=0.0), seconds[len(seconds) // 2] if seconds else 0.0
        return {"takeovers": len(seconds), "median, s": round(middle, 3), "worst, s": round(worst, 3)}

    def promise(evidence: Evidence) -> list[Violation]:
        bound = _bound(profile, silent=silent)
        late = [seconds for seconds in _takeovers(evidence) if seconds > bound]
        return [Violation("takeover", f"{seconds:.3f} s, and {bound:.2f} s are promised") for seconds in late]

    return Scenario("silent" if silent else "takeover", profile, load, script, promise, says)


def _bound(profile: Profile, *, silent: bool) -> float:
    if silent:
        return profile.lease + 2 * profile.check_in + 0.25
    return 4 * profile.check_in + 0.25


def _await_work(scene: Scene, name: str) -> None:
    """Until this node runs something, and the other one has room for it."""
    working = (
        "SELECT count(*) FROM qsched_firings f JOIN qsched_nodes n ON n.incarnation = f.incarnation"
        f" WHERE f.state = 'running' AND n.state = 'up' AND n.name = '{name}'"
    )
    scene.until(lambda: scene.rows(working)[:1] > [(0,)], f"{name} to run something", within=120)


def _silence(scene: Scene, name: str, lease: float) -> None:
    """Its host is there and says nothing: no word passes, until it was declared dead."""
    link = scene.stage.seat(name).database
    assert link is not None, "an SQLite file has no way that could be cut"
    healed = scene.fault("hold", name, drop=True)
    link.hold()
    scene.wait(lease + 5)
    link.heal(drop=True)
    healed()


def _takeovers(evidence: Evidence) -> list[float]:
    """From each death (or last word) to the moment the first firing of the dead runs elsewhere."""
    found = []
    takes = takes_of(evidence)
    for incarnation, verdict in verdicts_of(evidence).items():
        process = evidence.process_of(incarnation)
        killed = process is not None and process.ended < verdict.change.mono
        since = process.ended if killed and process is not None else last_heard(evidence, verdict)
        lost = {
            take.firing
            for take in takes
            if take.incarnation == incarnation and outcome_of(evidence, take) == "lost"
        }
        again = [
            t.begin.mono
            for t in takes
            if t.firing in lost and t.fence > 1 and t.begin.seq > verdict.change.seq
        ]
        if again:
            found.append(min(again) - since)
    return found


def named(name: str, database: str, amount: float | None) -> Scenario:
    """A scenario by its name; `amount` is its seconds, rounds or times. Raises ValueError for what SQLite cannot have."""
    if database == "sqlite" and name in _WITH_SERVER:
        raise ValueError(
            f"an SQLite file has no server, no way that could be cut, and the host's clock: no {name}"
        )
    makers: dict[str, Callable[[], Scenario]] = {
        "rolling": lambda: rolling(database, int(amount or 10)),
        "clock": lambda: clock(database, amount or 40),
        "hogs": lambda: hogs(database, amount or 120),
        "outage": lambda: outage(database, amount or 60),
        "stall": lambda: stall(database, amount or 10),
        "takeover": lambda: takeover(database, int(amount or 50)),
        "takeover-fast": lambda: takeover(database, int(amount or 20), fast=True),
        "silent": lambda: takeover(database, int(amount or 20), silent=True),
        "silent-fast": lambda: takeover(database, int(amount or 20), silent=True, fast=True),
    }
    return makers[name]()


_WITH_SERVER = ("clock", "outage", "silent", "silent-fast")
NAMES = ("rolling", "clock", "hogs", "outage", "stall", "takeover", "takeover-fast", "silent", "silent-fast")
