"""`qsched jobs`: what can be run."""

import click

from .render import Listing, show
from .rows import seconds_cell
from .settings import Settings
from .table import Column, Item, state_cell
from .tree import Leaf, Tree, command

jobs = Tree(
    "jobs",
    {
        "list": Leaf("jobs:list_jobs", "All jobs and what they run."),
        "show": Leaf("job_show:show_job", "One job, and what became of its firings."),
        "reset": Leaf("job_reset:reset_job", "Let a job begin with nothing kept from its runs before."),
    },
    help="What can be run.",
)


def target(item: Item) -> str:
    """What it runs, in one line."""
    said = item["target"]
    return " ".join(map(str, said)) if isinstance(said, list) else str(said or "-")


_COLUMNS = [
    Column("JOB", lambda item, _: item["name"]),
    Column(
        "STATE",
        lambda item, _: state_cell("error" if item["error"] else item["state"]),
        paint=True,
        wide=True,
    ),
    Column("KIND", lambda item, _: item["kind"] or "-"),
    Column("TRIGGERS", lambda item, _: str(item["triggers"]), right=True, drop=2),
    Column("RUNNING", lambda item, _: str(item["running"]), right=True, drop=1),
    Column("OVERLAP", lambda item, _: item["overlap"] or "-", drop=3),
    Column("RECOVERY", lambda item, _: "yes" if item["request_recovery"] else "-", drop=4),
    Column("TIMEOUT", lambda item, _: seconds_cell(item["timeout"]), right=True, drop=4),
    Column("OWNER", lambda item, _: item["namespace"], wide=True),
    Column("RUNS", lambda item, _: item["error"] or target(item)),
]

_JOBS = Listing("JobList", _COLUMNS)


@command("list")
@click.option("--all", "retired", is_flag=True, help="Retired jobs too.")
@click.pass_obj
def list_jobs(settings: Settings, retired: bool) -> None:
    """List jobs: what they run, and with which policies."""
    from ..scheduler.store.reports import database_now
    from ..scheduler.store.reports import jobs as read_jobs

    store = settings.reading()
    show(settings, _JOBS, read_jobs(store, retired=retired), lambda: database_now(store))
