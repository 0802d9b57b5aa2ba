"""Quartz's job_scheduling_data 2.0: its jobs by class, its simple, cron and calendar-interval triggers."""

from datetime import datetime, timedelta
from typing import Any

from ...triggers.duration import format_duration
from ...triggers.errors import TriggerError
from ...triggers.misfire_words import from_quartz
from ...triggers.zone import find_zone
from ..errors import SourceError
from .quartz_elements import Element, elements
from .reading import CHANGED, EXACT, LOST, Item, Options, Reading
from .sources import Source, of_files

_SHORT_ZONES = {
    "EST": "Etc/GMT+5", "MST": "Etc/GMT+7", "HST": "Etc/GMT+10", "PST": "America/Los_Angeles", "CST": "America/Chicago",
    "ECT": "Europe/Paris", "JST": "Asia/Tokyo", "IST": "Asia/Kolkata", "AET": "Australia/Sydney",
}  # fmt: skip
"""Java's three letters, which are not what other systems mean by them: EST is five hours behind UTC all the year."""
_DIRECTIVES = ("pre-processing-commands", "processing-directives")
_MILLISECOND = 1000


class _File:
    """One file while it is read."""

    def __init__(self, source: Source, options: Options, reading: Reading) -> None:
        self.source, self.options, self.reading = source, options, reading
        pairs = (each.partition("=") for each in options.said.get("map", "").split(","))
        self.functions = {name.strip(): place.strip() for name, _, place in pairs if place}

    def directive(self, element: Element) -> None:
        for part in element.parts:
            why = "what leaves a file is retired by `apply`, and what stays is written only where it changed"
            self.reading.note(
                LOST, self.source.at(part.line), f"{part.name} {part.text.strip()}".strip(), why
            )

    def job(self, element: Element) -> None:
        place, name = self.source.at(element.line), _key(element, "name", "group")
        java = element.said("job-class") or ""
        module, _, last = java.rpartition(".")
        function = self.functions.get(java) or f"{module or 'jobs'}:{last}"
        job: dict[str, Any] = {"python": function}
        if java in self.functions:
            self.reading.note(EXACT, place, f"job-class {java}", f"`{function}`, as it was mapped")
        else:
            why = f"`{function}` stands for it: write that function, or map it (`{java}=module:function`)"
            self.reading.note(CHANGED, place, f"job-class {java}", why)
        if element.said("recover") == "true":
            job["request_recovery"] = True
            self.reading.note(EXACT, place, "recover true", "`request_recovery: true`")
        if element.said("durability") == "true":
            self.reading.note(
                LOST, place, "durability true", "a job stays while something names it: enqueue it by its name"
            )
        if description := element.said("description"):
            job["description"] = description
        if data := _data(element):
            job["data"] = data
        self.reading.jobs[name] = job

    def trigger(self, element: Element) -> None:
        item = Item(
            self.reading.free_name(_key(element, "name", "group")),
            self.source.at(element.line),
            {"job": _key(element, "job-name", "job-group")},
        )
        self.reading.items.append(item)
        repeats = self._when(element, item)
        if element.said("priority"):
            item.trigger["priority"] = self._number(element, "priority")
        if description := element.said("description"):
            item.trigger["description"] = description
        if data := _data(element):
            item.trigger["data"] = data
        if calendar := element.said("calendar-name"):
            item.note(
                LOST,
                f"calendar-name {calendar}",
                "its file does not say what it leaves out: write it under `calendars:`",
            )
        self._bounds(element, item)
        self._misfire(element, item, repeats)

    def _when(self, element: Element, item: Item) -> int | None:
        """Write the schedule; answers the repeat count of a simple trigger."""
        if (cron := element.said("cron-expression")) is not None:
            item.trigger["quartz"] = cron
            item.note(EXACT, f"schedule {cron}")
            self._zone(element, item)
            return None
        every = self._number(element, "repeat-interval")
        if (unit := element.said("repeat-interval-unit")) is not None:
            word = unit.lower() + "s"
            if word in ("years", "months", "weeks", "days"):
                item.trigger["calendar_interval"] = {word: every}
            else:
                item.trigger["every"] = f"{every}{word[0]}"
            item.note(EXACT, f"schedule every {every} {word}")
            return None
        count = self._number(element, "repeat-count")
        if count == 0 and (start := self._start(element)) is not None:
            item.trigger["at"] = start
            item.note(EXACT, f"schedule once at {start}")
        else:
            item.trigger["every"] = format_duration(every * _MILLISECOND) if every else "0s"
            if count >= 0:
                item.trigger["max_fires"] = count + 1
            item.note(EXACT, f"schedule every {every} ms, repeat-count {count}")
        return count

    def _number(self, element: Element, name: str) -> int:
        said = element.said(name)
        try:
            return int(said or 0)
        except ValueError:
            where = self.source.at(element.line)
            raise SourceError(
                f"{where}: {name} {said!r} is not a whole number", hint="correct the file"
            ) from None

    def _zone(self, element: Element, item: Item) -> None:
        said = element.said("time-zone")
        zone = _SHORT_ZONES.get(said or "", said or self.options.time_zone)
        if zone is None:
            item.note(
                CHANGED,
                "the host's zone",
                "no time-zone is said, so that hours are read as UTC: name it with --time-zone",
            )
            return
        try:
            find_zone(zone)
        except TriggerError as error:
            item.note(LOST, f"time-zone {said}", str(error))
            return
        item.trigger["time_zone"] = zone
        if said is not None and zone != said:
            item.note(CHANGED, f"time-zone {said}", f"{zone}, which is what Java means by it")

    def _bounds(self, element: Element, item: Item) -> None:
        start = self._start(element)
        if start is not None and "at" not in item.trigger:
            item.trigger["start_at"] = start
        elif start is None and {"every", "calendar_interval"} & item.trigger.keys():
            item.note(
                CHANGED,
                "no start-time",
                "Quartz counts from when it loads the file; here from a fixed instant",
            )
        if (seconds := element.said("start-time-seconds-in-future")) is not None:
            item.note(
                LOST, f"start-time-seconds-in-future {seconds}", "nothing counts from when a file was loaded"
            )
        if (end := element.said("end-time")) is not None:
            item.trigger["end_at"] = self._moment(end)

    def _start(self, element: Element) -> str | None:
        start = element.said("start-time")
        return None if start is None else self._moment(start)

    def _moment(self, text: str) -> str:
        """An xs:dateTime, in the host's zone where it says none."""
        try:
            moment = datetime.fromisoformat(text)
            zone = find_zone(self.options.time_zone or "UTC").tz
        except (ValueError, TriggerError):
            return text  # refused, with its reason, where all is checked
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).isoformat()

    def _misfire(self, element: Element, item: Item, repeats: int | None) -> None:
        word = element.said("misfire-instruction") or "SMART_POLICY"
        try:
            found = from_quartz(word, "other" if repeats is None else "simple", repeats)
        except TriggerError as error:
            item.note(LOST, f"misfire-instruction {word}", str(error))
            return
        item.trigger["misfire"] = found.policy
        if found.ends_by == "end_at" and repeats is not None and repeats > 0:
            self._ends_by_the_grid(element, item, repeats)
        said = f"misfire-instruction {word}"
        if found.changed is None:
            item.note(EXACT, said, f"`misfire: {found.policy}`")
        else:
            item.note(CHANGED, said, f"`misfire: {found.policy}`: {found.changed}")

    def _ends_by_the_grid(self, element: Element, item: Item, repeats: int) -> None:
        """What is missed counts among the repeats: the last one is an instant, where the start is one."""
        start = item.trigger.get("start_at")
        every = timedelta(milliseconds=self._number(element, "repeat-interval"))
        try:
            last = datetime.fromisoformat(str(start)) + repeats * every
        except ValueError:
            item.note(
                CHANGED,
                f"repeat-count {repeats}",
                "what is missed does not count: `max_fires` counts what runs",
            )
            return
        item.trigger.pop("max_fires", None)
        item.trigger.setdefault("end_at", last.isoformat())


def _key(element: Element, name: str, group: str) -> str:
    """`name`, or `group.name`: Quartz's DEFAULT group is not said."""
    said, of = element.said(name) or "", element.said(group)
    return said if of in (None, "DEFAULT") else f"{of}.{said}"


def _data(element: Element) -> dict[str, str]:
    entries = [entry for data in element.all("job-data-map") for entry in data.all("entry")]
    return {entry.said("key") or "": entry.said("value") or "" for entry in entries}


def _read(source: Source, options: Options, reading: Reading) -> None:
    file = _File(source, options, reading)
    for part in elements(source).parts:
        if part.name in _DIRECTIVES:
            file.directive(part)
        for job in part.all("job"):
            file.job(job)
        for trigger in (kind for each in part.all("trigger") for kind in each.parts):
            file.trigger(trigger)


read = of_files(_read, (".xml",))
