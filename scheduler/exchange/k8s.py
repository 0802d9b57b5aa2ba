"""Kubernetes CronJobs: their schedule and policies here, the Job itself still made by the cluster from the CronJob."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from ...triggers.cron import Cron
from ...triggers.duration import format_duration, parse_duration
from ...triggers.errors import TriggerError
from ...triggers.instant import SECOND
from ..errors import SourceError
from .other_cron import ENGINE, EVERY, fires
from .reading import CHANGED, EXACT, LOST, Item, Options, Reading
from .sources import Source, of_files

_OVERLAPS = {"Allow": "allow", "Forbid": "skip", "Replace": "cancel"}
_DAY_STEPS = ((2, "1-31"), (4, "0-6"))
_EVERY_ONE = re.compile(r"\*/0*1(?!\d)")
_ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)\Z")
_GRACE = 30


class _Manifest:
    """One CronJob, and where each of its keys stands."""

    def __init__(self, source: Source, node: yaml.Node, value: Mapping[str, Any]) -> None:
        self.source, self.node, self.value = source, node, value
        self.spec: Mapping[str, Any] = _mapping(value.get("spec"))
        self.job: Mapping[str, Any] = _mapping(_mapping(self.spec.get("jobTemplate")).get("spec"))
        self.pod: Mapping[str, Any] = _mapping(_mapping(self.job.get("template")).get("spec"))
        metadata = _mapping(value.get("metadata"))
        self.name, self.namespace = str(metadata.get("name", "")), metadata.get("namespace")

    def line(self, *path: str) -> int:
        """The line of the key at `path`, or of the nearest one above it that there is."""
        node, line = self.node, self.node.start_mark.line + 1
        for part in path:
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            found = next(((key, value) for key, value in pairs if key.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return line


def _read(source: Source, options: Options, reading: Reading) -> None:
    try:
        manifests = list(_manifests(source, reading))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = source.at(mark.line + 1 if mark else 0)
        raise SourceError(
            f"{place}: not YAML ({getattr(error, 'problem', error)})", hint="correct it"
        ) from error
    for manifest in manifests:
        _item(manifest, options, reading)


read = of_files(_read, (".yaml", ".yml", ".json"))


def _manifests(source: Source, reading: Reading) -> Iterator[_Manifest]:
    """Every CronJob of the documents and Lists; others are said to be left out."""
    for node in yaml.compose_all(source.text, Loader=yaml.SafeLoader):
        for each in _listed(node):
            value = yaml.safe_load(yaml.serialize(each, Dumper=yaml.SafeDumper))
            kind = _mapping(value).get("kind")
            if kind == "CronJob":
                yield _Manifest(source, each, value)
            elif value is not None:
                reading.note(
                    LOST,
                    source.at(each.start_mark.line + 1),
                    f"kind: {kind}",
                    "not a CronJob; it stays as it is",
                )


def _listed(node: yaml.Node | None) -> Iterator[yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return
    items = next((value for key, value in node.value if key.value == "items"), None)
    if isinstance(items, yaml.SequenceNode):
        yield from items.value
    else:
        yield node


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _item(manifest: _Manifest, options: Options, reading: Reading) -> None:
    name = reading.free_name(manifest.name)
    item = Item(name, manifest.source.at(manifest.line()), {})
    _schedule(item, manifest, options)
    _policies(item, manifest)
    _command(item, manifest)
    reading.items.append(item)


def _note(item: Item, manifest: _Manifest, level: Any, path: tuple[str, ...], why: str) -> None:
    """A remark about the key at `path`, with its value where that is short."""
    value: Any = manifest.value
    for part in path:
        value = _mapping(value).get(part)
    shown = (
        f": {str(value).lower() if isinstance(value, bool) else value}"
        if isinstance(value, str | int)
        else ""
    )
    item.note(level, f"{path[-1]}{shown}", why, manifest.source.at(manifest.line(*path)))


def _schedule(item: Item, manifest: _Manifest, options: Options) -> None:
    said = str(manifest.spec.get("schedule", "")).strip()
    place = manifest.source.at(manifest.line("spec", "schedule"))
    zone = str(manifest.spec.get("timeZone") or options.time_zone or "UTC")
    if (prefixed := _ZONE_PREFIX.match(said)) is not None:
        zone, said = prefixed[1], prefixed[2]
    elif "timeZone" not in manifest.spec and options.time_zone is None:
        why = "its controller's zone, which nobody named: read as UTC; --time-zone names another"
        item.note(CHANGED, "no timeZone", why, place)
    if said.startswith("@every"):
        item.trigger["every"] = said.removeprefix("@every").strip()
        item.note(
            CHANGED, f"schedule {said}", "Kubernetes counts from when it looks; here from the epoch", place
        )
        return
    plain = said.replace("?", "*")
    expression = _both_days(plain)
    item.trigger["cron"] = expression
    if zone != "UTC":
        item.trigger["time_zone"] = zone
    item.note(
        EXACT,
        f"schedule {said}",
        "" if expression == said else f"`{expression}`, which names the same times",
        place,
    )
    try:
        follows_clock = Cron(expression, "unix", zone).is_interval
    except TriggerError:
        return  # refused, with its reason, where all is checked
    if zone != "UTC" and not follows_clock:
        item.trigger["dst"] = {"gap": "skip", "overlap": "twice"}
        item.note(
            EXACT,
            "changes of offset",
            "a time that is skipped does not run, one that comes twice runs twice",
            place,
        )
    item.fires, item.engine = fires(_EVERY_ONE.sub("*", plain), zone, EVERY), ENGINE


def _both_days(expression: str) -> str:
    """With two day fields Kubernetes takes `*/2` for days like others (either matches), Unix cron for a star (both must).

    `*/1` is a star to both of them.
    """
    fields = expression.split()
    if len(fields) == 5:
        fields[2], fields[4] = (_EVERY_ONE.sub("*", fields[at]) for at in (2, 4))
    if len(fields) == 5 and fields[2] != "*" and fields[4] != "*":
        for at, every in _DAY_STEPS:
            fields[at] = re.sub(r"^\*(?=/)", every, fields[at])
    return " ".join(fields)


def _policies(item: Item, manifest: _Manifest) -> None:
    spec = manifest.spec
    concurrency = str(spec.get("concurrencyPolicy", "Allow"))
    if concurrency in _OVERLAPS and "concurrencyPolicy" in spec:
        item.trigger["overlap"] = _OVERLAPS[concurrency]
        _note(item, manifest, EXACT, ("spec", "concurrencyPolicy"), f"`overlap: {_OVERLAPS[concurrency]}`")
    if (deadline := spec.get("startingDeadlineSeconds")) is not None:
        window = format_duration(max(int(deadline), 1) * SECOND)
        item.trigger["misfire"] = {"policy": "fire_all", "window": window, "limit": 1}
        why = f"the last missed one runs if it is not older than {window}"
        _note(item, manifest, EXACT, ("spec", "startingDeadlineSeconds"), why)
    else:
        item.trigger["misfire"] = "fire_once"
        why = "the last of them runs, however many; Kubernetes starts none any more after 100"
        item.note(CHANGED, "missed starts", why, manifest.source.at(manifest.line("spec")))
    if spec.get("suspend"):
        item.trigger["paused"] = True
        _note(item, manifest, EXACT, ("spec", "suspend"), "`paused: true`")
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        if key in spec:
            _note(
                item,
                manifest,
                LOST,
                ("spec", key),
                "history is kept by age and number: `cluster: {retention: …}`",
            )


def _command(item: Item, manifest: _Manifest) -> None:
    """The Job is made from the CronJob, and waited for, so that overlap, time-out and outcome mean something here."""
    # A valid name needs no quotes; what a foreign file says in its place must stay one word for the shell.
    at = f" -n {shlex.quote(str(manifest.namespace))}" if manifest.namespace else ""
    cronjob = shlex.quote(manifest.name)
    name = f"{cronjob}-$QSCHED_FIRING-$QSCHED_ATTEMPT"
    job = ("spec", "jobTemplate", "spec")
    deadline = manifest.job.get("activeDeadlineSeconds")
    wait = "24h" if deadline is None else f"{int(deadline) + _GRACE}s"
    item.trigger["command"] = (
        f"kubectl create job{at} --from=cronjob/{cronjob} {name} && "
        f"kubectl wait{at} --for=condition=complete --timeout={wait} job/{name}"
    )
    why = "`kubectl create job --from` makes the Job and waits for it: keep the CronJob, with suspend: true"
    item.note(CHANGED, f"cronjob/{manifest.name}", why)
    if deadline is not None:
        item.trigger["timeout"] = format_duration(parse_duration(f"{int(deadline) + 2 * _GRACE}s"))
        _note(
            item,
            manifest,
            EXACT,
            (*job, "activeDeadlineSeconds"),
            "the Job's own; what waits for it ends a little later",
        )
    if "backoffLimit" in manifest.job:
        why = "the Job retries its pods itself: no `retry:` here, which would multiply it"
        _note(item, manifest, EXACT, (*job, "backoffLimit"), why)
    pod = (*job, "template", "spec")
    for container in manifest.pod.get("containers") or ():
        image = _mapping(container).get("image")
        place = manifest.source.at(manifest.line(*pod, "containers"))
        item.note(LOST, f"image: {image}", "it stays in the CronJob; nothing here names it", place)
    for key in ("volumes", "imagePullSecrets", "serviceAccountName", "nodeSelector", "restartPolicy"):
        if key in manifest.pod:
            _note(item, manifest, LOST, (*pod, key), "it stays in the CronJob; nothing here names it")
