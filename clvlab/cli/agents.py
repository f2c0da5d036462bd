"""``clvlab agents``: which templates there are, and what their parameters mean."""

from __future__ import annotations

from typing import Annotated

import typer

from clvlab.application import templates
from clvlab.cli.options import JsonOption
from clvlab.cli.printing import out, plain, plain_lines, print_json, show_next
from clvlab.invocation import command

agents_app = typer.Typer(help="Strategy templates.", no_args_is_help=True)


@agents_app.command("list")
def list_agents(as_json: JsonOption = False) -> None:
    """List the templates."""
    cards = templates.cards()
    if as_json:
        print_json(cards)
        return
    for card in cards:
        out.print(f"[bold]{card['strategy']:<18}[/] {plain(card['summary'])}")
    out.print()
    show_next("agents", "show", "NAME")
    out.print(f"An agent of your own: {plain(command('backtest', 'PACK', '--agent', 'file.py:name'))}")


@agents_app.command("show")
def show_agent(name: Annotated[str, typer.Argument(help="Name of a template.")], as_json: JsonOption = False) -> None:
    """Show a template's algorithm and parameters, with bounds and defaults."""
    card = templates.card(name)
    if as_json:
        print_json(card)
        return
    out.print(f"[bold]{card['strategy']}[/], version {card['version']}\n\n{plain_lines(card['algorithm'])}\n")
    out.print("[bold]Parameters[/]")
    for parameter in card["parameters"]:
        bounds = f", {parameter['bounds']}" if parameter["bounds"] else ""
        out.print(f"  {parameter['name']} = {plain(str(parameter['default']))}{plain(bounds)}")
        out.print(f"      {plain(parameter['meaning'])}")
    out.print(f"\nconfig hash of the defaults: {card['config_hash']}")
