"""What a namespace last declared: its row (the lock of every apply), its revisions, the cluster's defaults, and the audit."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...triggers.job import canonical
from .node_rows import UP
from .tables import audit, declarations, paused_groups
from .tx import Tx

APPLYING = "applying"
APPLIED = "applied"


class NamespaceRow(NamedTuple):
    """A namespace as the store has it."""

    revision: int
    digest: str
    state: str


def read_namespace(tx: Tx, namespace: str) -> NamespaceRow | None:
    """The namespace's row; None when nothing was ever applied in it."""
    return _namespace(tx, namespace, "")


def lock_namespace(tx: Tx, namespace: str, who: str | None) -> NamespaceRow:
    """The namespace's row, made when it is missing and locked until commit: applies of one namespace take turns."""
    found = _namespace(tx, namespace, tx.dialect.for_update)
    if found is None:
        columns = ("cluster", "namespace", "revision", "digest", "state", "applied_at", "applied_by")
        row = (tx.cluster, namespace, 0, "", APPLIED, tx.now(), who)
        tx.insert_missing(declarations, columns, [row])
        found = _namespace(tx, namespace, tx.dialect.for_update)
        assert found is not None
    return found


def _namespace(tx: Tx, namespace: str, lock: str) -> NamespaceRow | None:
    row = tx.run(
        "SELECT revision, digest, state FROM qsched_declarations WHERE cluster = ? AND namespace = ?" + lock,
        tx.cluster,
        namespace,
    ).one_or_none()
    return None if row is None else NamespaceRow(*row)


def write_namespace(tx: Tx, namespace: str, row: NamespaceRow, who: str | None) -> None:
    """Say what the (locked) namespace now carries; the revision of this digest is remembered for ever."""
    tx.run(
        "UPDATE qsched_declarations SET revision = ?, digest = ?, state = ?, applied_at = ?, applied_by = ?"
        " WHERE cluster = ? AND namespace = ?",
        *(row.revision, row.digest, row.state, tx.now(), who),
        *(tx.cluster, namespace),
    )
    if not row.digest or known_revision(tx, namespace, row.digest) == row.revision:
        return
    tx.run(
        "DELETE FROM qsched_revisions WHERE cluster = ? AND namespace = ? AND digest = ?",
        *(tx.cluster, namespace, row.digest),
    )
    tx.run(
        "INSERT INTO qsched_revisions (cluster, namespace, digest, revision, applied_at) VALUES (?, ?, ?, ?, ?)",
        *(tx.cluster, namespace, row.digest, row.revision, tx.now()),
    )


def known_revision(tx: Tx, namespace: str, digest: str) -> int | None:
    """The newest revision under which this digest was applied; None when it never was."""
    found: int | None = tx.run(
        "SELECT revision FROM qsched_revisions WHERE cluster = ? AND namespace = ? AND digest = ?",
        *(tx.cluster, namespace, digest),
    ).scalar_one_or_none()
    return found


def next_revision(tx: Tx) -> int:
    """A new revision number. The caller holds the cluster's lock: a number belongs to one namespace."""
    highest: int = tx.run(
        "SELECT COALESCE(MAX(revision), 0) FROM qsched_declarations WHERE cluster = ?", tx.cluster
    ).scalar_one()
    return highest + 1


def carried_by_a_live_node(tx: Tx, namespace: str, revision: int) -> bool:
    """Whether a node that lives, by the database's clock, carries `revision` of the namespace or a newer one."""
    return bool(
        tx.run(
            "SELECT COUNT(*) FROM qsched_nodes n JOIN qsched_revisions r"
            " ON r.cluster = n.cluster AND r.namespace = ? AND r.revision = n.revision"
            " WHERE n.cluster = ? AND n.state = ? AND n.lease_until > ? AND n.revision >= ?",
            *(namespace, tx.cluster, UP, tx.now(), revision),
        ).scalar_one()
    )


def lock_cluster(tx: Tx, *, share: bool = False) -> None:
    """Lock the cluster row: pausing a group alone, adding triggers (which read the paused groups) together."""
    lock = tx.dialect.share_alive if share else tx.dialect.for_update
    tx.run("SELECT id FROM qsched_clusters WHERE id = ?" + lock, tx.cluster).all()


def read_defaults(tx: Tx) -> tuple[dict[str, Any], str | None]:
    """The cluster's defaults (`retry`, `overlap`, `misfire`) and the namespace whose file says them."""
    row = tx.run(
        "SELECT defaults, defaults_namespace FROM qsched_clusters WHERE id = ?", tx.cluster
    ).one_or_none()
    if row is None or row[0] is None:
        return {}, None if row is None else row[1]
    try:
        defaults = json.loads(row[0])
    except ValueError:
        return {}, row[1]  # a broken text is no default; the next apply of its file mends it
    return (defaults if isinstance(defaults, dict) else {}), row[1]


def write_defaults(tx: Tx, defaults: Mapping[str, Any], namespace: str | None) -> None:
    """Replace the defaults of the (locked) cluster; an empty mapping gives them up."""
    tx.run(
        "UPDATE qsched_clusters SET defaults = ?, defaults_namespace = ? WHERE id = ?",
        *(canonical(dict(defaults)) if defaults else None, namespace if defaults else None, tx.cluster),
    )


def read_paused_groups(tx: Tx) -> set[str]:
    """The groups that are paused; read under the cluster row's lock by whoever adds triggers."""
    rows = tx.run("SELECT group_name FROM qsched_paused_groups WHERE cluster = ?", tx.cluster)
    return {row[0] for row in rows}


class GroupPause(NamedTuple):
    """A group's pause; instants in µs."""

    at: int
    by: str | None
    until: int | None
    reason: str | None


def write_group_pause(tx: Tx, group: str, pause: GroupPause) -> None:
    """Pause a group (under the cluster's lock); one that is paused already keeps its beginning."""
    columns = ("cluster", "group_name", "paused_at", "paused_by", "paused_until", "paused_reason")
    tx.insert_missing(paused_groups, columns, [(tx.cluster, group, *pause)])
    tx.run(
        "UPDATE qsched_paused_groups SET paused_by = ?, paused_until = ?, paused_reason = ?"
        " WHERE cluster = ? AND group_name = ?",
        *(pause.by, pause.until, pause.reason, tx.cluster, group),
    )


def clear_group_pause(tx: Tx, group: str) -> bool:
    """End a group's pause; False when it was not paused."""
    gone = tx.run(
        "DELETE FROM qsched_paused_groups WHERE cluster = ? AND group_name = ?", tx.cluster, group
    ).rowcount
    return bool(gone)


def write_audit(tx: Tx, who: str | None, verb: str, objects: list[str], detail: Mapping[str, Any]) -> None:
    """Remember who did what to which objects, in the transaction that does it."""
    text = canonical(dict(detail)) if detail else None
    columns = ("cluster", "at", "who", "verb", "object", "detail")
    now = tx.now()
    tx.insert(audit, columns, [(tx.cluster, now, who, verb, name, text) for name in objects])
