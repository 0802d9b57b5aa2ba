"""Declarations made in a test, and stores that stand at a chosen time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qsched.scheduler.firing import NewFiring
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.firing_rows import insert_firings
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tables import metadata
from qsched.triggers.instant import to_instant
from qsched.triggers.job import JobDefinition, canonical, digest
from qsched.triggers.trigger import TriggerDefinition, split_key


@dataclass(frozen=True, slots=True)
class Declared:
    """What `apply` takes, without a file."""

    triggers: tuple[TriggerDefinition, ...] = ()
    jobs: tuple[JobDefinition, ...] = ()
    namespace: str = "default"
    cluster_defaults: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    calendars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    comment: str = ""
    """Two files that differ in nothing but this declare the same, and are two revisions."""

    @property
    def revision_digest(self) -> str:
        every = {trigger.key: trigger.to_spec() for trigger in self.triggers}
        return digest(
            [
                self.comment,
                canonical(every),
                {job.name: job.to_spec() for job in self.jobs},
                dict(self.cluster_defaults),
                dict(self.limits),
                canonical(dict(self.calendars)),
            ]
        )


def trigger(key: str, cron: str | None = None, **fields: Any) -> TriggerDefinition:
    """A trigger of job `report`; every minute unless told otherwise."""
    group, name = split_key(key)
    fields.setdefault("schedule", {"cron": cron or "* * * * *"})
    fields.setdefault("job", "report")
    return TriggerDefinition(name=name, group=group, **fields)


def command(name: str, target: str = "true", **fields: Any) -> JobDefinition:
    """A command job."""
    return JobDefinition(name=name, kind="command", target=target, **fields)


REPORT = command("report")


def declared(*triggers: TriggerDefinition, **fields: Any) -> Declared:
    """These triggers and the job `report`."""
    fields.setdefault("jobs", (REPORT,))
    return Declared(triggers=triggers, **fields)


class Hands:
    """The database's clock in a test: it stands until it is moved."""

    def __init__(self, moment: str) -> None:
        self.instant = at(moment)

    def __call__(self) -> int:
        return self.instant

    def move_to(self, moment: str) -> None:
        self.instant = at(moment)


def at(moment: str) -> int:
    """The instant of `2024-01-10 09:00` (UTC)."""
    from datetime import UTC, datetime

    return to_instant(datetime.fromisoformat(moment).replace(tzinfo=UTC))


def new_store(url: str, hands: Hands) -> Store:
    """The store at `url`, made if missing, whose clock are `hands`."""
    return open_store(url, create=True, now=hands)


def dump(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""

    def read(tx: Any) -> dict[str, list[tuple[Any, ...]]]:
        return {
            table.name: sorted((tuple(row) for row in tx.run(f"SELECT * FROM {table.name}")), key=repr)
            for table in metadata.sorted_tables
        }

    return store.read("dump", read)


def rows(store: Store, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What a query answers."""
    return store.read("look", lambda tx: [tuple(row) for row in tx.run(statement, *values)])


def write(store: Store, statement: str, *values: Any) -> None:
    """Change rows behind qsched's back."""

    def work(tx: Any) -> None:
        tx.run(statement, *values)

    store.transaction("write", work)


def put(store: Store, *firings: NewFiring) -> None:
    """Put rows into the ledger."""
    store.transaction("put", lambda tx: insert_firings(tx, firings))


def clock(store: Store, name: str) -> dict[str, Any]:
    """The state and the clock of the trigger whose row has this name."""
    columns = (
        "state",
        "next_fire_at",
        "next_run_at",
        "watermark",
        "version",
        "fires",
        "overlap",
        "skip_after",
    )
    found = rows(
        store,
        f"SELECT t.state, {', '.join('c.' + column for column in columns[1:])} FROM qsched_triggers t"
        " JOIN qsched_trigger_clocks c ON c.id = t.id WHERE t.name = ?",
        name,
    )
    assert len(found) == 1
    return dict(zip(columns, found[0], strict=True))


def keys(store: Store, state: str = "waiting") -> list[str]:
    """The names of the triggers that are in a state."""
    return [
        row[0] for row in rows(store, "SELECT name FROM qsched_triggers WHERE state = ? ORDER BY name", state)
    ]
