"""Groups of commands: their help by panel, and the end of every command by Ctrl-C."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from clvlab.base.invocation import command
from clvlab.cli.options import INTERRUPTED

_WHOLE = 1_000  # characters: no first sentence is longer, so none is cut


class Commands(TyperGroup):
    """Commands in panels, in a terminal and in a pipe; each first sentence is whole."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            one = self.get_command(ctx, name)
            if one is not None:
                panel = getattr(one, "rich_help_panel", None) or "Commands"
                panels.setdefault(panel, []).append((name, one.get_short_help_str(_WHOLE)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


class Program(Commands):
    """All commands. Usage and errors show the program's name as the user typed it; Ctrl-C ends each with one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not {"--install-completion", "--show-completion"} & set(args):  # shell completion uses the program's own name
            ctx.info_name = command()
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            for name in self.list_commands(ctx):
                group = self.get_command(ctx, name)
                if isinstance(group, TyperGroup) and args[0] in group.commands:
                    ctx.fail(f"No such command {args[0]!r}. Did you mean {command(name, args[0])!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # of a command that has nothing to say about what it wrote
            sys.stderr.write("\ninterrupted\n")
            raise typer.Exit(INTERRUPTED) from None
