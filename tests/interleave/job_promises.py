"""What must be true of limited groups, of what jobs keep, and of what follows, after any order of any two operations."""

import json
from collections.abc import Iterable, Iterator

from support.hand_node import HandNode

from .moment import Moment, Record

_WAITED_FOR = {"failed": ("failed", "lost"), "any": ("succeeded", "failed", "lost", "cancelled")}


def limits(moment: Moment) -> Iterator[str]:
    """Permits 0 to limit - 1, whoever holds them; below zero only what was held when the limit was lowered."""
    most = {f"group:{row['id']}": row["most"] for row in moment.rows("group_limits")}
    numbers: dict[str, list[int]] = {key: [] for key in most}
    for row in _of_groups(moment.rows("permits")):
        if row["n"] >= 0:
            numbers.setdefault(row["permit_key"], []).append(row["n"])
    for key, found in numbers.items():
        if sorted(found) != list(range(most.get(key, 0))):
            yield f"{key} is limited to {most.get(key, 0)}, and has permits {sorted(found)}"


def _of_groups(rows: Iterable[Record]) -> Iterator[Record]:
    return (row for row in rows if row["permit_key"].startswith("group:"))


def kept(moment: Moment) -> Iterator[str]:
    """Its text names the run that left it: that one's success is in the ledger, under that fence."""
    ends = {row["id"]: (row["state"], row["fence"]) for row in moment.rows("firings")}
    for job in moment.rows("jobs"):
        if job["saved_data"] is None:
            continue
        firing, fence = json.loads(job["saved_data"])["by"]
        if ends[firing] != ("succeeded", fence):
            yield f"job {job['name']} keeps what firing {firing} fence {fence} left, whose row says {ends[firing]}"


def continuations(moment: Moment) -> Iterator[str]:
    """Of each end that came meanwhile, by who follows now."""
    ended = {
        now["id"]: now for then, now in moment.pairs("firings") if then["state"] == "running" != now["state"]
    }
    for row in moment.rows("firings"):
        if row["reason"] != "after" and not (row["request_key"] or "").startswith("after:"):
            continue
        end = next((each for each in moment.rows("firings") if each["id"] == row["of_firing"]), None)
        if end is None or end["state"] not in _WAITED_FOR["any"]:
            yield f"firing {row['id']} follows {row['of_firing']}, which is {end and end['state']}"
    made = {(row["of_firing"], row["requested_trigger_id"]) for row in moment.rows("firings")}
    changed = {now["id"] for then, now in moment.pairs("triggers") if then["after_on"] != now["after_on"]}
    for trigger in moment.rows("triggers"):
        if trigger["after_job_id"] is None or trigger["state"] == "retired" or trigger["id"] in changed:
            continue
        for end in ended.values():
            follows = (
                end["job_id"] == trigger["after_job_id"] and end["state"] in _WAITED_FOR[trigger["after_on"]]
            )
            if follows and (end["id"], trigger["id"]) not in made:
                yield f"firing {end['id']} ended {end['state']}, and {trigger['name']} does not follow"


def unlike_kept(moment: Moment, nodes: Iterable[HandNode]) -> list[str]:
    """Where a run that was just taken has found something else than what is kept."""
    texts = {row["id"]: row["saved_data"] for row in moment.rows("jobs")}
    fences = {row["id"]: row["fence"] for row in moment.rows("firings")}
    return [
        f"a run finds what was kept: firing {request.firing_id} found {request.saved}, and {texts[request.job_id]} is kept"
        for node in nodes
        for request in node.taken
        if request.saved is not None
        and fences[request.firing_id] == request.fence
        and request.saved != json.loads(texts[request.job_id] or "{}")
    ]
