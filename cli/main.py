"""The command line's front door: what there is, and how every command ends."""

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext

import click

from ..triggers.collector import collector_paused
from .exits import INTERRUPTED, OK, code_of, told, wants_traceback
from .settings import Settings
from .tree import Leaf, Tree

COMMANDS = {
    "node": Leaf("node:node", "Run jobs: a node of the cluster, in the foreground."),
    "apply": Leaf("declarations:apply", "Make the store match declaration files."),
    "plan": Leaf("plan:plan", "Show what apply would change, and what would fire because of it."),
    "check": Leaf("check:check", "Check declaration files, without a store."),
    "schema": Leaf("check:schema", "Print the JSON Schema of declaration files."),
    "triggers": Leaf(
        "triggers:triggers",
        "When jobs run: list, show, next, explain, pause, resume, fire, backfill, reset, delete.",
    ),
    "groups": Leaf("groups:groups", "What is paused, and what is limited, together: list, pause, resume."),
    "misfires": Leaf("misfires:misfires", "Slots that were noticed too late, and what became of them."),
    "firings": Leaf(
        "firings:firings", "What ran, runs, will run, or was skipped: list, show, output, cancel, retry."
    ),
    "jobs": Leaf("jobs:jobs", "What can be run: list, show, reset."),
    "enqueue": Leaf("enqueue:enqueue", "Have a job run once, now or later, without a trigger."),
    "events": Leaf("events:events", "What happened in the cluster, and what happens."),
    "nodes": Leaf("nodes:nodes", "Who runs it: list, drain."),
    "calendars": Leaf("calendars:calendars", "Which time triggers leave out: list, check."),
    "cron": Leaf("cron:cron", "Explain a cron expression and show its next times."),
    "import": Leaf(
        "exchange:import_command",
        "Read another scheduler's triggers as declarations, with a fidelity report.",
    ),
    "simulate": Leaf(
        "simulate:simulate", "Rehearse declarations on a virtual clock: fires, misfires, overlaps."
    ),
    "export": Leaf("export:export_command", "Write declarations as YAML, crontab, CronJobs or a calendar."),
    "db": Leaf("db:db", "The store's schema: upgrade, current, sql."),
    "demo": Leaf("demo:demo", "Watch triggers fire, and one misfire, on a store of its own."),
}


def _version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from .. import __version__

        click.echo(f"qsched {__version__}")
        context.exit()


root = Tree(
    "qsched",
    COMMANDS,
    root=True,
    help="A clustered cron scheduler: nothing fires twice, nothing is lost in silence.",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            allow_from_autoenv=False,
            callback=_version,
            help="Print the version.",
        )
    ],
    context_settings={"auto_envvar_prefix": "QSCHED", "help_option_names": ["-h", "--help"]},
)


def run(arguments: Sequence[str]) -> int:
    """Run one command line to its end and answer its exit code; no traceback reaches the user."""
    output = sys.stdout  # ours: a job of `qsched node` may leave another in its place, or none
    try:
        with collector_paused() if _reads(arguments) else nullcontext():
            code = _invoke(list(arguments))
        output.flush()
        return code
    except BrokenPipeError:
        return _reader_left()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        if wants_traceback():
            raise
        _drop_output()
        _say(told(error))
        return code_of(error)


def _reads(arguments: Sequence[str]) -> bool:
    """Whether the command only shows what is there and is over: most of its time goes into modules, which all stay."""
    return len(arguments) > 1 and arguments[1] in ("list", "show", "next")


def _invoke(arguments: list[str]) -> int:
    try:
        with root.make_context("qsched", arguments, obj=Settings()) as context:
            answer = root.invoke(context)
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        help_wanted.show()
        return help_wanted.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    return answer if isinstance(answer, int) else OK


def _reader_left() -> int:
    """`| head -1` has seen enough: nothing failed, and nothing more is said."""
    _drop_output()
    return OK


def _drop_output() -> None:
    """Forget what could not be written, so that the interpreter does not try again when it ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(line: str) -> None:
    try:
        click.echo(line, err=True)
    except OSError:
        pass  # nobody listens; the exit code still tells


def main() -> None:
    """The `qsched` command."""
    variable = "_QSCHED_COMPLETE"
    if instruction := os.environ.get(variable):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(root, {}, "qsched", variable, instruction))
    if sys.stdout is None:  # `>&-`: nobody wants the answer, which is no reason to fail
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (it stays open to the end)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no ● still gets its answer
    sys.exit(run(sys.argv[1:]))
