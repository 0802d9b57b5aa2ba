"""An APScheduler 3 job as a job and a trigger of ours: what may be late, beside itself, and twice."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...triggers.errors import DefinitionError
from ...triggers.instant import MINUTE, SECOND
from ...triggers.misfire import FIRE_ALL, FIRE_ONCE, SKIP, MisfireRule

LONGEST_ID = 150


@dataclass(frozen=True, slots=True)
class Options:
    """What a job says beside when it runs, as APScheduler names it."""

    coalesce: bool = True
    misfire_grace_time: int | None = 1
    max_instances: int = 1


def misfire_rule(options: Options) -> MisfireRule:
    """The rule for what is late. A grace of less than a minute, APScheduler's own second above all, is a minute here."""
    if options.misfire_grace_time is None:
        return MisfireRule(policy=FIRE_ONCE if options.coalesce else FIRE_ALL)
    grace = max(options.misfire_grace_time * SECOND, MINUTE)
    if options.coalesce:
        return MisfireRule(policy=SKIP, threshold=grace)
    return MisfireRule(policy=FIRE_ALL, threshold=MINUTE, window=grace)


def overlap(options: Options) -> str:
    """One instance: a slot whose job is busy is skipped, whoever runs it. More: each process keeps its own count."""
    return "skip" if options.max_instances == 1 else "allow"


def call_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a job calls, as JSON; raises DefinitionError for what only a pickle could keep."""
    if not state["func"]:
        raise DefinitionError(
            "it is a lambda or a nested function, which other processes cannot find: name module:function"
        )
    call = {name: state[name] for name in ("id", "func", "kwargs", "executor", "name")}
    call |= {"args": list(state["args"]), "options": [state[name] for name in Options.__dataclass_fields__]}
    try:
        kept = json.loads(json.dumps(call, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"its arguments are not JSON ({error}): pass a name or a number, and look it up in the job"
        ) from error
    if kept != call:
        raise DefinitionError(
            "its arguments would come back changed from JSON (a tuple, or a key that is no text)"
        )
    return call


def checked_id(job_id: str) -> str:
    """A job's id as a trigger's name; raises DefinitionError for what cannot be one."""
    if (
        not 1 <= len(job_id) <= LONGEST_ID
        or job_id != job_id.strip()
        or "/" in job_id
        or not job_id.isprintable()
    ):
        raise DefinitionError(f"id {job_id!r} is not 1 to {LONGEST_ID} printable characters without '/'")
    return job_id
