"""A crontab's text, line by line: settings, entries and what cron would not read."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from .sources import Source

_SETTING = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*)\Z""")
_NICKNAME = re.compile(r"(@\S+)\s+(\S.*)\Z", re.DOTALL)
_FIELDS = re.compile(r"((?:\S+\s+){4}\S+)\s+(\S.*)\Z", re.DOTALL)
_USER = re.compile(r"([a-z_][a-z0-9_-]*\$?(?::\S+)?)\s+(\S.*)\Z", re.DOTALL)
_SYSTEM_NAME = re.compile(r"crontab|anacrontab")
_ANACRON = re.compile(r"(@monthly|@weekly|@daily|\d+)\s+(\d+)\s+(\S+)\s+(\S.*)\Z")


class Setting(NamedTuple):
    """`NAME=value`: holds for the entries below it."""

    line: int
    name: str
    value: str


class Line(NamedTuple):
    """An entry: when (five fields, or a nickname), as whom, and what; `period` and `job_id` are anacron's."""

    line: int
    when: str
    user: str | None
    command: str
    period: str | None = None
    job_id: str | None = None


class Unread(NamedTuple):
    """A line that is none of these."""

    line: int
    text: str


def lines(source: Source, *, system: bool) -> Iterator[Setting | Line | Unread]:
    """What the lines of a crontab say, in order; `system`: the sixth field is a user."""
    anacron = "anacron" in source.name
    for number, raw in enumerate(source.text.splitlines(), 1):
        text = raw.strip()
        if not text or text.startswith("#"):
            continue
        if (found := _SETTING.match(text)) is not None:
            yield Setting(
                number, next(part for part in found.groups()[:3] if part is not None), _bare(found[4])
            )
        elif anacron:
            yield _anacron(number, text)
        else:
            yield _entry(number, text, system=system)


def is_system(source: Source) -> bool:
    """Whether every entry has a user column: by the file's name (`crontab` in /etc) or because all would make sense so."""
    entries = [
        found
        for text in map(str.strip, source.text.splitlines())
        if text and not text.startswith("#") and not _SETTING.match(text)
        and (found := _NICKNAME.match(text) or _FIELDS.match(text))
    ]  # fmt: skip
    users = [_USER.match(found[2]) for found in entries]
    if not users or not all(users):
        return False
    rooted = all(user is not None and user[1].partition(":")[0] in _KNOWN_USERS for user in users)
    return rooted or bool(_SYSTEM_NAME.fullmatch(source.name))


_KNOWN_USERS = frozenset(
    ("root", "daemon", "nobody", "www-data", "postgres", "mysql", "backup", "git", "mail", "man", "news", "nginx",
     "apache", "redis", "sys", "ubuntu", "debian", "deploy", "munin", "proxy", "list", "smmsp")
)  # fmt: skip


def _entry(number: int, text: str, *, system: bool) -> Line | Unread:
    found = _NICKNAME.match(text) or _FIELDS.match(text)
    if found is None:
        return Unread(number, text)
    when, rest = " ".join(found[1].split()), found[2]
    if not system:
        return Line(number, when, None, rest)
    user = _USER.match(rest)
    return Unread(number, text) if user is None else Line(number, when, user[1], user[2])


def _anacron(number: int, text: str) -> Line | Unread:
    found = _ANACRON.match(text)
    if found is None:
        return Unread(number, text)
    return Line(number, found[2], None, found[4], period=found[1], job_id=found[3])


def _bare(value: str) -> str:
    value = value.strip()
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
