"""Crontabs: what cron does with each line, said as a trigger with a command of its own."""

import re
from typing import Any

from ...triggers.cron import Cron
from ...triggers.errors import TriggerError, ZoneError
from ...triggers.zone import find_zone
from .crontab_lines import Line, Setting, Unread, is_system, lines
from .other_cron import ENGINE, EVERY, FIXED, fires
from .reading import CHANGED, EXACT, LOST, Item, Options, Reading
from .sources import Source, of_files

_ZONES = ("CRON_TZ", "TZ")
_NO_TWIN = {
    "MAILTO": "output is kept with each firing (`qsched firings output`); a mail is sent by a listener, if at all",
    "MAILFROM": "no mail is sent",
    "RANDOM_DELAY": "it holds for the whole file there; here write `jitter:` at the triggers that want it",
    "START_HOURS_RANGE": "anacron's window has no counterpart",
    "CRON_WITHIN": "give the trigger a `misfire: {window: …}`",
}
_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_TILDE = re.compile(r"(\d*)~(\d*)")
_BARE_STEP = re.compile(r"(?<![\d*-])(\d+)/(\d+)")
_SEGMENT = re.compile(r"&&|[;|&{}()]+")
_NO_PROGRAM = frozenset(("cd", "test", "[", "export", "set", "if", "then", "true", "."))
_PREFIXES = frozenset(
    (
        "sudo",
        "nice",
        "ionice",
        "flock",
        "timeout",
        "env",
        "exec",
        "nohup",
        "command",
        "sh",
        "bash",
        "python",
        "python3",
    )
)
_FLAGS = re.compile(r"-([nqs]+)\s+")
_PERIODS = {"1": "@daily", "7": "@weekly", "30": "@monthly"}
_LOWEST = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


class _File:
    """One crontab while it is read: the settings so far hold for what follows."""

    def __init__(self, source: Source, options: Options, reading: Reading) -> None:
        self.source, self.options, self.reading = source, options, reading
        self.env: dict[str, str] = {}
        self.zone = options.time_zone or "UTC"
        self.zone_said = options.time_zone is not None
        self.warned = False

    def setting(self, said: Setting) -> None:
        place, what = self.source.at(said.line), f"{said.name}={said.value}"
        if said.name in _NO_TWIN:
            self.reading.note(LOST, place, what, _NO_TWIN[said.name])
        elif said.name in _ZONES:
            self._zone(said)
        elif said.name == "SHELL" and said.value not in ("/bin/sh", "sh"):
            self.env[said.name] = said.value
            self.reading.note(EXACT, place, what, "commands are started by it, as `[shell, -c, command]`")
        else:
            self.env[said.name] = said.value
            self.reading.note(EXACT, place, what, "in `env` of the commands below it")

    def _zone(self, said: Setting) -> None:
        place, what = self.source.at(said.line), f"{said.name}={said.value}"
        try:
            find_zone(said.value)
        except ZoneError as error:
            self.reading.note(LOST, place, what, str(error))
            return
        if said.name == "TZ":  # cron itself keeps the host's zone; the command sees this one
            self.env[said.name] = said.value
            self.reading.note(
                EXACT, place, what, "in `env`: cron reads the hours in the host's zone all the same"
            )
            return
        self.zone, self.zone_said = said.value, True
        self.reading.note(EXACT, place, what, "the `time_zone` of the entries below it")

    def entry(self, line: Line) -> None:
        place = self.source.at(line.line)
        if line.when.lower() == "@reboot":
            why = "it names no time: start it with the host (a systemd unit), or at a node's start with `on_startup`"
            self.reading.note(LOST, place, f"@reboot {line.command}", why)
            return
        if not self.zone_said and not self.warned:
            self.warned = True
            why = "nobody said which zone the host is in, so that hours are read as UTC: name it with --time-zone"
            self.reading.note(CHANGED, place, "the host's zone", why)
        wanted = line.job_id or _program(line.command)
        name = self.reading.free_name(wanted, numbered=line.job_id is None)
        item = Item(name, place, {})
        if line.period is not None:
            line = self._from_anacron(item, line)
        self._schedule(item, line)
        self._command(item, line)
        self.reading.items.append(item)

    def _schedule(self, item: Item, line: Line) -> None:
        said = _NICKNAMES.get(line.when.lower(), line.when)
        expression = _untilded(said)
        item.trigger["cron"] = line.when if line.when.lower() in _NICKNAMES else expression
        if self.zone != "UTC":
            item.trigger["time_zone"] = self.zone
        if line.period is not None:
            return  # what was missed runs once, as anacron does; it names no instants to compare
        item.trigger["misfire"] = "skip"
        if expression != said:
            item.note(
                CHANGED,
                f"schedule {said}",
                f"cron draws the time anew when it loads the file; here H keeps {expression!r}",
            )
        elif (bare := _BARE_STEP.search(said)) is not None:
            item.trigger["cron"] = expression = _BARE_STEP.sub(r"\1", said)
            item.note(
                CHANGED,
                f"schedule {said}",
                f"{bare[0]} is {bare[1]} alone for some crons and refused by others",
            )
        else:
            item.note(EXACT, f"schedule {line.when}")
        try:
            read = Cron(expression, "unix", self.zone, key=item.name)
        except TriggerError:
            return  # refused, with its reason, where all is checked
        if expression == said:
            rule = (EVERY if read.is_interval else FIXED)._replace(star_days=True)
            item.fires, item.engine = fires(expression, self.zone, rule), ENGINE
        if line.period is None:
            item.note(
                EXACT,
                "what was missed while the host was down",
                "`misfire: skip`, and one row says what was skipped",
            )

    def _command(self, item: Item, line: Line) -> None:
        if (flags := _FLAGS.match(line.command)) is not None:
            line = line._replace(command=line.command[flags.end() :])
            self._flags(item, flags[1])
        command, standard_input = _percent(line.command)
        shell = self.env.get("SHELL", "/bin/sh")
        if standard_input is not None:
            # Braces: cron gives it to all of the command, and one that ends in a comment must not swallow it.
            command = f"{{ {command}\n}} <<'QSCHED_EOF'\n{standard_input}\nQSCHED_EOF"
            item.note(
                CHANGED,
                "% in the command",
                "what stood behind it is given on standard input by a here-document",
            )
        elif command != line.command:
            item.note(EXACT, r"\% in the command", "a plain %")
        item.trigger["command"] = command if shell in ("/bin/sh", "sh") else [shell, "-c", command]
        env: dict[str, Any] = {
            name: value.replace("${", "$${") for name, value in self.env.items() if name != "SHELL"
        }
        if env:
            item.trigger["env"] = env
        if line.user is not None:
            why = "commands run as the user of the node: start one as that user (`run_on` with its tag), or use sudo"
            item.note(LOST, f"user {line.user}", why)

    @staticmethod
    def _flags(item: Item, flags: str) -> None:
        """OpenBSD's words before a command: single instance, no mail, no log."""
        if "s" in flags:
            item.trigger["overlap"] = "skip"
            item.note(EXACT, "-s (one at a time)", "`overlap: skip`, and across the cluster")
        if rest := flags.replace("s", ""):
            item.note(LOST, f"-{rest}", "no mail is sent, and every firing is recorded")

    @staticmethod
    def _from_anacron(item: Item, line: Line) -> Line:
        """A period in days, and minutes of delay: midnight (the usual hour is cron's), and what was missed runs once."""
        when = _PERIODS.get(line.period or "", line.period or "")
        if not when.startswith("@"):
            when = f"0 0 */{when} * *"
        period = line.period if when == line.period else f"{line.period} days"
        why = f"anacron runs when so long has passed since the last run; here `{when}`, and what was missed runs once"
        item.note(CHANGED, f"schedule {period}", why)
        item.note(
            LOST, f"delay of {line.when} minutes", "write `splay:` or `jitter:` where many come at once"
        )
        return line._replace(when=when)


def _read(source: Source, options: Options, reading: Reading) -> None:
    file = _File(source, options, reading)
    for line in lines(source, system=is_system(source)):
        if isinstance(line, Setting):
            file.setting(line)
        elif isinstance(line, Unread):
            reading.note(LOST, source.at(line.line), line.text[:80], "cron would not read this line either")
        else:
            file.entry(line)


read = of_files(_read)


def _program(command: str) -> str:
    """What an entry is called: the program that does the work, without folders and with its suffix (`backup-sh`)."""
    for segment in _SEGMENT.split(command.replace("\\%", "%")):
        for word in segment.split():
            program = word.rpartition("/")[2]
            if program in _NO_PROGRAM:
                break
            if program not in _PREFIXES and "=" not in word and not word.startswith(("-", ">", "<")):
                return re.sub(r"[^A-Za-z0-9_]+", "-", program).strip("-") or "entry"
    return "entry"


def _percent(command: str) -> tuple[str, str | None]:
    """(the command, what it gets on standard input): cron's `%` ends the command, and each further one is a line's end."""
    parts = re.split(r"(?<!\\)%", command)
    head, *rest = (part.replace("\\%", "%") for part in parts)
    return head.rstrip() if rest else head, "\n".join(rest) if rest else None


def _untilded(expression: str) -> str:
    """`10~40` (a random minute, drawn at load) as a hash of the trigger's key: `H(10-40)`."""
    if "~" not in expression:
        return expression
    fields = expression.split()
    for n, (low, high) in enumerate(_LOWEST[: len(fields)]):
        fields[n] = _TILDE.sub(lambda m, low=low, high=high: f"H({m[1] or low}-{m[2] or high})", fields[n])  # type: ignore[misc]
    return " ".join(fields)
