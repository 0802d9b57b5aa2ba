"""What is said in several places, made into one: defaults key by key, and the policies made from them."""

import re
from collections.abc import Mapping
from typing import Any

from .declaration_keys import NO_RETRY, POLICIES_OF_JOBS
from .errors import TriggerError
from .job import JobPolicies
from .misfire import MisfireRule
from .retry import RetryPolicy
from .yaml_tree import Document, Path

_WAYS: Mapping[str, tuple[str, ...]] = {
    "delays": ("delay", "multiplier", "preset", "max_retries"),
    "preset": ("delay", "multiplier", "delays", "max_retries"),
    "delay": ("delays", "preset"),
    "multiplier": ("delays", "preset"),
}
"""A way of waiting that is said puts away what the weaker side says of the other ways."""
_HINT = "write it as in {max_retries: 3, delay: 2s, multiplier: 2}"
_KEY = re.compile(r"retry\.(\w+)")


def merged(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """What the stronger side says, completed key by key by the weaker: maps merge, lists are replaced."""
    result = {**weaker, **stronger}
    for name in ("misfire", "dst"):
        if name in weaker and name in stronger:
            result[name] = {**weaker[name], **stronger[name]}
    if "retry" in weaker and "retry" in stronger:
        result["retry"] = merged_retry(weaker["retry"], stronger["retry"])
    return result


def merged_retry(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """A declared retry completed by a weaker one, of which only what fits its way of waiting is kept."""
    if stronger.get("preset") == NO_RETRY:
        return dict(stronger)
    away = {name for way in stronger for name in _WAYS.get(way, ())}
    kept = {name: value for name, value in weaker.items() if name not in away}
    if kept.get("preset") == NO_RETRY:
        del kept["preset"]
    return {**kept, **stronger}


def retry_policy(
    declared: Mapping[str, Any] | None, document: Document, path: Path
) -> tuple[RetryPolicy | None, bool]:
    """(the policy or None, whether it is in order); what is wrong becomes a problem of the document."""
    if declared is None:
        return None, True
    try:
        if declared.get("preset") != NO_RETRY:
            return RetryPolicy.from_declaration(declared), True
        if len(declared) == 1:
            return RetryPolicy.none(), True
        raise TriggerError("retry.preset none stands alone: remove the other keys")
    except TriggerError as error:
        message, _, hint = str(error).partition(": ")
        named = _KEY.match(message)
        at = (*path, "retry", named[1]) if named else (*path, "retry")
        document.problems.append(document.at_path(at, "E033", message, hint=hint or _HINT))
        return None, False


def job_policies(said: Mapping[str, Any], document: Document, path: Path) -> JobPolicies:
    """The policies that `said` holds."""
    values = {name: said[name] for name in POLICIES_OF_JOBS if name in said}
    values["retry"] = retry_policy(said.get("retry"), document, path)[0]
    if "run_on" in values:
        values["run_on"] = tuple(values["run_on"])
    policies = JobPolicies(**values, key=said.get("key"), persist_data=said.get("persist_data"))
    try:
        policies.in_turns(None)
    except TriggerError as error:
        message, _, hint = str(error).partition(": ")
        document.problems.append(
            document.at_path((*path, "persist_data"), "E026", message, hint=hint, key=True)
        )
    return policies


def misfire_rule(said: Mapping[str, Any] | None) -> MisfireRule:
    """The rule that a declared `misfire` means."""
    return MisfireRule(**(said or {}))
