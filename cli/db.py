"""`qsched db`: the store's schema."""

from typing import TYPE_CHECKING

import click

from .render import answer, say, show_document
from .settings import Settings
from .tree import Leaf, Tree, command

if TYPE_CHECKING:
    from ..scheduler.store.database import Store

db = Tree(
    "db",
    {
        "upgrade": Leaf("db:upgrade", "Bring the schema to this version's."),
        "current": Leaf("db:current", "Which schema the store has."),
        "sql": Leaf("db:sql", "Print the SQL that makes the schema, for a DBA."),
    },
    help="The store's schema.",
)


@command("upgrade")
@click.pass_obj
def upgrade(settings: Settings) -> None:
    """Bring the schema to this version's; an empty database (or a missing SQLite file) gets all of it.

    Stop the nodes of an older version first: they refuse a newer schema.
    """
    from ..scheduler.errors import SchemaOutdated
    from ..scheduler.store.schema import HEAD
    from ..scheduler.store.schema import upgrade as upgrade_schema

    try:
        settings.writing(create=True)  # an empty database gets its schema here
        say("the schema is this version's")
    except SchemaOutdated:
        store = _unchecked(settings)
        upgrade_schema(store)
        say("upgraded")
    answer(HEAD)


@command("current")
@click.pass_obj
def current(settings: Settings) -> None:
    """Print the revision of the store's schema; exits 5 where it is not this version's."""
    from ..scheduler.errors import SchemaOutdated, SchemaTooNew
    from ..scheduler.store.schema import HEAD
    from ..scheduler.store.schema import current as current_revision

    found, problem = HEAD, None
    try:
        settings.reading()
    except (SchemaOutdated, SchemaTooNew) as error:
        found, problem = current_revision(_unchecked(settings)) or "", error
    if settings.output in ("json", "yaml"):
        show_document(
            settings.output, "Schema", [{"revision": found, "head": HEAD, "current": found == HEAD}]
        )
    else:
        answer(found)
    if problem is not None:
        raise problem


def _unchecked(settings: Settings) -> "Store":
    """The store, whatever its schema is."""
    from ..scheduler.store.database import Store

    store = Store(settings.store, cluster=settings.cluster)
    click.get_current_context().call_on_close(store.close)
    return store


@command("sql")
@click.option("--from", "since", metavar="REVISION", help="Only what follows this revision (`db current`).")
@click.pass_obj
def sql(settings: Settings, since: str | None) -> None:
    """Print the SQL that makes the schema on the kind of database that --store names; connects to nothing."""
    from ..scheduler.store.schema import upgrade_sql

    answer(upgrade_sql(settings.store, since).rstrip())
