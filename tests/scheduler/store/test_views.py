"""The views show instants as people read them, the same on all three databases and in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Any

from qsched.scheduler.firing import NewFiring
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.firing_rows import insert_firings
from qsched.scheduler.store.tables import jobs, nodes, trigger_clocks, triggers
from qsched.scheduler.store.tx import Tx

SLOT = datetime(2044, 2, 29, 23, 59, 59, 123456, UTC)
INSTANT = (SLOT - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    assert isinstance(moment, datetime)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _fill(tx: Tx) -> None:
    given: dict[str, Any] = {
        "cluster": tx.cluster,
        "name": "nightly",
        "group_name": "g",
        "next_fire_at": INSTANT,
        "watermark": None,
        "incarnation": 1,
        "id": 1,
        "job_id": 1,
        "checked_in_at": INSTANT,
    }
    for table in (jobs, triggers, trigger_clocks, nodes):
        columns = [c for c in table.columns if c.name in given or not c.nullable]
        row = tuple(given.get(c.name, 0 if "INT" in str(c.type).upper() else "x") for c in columns)
        tx.insert(table, tuple(c.name for c in columns), [row])
    firing = NewFiring(
        tx.cluster,
        1,
        None,
        1,
        "g/nightly",
        "nightly",
        INSTANT,
        INSTANT,
        1,
        "schedule",
        "running",
        INSTANT,
        95,
        INSTANT,
    )
    ran = firing._replace(incarnation=1, first_started_at=INSTANT + 1_500_000, started_at=INSTANT + 1_500_000)
    insert_firings(tx, [ran._replace(finished_at=INSTANT + 4_000_000)])


def _one(store: Store, view: str) -> Any:
    return store.read("r", lambda tx: tx.run(f"SELECT * FROM qsched_{view}_view").one())


def test_a_firing_reads_as_people_write_it(store: Store) -> None:
    store.transaction("w", _fill)
    firing = _one(store, "firings")
    assert _moment(firing.scheduled_at) == SLOT
    assert _moment(firing.finished_at) == SLOT + timedelta(seconds=4)
    assert (firing.cluster_name, firing.node_name, firing.trigger_name) == ("default", "nightly", "g/nightly")
    assert float(firing.late_seconds) == 1.5
    assert float(firing.duration_seconds) == 2.5
    assert firing.misfire_cause is None


def test_a_trigger_and_a_node_read_so_too(store: Store) -> None:
    store.transaction("w", _fill)
    trigger = _one(store, "triggers")
    assert (trigger.group_name, trigger.name, trigger.job_name) == ("g", "nightly", "nightly")
    assert _moment(trigger.next_fire_at) == SLOT
    assert trigger.watermark is None
    assert _moment(trigger.created_at) == datetime(1970, 1, 1, tzinfo=UTC)
    assert _moment(_one(store, "nodes").checked_in_at) == SLOT
