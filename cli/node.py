"""`qsched node`: a node of the cluster in the foreground, until it is told to stop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .settings import Settings
from .times import DurationType
from .tree import command

if TYPE_CHECKING:  # newer clicks have a generic ParamType, older ones a plain class
    WordsType = click.ParamType[tuple[str, ...]]
else:
    WordsType = click.ParamType

KINDS = ("command", "http")


class ListType(WordsType):
    """Words separated by commas."""

    name = "LIST"

    def __init__(self, known: Sequence[str] = ()) -> None:
        self.known = known

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        words = tuple(word for part in str(value).split(",") if (word := part.strip()))
        for word in words:
            if self.known and word not in self.known:
                self.fail(f"{word!r} is not one of {', '.join(self.known)}", param, ctx)
        return words


@command("node")
@click.option(
    "-f",
    "--file",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File or folder of declarations to apply at the start.",
)
@click.option(
    "--app", multiple=True, metavar="MODULE", help="Its @job functions may run here; may be repeated."
)
@click.option("--name", metavar="NAME", help="This node's name.  [default: host name and process id]")
@click.option(
    "--capacity",
    type=click.IntRange(1, 10_000),
    default=20,
    help="How many firings run at once.  [default: 20]",
)
@click.option(
    "--coordination",
    type=click.Choice(["row_locks", "leader"]),
    help="How nodes agree on who decides.  [default: the cluster's; a new one's is row_locks]",
)
@click.option("--redis", metavar="URL", help="Elect a leader by this Redis; alone it means leader.")
@click.option(
    "--leader-ttl",
    type=DurationType(),
    help="How long a leader's lease lasts.  [default: 5s, or three check-ins if that is more]",
)
@click.option(
    "--on-redis-loss",
    type=click.Choice(["row_locks", "stop"]),
    default="row_locks",
    help="What to do without Redis.  [default: row_locks]",
)
@click.option(
    "--allow",
    type=ListType(KINDS),
    default=(),
    help="Other kinds of jobs that may run here: command, http.",
)
@click.option(
    "--http-allow",
    type=ListType(),
    default=(),
    help="Hosts, addresses and CIDR ranges, not public, that http jobs may reach.",
)
@click.option("--tags", type=ListType(), default=(), help="Take firings with these run_on tags too.")
@click.option(
    "--check-in", type=DurationType(), default="1s", help="How often to prove it lives.  [default: 1s]"
)
@click.option(
    "--lease", type=DurationType(), default="15s", help="Silence after which it is dead.  [default: 15s]"
)
@click.option(
    "--drain-timeout", type=DurationType(), default="25s", help="How long a drain waits.  [default: 25s]"
)
@click.option(
    "--apply",
    type=click.Choice(["if-newer", "always", "never"]),
    default="if-newer",
    help="When the files are applied at the start.  [default: if-newer]",
)
@click.option("-v", "--verbose", is_flag=True, help="Log each firing.")
@click.pass_obj
def node(settings: Settings, /, verbose: bool, **options: Any) -> int:
    """Run jobs until SIGTERM or SIGINT, which drain: what runs may end. A second signal stops now.

    A node runs what its operator allowed: @job functions of the --app modules, kinds given with --allow, and what
    its own -f files declare. Exits 0, or 8 when something was handed over to other nodes or cancelled.
    """
    import signal

    from .check import see_current_folder
    from .logs import set_up_logging

    set_up_logging(verbose=verbose)
    see_current_folder()
    from ..cluster.drain import leave_soon
    from ..cluster.node import Node
    from ..cluster.settings import NodeSettings

    made = NodeSettings(
        apps=options.pop("app"), files=options.pop("file"), cluster=settings.cluster, **options
    )
    _hear_late_signals(lambda *_: None)
    code = Node(settings.store, made).run()
    _hear_late_signals(signal.SIG_IGN)
    leave_soon(code)
    return code


def _hear_late_signals(handler: Any) -> None:
    """`run` listens to signals, and puts back what was there before: one more of them must not spoil the exit code of a
    node that has ended. A handler at first, for what is ignored stays ignored in every program that is started; at the
    end it must be ignored, for Python takes its handlers away before it has ended."""
    import signal

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
