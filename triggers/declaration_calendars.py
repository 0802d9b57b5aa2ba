"""Calendars of a declaration: named once, resolved (with what they are made of) into each trigger that leaves them out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from .calendars.compiling import compile_calendar
from .declaration_fields import Wrong, name_fault, nearest
from .declaration_files import Source
from .declaration_jobs import complain
from .errors import TriggerError
from .job import canonical
from .yaml_tree import Path

LARGEST = 64 * 1024
"""Characters of a calendar, as each definition that names it carries them."""
_AS_THEY_ARE = ("weekly", "daily", "cron", "quartz", "time_zone", "holidays")


@dataclass(eq=False)
class Calendars:
    """All calendars of one declaration, by name."""

    places: dict[str, tuple[Source, Path]] = field(default_factory=dict)
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """{name: its canonical spec}, of those that could be read."""
    _said: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)

    def read_section(self, source: Source) -> None:
        """The names in `calendars` of one file; `resolve` reads them when those of all files are known."""
        for name, said in source.said.get("calendars", {}).items():
            path: Path = ("calendars", name)
            if (fault := name_fault(name)) is not None:
                complain(source, path, fault._replace(on_key=True))
            elif name in self.places:
                other, there = self.places[name]
                line = other.document.at_path(there, "E025", "", key=True).line
                message = f"the calendar `{name}` is also declared in {other.file}, line {line}"
                complain(source, path, Wrong("E025", message, "keep one, or rename one", on_key=True))
            else:
                self.places[name] = (source, path)
                self._said[name] = said

    def resolve_all(self) -> None:
        """Read every calendar; all that is wrong becomes problems."""
        for name in self.places:
            self._resolve(name)

    def _resolve(self, name: str) -> dict[str, Any] | None:
        if name in self.specs or name not in self._said:
            return self.specs.get(name)
        source, path = self.places[name]
        if name in self._open:
            circle = " → ".join([*self._open[self._open.index(name) :], name])
            complain(
                source, path, Wrong("E026", f"calendars lead in a circle: {circle}", "break it", ("any",))
            )
            return None
        self._open.append(name)
        spec = self._spec(self._said[name], source, path)
        self._open.pop()
        self._said.pop(name, None)
        if spec is not None and self._can_be_used(spec, source, path):
            self.specs[name] = spec
        return self.specs.get(name)

    def _spec(self, said: Mapping[str, Any], source: Source, path: Path) -> dict[str, Any] | None:
        if not said.keys() - {"time_zone"}:
            hint = "give it dates, weekly, daily, cron, quartz, holidays, ics or any"
            complain(
                source,
                path,
                Wrong("E013", f"the calendar `{path[-1]}` leaves nothing out", hint, on_key=True),
            )
            return None
        spec: dict[str, Any] = {key: said[key] for key in _AS_THEY_ARE if key in said}
        zone = source.defaults.get("time_zone")
        if zone is not None and "time_zone" not in spec:
            spec["time_zone"] = zone
        spec |= said.get("dates", {})
        if "any" in said and not self._add_parts(spec, said["any"], source, path):
            return None
        if "ics" in said and not self._add_file(spec, said["ics"], source, path):
            return None
        return spec

    def _add_parts(self, spec: dict[str, Any], names: list[str], source: Source, path: Path) -> bool:
        found = []
        for index, name in enumerate(names):
            if name not in self.places:
                self._unknown(name, source, path, ("any", index))
            elif (part := self._resolve(name)) is not None:
                found.append(part)
        spec["any"] = found
        return len(found) == len(names)

    def _add_file(self, spec: dict[str, Any], file: str, source: Source, path: Path) -> bool:
        from .calendars.ics import read_ics

        place = FilePath(source.file).parent / file
        try:
            content = place.read_bytes()
            events = read_ics(content)
        except OSError as error:
            hint = "the file is looked for beside this one"
            complain(source, path, Wrong("E001", f"{place} cannot be read: {error.strerror}", hint, ("ics",)))
            return False
        except TriggerError as error:
            message, _, hint = str(error).partition("; ")
            complain(source, path, Wrong("E020", f"{place}: {message}", hint, ("ics",)))
            return False
        source.beside(content)
        for key, items in events.items():
            spec[key] = sorted([*spec.get(key, []), *items], key=canonical)
        return True

    def _can_be_used(self, spec: Mapping[str, Any], source: Source, path: Path) -> bool:
        """Whether it can be read back, and asked; what cannot is said here, once, instead of at each trigger."""
        if len(canonical(spec)) > LARGEST:
            hint = "leave out what is past, or split it"
            complain(source, path, Wrong("E026", f"this calendar is larger than {LARGEST // 1024} KiB", hint))
            return False
        try:
            compile_calendar(spec, "UTC").excludes(0)
        except TriggerError as error:
            message, _, hint = str(error).partition("; ")
            key = next((key for key in ("holidays", "cron", "quartz") if key in spec), None)
            complain(source, path, Wrong("E020", message, hint, () if key is None else (key,)))
            return False
        return True

    def named(self, names: list[str], source: Source, path: Path) -> dict[str, dict[str, Any]] | None:
        """{name: spec} of what a trigger leaves out; None where one is not there, which is said."""
        found: dict[str, dict[str, Any]] = {}
        complete = True
        for index, name in enumerate(names):
            if name in self.specs:
                found[name] = self.specs[name]
                continue
            complete = False
            if name not in self.places:
                self._unknown(name, source, path, ("exclude", index))
        return found if complete else None

    def _unknown(self, name: str, source: Source, path: Path, at: Path) -> None:
        meant = nearest(name, self.places)
        hint = f"did you mean `{meant}`?" if meant else "declare it under `calendars`"
        complain(source, path, Wrong("E024", f"there is no calendar `{name}`", hint, at))
