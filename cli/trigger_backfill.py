"""`qsched triggers backfill`: slots that passed run after all, after their bill was shown."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..triggers.instant import rfc3339
from .declared import counted
from .exits import INTERRUPTED, USAGE, CommandError
from .render import answer, say, show_document
from .settings import Settings, whoami
from .times import InstantType, when
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.backfill import BackfillBill, BackfillOrder
    from ..scheduler.store.database import Store

_MANY = 20


@command("backfill")
@click.argument("trigger")
@click.option("--from", "first", type=InstantType(), required=True, help="The first instant of the range.")
@click.option("--to", "last", type=InstantType(), required=True, help="The last instant of the range.")
@click.option(
    "--overlap",
    type=click.Choice(["queue", "allow"]),
    default="queue",
    help="One at a time, or as many as there are places.  [default: queue]",
)
@click.option("--again", is_flag=True, help="Also slots that ran, or were backfilled, before.")
@click.option("--force", is_flag=True, help="Although the trigger is paused, in error or retired.")
@click.option("--dry-run", is_flag=True, help="Only show what would start.")
@click.option(
    "--batch",
    type=click.IntRange(1, 500),
    default=500,
    help="How many slots a transaction writes.  [default: 500]",
)
@click.pass_obj
def backfill(settings: Settings, /, trigger: str, dry_run: bool, **asked: Any) -> int | None:
    """Run the slots of a trigger's schedule in a range, oldest first.

    Slots that ran are left out, and so are those that were backfilled before: saying it twice starts nothing twice. What is
    written runs on any node, in its own time. Ctrl-C stops between two transactions and says how to go on.
    """
    from ..scheduler.backfill import BackfillOrder, backfill_bill

    first, last = asked["first"], asked["last"]
    if last < first:
        raise CommandError("--to lies before --from", code=USAGE, hint="give the earlier instant with --from")
    order = BackfillOrder(trigger, who=whoami(), **asked)
    store = settings.reading() if dry_run else settings.writing()
    bill = backfill_bill(store, order)
    _say_bill(settings, bill)
    if dry_run or not bill.to_start:
        _show(settings, bill, started=0)
        return None
    if bill.to_start > _MANY:
        settings.confirm(f"Start {counted(bill.to_start, 'firing')} of {trigger}?")
    return _Run(settings, store, order, bill).to_its_end()


@dataclass
class _Run:
    """One backfill under way."""

    settings: Settings
    store: Store
    order: BackfillOrder
    bill: BackfillBill
    stop: bool = False

    def to_its_end(self) -> int | None:
        from ..scheduler.backfill import backfill as steps_of
        from .bar import Bar

        started = done = 0
        bar = Bar(f"backfill {self.order.key}", self.bill.slots)
        with self._asked_to_stop():
            for step in steps_of(self.store, self.order):
                started += step.bill.to_start
                done += step.bill.slots
                bar.at(done)
                if self.stop and step.following is not None:
                    bar.stopped()
                    say(f"stopped: {counted(started, 'firing')} written; go on with")
                    say("  " + self._rest(step.following))
                    return INTERRUPTED
        _show(self.settings, self.bill, started=started)
        return None

    @contextmanager
    def _asked_to_stop(self) -> Iterator[None]:
        """Ctrl-C is heard at the edge of a batch; a second one ends the command as it always does."""

        def hear(_number: int, _frame: object) -> None:
            if self.stop:
                raise KeyboardInterrupt
            self.stop = True

        before = signal.signal(signal.SIGINT, hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _rest(self, following: int) -> str:
        order, words = self.order, ["qsched", "triggers", "backfill", self.order.key]
        words += ["--from", rfc3339(following), "--to", rfc3339(order.last)]
        if order.overlap != "queue":
            words += ["--overlap", order.overlap]
        words += [flag for flag, said in (("--again", order.again), ("--force", order.force)) if said]
        return shlex.join(words)


def _say_bill(settings: Settings, bill: BackfillBill) -> None:
    zone = settings.zone()
    said = [f"{bill.key}: {counted(bill.slots, 'slot')} in the range"]
    if bill.first is not None and bill.last is not None:
        first, last = when(bill.first, zone, bill.last), when(bill.last, zone, bill.last)
        said.append(f"{bill.to_start} to start, {first}" + (f" to {last}" if last != first else ""))
    else:
        said.append("none to start")
    left_out = {
        "ran already": bill.ran,
        "backfilled before": bill.backfilled,
        "waiting or running": bill.open,
        "not decided yet": bill.undecided,
    }
    said += [f"{count} {words}" for words, count in left_out.items() if count]
    say(" · ".join(said))
    if bill.backfilled or bill.ran:
        say("what ran or was backfilled before is left out; --again runs it once more")


def _show(settings: Settings, bill: BackfillBill, *, started: int) -> None:
    if settings.output in ("json", "yaml"):
        item = bill._asdict() | {
            "first": None if bill.first is None else rfc3339(bill.first),
            "last": None if bill.last is None else rfc3339(bill.last),
            "started": started,
        }
        item["trigger"] = item.pop("key")
        show_document(settings.output, "BackfillList", [item])
    elif started:
        answer(
            bill.key if settings.output == "name" else f"{bill.key} backfilled: {counted(started, 'firing')}"
        )
