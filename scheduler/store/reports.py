"""What the store holds, as answers: triggers, jobs, nodes; only reads, and never code or an engine.

A list is read in pages along a key, one statement each: it may be long, and is never locked as a whole.
"""

from collections.abc import Callable, Iterator
from typing import Any

from ...triggers.instant import DAY
from ...triggers.trigger_text import schedule_text, split_key, trigger_key
from ..firing import MAX_RECOVERIES
from .database import Store
from .dialects import MARIADB
from .report_items import Item, instant, readable, seconds
from .running_reports import running, unloadable
from .tx import Tx

PAGE = 1000


def database_now(store: Store) -> int:
    """The database's time, against which `in 3h` and `20s ago` are said."""
    return store.read("now", Tx.now)


# The last outcome is probed along the unique key (trigger_id, scheduled_at): one or two rows per trigger.
_TRIGGERS = """
SELECT t.id, t.group_name, t.name, t.namespace, t.spec, t.state, t.error_kind, t.error, t.error_at,
       t.paused_at, t.paused_by, t.paused_until, t.paused_reason,
       g.paused_at, g.paused_by, g.paused_until, g.paused_reason,
       j.name, c.next_fire_at, c.last_fire_at, c.fires, c.misfires,
       m.scheduled_at, m.first_scheduled_at, m.noticed_at,
       m.misfire_cause, m.misfire_policy, m.misfire_decision,
       (SELECT f.outcome FROM qsched_firings f
         WHERE f.trigger_id = t.id AND f.scheduled_at <= c.last_fire_at AND f.outcome IS NOT NULL
         ORDER BY f.scheduled_at DESC LIMIT 1),
       t.job_id
  FROM qsched_triggers t
  LEFT JOIN qsched_trigger_clocks c ON c.id = t.id
  LEFT JOIN qsched_jobs j ON j.id = t.job_id
  LEFT JOIN qsched_paused_groups g ON g.cluster = t.cluster AND g.group_name = t.group_name
  LEFT JOIN qsched_firings m ON m.trigger_id = t.id AND m.scheduled_at = c.last_misfire_at
 WHERE t.cluster = ?"""
_CLEARS_ITSELF = ("unloadable", "undecidable")
"""Errors that end when a node comes that can: the slot that waits for it is worth showing."""
# What comes after a key, so that each database goes there by its index: MariaDB knows no range of pairs, the others
# know no range of alternatives.
_AFTER = " AND (t.group_name, t.name) > (?, ?)"
_AFTER_MARIADB = " AND (t.group_name > ? OR (t.group_name = ? AND t.name > ?))"
_IN_ORDER = " ORDER BY t.group_name, t.name LIMIT ?"


def triggers(store: Store, *, group: str | None = None, retired: bool = False) -> Iterator[Item]:
    """Every trigger in order of its key; `retired` ones too, if asked for; `group` alone, if given."""
    where, values = "", []
    if not retired:
        where += " AND t.state <> 'retired'"
    if group is not None:
        where += " AND t.group_name = ?"
        values.append(group)
    mariadb = store.dialect is MARIADB
    statement = _TRIGGERS + where + (_AFTER_MARIADB if mariadb else _AFTER) + _IN_ORDER
    group_name = name = ""
    busy, trouble = running(store), unloadable(store)
    while True:
        after = (group_name, group_name, name) if mariadb else (group_name, name)
        rows = _rows(store, "list triggers", statement, *values, *after, PAGE)
        yield from (
            {**trigger_item(row), "running": busy.get(row[0]), "trouble": trouble.get(row[29])}
            for row in rows
        )
        if len(rows) < PAGE:
            return
        group_name, name = rows[-1][1:3]


def trigger(store: Store, key: str) -> Item | None:
    """One trigger, retired ones too, with its `definition` as stored (None where it cannot be read)."""
    rows = _rows(store, "show trigger", _TRIGGERS + " AND t.group_name = ? AND t.name = ?", *split_key(key))
    if not rows:
        return None
    row = rows[0]
    now = {"running": running(store, row[0]).get(row[0]), "trouble": unloadable(store).get(row[29])}
    return {**trigger_item(row), **now, "definition": readable(row[4])}


def trigger_keys(store: Store) -> list[str]:
    """The keys of all triggers that are not retired: what a mistyped one may have meant."""
    statement = (
        "SELECT group_name, name FROM qsched_triggers WHERE cluster = ? AND state <> 'retired' LIMIT 10000"
    )
    return [trigger_key(*row) for row in _rows(store, "trigger keys", statement)]


def trigger_item(row: Any) -> Item:
    """The answer of one row of _TRIGGERS."""
    _id, group, name, namespace, text, state, kind, error, error_at = row[:9]
    own_pause, group_pause = row[9:13], row[13:17]
    job, next_at, last_at, fires, misfires = row[17:22]
    spec = readable(text)
    schedule = _schedule(spec)
    if schedule is None and state == "waiting":  # no node has met it yet; what it will find is known already
        state, kind, error = "error", "poison", "the stored definition cannot be read: apply it again"
    if state == "done" and "after" in ((spec or {}).get("schedule") or {}):
        state = "waiting"  # a continuation has no slots of its own, and waits for its job's ends
    paused = _paused(own_pause, "trigger") or _paused(group_pause, "group")
    may_fire = state == "waiting" or (state == "error" and kind in _CLEARS_ITSELF)
    return {
        "name": trigger_key(group, name),
        "group": group,
        "job": job,
        "schedule": schedule,
        "time_zone": str((spec or {}).get("time_zone", "UTC")),
        "namespace": namespace,
        "state": state,
        "paused": paused,
        "next_fire_at": instant(next_at) if may_fire and paused is None else None,
        "prev_fire_at": instant(last_at),
        "last_outcome": row[28],
        "fires": fires or 0,
        "misfires": misfires or 0,
        "last_misfire": _last_misfire(row[22:28]),
        "error": error,
        "error_kind": kind,
        "error_at": instant(error_at),
    }


def _schedule(spec: Item | None) -> str | None:
    """The schedule of a stored definition in a few words; None where that cannot be read."""
    found = (spec or {}).get("schedule")
    if not isinstance(found, dict):
        return None
    try:
        return schedule_text(found)
    except (OverflowError, ValueError):  # instants beyond all calendars
        return None


def _paused(columns: Any, scope: str) -> Item | None:
    at, by, until, reason = columns
    if at is None:
        return None
    return {"at": instant(at), "by": by, "until": instant(until), "reason": reason, "scope": scope}


def _last_misfire(columns: Any) -> Item | None:
    scheduled_at, first_at, noticed_at, cause, policy, decision = columns
    if scheduled_at is None:
        return None
    return {
        "scheduled_at": instant(scheduled_at),
        "noticed_at": instant(noticed_at),
        "late": seconds(max(noticed_at - first_at, 0)),
        "cause": cause,
        "policy": policy,
        "decision": decision,
        "first_scheduled_at": instant(first_at),
    }


_JOBS = """
SELECT j.name, j.namespace, j.state, j.spec, j.loaded,
       (SELECT count(*) FROM qsched_triggers t WHERE t.job_id = j.id AND t.state <> 'retired'),
       (SELECT count(*) FROM qsched_firings f WHERE f.job_id = j.id AND f.state = 'running'), c.defaults
  FROM qsched_jobs j LEFT JOIN qsched_clusters c ON c.id = j.cluster
 WHERE j.cluster = ? AND j.name > ?{where} ORDER BY j.name LIMIT ?"""


def jobs(store: Store, *, retired: bool = False) -> Iterator[Item]:
    """Every job in order of its name, with its effective policies: YAML's, else the code's, else the cluster's."""
    statement = _JOBS.format(where="" if retired else " AND j.state <> 'retired'")
    after = ""
    while True:
        rows = _rows(store, "list jobs", statement, after, PAGE)
        yield from (_job_item(row) for row in rows)
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def job(store: Store, name: str) -> Item | None:
    """The job of that name, retired or not."""
    rows = _rows(store, "job", _JOBS.format(where=" AND j.name = ?"), "", name, 1)
    return _job_item(rows[0]) if rows else None


def _job_item(row: Any) -> Item:
    name, namespace, state, text, loaded, trigger_count, running, defaults = row
    spec = readable(text)
    said = {"overlap": "allow", **(readable(defaults) or {}), **(readable(loaded) or {}), **(spec or {})}
    kind = next((kind for kind in ("python", "command", "http") if kind in said), None)
    return {
        "name": name,
        "kind": kind,
        "target": None if kind is None else _target(kind, said[kind]),
        "namespace": namespace,
        "state": state,
        "overlap": said.get("overlap"),
        "request_recovery": bool(said.get("request_recovery")),
        "max_recoveries": said.get("max_recoveries", MAX_RECOVERIES),
        "timeout": seconds(said["timeout"]) if isinstance(said.get("timeout"), int) else None,
        "triggers": trigger_count,
        "running": running,
        "loaded": loaded is not None,
        "error": "the stored definition cannot be read: apply it again" if spec is None else None,
    }


def _target(kind: str, target: Any) -> Any:
    """What a job runs; of a request only method and url, as written: its headers are nobody's business."""
    if kind != "http" or not isinstance(target, dict):
        return target
    from ...triggers.request_template import method_of  # a list of triggers shows no request

    return f"{method_of(target)} {target.get('url')}"


def job_names(store: Store) -> set[str]:
    """The names of all jobs that are not retired: what a declaration may refer to."""
    statement = "SELECT name FROM qsched_jobs WHERE cluster = ? AND state <> 'retired'"
    return {row[0] for row in _rows(store, "job names", statement)}


_NODES = """
SELECT n.name, n.incarnation, n.state, n.host, n.pid, n.started_at, n.checked_in_at, n.capacity, n.running,
       n.clock_offset, n.version, n.revision, n.tags, n.ended_at, n.undecidable, n.unloadable,
       c.leader_incarnation, c.leader_until, n.lease_until, n.drain_requested_at, n.drain_requested_by, n.handed_over,
       n.dead_verdict, n.marked_by, n.check_in, n.session_lock, n.health
  FROM qsched_nodes n LEFT JOIN qsched_clusters c ON c.id = n.cluster
 WHERE n.cluster = ? AND (n.state IN ('up', 'draining') OR n.ended_at >= ?) ORDER BY n.name, n.incarnation"""


def nodes(store: Store, *, ended_since: int | None = None) -> Iterator[Item]:
    """The nodes that have not ended and those that did in the last day (or since the instant given), by name.

    One that says it is up and whose lease has passed is `silent`: stopped, cut off or killed; one that was declared `dead`
    says by which verdict. One that was asked to drain is `draining`, although it hears of it at its next check-in only.
    """

    def work(tx: Tx) -> tuple[int, list[Any]]:
        since = tx.now() - DAY if ended_since is None else ended_since
        return tx.now(), list(tx.run(_NODES, tx.cluster, since))

    now, rows = store.read("list nodes", work)
    return (_node_item(row, now) for row in rows)


def _node_item(row: Any, now: int) -> Item:
    incarnation, leader, leader_until = row[1], row[16], row[17]
    return {
        "name": row[0],
        "incarnation": incarnation,
        "state": _node_state(row[2], silent=row[18] <= now, asked=row[19] is not None),
        "host": row[3],
        "pid": row[4],
        "started_at": instant(row[5]),
        "checked_in_at": instant(row[6]),
        "capacity": row[7],
        "running": row[8],
        "clock_offset": seconds(row[9]),
        "leader": leader is not None and leader == incarnation and (leader_until or 0) > now,
        "version": row[10],
        "revision": row[11],
        "tags": _list(row[12]),
        "ended_at": instant(row[13]),
        "undecidable": len(readable(row[14]) or {}),
        "unloadable": len(readable(row[15]) or {}),
        "lease_until": instant(row[18]),
        "drain_requested_at": instant(row[19]),
        "drain_requested_by": row[20],
        "handed_over": row[21],
        "verdict": row[22],
        "marked_by": row[23],
        "check_in": None if row[24] is None else seconds(row[24]),
        "session_lock": bool(row[25]),
        "health": readable(row[26]) or {},
    }


def _node_state(state: str, *, silent: bool, asked: bool) -> str:
    if state not in ("up", "draining"):
        return state
    return "silent" if silent else "draining" if asked else state


def _list(text: str | None) -> list[Any]:
    found = readable(f'{{"list": {text or "[]"}}}')
    return found["list"] if found and isinstance(found["list"], list) else []


def _rows(store: Store, name: str, statement: str, *values: Any) -> list[Any]:
    work: Callable[[Tx], list[Any]] = lambda tx: list(tx.run(statement, tx.cluster, *values))  # noqa: E731
    return store.read(name, work)
