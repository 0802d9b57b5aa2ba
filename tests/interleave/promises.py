"""What must be true of the rows and of the nodes' memory after any order of any two operations, at once and at rest."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from qsched.scheduler.store.sweep_rows import LEFT_FOR
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import START, HandNode

from .job_promises import continuations, kept, limits
from .moment import Moment, Record

FINAL = {"succeeded", "failed", "lost", "cancelled", "skipped"}


def broken(moment: Moment, schedules: Mapping[str, list[TriggerDefinition]]) -> list[str]:
    """Every promise that the rows break, each with its name; empty if none."""
    checks: dict[str, Callable[[Moment], Iterator[str]]] = {
        "each slot is decided once": lambda moment: _slots(moment, schedules),
        "numbers only grow": _numbers_grow,
        "what has ended stays so": _final_stays,
        "permits are held by what runs": _permits,
        "each attempt ends once": _attempts,
        "what runs runs somewhere": _running,
        "what is held is not due": _held,
        "live nodes have names of their own": _names,
        "a group has as many permits as its limit": limits,
        "what is kept was left by an end that landed": kept,
        "an end is followed once": continuations,
    }
    return [f"{name}: {found}" for name, check in checks.items() for found in check(moment)]


# -- slots -----------------------------------------------------------------------------------------------------------------


def _slots(moment: Moment, schedules: Mapping[str, list[TriggerDefinition]]) -> Iterator[str]:
    """Each slot of each trigger is decided once: its rows follow one upon the other up to the watermark."""
    clocks = {row["id"]: row for row in moment.rows("trigger_clocks")}
    spans: dict[int, list[Record]] = {}
    for firing in moment.rows("firings"):
        if firing["trigger_id"] is not None:
            spans.setdefault(firing["trigger_id"], []).append(firing)
    for trigger in moment.rows("triggers"):
        name, clock = trigger["name"], clocks[trigger["id"]]
        rows = sorted(spans.get(trigger["id"], []), key=lambda row: row["scheduled_at"])
        yield from _follow(trigger, rows, schedules[name])
        watermark, following = clock["watermark"], clock["next_fire_at"]
        if rows and watermark < rows[-1]["scheduled_at"]:
            yield f"{name}: its watermark {_s(watermark)} lies before its last row {_s(rows[-1]['scheduled_at'])}"
        if following is not None and following <= watermark:
            yield f"{name}: next_fire_at {_s(following)} is not after its watermark {_s(watermark)}"
        if following is not None and not any(
            _is_next(each, watermark, following) for each in schedules[name]
        ):
            yield f"{name}: between watermark {_s(watermark)} and next_fire_at {_s(following)} slots are lost"
        if trigger["state"] == "waiting" and following is None:
            yield f"{name}: it waits, and has no next slot"
        if trigger["state"] == "retired" and clock["next_run_at"] is not None:
            yield f"{name}: it is retired, and would run"


def _follow(trigger: Record, rows: list[Record], schedules: list[TriggerDefinition]) -> Iterator[str]:
    name, upto = trigger["name"], trigger["created_at"]
    for row in rows:
        first, last = row["first_scheduled_at"], row["scheduled_at"]
        if not any(_is_next(each, upto, first) for each in schedules):
            yield f"{name}: a row begins at {_s(first)}, the one before ends at {_s(upto)}"
        if not any((last - first) // _gap(each) + 1 == row["covers"] for each in schedules):
            yield f"{name}: the row {_s(first)}..{_s(last)} covers {row['covers']}"
        upto = last


def _gap(trigger: TriggerDefinition) -> int:
    gap: int = trigger.schedule["every"]
    return gap


def _is_next(trigger: TriggerDefinition, after: int, slot: int) -> bool:
    """Whether `slot` is the trigger's first after `after`."""
    gap = _gap(trigger)
    return 0 < slot - after <= gap and (slot - trigger.schedule["anchor"]) % gap == 0


def _held(moment: Moment) -> Iterator[str]:
    """The clock of a trigger that is paused, by itself or with its group, says that nothing of it may start."""
    groups = {row["group_name"] for row in moment.rows("paused_groups")}
    clocks = {row["id"]: row["next_run_at"] for row in moment.rows("trigger_clocks")}
    for trigger in moment.rows("triggers"):
        held = trigger["paused_at"] is not None or trigger["group_name"] in groups
        if trigger["state"] == "waiting" and held is not (clocks[trigger["id"]] is None):
            yield f"{trigger['name']}: it is {'' if held else 'not '}paused, and would run at {clocks[trigger['id']]}"


def _names(moment: Moment) -> Iterator[str]:
    live = Counter(row["name"] for row in moment.rows("nodes") if row["state"] in ("up", "draining"))
    for name, times in live.items():
        if times > 1:
            yield f"{times} live nodes are called {name}"


# -- what only grows -------------------------------------------------------------------------------------------------------


def _numbers_grow(moment: Moment) -> Iterator[str]:
    growing = {
        "trigger_clocks": ("version", "watermark", "fires", "misfires"),
        "firings": ("fence", "attempt", "recoveries", "refires"),
        "clusters": ("epoch",),
    }
    for table, columns in growing.items():
        for then, now in moment.pairs(table):
            for column in columns:
                if (now[column] or 0) < (then[column] or 0):
                    yield f"{table} {now['id']}: {column} went back from {then[column]} to {now[column]}"
    for then, now in moment.pairs("nodes", "incarnation"):
        if now["renew_seq"] < then["renew_seq"]:
            yield f"node {now['name']}: renew_seq went back"


def _final_stays(moment: Moment) -> Iterator[str]:
    for then, now in moment.pairs("firings"):
        if then["state"] in FINAL and then != now:
            yield f"firing {then['id']} had ended {then['state']}, and is {now['state']}"


# -- permits, attempts, what runs ------------------------------------------------------------------------------------------


def _permits(moment: Moment) -> Iterator[str]:
    """A permit is held if, and only if, its firing runs under that fence."""
    held = sorted(
        (row["permit_key"], row["firing_id"], row["fence"])
        for row in moment.rows("permits")
        if row["firing_id"] is not None
    )
    running = sorted(
        (row[key], row["id"], row["fence"])
        for row in moment.rows("firings")
        for key in ("permit_key", "limit_key")
        if row["state"] == "running" and row[key] is not None
    )
    kept = {(row["id"], row["fence"]) for row in moment.rows("firings") if _was_left(row, moment.time)}
    held = [each for each in held if each in running or each[1:] not in kept]
    if held != running:
        yield f"permits are held by {held}, and {running} run"
    for key, number in Counter(key for key, _, _ in running).items():
        if number > 1 and not key.startswith("group:"):
            yield f"{number} firings run under permit {key}"


def _was_left(firing: Record, now: int) -> bool:
    """Whether a node may have left it running a moment ago: then its permit is kept until that process must be gone."""
    ended = firing["finished_at"] if firing["state"] != "due" else firing["run_at"] - LEFT_FOR
    did_not_end = "its body did not end" in (firing["note"] or "")
    return (
        did_not_end and firing["state"] != "running" and ended is not None and now - LEFT_FOR <= ended <= now
    )


def _attempts(moment: Moment) -> Iterator[str]:
    """Each attempt that ended and was followed by another has its row, under a fence that was."""
    ended = Counter(row["firing_id"] for row in moment.rows("attempts"))
    fences = {row["id"]: row for row in moment.rows("firings")}
    for row in moment.rows("attempts"):
        firing = fences.get(row["firing_id"])
        if firing is None:
            yield f"an attempt is of firing {row['firing_id']}, which is not there"
        elif row["fence"] > firing["fence"] or row["attempt"] > firing["attempt"]:
            yield f"firing {firing['id']}: attempt row {row['fence']} is ahead of its fence {firing['fence']}"
    for firing in fences.values():
        counted = firing["attempt"] + firing["refires"] + firing["recoveries"]
        if ended[firing["id"]] < counted:
            yield f"firing {firing['id']} counts {counted} attempts and has {ended[firing['id']]} rows of them"
        if firing["state"] == "due" and firing["fence"] < ended[firing["id"]]:
            yield f"firing {firing['id']} has more attempts than takes"
    over = {(row["firing_id"], row["fence"]) for row in moment.rows("attempts")}
    for firing in fences.values():
        if firing["state"] in ("running", "succeeded") and (firing["id"], firing["fence"]) in over:
            yield f"firing {firing['id']} fence {firing['fence']} has ended, and is {firing['state']}"


def _running(moment: Moment) -> Iterator[str]:
    nodes = {row["incarnation"]: row for row in moment.rows("nodes")}
    for firing in moment.rows("firings"):
        state, runs = firing["state"], firing["state"] == "running"
        if runs and (firing["incarnation"] not in nodes or firing["started_at"] is None):
            yield f"firing {firing['id']} runs nowhere"
        if (firing["finished_at"] is not None) != (state in FINAL):
            yield f"firing {firing['id']} is {state}, and finished_at is {firing['finished_at']}"
        if runs and firing["started_at"] < firing["run_at"]:
            yield f"firing {firing['id']} was started before its time"


# -- memory ----------------------------------------------------------------------------------------------------------------


def unlike_memory(moment: Moment, nodes: Iterable[HandNode]) -> list[str]:
    """Where a node believes to run what its row says is somebody else's, or runs what nobody believes to run."""
    rows = {row["id"]: row for row in moment.rows("firings")}
    dead = {row["incarnation"] for row in moment.rows("nodes") if row["state"] not in ("up", "draining")}
    found = []
    begun: Counter[tuple[int, int]] = Counter()
    for node in nodes:
        for request in node.taken:
            row = rows[request.firing_id]
            mine = (row["state"], row["fence"], row["incarnation"])
            begun[request.firing_id, request.fence] += 1
            if mine != ("running", request.fence, request.incarnation) and request.incarnation not in dead:
                found.append(
                    f"a body begins once: node {node.parts.who.name} would begin firing {request.firing_id}"
                    f" fence {request.fence}, whose row says {mine}"
                )
    found += [
        f"a body begins once: firing {key[0]} fence {key[1]} would begin {times} times"
        for key, times in begun.items()
        if times > 1
    ]
    return found


def _s(instant: int) -> str:
    return f"{(instant - START) / 1_000_000:g}"


def left_over(moment: Moment, now: int) -> list[str]:
    """What has not ended although everybody had time for it."""
    return [
        f"nothing is stuck: firing {firing['id']} of {firing['trigger_name']} stays {firing['state']}"
        for firing in moment.rows("firings")
        if firing["state"] == "running" or (firing["state"] == "due" and firing["run_at"] <= now)
    ]
