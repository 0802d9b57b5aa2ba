"""What a namespace declares, read back from the store."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...triggers.job import JobDefinition
from ...triggers.trigger import TriggerDefinition
from ..errors import SourceError
from ..store.database import Store
from ..store.tx import Tx


@dataclass(frozen=True, slots=True)
class Stored:
    """Jobs and triggers of one namespace, as they were applied."""

    namespace: str
    jobs: tuple[JobDefinition, ...]
    triggers: tuple[TriggerDefinition, ...]
    limits: Mapping[str, int] = field(default_factory=dict)


def stored_declared(store: Store, namespace: str) -> Stored:
    """Everything of a namespace that is not retired; raises SourceError where there is nothing."""
    found: Stored = store.read("export", lambda tx: _read(tx, namespace))
    if not found.triggers and not found.jobs:
        raise SourceError(f"nothing is stored under the namespace {namespace!r}", hint="name another with -n")
    return found


def _read(tx: Tx, namespace: str) -> Stored:
    chosen = (tx.cluster, namespace)
    jobs = tx.run(
        "SELECT name, spec FROM qsched_jobs WHERE cluster = ? AND namespace = ? AND state <> 'retired' ORDER BY name",
        *chosen,
    )
    triggers = tx.run(
        "SELECT group_name, name, spec FROM qsched_triggers"
        " WHERE cluster = ? AND namespace = ? AND state <> 'retired' ORDER BY group_name, name",
        *chosen,
    )
    limits = tx.run("SELECT name, most FROM qsched_group_limits WHERE cluster = ? AND namespace = ?", *chosen)
    return Stored(
        namespace,
        tuple(JobDefinition.from_spec(name, json.loads(spec)) for name, spec in jobs.all()),
        tuple(
            TriggerDefinition.from_spec(group, name, json.loads(spec)) for group, name, spec in triggers.all()
        ),
        {str(name): int(most) for name, most in limits.all()},
    )
