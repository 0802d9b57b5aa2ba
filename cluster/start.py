"""The start of a node: what its operator allowed is read once, then store, declarations and services, as often as it takes."""

import asyncio
import logging
import os
import random
import threading
from dataclasses import replace

from ..scheduler.apply import apply
from ..scheduler.around.hooks import Hooks
from ..scheduler.clock import Clock
from ..scheduler.episode import Episode
from ..scheduler.errors import StoreUnavailable
from ..scheduler.registry import JobRegistry
from ..scheduler.running.run_async import JobLoop
from ..scheduler.store.database import Store
from ..scheduler.store.schema import open_store
from ..triggers.declaration import Declarations, load
from .services import Around, Services
from .settings import NodeSettings

_BACKOFF = (0.2, 5.0)
"""Seconds until it is tried again: first, and at most."""

log = logging.getLogger("qsched.node")


class Start:
    """One start. Raises AppError or DeclarationError at once for what cannot ever work."""

    def __init__(
        self,
        url: str,
        settings: NodeSettings,
        clock: Clock,
        loop: asyncio.AbstractEventLoop | None,
        around: Around,
    ) -> None:
        self._url = url
        self._settings = settings
        self._around = around
        self._declared = _declared(settings, clock)
        jobs = () if self._declared is None else self._declared.jobs
        self._registry = JobRegistry(settings.apps, jobs, settings.allow)
        self._loop = JobLoop(loop)
        self.hooks = Hooks(self._registry.around, self._loop.awaited, self._loop.close, clock)
        self.store: Store | None = None
        self._random = random.Random()
        self._episode = Episode(clock)
        self.trouble: str | None = None
        """What it waits for; None while it does not."""

    def attempt(self, leaving: threading.Event) -> Services | None:
        """The services, running; None when the node was told to leave before.

        Raises StoreUnavailable to be tried again, StartupFailed for a startup hook that raised.
        """
        settings = self._settings
        if self.store is None:
            self.store = open_store(self._url, cluster=settings.cluster, create=True, lease=settings.lease)
        self.trouble = None
        # Before anything is written: a node that cannot start changes nothing, and others never see it.
        if leaving.is_set() or not self.hooks.open(leaving.is_set):
            return None
        revision = None
        if self._declared is not None and settings.apply != "never":
            revision = self._apply(self.store, self._declared)
        if leaving.is_set():
            return None
        around = replace(self._around, loop=self._loop, revision=revision)
        services = Services(self.store, settings, self._registry, around)
        services.start(leaving)
        return services

    def waits(self, error: StoreUnavailable) -> float:
        """It will be tried again: tell the log, now and then, and the node's health; answers the seconds until then."""
        self.trouble = str(error)
        lasted = self._episode.fails()
        if lasted is not None:
            hint = "" if error.hint is None else f"; {error.hint}"
            log.warning("node.waiting for=%.0fs reason=%s%s", lasted, error, hint)
        wait = min(_BACKOFF[0] * 2.0 ** min(self._episode.failures - 1, 20), _BACKOFF[1])
        return wait * (0.75 + 0.25 * self._random.random())

    def _apply(self, store: Store, declared: Declarations) -> int:
        settings = self._settings
        applied = apply(
            store, declared, who=f"node {settings.label()}", if_newer=settings.apply == "if-newer"
        )
        event = {"applied": "declarations.applied", "older": "declarations.older"}.get(
            applied.status, "declarations.current"
        )
        log.log(
            logging.WARNING if applied.status == "older" else logging.INFO,
            "%s namespace=%s revision=%s current=%s added=%s changed=%s renamed=%s revived=%s retired=%s unchanged=%s",
            event,
            applied.namespace,
            applied.revision,
            applied.current,
            len(applied.added),
            len(applied.changed),
            len(applied.renamed),
            len(applied.revived),
            len(applied.retired),
            applied.unchanged,
        )
        return applied.revision


def _declared(settings: NodeSettings, clock: Clock) -> Declarations | None:
    if not settings.files:
        return None
    known = [declared.name for declared in JobRegistry(settings.apps).jobs()]
    return load(list(settings.files), now=clock.wall(), known_jobs=known, environ=dict(os.environ))
