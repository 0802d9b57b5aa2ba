"""Which policies hold: key by key the YAML job's, else the decorator's, else the cluster's default, else qsched's."""

import json
from collections.abc import Mapping
from typing import Any

from ..triggers.errors import TriggerError
from ..triggers.job import JobPolicies
from ..triggers.misfire import SKIP
from ..triggers.trigger import TriggerDefinition

NO_OVERLAP_SAID = "allow"


def job_policies(spec: str, loaded: str | None, defaults: Mapping[str, Any]) -> JobPolicies:
    """The effective policies of a job row (JSON texts); raises DefinitionError for a row that cannot be read."""
    said = JobPolicies.from_spec(_mapping(spec))
    decorated = JobPolicies.from_spec(_mapping(loaded) if loaded else {})
    weakest = JobPolicies.from_spec(defaults)
    return said.over(decorated).in_turns(weakest.overlap).over(weakest)


def run_policies(spec: str, loaded: str | None, defaults: str | None) -> JobPolicies:
    """The same from a cluster's defaults as they are stored; of a row that cannot be read nothing is said here."""
    try:
        return job_policies(spec, loaded, _mapping(defaults) if defaults else {})
    except TriggerError:
        return JobPolicies()


def overlap_of(spec: str, loaded: str | None, defaults: Mapping[str, Any]) -> str:
    """The effective overlap of a job row; a row that cannot be read has the default (its own error is said elsewhere)."""
    try:
        return job_policies(spec, loaded, defaults).overlap or NO_OVERLAP_SAID
    except TriggerError:
        return NO_OVERLAP_SAID


def group_of(spec: str) -> str:
    """The group that a job's row (JSON text) names."""
    return str(_mapping(spec).get("group", "default"))


def skip_after(trigger: TriggerDefinition) -> int | None:
    """The lateness (µs) from which the trigger's slots are skipped without anything being started; None for the others."""
    return trigger.misfire.threshold if trigger.misfire.policy == SKIP else None


def _mapping(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
