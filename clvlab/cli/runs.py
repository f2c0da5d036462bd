"""``clvlab runs``, ``compare`` and ``report``: what was sealed, beside each other, and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from clvlab.application import backtests, packs
from clvlab.application.runs import bundles, in_folder
from clvlab.application.runs.in_folder import FolderRecord
from clvlab.application.runs.record import make
from clvlab.application.runs.reopening import content_hash_of, reopen
from clvlab.application.sheets import listing
from clvlab.application.sheets.beside import beside_the_first
from clvlab.application.sheets.headline import headline_of
from clvlab.application.sheets.page import tear_sheet_page
from clvlab.cli.interrupting import interruptible
from clvlab.cli.making import now_ms
from clvlab.cli.options import JsonOption, RunName, RunNames, RunsFolderOption
from clvlab.cli.printing import err, out, plain, print_json, say, show_next, show_report, show_table
from clvlab.cli.progress import stages
from clvlab.errors import UnknownPackError
from clvlab.files import written_file
from clvlab.packs.reader import Pack
from clvlab.words import counted

_SHOWN_ID = 8


def runs(
    runs_folder: RunsFolderOption = listing.DEFAULT_RUNS,
    verify: Annotated[bool, typer.Option("--verify", help="Also verify each; exit 1 if one fails.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the runs in a folder, newest first, each mean CLV with its interval."""
    with interruptible(), err.status("reading"):
        found = list(listing.listed_runs(runs_folder, verify=verify))
    if as_json:
        print_json([run.facts() for run in found])
    elif not found:
        say(f"There is no run in {runs_folder} yet")
        show_next("backtest", "season", "--agent", "cumulative-drift", *listing.runs_option(runs_folder))
    else:
        show_table(_table(found))
        out.print(f"{counted(len(found), 'run')} in {plain(str(runs_folder))}")
        show_next("verify", "latest", *listing.runs_option(runs_folder))
    raise typer.Exit(1 if any(run.verified is False for run in found) else 0)


def _table(found: list[listing.ListedRun]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False)
    for name in ("run", "written (UTC)", "agent", "pack", "mean CLV [95 %]", "verified"):
        shown.add_column(name, overflow="fold", no_wrap=name in ("run", "mean CLV [95 %]"))
    for run in found:
        asked = {None: "not asked", True: "yes", False: "NO"}[run.verified]
        means = [one.interval for one in run.headlines] or ["unreadable"]
        name = run.folder.name[: _SHOWN_ID + len("run_")]
        cells = (name, f"{run.written:%m-%d %H:%M}", "\n".join(run.agents), run.pack_id or "", "\n".join(means), asked)
        shown.add_row(*(plain_cell(cell) for cell in cells))
    return shown


def plain_cell(text: str) -> str:
    """Keep the lines of a cell from being read as markup."""
    return "\n".join(plain(line) for line in text.split("\n"))


def compare(
    run: RunNames,
    runs_folder: RunsFolderOption = listing.DEFAULT_RUNS,
    pack: Annotated[
        str | None, typer.Option(help="A pack; the names are then agents, which are backtested over it and sealed first.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare agents of several runs over one pack with the first, paired by fixture."""
    if pack is not None:
        folders: list[Path] = []
        with interruptible(lambda: f"{len(folders)} of {len(run)} runs are sealed in {runs_folder}"):
            opened = packs.open_pack(pack)
            for name in run:
                with stages(f"backtest of {name}") as tell:
                    plan = backtests.plan_backtest(opened, name)
                    folders.append(runs_folder / make(plan, FolderRecord(runs_folder, now_ms), tell).run_id)
    with interruptible(), err.status("reading"):
        if pack is None:
            folders = [listing.find_run(name, runs_folder) for name in run]
        found = [listing.listed_run(folder) for folder in folders]
        differences = beside_the_first(found)
    if as_json:
        print_json({"runs": [one.facts() for one in found], "differences": [one.facts() for one in differences]})
        return
    for difference in differences:
        say(difference.said.sentence, "bold")
    out.print()
    show_table(_table(found))
    if len(differences) > 1:
        say(f"Each of the {len(differences)} differences is taken alone: of many, some differ by chance.")


def report(
    run: RunName,
    page: Annotated[Path | None, typer.Option("--html", help="Write the tear sheet to this file as a page of its own.")] = None,
    pack: Annotated[str | None, typer.Option(help="Pack of the run; the catalog's of its content hash by default.")] = None,
    runs_folder: RunsFolderOption = listing.DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Show the report of a sealed run again, or write its tear sheet as one HTML page."""
    path = listing.find_run(run, runs_folder)
    with interruptible(lambda: "no page was written"), err.status("reading the run"):
        sealed, receipts = bundles.read_stored(path)
        performed = reopen(_pack(pack, content_hash_of(sealed), in_folder.view(path)), sealed, receipts)
        if page is not None:
            text = tear_sheet_page(performed)
            with written_file(page) as whole:
                whole.write(text.encode())
    found = headline_of(performed)
    if as_json:
        print_json({**performed.report, "headline": found.facts()} | ({"page": str(page)} if page else {}))
        return
    show_report(performed.report, found)
    if page is not None:
        out.print(f"Wrote {plain(str(page))}; open it in a browser")


def _pack(named: str | None, content_hash: str | None, view: bytes) -> Pack:
    found = packs.pack_of_run(content_hash, named, view)
    if found is not None:
        return found
    raise UnknownPackError(f"the catalog has no pack of content hash {content_hash}: name the run's with --pack")
