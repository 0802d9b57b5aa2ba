"""What a node and its worker processes tell each other of an attempt: the request, and how it ended, as plain JSON values.

A worker runs a job's code, so what comes from it is read as what a stranger says: value by value, and bounded.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ...triggers.errors import DefinitionError
from ..context import JobContext, RunRequest
from ..loaded_job import LoadedJob
from ..outcome import KINDS, Outcome
from ..payload import checked_data

_PLAIN: Final = (
    "firing_id",
    "fence",
    "trigger",
    "scheduled_at",
    "fired_at",
    "node",
    "default_key",
    "late",
    "attempt",
    "recovering",
    "exclusive",
    "incarnation",
    "follows",
)
"""What of a request travels as it is. The time-out does not: the node keeps it."""

_TEXTS: Final = ("error_type", "error_message", "traceback", "result", "saved")
_MOST_CLASSES, _LONGEST_CLASS = 100, 500


class Misunderstood(ValueError):
    """What the other side said makes no sense."""


def request_said(ctx: JobContext) -> dict[str, Any]:
    """An attempt as its worker process is told it; raises what reading its data raises."""
    request = ctx.request
    said = {name: getattr(request, name) for name in _PLAIN}
    return {
        **said,
        "job": request.job.name,
        "place": request.job.place,
        "key": request.job.policies.key,
        "data": dict(ctx.data),
        "saved": request.saved,
    }


def request_of(said: Mapping[str, Any], loaded: LoadedJob) -> RunRequest:
    """The request in the worker process, for the job that was loaded there: the node has overlaid and expanded its data."""
    policies = replace(loaded.policies, key=said["key"], run_in=None)
    job = replace(loaded, definition=replace(loaded.definition, name=said["job"]), policies=policies, data={})
    return RunRequest(
        job=job, fire_data=said["data"], saved=said["saved"], **{name: said[name] for name in _PLAIN}
    )


def outcome_said(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the node is told it."""
    return {
        "kind": outcome.kind,
        **{name: getattr(outcome, name) for name in _TEXTS},
        "error_classes": list(outcome.error_classes),
        "retry_after": outcome.retry_after,
        "retry_now": outcome.retry_now,
        "permanent": outcome.permanent,
    }


def outcome_of(said: object) -> Outcome:
    """The outcome that a worker process told; raises Misunderstood."""
    if not isinstance(said, dict) or said.get("kind") not in KINDS:
        raise Misunderstood("an outcome of no known kind")
    texts = {name: said.get(name) for name in _TEXTS}
    classes, after = said.get("error_classes"), said.get("retry_after")
    if not all(text is None or isinstance(text, str) for text in texts.values()):
        raise Misunderstood("an outcome whose texts are none")
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise Misunderstood("an outcome whose error has no classes")
    if after is not None and (type(after) is not int or not 0 <= after < 2**63):
        raise Misunderstood("an outcome with a delay that is none")
    if texts["saved"] is not None and not _is_kept(texts["saved"]):
        raise Misunderstood("data to keep that are none")
    return Outcome(
        said["kind"],
        **texts,
        error_classes=tuple(name[:_LONGEST_CLASS] for name in classes[:_MOST_CLASSES]),
        retry_after=after,
        retry_now=said.get("retry_now") is True,
        permanent=said.get("permanent") is True,
    )


def _is_kept(text: str) -> bool:
    """Whether it is what a job may keep: a JSON object that a store holds."""
    try:
        checked_data(json.loads(text), of="ctx.saved")
    except (ValueError, TypeError, DefinitionError):
        return False
    return True
