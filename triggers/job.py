"""A job's definition: what to run and with which policies; what is not said is None and is looked up elsewhere."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import DefinitionError
from .retry import RetryPolicy

JOB_SPEC_VERSION = 1
"""The newest job spec format this version writes and reads."""

OVERLAPS = ("allow", "queue", "skip", "cancel")
KINDS = ("python", "command", "http")


def canonical(value: object) -> str:
    """One text per value: JSON with sorted keys and no blanks, so that equal definitions have equal digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: object) -> str:
    """A short, stable fingerprint of a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]


_PLAIN_POLICIES = (
    "request_recovery",
    "max_recoveries",
    "overlap",
    "timeout",
    "run_in",
    "key",
    "persist_data",
)


@dataclass(frozen=True, slots=True)
class JobPolicies:
    """What a YAML job or an `@job` decorator may say; None = not said (precedence: YAML, decorator, cluster default)."""

    request_recovery: bool | None = None
    max_recoveries: int | None = None
    overlap: str | None = None
    timeout: int | None = None
    """Microseconds per attempt."""
    retry: RetryPolicy | None = None
    run_in: str | None = None
    """`thread`, `process` or `async`."""
    key: str | None = None
    """Template of the idempotency key over data: `invoice-email:{order_id}`."""
    run_on: tuple[str, ...] | None = None
    persist_data: bool | None = None
    """`ctx.saved` is kept from one run to the next; a job that keeps it runs one at a time."""

    def to_spec(self) -> dict[str, Any]:
        """Only what was said, JSON-ready."""
        said: dict[str, Any] = {}
        for name in _PLAIN_POLICIES:
            if (value := getattr(self, name)) is not None:
                said[name] = value
        if self.retry is not None:
            said["retry"] = self.retry.to_spec()
        if self.run_on is not None:
            said["run_on"] = list(self.run_on)
        return said

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> "JobPolicies":
        """Read what `to_spec` wrote; raises DefinitionError for what cannot be."""
        overlap = spec.get("overlap")
        if overlap is not None and overlap not in OVERLAPS:
            raise DefinitionError(
                f"overlap {overlap!r} is not one of {', '.join(OVERLAPS)}: apply the job again"
            )
        return cls(
            request_recovery=spec.get("request_recovery"),
            max_recoveries=spec.get("max_recoveries"),
            overlap=overlap,
            timeout=spec.get("timeout"),
            retry=None if spec.get("retry") is None else RetryPolicy.from_spec(spec["retry"]),
            run_in=spec.get("run_in"),
            key=spec.get("key"),
            run_on=None if spec.get("run_on") is None else tuple(spec["run_on"]),
            persist_data=spec.get("persist_data"),
        )

    def over(self, weaker: "JobPolicies") -> "JobPolicies":
        """These policies, completed key by key by `weaker` ones."""
        return JobPolicies.from_spec({**weaker.to_spec(), **self.to_spec()})

    def in_turns(self, default: str | None) -> "JobPolicies":
        """These, with the overlap that holds where none is said: `default`, save for a job that keeps data, whose runs
        queue. Raises DefinitionError where it was said to keep data *and* to allow overlap: one run would lose the other's.
        """
        if not self.persist_data:
            return self if self.overlap is not None or default is None else replace(self, overlap=default)
        if self.overlap == "allow":
            raise DefinitionError(
                "persist_data needs runs that take turns, and overlap is allow: write overlap: queue, skip or cancel"
            )
        if self.overlap is None:
            return replace(self, overlap="queue" if default in (None, "allow") else default)
        return self


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """What to run. `target` is `module:function` (python), a shell text or an argv tuple (command), a url (http)."""

    name: str
    kind: str
    target: str | tuple[str, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    policies: JobPolicies = field(default_factory=JobPolicies)
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment of a command; `${VAR}` stays unexpanded here and is expanded where it runs."""
    cwd: str | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    """Of an http job, what it says besides the url: method, headers, json or body, and what it expects; unexpanded."""
    group: str = "default"
    description: str | None = None
    tags: tuple[str, ...] = ()

    def to_spec(self) -> dict[str, Any]:
        """The stored form: JSON-ready, canonical, with its format version."""
        target: Any = list(self.target) if isinstance(self.target, tuple) else self.target
        if self.kind == "http":
            target = {"url": target, **self.request}
        spec: dict[str, Any] = {"v": JOB_SPEC_VERSION, self.kind: target, **self.policies.to_spec()}
        for name in ("data", "env", "cwd", "description"):
            if value := getattr(self, name):
                spec[name] = value
        if self.tags:
            spec["tags"] = list(self.tags)
        if self.group != "default":
            spec["group"] = self.group
        return spec

    @classmethod
    def from_spec(cls, name: str, spec: object) -> "JobDefinition":
        """Read what `to_spec` wrote; raises DefinitionError with the reason."""
        if not isinstance(spec, Mapping):
            raise DefinitionError(f"the definition of job {name!r} is not a mapping: apply it again")
        kinds = [kind for kind in KINDS if kind in spec]
        if len(kinds) != 1:
            raise DefinitionError(f"job {name!r} must have exactly one of {', '.join(KINDS)}: apply it again")
        target = spec[kinds[0]]
        request: dict[str, Any] = {}
        if kinds[0] == "http":
            if not isinstance(target, Mapping) or not isinstance(target.get("url"), str):
                raise DefinitionError(f"the request of job {name!r} has no url: apply it again")
            request = {key: value for key, value in target.items() if key != "url"}
            target = target["url"]
        return cls(
            name=name,
            kind=kinds[0],
            target=tuple(target) if isinstance(target, list) else target,
            data=spec.get("data") or {},
            policies=JobPolicies.from_spec(spec),
            env=spec.get("env") or {},
            cwd=spec.get("cwd"),
            request=request,
            group=spec.get("group", "default"),
            description=spec.get("description"),
            tags=tuple(spec.get("tags") or ()),
        )

    def digest(self) -> str:
        return digest(self.to_spec())
