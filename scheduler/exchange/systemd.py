"""systemd timers: when a timer unit elapses, and what the service beside it starts."""

import shlex
from typing import Any, Final

from ...triggers.duration import format_duration
from ...triggers.errors import TriggerError
from .reading import CHANGED, EXACT, LOST, Item, Options, Reading
from .sources import Source, of_files
from .systemd_calendar import ENGINE, fires, read_event, schedule
from .systemd_unit import Said, Unit, read_unit, span, truth

_MONOTONIC: Final = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_PREFIXES: Final = "@-:+!|"
_KNOWN: Final = frozenset(
    ("OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec", *_MONOTONIC, "Persistent", "RandomizedDelaySec",
     "FixedRandomDelay", "Unit", "AccuracySec")
)  # fmt: skip
_OF_TIMER: Final = {
    "WakeSystem": "no node wakes a machine",
    "OnClockChange": "times follow the database's clock, and a clock that steps is seen there",
    "OnTimezoneChange": "the zone is the trigger's, never the host's",
    "RemainAfterElapse": "an ended trigger stays, with its history",
    "DeferReactivation": "write `overlap:` at the job",
}
_OF_SERVICE: Final = (
    "Type",
    "Restart",
    "RemainAfterExit",
    "Nice",
    "KillMode",
    "StandardOutput",
    "StandardError",
)


def _read(source: Source, options: Options, reading: Reading) -> None:
    unit = read_unit(source)
    base = source.name.removesuffix(".timer")
    service_name = unit.last("Timer", "Unit") or f"{base}.service"
    service = source.beside(service_name)
    timer = _Timer(unit, service_name, None if service is None else read_unit(service), options)
    schedules = timer.schedules(reading)
    for n, (said, trigger) in enumerate(schedules):
        name = reading.free_name(base if len(schedules) == 1 else f"{base}-{n + 1}")
        item = Item(name, source.at(said.line), {})
        timer.fill(item, said, trigger)
        reading.items.append(item)
    if schedules:
        timer.rest(reading)


read = of_files(_read, (".timer",))


class _Timer:
    """One timer unit and the service it starts."""

    def __init__(self, unit: Unit, service_name: str, service: Unit | None, options: Options) -> None:
        self.unit, self.service_name, self.service, self.options = unit, service_name, service, options

    def schedules(self, reading: Reading) -> list[tuple[Said, str]]:
        """Each line that becomes a trigger of its own, and the kind of its schedule."""
        found = [(said, "calendar") for said in self.unit.all("Timer", "OnCalendar")]
        found += [(said, "every") for said in self.unit.all("Timer", "OnUnitActiveSec")]
        found += [(said, "delay") for said in self.unit.all("Timer", "OnUnitInactiveSec")]
        for key in _MONOTONIC:
            for said in self.unit.all("Timer", key):
                why = "it counts from a host's or a unit's start, and a cluster has none"
                reading.note(LOST, self.unit.source.at(said.line), f"{key}={said.value}", why)
        return found

    def fill(self, item: Item, said: Said, kind: str) -> None:
        if kind == "calendar":
            self._calendar(item, said)
        else:
            self._elapsed(item, said, kind)
        self._spread(item)
        self._command(item)

    def _calendar(self, item: Item, said: Said) -> None:
        try:
            event = read_event(said.value)
            zone = event.time_zone or self.options.time_zone or "UTC"
            item.trigger |= schedule(event, fixed=zone != "UTC")
        except TriggerError as error:
            item.refusal = f"OnCalendar={said.value}: {error}"
            return
        words = next(iter(item.trigger.values()))
        item.note(
            EXACT,
            f"schedule OnCalendar={said.value}",
            f"`{words}`" if isinstance(words, str) else "`all:` of days and weekdays",
        )
        if zone != "UTC":
            item.trigger |= {"time_zone": zone, "dst": {"gap": "skip"}}
            item.note(
                EXACT,
                "changes of offset",
                "a time that is skipped does not run, one that comes twice runs once",
            )
        elif event.time_zone is None and self.options.time_zone is None:
            item.note(
                CHANGED, "the host's zone", "nobody named it, so that hours are read as UTC: use --time-zone"
            )
        item.fires, item.engine = fires(event, zone), ENGINE
        if truth(self.unit.last("Timer", "Persistent"), False):
            item.trigger["misfire"] = "fire_once"
            item.note(EXACT, "Persistent=true", "`misfire: fire_once`: what was missed runs once, afterwards")
        else:
            item.trigger["misfire"] = "skip"
            item.note(EXACT, "Persistent=false", "`misfire: skip`: what was missed is recorded, not run")

    def _elapsed(self, item: Item, said: Said, kind: str) -> None:
        """From the unit's last start: `every`, whose grid does not move; from its last end: `delay`."""
        try:
            item.trigger[kind] = format_duration(span(said.value))
        except TriggerError as error:
            item.refusal = f"{said.key}={said.value}: {error}"
            return
        why = {
            "every": "`every`, on a grid from the epoch; there it counts from the unit's last start",
            "delay": "`delay`: from the end of the run before, in the whole cluster",
        }
        item.note(CHANGED if kind == "every" else EXACT, f"schedule {said.key}={said.value}", why[kind])

    def _spread(self, item: Item) -> None:
        delays = self.unit.all("Timer", "RandomizedDelaySec")
        if not delays:
            return
        said = delays[-1]
        try:
            amount = format_duration(span(said.value))
        except TriggerError as error:
            item.note(LOST, f"RandomizedDelaySec={said.value}", str(error))
            return
        fixed = truth(self.unit.last("Timer", "FixedRandomDelay"), False) and "delay" not in item.trigger
        place = self.unit.source.at(said.line)
        item.trigger["splay" if fixed else "jitter"] = amount
        why = (
            "`splay`: one amount for this timer, hashed from its name; systemd hashes the machine"
            if fixed
            else "`jitter`"
        )
        item.note(CHANGED if fixed else EXACT, f"RandomizedDelaySec={said.value}", why, place)
        if fixed:
            item.fires = None

    def _command(self, item: Item) -> None:
        service = self.service
        starts = service.all("Service", "ExecStart") if service is not None else []
        item.trigger["overlap"] = "skip"
        if service is None or not starts:
            item.trigger["command"] = ["systemctl", "start", self.service_name]
            item.note(
                CHANGED,
                self.service_name,
                "not beside the timer, so that `systemctl start` runs it, where a node may",
            )
            return
        commands = [said.value.lstrip(_PREFIXES) for said in starts]
        single = len(commands) == 1 and not any(c in commands[0] for c in "$%\\;")
        try:
            item.trigger["command"] = shlex.split(commands[0]) if single else " && ".join(commands)
        except ValueError:
            item.trigger["command"] = commands[0]
        place = service.source.at(starts[0].line)
        item.note(EXACT if single else CHANGED, f"ExecStart={starts[0].value}",
                  "" if single else "run by a shell, which expands $ as systemd does, and no % specifiers", place)  # fmt: skip
        self._environment(item, service)

    @staticmethod
    def _environment(item: Item, service: Unit) -> None:
        env: dict[str, str] = {}
        for said in service.all("Service", "Environment"):
            for pair in shlex.split(said.value):
                name, _, value = pair.partition("=")
                env[name] = value.replace("${", "$${")
        if env:
            item.trigger["env"] = env
        if (cwd := service.last("Service", "WorkingDirectory")) is not None:
            item.trigger["cwd"] = cwd.lstrip("-")
        limits: list[Any] = [service.last("Service", key) for key in ("TimeoutStartSec", "RuntimeMaxSec")]
        for limit in limits:
            if limit is not None and limit != "infinity":
                item.trigger["timeout"] = format_duration(span(limit))

    def rest(self, reading: Reading) -> None:
        """What belongs to the timer or its service as a whole, and has no counterpart."""
        for said in self.unit.sections.get("Timer", []):
            place = self.unit.source.at(said.line)
            if said.key == "AccuracySec":
                why = "a firing starts at its slot, late only by what is shown"
                reading.note(CHANGED, place, f"AccuracySec={said.value}", why)
            elif said.key not in _KNOWN:
                reading.note(
                    LOST, place, f"{said.key}={said.value}", _OF_TIMER.get(said.key, "it has no counterpart")
                )
        service = self.service
        for said in service.sections.get("Service", []) if service is not None else []:
            known = (
                "ExecStart",
                "Environment",
                "WorkingDirectory",
                "TimeoutStartSec",
                "RuntimeMaxSec",
                *_OF_SERVICE,
            )
            if service is not None and said.key not in known:
                why = "commands run as the node does: give it to the node's own unit"
                reading.note(LOST, service.source.at(said.line), f"{said.key}={said.value}", why)
