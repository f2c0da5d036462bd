"""``clvlab agents``, ``doctor`` and ``version``: templates and this installation."""

from __future__ import annotations

from typing import Annotated

import typer

from clvlab.base.invocation import command
from clvlab.cli.groups import Commands
from clvlab.cli.options import JsonOption
from clvlab.cli.output import facts, out, plain, print_json, say, show_hung, show_next
from clvlab.cli.progress import display_progress, interruptible

# ``clvlab agents``: templates and their parameters.


agents_app = typer.Typer(cls=Commands, help="Strategy templates.", no_args_is_help=True)


@agents_app.command("list")
def list_agents(as_json: JsonOption = False) -> None:
    """List the templates."""
    from clvlab.arena import templates

    cards = templates.cards()
    if as_json:
        print_json(cards)
        return
    for card in cards:
        show_hung(f"[bold]{card['strategy']:<18}[/] ", card["summary"], 19)
    out.print()
    show_next("agents", "show", "NAME")
    out.print(f"An agent of your own: {plain(command('backtest', 'PACK', '--agent', 'file.py:name'))}")


@agents_app.command("show")
def show_agent(name: Annotated[str, typer.Argument(help="Name of a template.")], as_json: JsonOption = False) -> None:
    """Show a template's algorithm and parameters, with bounds and defaults."""
    from clvlab.arena import templates

    card = templates.card(name)
    if as_json:
        print_json(card)
        return
    out.print(f"[bold]{card['strategy']}[/], version {card['version']}")
    for part in card["algorithm"].split("\n\n"):
        if not part.startswith("Raises\n"):  # errors of the Python function
            say(" ".join(part.replace("\n----------\n", ": ").split()))
    say("Parameters", "bold")
    for parameter in card["parameters"]:
        bounds = f", {parameter['bounds']}" if parameter["bounds"] else ""
        say(f"  {parameter['name']} = {parameter['default']}{bounds}")
        say(f"      {parameter['meaning']}")
    out.print(f"\nconfig hash of the defaults: {card['config_hash']}")


# ``clvlab doctor``: the installed and missing parts, and the state of the bundled packs.


def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed, what missing extras would give, and whether the bundled packs verify; exit 1 if one does not."""
    from clvlab.arena.installation import installation

    with interruptible(), display_progress("Verification of the bundled packs", as_json=as_json):
        found = installation()
    broken = {name: fault for name, fault in found["packs"].items() if fault is not None}
    if as_json:
        print_json(found)
    else:
        versions = dict(found["versions"])
        facts(f"clvlab {versions.pop('clvlab')}", {name.replace("_", " "): value for name, value in versions.items()})
        out.print("[bold]Extras[/]")
        for extra in found["extras"]:
            installed = extra["installed"]
            out.print(
                f"  {extra['extra']:<10} {'[green]installed[/]' if installed else '[yellow]missing[/]  '}  {extra['gives']}"
            )
            if not installed:
                out.print(f"{'':<24}lacks {plain(', '.join(extra['missing']))}: {plain(extra['command'])}")
        out.print("\n[bold]Bundled packs[/]")
        for name, fault in found["packs"].items():
            out.print(
                f"  {plain(name):<10} {'[green]verified[/]' if fault is None else '[red]NOT verified[/]: ' + plain(fault)}"
            )
        out.print()
        if broken:
            say("Install clvlab again: its packs differ from the published ones")
        else:
            show_next("demo")
    raise typer.Exit(1 if broken else 0)


def version(as_json: JsonOption = False) -> None:
    """Print the versions and the source digest by which `verify` judges, as the notes of a release state them."""
    from clvlab.runs.versions import judge

    judged = judge()
    if as_json:
        print_json(judged)
    else:
        facts(f"clvlab {judged.pop('clvlab')}", {name.replace("_", " "): value for name, value in judged.items()})
