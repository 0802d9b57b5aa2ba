"""What a body in a worker process asks of its node, which has a store, and the answers."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from queue import SimpleQueue
from typing import Any, Final

from ...triggers.errors import DefinitionError, QschedError
from ..enqueue_order import Enqueued, EnqueueOrder, checked_key
from ..errors import Conflict, Refused, SchedulerError, StoreUnavailable, UnknownJob
from ..payload import checked_data

PATIENCE: Final = 60.0
"""Seconds for which a body waits for its node's answer."""
_MOST_WAITING: Final = 1000
_KINDS: Final = {
    kind.__name__: kind for kind in (Conflict, Refused, SchedulerError, StoreUnavailable, UnknownJob)
}

log = logging.getLogger("qsched.runner")

Ask = Callable[[EnqueueOrder, Any], Enqueued]


class Questions:
    """The worker's end: each thread of a body that asks waits for its own answer."""

    def __init__(self, say: Callable[[Mapping[str, Any]], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, tuple[threading.Event, list[Mapping[str, Any]]]] = {}

    def ask(self, order: EnqueueOrder, connection: Any) -> Enqueued:
        """Have the node enqueue; raises what that raised there, or StoreUnavailable where no answer comes."""
        if connection is not None:
            raise SchedulerError(
                "connection= cannot be used in a process job: its node enqueues, in a transaction of its own",
                hint="use a Scheduler(…) of the job's own, or run_in: thread",
            )
        told, answer = threading.Event(), list[Mapping[str, Any]]()
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = told, answer
        try:
            self._say({"enqueue": number, "order": asdict(order)})
            if not told.wait(PATIENCE):
                raise StoreUnavailable(
                    f"the node did not answer within {PATIENCE:g} s whether it enqueued {order.job!r}",
                    hint="give a request_key, and ask again with the same",
                )
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        return _answered(answer[0])

    def hear(self, message: Mapping[str, Any]) -> None:
        """An answer; one that nobody waits for any more is dropped."""
        with self._lock:
            told, answer = self._waiting.get(message["answer"], (None, []))
        if told is not None:
            answer.append(message)
            told.set()


class Answers:
    """The node's end, for one body: a thread of its own carries the orders out, one after the other."""

    def __init__(self, ask: Ask | None, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._ask = ask
        self._tell = tell
        self._asked: SimpleQueue[Mapping[str, Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, message: Mapping[str, Any]) -> None:
        """Never blocks: whoever hears a worker also has to stop it."""
        if self._asked.qsize() >= _MOST_WAITING:
            self._tell({"answer": message["enqueue"], **_problem(SchedulerError("too many orders at once"))})
            return
        self._asked.put(message)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="qsched-answers", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """The body has ended: what it asked for and nobody began is left."""
        if self._thread is not None:
            self._asked.put(None)

    def _serve(self) -> None:
        while (message := self._asked.get()) is not None:
            try:
                if self._ask is None:
                    raise SchedulerError("nothing is behind this node to enqueue with")
                done = self._ask(order_said(message.get("order")), None)
                answer: dict[str, Any] = {"id": done.id, "created": done.created}
            except QschedError as error:
                answer = _problem(error)
            except Exception as error:
                log.exception("what a process job asked for could not be carried out")
                answer = _problem(SchedulerError(f"{type(error).__name__} on its node: {error}"))
            self._tell({"answer": message["enqueue"], **answer})


def order_said(said: object) -> EnqueueOrder:
    """The order that a worker told; read value by value, for a worker runs a job's code. Raises DefinitionError."""
    if not isinstance(said, Mapping) or said.keys() != {each.name for each in fields(EnqueueOrder)}:
        raise DefinitionError("a process job asked for something that is no order")
    numbers = [said[name] for name in ("delay", "at", "unique_for", "priority")]
    if not all(value is None or (type(value) is int and abs(value) < 1 << 61) for value in numbers):
        raise DefinitionError("a process job asked for something at no time")
    texts = [said["job"], said["loaded"] or ""]
    if not all(isinstance(text, str) for text in texts) or not 1 <= len(said["job"]) <= 200:
        raise DefinitionError("a process job asked for no job")
    for name in ("unique_key", "request_key"):
        checked_key(name, said[name])
    return EnqueueOrder(**{**said, "data": checked_data(said["data"], of=f"the enqueue of {said['job']!r}")})


def _problem(error: QschedError) -> dict[str, Any]:
    return {"problem": str(error), "kind": type(error).__name__, "hint": getattr(error, "hint", None)}


def _answered(said: Mapping[str, Any]) -> Enqueued:
    if "problem" not in said:
        return Enqueued(said["id"], said["created"])
    kind = _KINDS.get(said["kind"])
    if kind is None:
        raise DefinitionError(said["problem"])
    raise kind(said["problem"], hint=said["hint"])
