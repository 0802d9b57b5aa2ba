"""The tree of commands: imported when used, all with the global options, and a hint for an unknown one."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from .settings import Everywhere, everywhere_options


class Leaf(NamedTuple):
    """Where a command lives (`module:attribute` in this folder), and what a list of commands says of it."""

    place: str
    help: str


class _Manners(click.Command):
    """What commands and groups share: the global options, shown apart."""

    def __init__(self, *args: Any, root: bool = False, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.extend(everywhere_options(root=root))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        everywhere: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                (everywhere if isinstance(parameter, Everywhere) else own).append(record)
        for title, records in (("Options", own), ("Everywhere", everywhere)):
            with formatter.section(title):
                formatter.write_dl(records)


class Command(_Manners):
    """A command that does something."""


class Tree(_Manners, click.Group):
    """A command that only holds others."""

    def __init__(self, name: str, leaves: Mapping[str, Leaf], **attributes: Any) -> None:
        super().__init__(name, no_args_is_help=True, **attributes)
        self.leaves = leaves

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.leaves)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        leaf = self.leaves.get(cmd_name)
        if leaf is None:
            return None
        module, _, attribute = leaf.place.partition(":")
        command: click.Command = getattr(import_module(f".{module}", __package__), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.leaves and not name.startswith("-"):
            from difflib import get_close_matches  # only where something is wrong

            near = get_close_matches(name, self.leaves, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(self.leaves)}"
            raise click.UsageError(f"no command {name!r}, {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _Manners.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, leaf.help) for name, leaf in self.leaves.items()])


def command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command; its docstring is the help."""
    return click.command(name, cls=Command)
