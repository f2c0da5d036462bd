"""``clvlab doctor``: what is installed here, what could be, and whether the bundled packs are whole."""

from __future__ import annotations

import typer

from clvlab.application.installation import installation
from clvlab.cli.interrupting import interruptible
from clvlab.cli.options import JsonOption
from clvlab.cli.printing import err, facts, out, plain, print_json, say, show_next


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
