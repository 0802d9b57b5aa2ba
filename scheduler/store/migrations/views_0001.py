"""The first schema's views, with readable UTC timestamps, for people with an SQL prompt; nothing in the house reads them."""

from collections.abc import Callable

from alembic import op
from qsched.scheduler.store.migrations.steps import view

VIEWS = ("qsched_firings_view", "qsched_triggers_view", "qsched_nodes_view")


def make() -> None:
    """Make every view, or make it again."""
    moment = _MOMENTS[op.get_context().dialect.name]
    for name, body in zip(VIEWS, (_firings(moment), _triggers(moment), _nodes(moment)), strict=True):
        view(name, body)


Moment = Callable[[str], str]


def _postgresql(column: str) -> str:
    return f"TIMESTAMPTZ 'epoch' + {column} * INTERVAL '1 microsecond'"


def _mariadb(column: str) -> str:
    # Not FROM_UNIXTIME: that answers in the session's zone and ends in 2038.
    return f"TIMESTAMPADD(MICROSECOND, {column}, TIMESTAMP'1970-01-01 00:00:00.000000')"


def _sqlite(column: str) -> str:
    seconds = f"strftime('%Y-%m-%d %H:%M:%S', {column} / 1000000, 'unixepoch')"
    return f"{seconds} || printf('.%06dZ', {column} % 1000000)"


_MOMENTS: dict[str, Moment] = {"postgresql": _postgresql, "mariadb": _mariadb, "sqlite": _sqlite}


def _moments(moment: Moment, table: str, *columns: str) -> str:
    return ", ".join(
        f"CASE WHEN {table}.{name} IS NULL THEN NULL ELSE {moment(f'{table}.{name}')} END AS {name}"
        for name in columns
    )


def _firings(moment: Moment) -> str:
    return (
        "SELECT f.id, c.name AS cluster_name, f.trigger_name, f.job_name, f.reason, f.state, f.outcome, "
        + _moments(moment, "f", "scheduled_at", "first_scheduled_at")
        + ", f.covers, "
        + _moments(moment, "f", "run_at", "noticed_at", "started_at", "finished_at")
        + ", (f.first_started_at - f.scheduled_at) * 0.000001 AS late_seconds"
        ", (f.finished_at - f.started_at) * 0.000001 AS duration_seconds"
        ", f.attempt, f.recoveries, n.name AS node_name, f.incarnation, f.fence"
        ", f.misfire_cause, f.misfire_policy, f.misfire_decision, f.note, f.error"
        " FROM qsched_firings f"
        " LEFT JOIN qsched_clusters c ON c.id = f.cluster"
        " LEFT JOIN qsched_nodes n ON n.incarnation = f.incarnation"
    )


def _triggers(moment: Moment) -> str:
    return (
        "SELECT t.id, c.name AS cluster_name, t.group_name, t.name, t.namespace, j.name AS job_name, t.state"
        ", "
        + _moments(moment, "k", "next_fire_at", "next_run_at", "watermark", "last_fire_at", "last_misfire_at")
        + ", k.fires, k.misfires, t.error_kind, t.error, "
        + _moments(moment, "t", "error_at", "paused_at", "paused_until", "created_at", "updated_at")
        + ", t.paused_by, t.paused_reason, t.spec"
        " FROM qsched_triggers t"
        " LEFT JOIN qsched_clusters c ON c.id = t.cluster"
        " LEFT JOIN qsched_jobs j ON j.id = t.job_id"
        " LEFT JOIN qsched_trigger_clocks k ON k.id = t.id"
    )


def _nodes(moment: Moment) -> str:
    return (
        "SELECT n.incarnation, c.name AS cluster_name, n.name, n.host, n.pid, n.state, "
        + _moments(moment, "n", "started_at", "checked_in_at", "lease_until", "ended_at")
        + ", n.capacity, n.running, n.clock_offset * 0.000001 AS clock_offset_seconds, n.version, n.revision"
        " FROM qsched_nodes n LEFT JOIN qsched_clusters c ON c.id = n.cluster"
    )
