"""What a statement touches, read from its text: so that two whose order cannot matter are not tried in both orders."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

READ = 0
"""A plain read: sees what is committed, waits for nobody."""
SHARE = 1
"""A lock that several may have."""
LOCK = 2
WRITE = 3

BEGIN = "begin"
COMMIT = "COMMIT"

Touched = Mapping[str, int]

_TABLE = re.compile(r"qsched_(\w+)")
_TARGET = re.compile(r"\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+qsched_(\w+)")
_BY_KEY = re.compile(r"UPDATE qsched_(\w+) t (?:SET|JOIN) ")
_BRACKETED = re.compile(r"\([^()]*\)")
_STATEMENT_LOCKS = re.compile(r"FOR UPDATE|FOR KEY SHARE|FOR SHARE|LOCK IN SHARE MODE")


@dataclass(frozen=True, slots=True)
class Step:
    """What an actor is about to do: to begin, a statement, or the COMMIT of all it touched; `of` names its transaction."""

    of: str
    text: str
    touched: Touched
    reading: bool = False
    """Of a read, which is no transaction."""

    @property
    def commits(self) -> bool:
        return self.text == COMMIT

    def __str__(self) -> str:
        return f"[{self.of}] {' '.join(self.text.split())}"


@cache
def touched_by(statement: str) -> Touched:
    """{table: how} of a statement; what cannot be told counts as the stronger."""
    tables = set(_TABLE.findall(statement))
    target = _TARGET.match(statement)
    if target is not None:
        return dict.fromkeys(tables, READ) | {target[1]: WRITE}
    outside = _without_subqueries(statement)
    lock = _STATEMENT_LOCKS.search(outside)
    if lock is None:
        return dict.fromkeys(tables, READ)
    strength = SHARE if "SHARE" in lock[0] else LOCK
    return dict.fromkeys(tables, READ) | dict.fromkeys(_TABLE.findall(outside), strength)


def _without_subqueries(statement: str) -> str:
    """What a locking SELECT locks are the tables of its own FROM."""
    inside = statement
    while (shorter := _BRACKETED.sub(" ", inside)) != inside:
        inside = shorter
    return inside


def met_by(statement: str, held: Touched) -> Touched:
    """What others can meet in a statement of a transaction that has touched `held` so far.

    Rows that are updated by their keys, behind a lock on their table, were locked by it: whoever wants them waits already, or
    passes them by.
    """
    touched = touched_by(statement)
    again = _BY_KEY.match(statement)
    if again is None or held.get(again[1]) not in (LOCK, WRITE):
        return touched
    return {**touched, again[1]: READ}


def together(before: Touched, more: Touched) -> Touched:
    """What a transaction has touched after one more statement."""
    tables = before.keys() | more.keys()
    return {table: max(before.get(table, READ), more.get(table, READ)) for table in tables}


def order_matters(one: Step, other: Step) -> bool:
    """Whether two steps of different actors may leave something else when they change places."""
    if one.commits and other.commits:
        return False
    if other.commits:
        one, other = other, one
    shared = one.touched.keys() & other.touched.keys()
    if one.commits:
        # A commit shows what was written to all, and lets go of locks for those that want one.
        return any(_shows(one.touched[table], other.touched[table]) for table in shared)
    # What is written and not committed is seen by nobody: only locks meet.
    return any(_meet(one.touched[table], other.touched[table]) for table in shared)


def order_matters_within(one: Step, other: Step) -> bool:
    """The same for two threads of one node: what they do in its memory they do when they begin and between transactions.

    What follows a COMMIT is what changes it (a take is in hand, an end has landed); the rest looks at it.
    """
    remembered = (one.commits or other.commits) and _remembers(one) and _remembers(other)
    return remembered or order_matters(one, other)


def _remembers(step: Step) -> bool:
    return step.commits or step.reading or step.text == BEGIN


def _shows(held: int, wanted: int) -> bool:
    return held == WRITE or _meet(held, wanted)


def _meet(one: int, other: int) -> bool:
    return READ not in (one, other) and (one, other) != (SHARE, SHARE)
