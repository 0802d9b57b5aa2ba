"""What a body learns from its context, and how a cancel reaches it."""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from qsched.scheduler.context import JobContext
from qsched.scheduler.errors import JobCancelled, PermanentError
from qsched.scheduler.jobs import job
from qsched.scheduler.testing import START, ManualClock, context_for, request_for

from support.waiting import wait_until


@job(name="mail", key="mail:{order_id}", data={"order_id": 1, "lang": "en"})
def send(order_id: int, lang: str) -> None: ...


@job
def plain() -> None: ...


def test_a_context_tells_who_when_and_where() -> None:
    ctx = JobContext(
        replace(
            request_for(send),
            firing_id=7,
            fence=3,
            trigger="billing/mail",
            scheduled_at=START,
            fired_at=START + 1_500_000,
            late=1_500_000,
            attempt=2,
            recovering=True,
            node="n1",
        ),
        ManualClock(),
    )
    assert (ctx.job, ctx.trigger, ctx.node) == ("mail", "billing/mail", "n1")
    assert (ctx.firing_id, ctx.fence_token, ctx.attempt, ctx.recovering) == (7, 3, 2, True)
    assert ctx.scheduled_at == datetime(2024, 1, 10, tzinfo=UTC)
    assert ctx.fired_at == datetime(2024, 1, 10, 0, 0, 1, 500_000, tzinfo=UTC)
    assert ctx.late == 1.5


def test_data_are_the_jobs_overlaid_by_the_triggers_overlaid_by_the_fires() -> None:
    ctx = context_for(send, trigger_data={"lang": "tr", "x": 1}, fire_data={"x": 2})
    assert ctx.data == {"order_id": 1, "lang": "tr", "x": 2}


def test_variables_are_expanded_in_what_was_declared_and_never_in_what_a_fire_brings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    ctx = context_for(
        plain, trigger_data={"a": "x-${SECRET}", "b": ["${SECRET}"]}, fire_data={"comment": "${SECRET}"}
    )
    assert ctx.data == {"a": "x-s3cret", "b": ["s3cret"], "comment": "${SECRET}"}


def test_the_idempotency_key_is_rendered_from_the_data() -> None:
    assert context_for(send).idempotency_key == "mail:1"
    assert context_for(send, fire_data={"order_id": "A-7"}).idempotency_key == "mail:A-7"


def test_without_a_template_the_key_is_the_given_one() -> None:
    assert context_for(plain, default_key="c/t/slot").idempotency_key == "c/t/slot"


@pytest.mark.parametrize(
    ("template", "data", "text"),
    [
        ("k:{a.b}", {"a": {"b": 5}}, None),
        ("k:{a.b}", {"a": 5}, "names a.b, which the data do not have"),
        ("k:{a}", {}, "names a, which"),
        ("k:{a}", {"a": [1]}, "no text or number"),
        ("k:{a}", {"a": None}, "no text or number"),
        ("k:{a}", {"a": True}, "no text or number"),
        ("k:{a}", {"a": "x" * 600}, "more than 500"),
    ],
)
def test_a_key_that_cannot_be_rendered_is_a_permanent_failure(
    template: str, data: dict[str, object], text: str | None
) -> None:
    def work(**data: object) -> None: ...

    ctx = context_for(job(key=template)(work), fire_data=data)
    if text is None:
        assert ctx.idempotency_key == "k:5"
        return
    with pytest.raises(PermanentError, match=text):
        _ = ctx.idempotency_key


def test_an_uncancelled_run_goes_on() -> None:
    ctx = context_for(plain)
    ctx.check()
    assert (ctx.cancelled, ctx.cancel_reason, ctx.cancelled_at) == (False, None, None)


def test_the_first_reason_of_a_cancel_stays() -> None:
    ctx = context_for(plain)
    assert ctx.cancel("shutdown")
    assert not ctx.cancel("timeout")
    assert (ctx.cancelled, ctx.cancel_reason, ctx.cancelled_at) == (True, "shutdown", 1000.0)
    with pytest.raises(JobCancelled) as told:
        ctx.check()
    assert told.value.reason == "shutdown"


def test_sleep_ends_by_the_clock() -> None:
    clock = ManualClock()
    ctx = context_for(plain, clock)
    with ThreadPoolExecutor(1) as pool:
        sleeping = pool.submit(ctx.sleep, 60.0)
        wait_until(lambda: clock.waiting == 1, "the sleep")
        clock.advance(60.0)
        assert sleeping.result(timeout=30) is None


def test_a_cancel_wakes_a_sleeping_body() -> None:
    clock = ManualClock()
    ctx = context_for(plain, clock)
    with ThreadPoolExecutor(1) as pool:
        sleeping = pool.submit(ctx.sleep, 60.0)
        wait_until(lambda: clock.waiting == 1, "the sleep")
        ctx.cancel("shutdown")
        assert isinstance(sleeping.exception(timeout=30), JobCancelled)


def test_a_cancelled_body_does_not_fall_asleep() -> None:
    ctx = context_for(plain)
    ctx.cancel("shutdown")
    with pytest.raises(JobCancelled):
        ctx.sleep(1e9)


def test_a_cancel_that_comes_while_the_body_falls_asleep_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ctx = context_for(plain)

    def event_made_too_late() -> threading.Event:
        ctx.cancel("shutdown")
        return Event()

    Event = threading.Event
    monkeypatch.setattr(threading, "Event", event_made_too_late)
    with pytest.raises(JobCancelled):
        ctx.sleep(1e9)


def test_sleep_in_an_async_job_says_what_to_write_instead() -> None:
    async def work(ctx: JobContext) -> None: ...

    with pytest.raises(RuntimeError, match=r"await asyncio\.sleep"):
        context_for(work).sleep(1)


def test_a_shield_holds_a_cancel_back_until_the_block_ends() -> None:
    ctx = context_for(plain)
    told: list[str] = []
    ctx.when_cancelled(lambda: told.append("told"))
    seen: list[object] = []

    def work() -> None:
        with ctx.shield():
            ctx.cancel("shutdown")
            ctx.check()
            with ctx.shield():
                ctx.check()
            ctx.sleep(0)
            seen.extend([ctx.cancelled, list(told)])

    with pytest.raises(JobCancelled):
        work()
    assert seen == [True, []]
    assert told == ["told"]


def test_a_shielded_block_that_raises_shows_its_own_error() -> None:
    ctx = context_for(plain)

    def work() -> None:
        with ctx.shield():
            ctx.cancel("shutdown")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        work()


def test_a_runner_is_told_once_and_at_once_if_it_comes_late() -> None:
    ctx = context_for(plain)
    told: list[int] = []
    ctx.cancel("timeout")
    ctx.when_cancelled(lambda: told.append(1))
    ctx.cancel("shutdown")
    assert told == [1]


def test_exactly_one_of_many_cancels_at_once_is_the_first() -> None:
    ctx = context_for(plain)
    told: list[int] = []
    ctx.when_cancelled(lambda: told.append(1))
    barrier = threading.Barrier(8)

    def cancel(number: int) -> bool:
        barrier.wait(30)
        return ctx.cancel(str(number))

    with ThreadPoolExecutor(8) as pool:
        firsts = list(pool.map(cancel, range(8)))
    assert sum(firsts) == 1
    assert told == [1]


def test_progress_keeps_the_newest() -> None:
    ctx = context_for(plain)
    ctx.progress(1)
    ctx.progress({"done": 2})
    assert ctx.last_progress == {"done": 2}


def test_log_records_carry_the_run(caplog: pytest.LogCaptureFixture) -> None:
    ctx = context_for(send, attempt=1, trigger="t", node="n9")
    with caplog.at_level(logging.INFO):
        ctx.log.info("sent %d", 3, extra={"mine": 1})
    (record,) = caplog.records
    assert record.getMessage() == "sent 3"
    assert record.name == "qsched.job.mail"
    kept = {name: getattr(record, name) for name in ("job", "trigger", "firing", "attempt", "node", "mine")}
    assert kept == {"job": "mail", "trigger": "t", "firing": 1, "attempt": 1, "node": "n9", "mine": 1}


def test_a_context_can_be_handed_to_a_job_called_plainly() -> None:
    async def work(ctx: JobContext, n: int) -> int:
        return ctx.attempt + n

    assert asyncio.run(work(ctx=context_for(work, attempt=2), n=3)) == 5
