"""``clvlab version``, ``doctor``, ``backup`` and ``agents``: what is installed here, and what judges a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clvlab.arena import templates
from clvlab.arena.installation import installation
from clvlab.base.invocation import command
from clvlab.cli.options import CheckpointFileOption, JsonOption
from clvlab.cli.printing import err, facts, out, plain, plain_lines, print_json, say, show_next
from clvlab.cli.progress import interruptible
from clvlab.errors import MissingExtraError
from clvlab.runs.versions import judge

# ``clvlab agents``: which templates there are, and what their parameters mean.


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


# ``clvlab backup``.


def backup(
    out_file: Annotated[Path, typer.Option("--out", help="File of the backup; never overwritten.")],
    database_url: Annotated[str, typer.Option(help="URL of the store.", envvar="CLVLAB_DATABASE_URL")],
    checkpoint_file: CheckpointFileOption = None,
) -> None:
    """Copy the SQLite store of a service that may go on writing, and the newest published checkpoint beside it."""
    try:
        from clvlab.store.database import back_up
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    with err.status("copying"):
        beside = back_up(database_url, out_file, checkpoint_file)
    out.print(f"Wrote {out_file.stat().st_size:,} bytes to {plain(str(out_file))}")
    out.print(f"Newest published checkpoint: {plain(str(beside)) if beside else 'none'}")


# ``clvlab doctor``: what is installed here, what could be, and whether the bundled packs are whole.


def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed, what missing extras would give, and whether the bundled packs verify; exit 1 if one does not."""
    with interruptible(), err.status("verifying the bundled packs"):
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
                out.print(f"{'':<24}lacks {plain(', '.join(extra['missing']))}; in a clone: {plain(extra['command'])}")
        out.print("\n[bold]Bundled packs[/]")
        for name, fault in found["packs"].items():
            out.print(
                f"  {plain(name):<10} {'[green]verified[/]' if fault is None else '[red]NOT verified[/]: ' + plain(fault)}"
            )
        out.print()
        if broken:
            say("Install clvlab again: its packs are not what they were published as")
        else:
            show_next("demo")
    raise typer.Exit(1 if broken else 0)


def version(as_json: JsonOption = False) -> None:
    """Print the versions and the source digest by which `verify` judges, as the notes of a release state them."""
    judged = judge()
    if as_json:
        print_json(judged)
    else:
        facts(f"clvlab {judged.pop('clvlab')}", {name.replace("_", " "): value for name, value in judged.items()})
