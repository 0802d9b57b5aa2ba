"""A ledger with a past: final rows put there by the thousand, and a pruner that goes about its chores."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from qsched.scheduler.clock import Clock, SystemClock, Waitable
from qsched.scheduler.definitions import Definitions
from qsched.scheduler.hand import Hand
from qsched.scheduler.identity import Identity
from qsched.scheduler.parts import Parts
from qsched.scheduler.pruner import Pruner
from qsched.scheduler.registry import JobRegistry
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.ledger_tables import attempts, firings, outputs
from qsched.scheduler.store.status_rows import JobStatus, job_status_of

from .declared import rows

_COLUMNS = (
    *("cluster", "trigger_id", "requested_trigger_id", "job_id", "trigger_name", "job_name", "scheduled_at"),
    *(
        "first_scheduled_at",
        "covers",
        "reason",
        "state",
        "run_at",
        "precedence",
        "fence",
        "attempt",
        "refires",
    ),
    *("recoveries", "incarnation", "noticed_at", "started_at", "finished_at", "outcome", "request_recovery"),
    *("max_recoveries", "unique_key", "unique_until"),
)


class HurriedClock(SystemClock):
    """The system's time, in which nobody waits."""

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        del waitable, timeout
        return False


class Row(NamedTuple):
    """One firing of the past; instants in µs. `line`: slots | requests | enqueued."""

    at: int
    trigger_id: int | None = 1
    job_id: int = 1
    state: str = "succeeded"
    line: str = "slots"
    attempt: int = 0
    took: int = 0
    incarnation: int | None = None
    unique_key: str | None = None
    unique_until: int | None = None


def remember(store: Store, history: Iterable[Row], parts: int = 0) -> list[int]:
    """Put rows into the ledger, in this order; each with so many ended attempts and outputs. Answers their ids."""

    def work(tx: Any) -> list[int]:
        ids: list[int] = tx.insert_ids(firings, _COLUMNS, [_values(tx.cluster, row) for row in history])
        if parts:
            tried = [
                (each, fence, tx.cluster, 0, 0, 1, "failed", 1)
                for each in ids
                for fence in range(1, parts + 1)
            ]
            columns = (
                *("firing_id", "fence", "cluster", "attempt", "recovering", "finished_at", "outcome"),
                "next_run_at",
            )
            tx.insert(attempts, columns, tried)
            tx.insert(outputs, ("firing_id", "fence", "output"), [(each, 1, "{}") for each in ids])
        return ids

    return store.transaction("remember", work)


def _values(cluster: int, row: Row) -> tuple[Any, ...]:
    final = row.state not in ("due", "running")
    end = row.at + row.took if final else None
    slot = row.trigger_id if row.line == "slots" else None
    asked = row.trigger_id if row.line == "requests" else None
    reason = {"slots": "schedule", "requests": "manual", "enqueued": "enqueue"}[row.line]
    name = None if row.line == "enqueued" else f"t{row.trigger_id}"
    return (
        *(cluster, slot, asked, row.job_id, name, f"j{row.job_id}", row.at, row.at, 1, reason),
        *(row.state, row.at, 95, 1, row.attempt, 0, 0, row.incarnation, row.at, row.at, end),
        *(row.state if final else None, 0, 3, row.unique_key, row.unique_until),
    )


def pruner_of(store: Store, name: str = "one", clock: Clock | None = None, incarnation: int = 1) -> Pruner:
    """The pruner of a node that needs nothing else; on a clock by which its transactions are measured."""
    clock = clock or HurriedClock()
    who = Identity(name)
    who.incarnation = incarnation
    return Pruner(Parts(store, clock, who, Hand(1), Definitions(JobRegistry(), clock)))


def prune(store: Store, hands: Any, pruner: Pruner | None = None, *, most: int = 100) -> None:
    """Let the pruner go about its chores until it has nothing more to do for a minute."""
    pruner = pruner or pruner_of(store)
    for _ in range(most):
        wait = pruner.step()
        hands.instant += 1 + round(wait * 1_000_000)
        if wait > 30:
            return
    raise AssertionError(f"it is not done after {most} steps")


def states(store: Store, where: str = "1 = 1") -> Counter[str]:
    """How many rows of the ledger are in each state."""
    return Counter(row[0] for row in rows(store, f"SELECT state FROM qsched_firings WHERE {where}"))


def ids(store: Store) -> set[int]:
    return {row[0] for row in rows(store, "SELECT id FROM qsched_firings")}


def status(store: Store, job_id: int = 1) -> JobStatus:
    return store.read("status", lambda tx: job_status_of(tx, job_id))


def put_retention(store: Store, **said: Any) -> None:
    """What the cluster keeps, as `apply` would write it."""
    from qsched.scheduler.store.definition_rows import write_defaults

    store.transaction("retention", lambda tx: write_defaults(tx, {"retention": said}, "default"))


def put_triggers(store: Store, jobs: Sequence[int]) -> None:
    """Triggers 1, 2, … of these jobs, and the jobs themselves, without clocks: nothing is decided here."""

    def work(tx: Any) -> None:
        from qsched.scheduler.store.tables import jobs as job_table
        from qsched.scheduler.store.tables import triggers

        columns = (
            *("id", "cluster", "name", "namespace", "state", "spec", "definition_digest", "created_at"),
            "updated_at",
        )
        tx.insert(
            job_table,
            columns,
            [
                (job, tx.cluster, f"j{job}", "n", "active", '{"command":"true"}', "0", 1, 1)
                for job in sorted(set(jobs))
            ],
        )
        of_triggers = (
            *("id", "cluster", "group_name", "name", "namespace", "job_id", "spec", "spec_version"),
            *("definition_digest", "schedule_digest", "state", "created_at", "updated_at"),
        )
        made = [
            (n, tx.cluster, "default", f"t{n}", "n", job, "{}", 1, "0", "0", "waiting", 1, 1)
            for n, job in enumerate(jobs, 1)
        ]
        tx.insert(triggers, of_triggers, made)

    store.transaction("triggers", work)
