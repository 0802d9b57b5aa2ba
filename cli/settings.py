"""What every command may be told: which store and cluster, how to show answers; and how it asks back."""

import os
import sys
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Final

import click

from .exits import REFUSED, CommandError

if TYPE_CHECKING:
    from ..scheduler.store.database import Store

DEFAULT_STORE: Final = "sqlite:///qsched.db"
FORMATS: Final = ("table", "wide", "json", "yaml", "name")


@dataclass
class Settings:
    """The options that hold for every command."""

    store: str = DEFAULT_STORE
    cluster: str = "default"
    output: str = "table"
    tz: str = "UTC"
    yes: bool = False

    def zone(self) -> tzinfo:
        """The zone times are shown in; an unknown one is an error that names the nearest."""
        if self.tz == "UTC":
            from datetime import UTC  # the usual case needs no zone data

            return UTC
        from ..triggers.zone import find_zone

        return find_zone(self.tz).tz

    def reading(self) -> "Store":
        """The store, opened so that nothing can be written; there must be one."""
        self.zone()  # a mistyped zone is said before anything else happens
        from ..scheduler.store.schema import open_store

        return _closed_at_end(open_store(self.store, cluster=self.cluster, create=False, read_only=True))

    def writing(self, *, create: bool = False) -> "Store":
        """The store; `create` makes it where there is none."""
        from ..scheduler.store.schema import open_store
        from ..scheduler.store.wake import announce

        store = _closed_at_end(open_store(self.store, cluster=self.cluster, create=create, read_only=False))
        context = click.get_current_context(silent=True)
        if (
            context is not None
        ):  # before the close: what was written is committed, and nodes shall look at once
            context.call_on_close(lambda: announce(store))
        return store

    def confirm(self, question: str) -> None:
        """Return if the answer is yes; refuse (exit 7) where nobody can answer."""
        if self.yes:
            return
        if not sys.stdin or not sys.stdin.isatty():
            raise CommandError(
                f"nobody is here to answer “{question}”", code=REFUSED, hint="add -y to say yes"
            )
        if not click.confirm(question, err=True):
            raise CommandError("nothing was done", code=REFUSED)


def _closed_at_end(store: "Store") -> "Store":
    """The store, to be closed when the command that runs now ends."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(store.close)
    return store


def settings_of(context: click.Context) -> Settings:
    """The settings of the whole command line that `context` is part of."""
    return context.find_root().ensure_object(Settings)


def whoami() -> str:
    """Who is asking, for the record: user@host."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


class Everywhere(click.Option):
    """An option that every command takes, before or after the command's name; the last one said counts."""


def everywhere_options(*, root: bool) -> list[click.Parameter]:
    """The global options. Only the outermost command reads the environment: what is said outranks it."""

    def option(*names: str, **attributes: Any) -> Everywhere:
        variable = f"QSCHED_{names[-1].lstrip('-').upper()}"
        return Everywhere(
            names,
            expose_value=False,
            callback=_keep,
            envvar=variable if root else None,
            show_envvar=root,
            allow_from_autoenv=False,
            **attributes,
        )

    return [
        option("--store", metavar="URL", help=f"Where the job store is.  [default: {DEFAULT_STORE}]"),
        option("--cluster", metavar="NAME", help="Which cluster in that store.  [default: default]"),
        option("-o", "--output", type=click.Choice(FORMATS), help="How answers are shown.  [default: table]"),
        option("--tz", metavar="ZONE", help="Zone of the times in tables.  [default: UTC]"),
        option("-y", "--yes", is_flag=True, default=None, help="Answer every question with yes."),
    ]


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    settings = settings_of(context)
    if value is not None:
        setattr(settings, str(parameter.name), value)
