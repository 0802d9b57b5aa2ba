"""`qsched nodes`: who runs it."""

from typing import TYPE_CHECKING

import click

from .render import Listing, say, show
from .rows import ago_cell
from .settings import Settings
from .table import Column, Item, state_cell
from .tree import Leaf, Tree, command

if TYPE_CHECKING:
    from ..scheduler.store.database import Store

nodes = Tree(
    "nodes",
    {
        "list": Leaf("nodes:list_nodes", "The nodes of the cluster."),
        "drain": Leaf("node_drain:drain_node", "Ask a node to end what runs, and to leave."),
    },
    help="Who runs it.",
)


def _clock(item: Item) -> str:
    return f"{item['clock_offset'] * 1000:+.0f}ms"


def _trouble(item: Item) -> str:
    said = [] if item["verdict"] is None else [f"declared dead: {item['verdict']}"]
    said += [f"{loop}: {reason}" for loop, reason in item["health"].items()]
    said += [f"{item[kind]} {kind}" for kind in ("undecidable", "unloadable") if item[kind]]
    return ", ".join(said) or "-"


_COLUMNS = [
    Column("NODE", lambda item, _: item["name"]),
    Column("STATE", lambda item, _: state_cell(item["state"]), paint=True),
    Column("INCARNATION", lambda item, _: str(item["incarnation"]), right=True, drop=2),
    Column("HOST", lambda item, _: item["host"], drop=3),
    Column("PID", lambda item, _: str(item["pid"]), right=True, drop=4),
    Column("CHECKED IN", lambda item, view: ago_cell(item["checked_in_at"], view)),
    Column("RUNNING", lambda item, _: f"{item['running']}/{item['capacity']}", right=True),
    Column("CLOCK", lambda item, _: _clock(item), right=True, drop=1),
    Column("LEADER", lambda item, _: "yes" if item["leader"] else "-", drop=5),
    Column("VERSION", lambda item, _: item["version"], drop=5),
    Column("REVISION", lambda item, _: str(item["revision"] or "-"), right=True, drop=5),
    Column("TAGS", lambda item, _: ",".join(map(str, item["tags"])) or "-", wide=True),
    Column("TROUBLE", lambda item, _: _trouble(item), drop=1),
]

_NODES = Listing("NodeList", _COLUMNS)


@command("list")
@click.option("--all", "ended", is_flag=True, help="Every incarnation there ever was.")
@click.pass_obj
def list_nodes(settings: Settings, ended: bool) -> None:
    """List nodes: those that live, and those that ended in the last day."""
    from ..scheduler.store.reports import database_now
    from ..scheduler.store.reports import nodes as read_nodes

    store = settings.reading()
    items = read_nodes(store, ended_since=0 if ended else None)
    show(settings, _NODES, items, lambda: database_now(store))
    if settings.output in ("table", "wide"):
        _say_who_decides(store)


def _say_who_decides(store: "Store") -> None:
    """Where nobody leads a cluster that should be led: what its nodes do meanwhile."""
    if store.cluster_id is None:
        return
    from ..scheduler.store.cluster_rows import LEADER, look_at_leader
    from ..triggers.instant import rfc3339

    seen = store.read("coordination", look_at_leader)
    row = seen.row
    if row.fallen_back_at is not None:
        since = rfc3339(row.fallen_back_at)
        say(
            f"row locks since {since}, until a leader is elected again: the nodes that know its Redis say why"
        )
    elif row.mode == LEADER and (row.leader is None or (row.leader_until or 0) <= seen.now):
        say("nobody leads now: what is due is decided when somebody does")
