"""The fate of a slot in plain sentences, with one next step where something can be done."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .firing_list import why
from .rows import instant_of, seconds_cell
from .table import Item

At = Callable[[int | None], str]

CAUSES = {
    "node_down": "no node was alive then",
    "no_capacity": "no live node had a free place then",
    "overlap": "its job was still running then",
    "database_down": "the nodes could not reach the database then",
    "clock_step": "the database's clock went past it at once",
    "unknown": "nothing is known of the nodes of that time any more",
}
_STEPS = {
    "node_down": "run a second node, or `qsched simulate --outage` shows what each policy would do",
    "no_capacity": "more --capacity, another node, or `splay` on what runs at the same instant",
    "overlap": "a longer schedule, or `overlap: allow` if two may run at once",
}


class Words(NamedTuple):
    """What happened, and what could be done."""

    why: str
    next_step: str | None = None


def words_of(fate: Any, key: str, at: At) -> Words:
    """The fate of `fate.at` in words; `at` writes instants."""
    said = _SAID[fate.code](fate, key, at)
    backfilled = fate.facts.get("backfill")
    if backfilled is None:
        return said
    return Words(
        f"{said.why}; backfilled as firing {backfilled['id']}: {backfilled['state']}",
        None if backfilled["state"] in ("succeeded", "due", "running") else said.next_step,
    )


def _told(item: Item, at: At) -> str:
    """`firing 7 on node-a, noticed 09:00:41, 41s late`."""
    node = f" on {item['node']}" if item["node"] else ""
    return f"firing {item['id']}{node}, noticed {at(instant_of(item['noticed_at']))}{_late(item)}"


def _late(item: Item) -> str:
    return "" if item["late"] is None else f", {seconds_cell(item['late'])} late"


def _misfire(item: Item, at: At) -> str:
    """Whom a decision stands for, why it came late, and which policy decided what."""
    misfire = item["misfire"]
    if misfire is None:
        return ""
    cause = CAUSES.get(misfire["cause"], f"cause {misfire['cause'] or 'unknown'}")
    text = f"; late because {cause}; policy {misfire['policy']}: {item['decision']}"
    return text + _span(item, at)


def _span(item: Item, at: At) -> str:
    if item["covers"] < 2:
        return ""
    first, last = instant_of(item["first_scheduled_at"]), instant_of(item["scheduled_at"])
    return f" (one row for {item['covers']} slots, {at(first)} to {at(last)})"


def _again(item: Item) -> str:
    said = ""
    if item["recovering"]:
        said += ", taken over from a node that was lost"
    if item["attempt"]:
        said += f", with retry {item['attempt']}"
    return said


def _ran(fate: Any, _key: str, at: At) -> Words:
    item, again = fate.firing, _again(fate.firing)
    return Words(
        f"ran{again}{',' if again else ''} and succeeded: {_told(item, at)}{_misfire(item, at)}",
        _step_of(item),
    )


def _step_of(item: Item) -> str | None:
    return None if item["misfire"] is None else _STEPS.get(item["misfire"]["cause"])


def _ended_badly(fate: Any, _key: str, at: At) -> Words:
    item = fate.firing
    said = {
        "failed": "ran and failed",
        "lost": "its node was lost while it ran",
        "cancelled": "was cancelled",
    }
    reason = why(item)
    text = f"{said[fate.code]}{_again(item)}: {_told(item, at)}" + (f"; {reason}" if reason else "")
    return Words(text + _misfire(item, at), f"`qsched firings retry {item['id']}` runs it once more")


def _under_way(fate: Any, _key: str, at: At) -> Words:
    item = fate.firing
    said = "runs now" if fate.code == "running" else f"waits to run since {at(instant_of(item['run_at']))}"
    if fate.code == "waiting" and (item["attempt"] or item["recovering"]):
        said = (
            f"waits for retry {item['attempt']} at {at(instant_of(item['run_at']))}"
            if item["attempt"]
            else said
        )
    reason = why(item)
    return Words(
        f"{said}{_again(item) if fate.code == 'running' else ''}: {_told(item, at)}"
        + (f"; {reason}" if reason else "")
        + _misfire(item, at),
        f"`qsched firings show {item['id']}`",
    )


def _coalesced(fate: Any, _key: str, at: At) -> Words:
    item = fate.firing
    return Words(
        f"did not run by itself: it was coalesced into firing {item['id']} of {at(instant_of(item['scheduled_at']))}"
        f" ({item['state']}), noticed {at(instant_of(item['noticed_at']))}{_late(item)}{_misfire(item, at)}",
        "`misfire: fire_all` would run each slot; `qsched triggers backfill` runs this one",
    )


def _skipped(fate: Any, key: str, at: At) -> Words:
    item = fate.firing
    step = _step_of(item) or "`misfire: fire_once` would run the last of them"
    return Words(
        f"did not run: skipped as firing {item['id']}, noticed {at(instant_of(item['noticed_at']))}"
        f"{_late(item)}{_misfire(item, at)}",
        f"{step}; {_backfill(key)}",
    )


def _backfill(key: str) -> str:
    return f"`qsched triggers backfill {key} --from … --to …` runs it after all"


def _overlapped(fate: Any, key: str, at: At) -> Words:
    item = fate.firing
    policy = (item["misfire"] or {}).get("policy")
    text = f"did not run: its job was still running; {item['decision']}"
    if policy:
        text += f"; misfire policy {policy}"
    noticed = at(instant_of(item["noticed_at"]))
    return Words(
        f"{text}{_span(item, at)}: firing {item['id']}, noticed {noticed}{_late(item)}",
        f"{_STEPS['overlap']}; {_backfill(key)}",
    )


def _stopped(fate: Any, key: str, at: At) -> Words:
    item = fate.firing
    return Words(
        f"did not run: {item['decision']}{_span(item, at)}: firing {item['id']},"
        f" noticed {at(instant_of(item['noticed_at']))}{_late(item)}",
        f"`qsched events --trigger {key}` shows who did it; {_backfill(key)}",
    )


def _excluded(fate: Any, _key: str, at: At) -> Words:
    facts = fate.facts
    named = " and ".join(facts["calendars"])
    rolled = "" if facts["rolled_to"] is None else f"; it rolled to {at(facts['rolled_to'])}"
    many = len(facts["calendars"]) > 1
    return Words(
        f"no slot: calendar{'s' if many else ''} {named} leave{'' if many else 's'} it out, as defined now{rolled}"
        + _nearest(facts, at),
        "remove it from `exclude:` if it should run",
    )


def _no_slot(fate: Any, key: str, at: At) -> Words:
    if fate.facts.get("counts_from_ends"):
        return Words(
            "no slot: this trigger counts from the ends of runs", f"`qsched firings list --trigger {key}`"
        )
    return Words(
        f"no slot of its schedule as it is now{_nearest(fate.facts, at)}", f"`qsched triggers show {key}`"
    )


def _nearest(facts: Mapping[str, Any], at: At) -> str:
    before, after = facts.get("before"), facts.get("after")
    said = ([f"the one before is {at(before)}"] if before is not None else []) + (
        [f"the next is {at(after)}"] if after is not None else []
    )
    return f"; {', '.join(said)}" if said else "; there is no other"


def _before(fate: Any, key: str, at: At) -> Words:
    return Words(
        f"did not run: the trigger was made at {at(fate.facts['made_at'])}, later than that", _backfill(key)
    )


def _ended(fate: Any, _key: str, at: At) -> Words:
    facts = fate.facts
    if facts["max_fires"] is not None and facts["fires"] >= facts["max_fires"]:
        return Words(
            f"does not run: all {facts['max_fires']} fires are used up", "raise `max_fires` and apply"
        )
    if facts["end_at"] is not None:
        return Words(f"does not run: the trigger ends at {at(facts['end_at'])}", "move `end_at` and apply")
    if facts["max_fires"] is not None:
        return Words(
            f"will not run: {facts['max_fires']} fires at most, and they are used up before then",
            "raise `max_fires` and apply",
        )
    return Words("does not run: the trigger is done", None)


def _retired(fate: Any, key: str, at: At) -> Words:
    return Words(
        f"did not run: the trigger is retired since {at(fate.facts['since'])}",
        f"declare it again and apply; {_backfill(key)} (with --force)",
    )


def _changed(fate: Any, key: str, at: At) -> Words:
    return Words(
        f"no row tells of it: the trigger was changed at {at(fate.facts['changed_at'])}, and what its schedule says"
        " now may not have held then",
        f"`qsched events --trigger {key}`",
    )


def _forgotten(fate: Any, key: str, at: At) -> Words:
    return Words(
        f"it was decided (everything up to {at(fate.facts['watermark'])} is), and its row is kept no more",
        f"`retention:` says how long rows are kept; `qsched jobs show` counts what {key}'s job did",
    )


def _upcoming(fate: Any, _key: str, at: At) -> Words:
    return Words(f"it is still to come, at {at(fate.at)}", None)


def _undecided(fate: Any, key: str, at: At) -> Words:
    facts = fate.facts
    text, step = _WAITS[facts["why"]](facts, key, at)
    head = "due and not decided yet" if facts["due"] else "still to come, and will not run as things are"
    return Words(f"{head}: {text}", step)


def _paused(facts: Mapping[str, Any], key: str, at: At) -> tuple[str, str]:
    by = f" by {facts['by']}" if facts.get("by") else ""
    until = f" until {at(facts['until'])}" if facts.get("until") else ""
    reason = f" ({facts['reason']})" if facts.get("reason") else ""
    step = f"`qsched triggers resume {key}`, with --catch-up for what passed"
    return f"paused{by} since {at(facts['since'])}{until}{reason}", step


_WAITS: dict[str, Callable[[Mapping[str, Any], str, At], tuple[str, str | None]]] = {
    "paused": _paused,
    "group_paused": lambda facts, _key, at: (
        f"its group {facts['group']} is paused since {at(facts['since'])}",
        f"`qsched groups resume {facts['group']}`",
    ),
    "error": lambda facts, key, at: (
        f"the trigger is in error{' since ' + at(facts['since']) if facts['since'] else ''}: {facts['error']}",
        f"put right what it says and apply, or `qsched triggers reset {key}`",
    ),
    "broken": lambda facts, _key, _at: (
        f"its definition cannot be read: {facts['problem']}",
        "apply it again",
    ),
    "no_node": lambda _facts, _key, _at: ("no node is alive", "start one: `qsched node`"),
    "run_on": lambda facts, _key, _at: (
        f"no live node bears {' and '.join(facts['run_on'])} (run_on)",
        f"start one: `qsched node --tags {','.join(facts['run_on'])}`",
    ),
    "unloadable": lambda facts, _key, _at: (
        f"no live node can load its job: {facts['said']}",
        "give the nodes the code (--app) or the permission (--allow)",
    ),
    "undecidable": lambda facts, _key, _at: (
        f"no live node can decide it: {facts['said']}",
        "`qsched nodes list`",
    ),
    "overlap": lambda facts, _key, _at: (
        f"its job {facts['job']} is busy with firing {facts['firing']} (overlap: {facts['overlap']})",
        f"`qsched firings show {facts['firing']}`; `qsched firings cancel {facts['firing']}` ends it",
    ),
    "group_limit": lambda facts, _key, _at: (
        f"as many firings of the group of job {facts['job']} run as its limit allows",
        "raise the group's limit",
    ),
    "jitter": lambda facts, _key, at: (f"its jitter lets it run at {at(facts['run_at'])}", None),
    "no_capacity": lambda facts, _key, _at: (
        f"every live node is full ({facts['capacity']} places)",
        _STEPS["no_capacity"],
    ),
    "soon": lambda _facts, _key, _at: ("nothing is in its way; a node will decide it at its next look", None),
}

_SAID: dict[str, Callable[[Any, str, At], Words]] = {
    "ran": _ran,
    "failed": _ended_badly,
    "lost": _ended_badly,
    "cancelled": _ended_badly,
    "running": _under_way,
    "waiting": _under_way,
    "coalesced": _coalesced,
    "skipped": _skipped,
    "overlapped": _overlapped,
    "paused": _stopped,
    "edited": _stopped,
    "error": _stopped,
    "excluded": _excluded,
    "no_slot": _no_slot,
    "before": _before,
    "ended": _ended,
    "retired": _retired,
    "changed": _changed,
    "forgotten": _forgotten,
    "upcoming": _upcoming,
    "undecided": _undecided,
}
