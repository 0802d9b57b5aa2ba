"""`qsched triggers explain`: why a trigger ran, or did not run, at an instant or in a range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..triggers.instant import rfc3339
from .exits import USAGE, CommandError
from .fate_words import Words, words_of
from .render import answer, say, show_document
from .settings import Settings
from .times import InstantType, when
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.fate import Fate


@command("explain")
@click.argument("trigger")
@click.option("--at", type=InstantType(), help="The instant in question.")
@click.option("--from", "first", type=InstantType(), help="All slots from here ...")
@click.option("--to", "last", type=InstantType(), help="... to here.  [default: now]")
@click.pass_obj
def explain(settings: Settings, trigger: str, at: int | None, first: int | None, last: int | None) -> None:
    """Say why a trigger ran, or did not run, at an instant: from the ledger's rows, and from what holds now.

    With --from and --to each slot of the range has its line, also those that calendars leave out.
    """
    from ..scheduler.fate import MOST, explain_at, explain_between
    from ..scheduler.store.reports import database_now

    if (at is None) == (first is None) or (at is not None and last is not None):
        raise CommandError("what is to be explained?", code=USAGE, hint="give --at, or --from and --to")
    store = settings.reading()
    now = database_now(store)
    if at is not None:
        fates, more = [explain_at(store, trigger, at)], False
    else:
        assert first is not None
        _, fates, more = explain_between(store, trigger, first, now if last is None else last)
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "FateList", [_item(fate, trigger) for fate in fates])
    else:
        _show(settings, trigger, fates, now)
    if not fates:
        say(f"{trigger} has no slot there")
    if more:
        say(f"there are more than {MOST} slots: ask for a shorter range")


def _show(settings: Settings, trigger: str, fates: list[Fate], now: int) -> None:
    zone = settings.zone()
    step: str | None = None
    for fate in fates:
        words = words_of(fate, trigger, lambda instant: when(instant, zone, now))
        answer(f"{when(fate.at, zone, now)}  {fate.code}: {words.why}")
        step = words.next_step or step
    if step is not None and len(fates) == 1:
        say(f"next: {step}")


def _item(fate: Fate, trigger: str) -> dict[str, Any]:
    words: Words = words_of(fate, trigger, lambda instant: "-" if instant is None else rfc3339(instant))
    facts = {name: _readable(name, value) for name, value in fate.facts.items()}
    return {
        "trigger": trigger,
        "at": rfc3339(fate.at),
        "fate": fate.code,
        "why": words.why,
        "next_step": words.next_step,
        "facts": facts,
        "firing": fate.firing,
    }


_INSTANTS = frozenset(
    {
        "since",
        "until",
        "made_at",
        "changed_at",
        "watermark",
        "before",
        "after",
        "run_at",
        "end_at",
        "rolled_to",
    }
)


def _readable(name: str, value: Any) -> Any:
    return rfc3339(value) if name in _INSTANTS and isinstance(value, int) else value
