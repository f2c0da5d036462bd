"""``clvlab bets``: grade bets that were placed."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clvlab.base.files import written_file
from clvlab.cli.groups import Commands
from clvlab.cli.options import HORIZON_S, JsonOption, OwnerOption, RunsOption, goes_with, now_ms, window_of
from clvlab.cli.output import out, plain, print_json, say, show_next, show_report, show_table, table
from clvlab.cli.progress import display_progress, interruptible
from clvlab.report.run_list import DEFAULT_RUNS
from clvlab.words import counted, plus

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.bets.grades import BetRows

_LISTED = 10
bets_app = typer.Typer(cls=Commands, help="Grade placed bets against the close.", no_args_is_help=True)


@bets_app.callback()
def bets() -> None:
    """Grade placed bets against the close."""


@bets_app.command("grade")
def bets_grade(
    bets: Annotated[Path, typer.Argument(help="CSV file, one row per bet.", metavar="BETS.csv")],
    pack: Annotated[str, typer.Option(help="Pack id in the catalog, path of a pack folder, or URL.")],
    column: Annotated[
        list[str] | None, typer.Option(help="MEANING=COLUMN, as time=placed_at; an empty COLUMN reads none; may be repeated.")
    ] = None,
    market: Annotated[str | None, typer.Option(help="The market of every row.")] = None,
    odds_format: Annotated[str | None, typer.Option(help="Format of odds: decimal, american, fractional, probability.")] = None,
    time_zone: Annotated[str | None, typer.Option(help="IANA zone of times without one.")] = None,
    time_format: Annotated[str | None, typer.Option(help="Format of times, as '%d/%m/%Y %H:%M'.")] = None,
    team_aliases: Annotated[
        Path | None, typer.Option(help='TOML file of names of teams, as teams = [["Wolves", "Wolverhampton"]].')
    ] = None,
    horizon_s: Annotated[int, typer.Option(help="Seconds; bets closer than this to the close have no score.")] = HORIZON_S,
    agent_id: Annotated[str, typer.Option(help="Name of the bettor in the run.")] = "bets",
    rows: Annotated[Path | None, typer.Option(help="CSV file for the bets with their scores.")] = None,
    unmatched: Annotated[Path | None, typer.Option(help="CSV file for the bets without a price in the pack.")] = None,
    page: Annotated[Path | None, typer.Option("--html", help="File for the tear sheet, as one HTML page.")] = None,
    log: Annotated[
        str | None, typer.Option(help="File or URL of a run log, for a commitment before the bets are scored.")
    ] = None,
    owner: OwnerOption = None,
    runs_folder: RunsOption = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Score each bet against the close, from the last price before it, and seal all as a run."""
    from clvlab.arena import packs
    from clvlab.arena.log import operations
    from clvlab.bets.grades import plan_grading
    from clvlab.bets.record import BetsFormat
    from clvlab.report.headline import headline_of
    from clvlab.report.tearsheet import tear_sheet_page
    from clvlab.runs.execute import execute
    from clvlab.runs.run_folder import LOCAL, FolderRecorder

    goes_with("--log", log, owner=owner)
    bets_format = BetsFormat(_columns(column or []), market, odds_format, time_zone, time_format, team_aliases)
    with (
        interruptible(lambda: "nothing was written; the same command begins again"),
        operations.open_log(log, create=True) if log else nullcontext() as opened,
        display_progress(f"Grading of {bets.name}", as_json=as_json),
    ):
        grading = plan_grading(bets, packs.open_pack(pack), bets_format, window_of(horizon_s), agent_id)
        run = execute(grading.spec, FolderRecorder(runs_folder, now_ms, opened, owner or LOCAL))
    graded, folder = grading.rows(run), runs_folder / run.run_id
    for path, frame in ((rows, graded.frame), (unmatched, graded.unmatched)):
        if path is not None:
            with written_file(path) as file:
                file.write(graded.csv(frame))
    if page is not None:
        with written_file(page) as file:
            file.write(tear_sheet_page(run).encode())
    if as_json:
        print_json(run.report | {"run_folder": str(folder), "headline": headline_of(run).facts(), "bets": graded.facts()})
        return
    show_report(run.report, headline_of(run))
    _show_rows(graded)
    for path in (rows, unmatched, page):
        if path is not None:
            out.print(f"Wrote {plain(str(path))}")
    out.print(f"Sealed in {plain(str(folder))}")
    show_next("verify", folder)


def _columns(texts: list[str]) -> dict[str, str | None]:
    split = [text.partition("=") for text in texts]
    wrong = ["".join(parts) for parts in split if not parts[0] or not parts[1]]
    if wrong:
        raise typer.BadParameter(f"--column takes MEANING=COLUMN, not {wrong[0]!r}")
    return {meaning: name or None for meaning, _, name in split}


def _show_rows(graded: BetRows) -> None:
    """Print the outcome of the rows, and the facts for which only the bettor vouches."""
    from clvlab.report.headline import spelt_mean

    matched, total = graded.matched.height, graded.frame.height
    say(f"{counted(total, 'bet')}, {matched:,} on the tape, as {counted(graded.decisions, 'decision')}")
    say(f"Columns {graded.columns.words}")
    for note in graded.notes:
        say(f"note: {note}", "yellow")
    if graded.own_edge.mean is not None:
        say(f"untrusted, by the bettor's own prices: mean edge at the close {spelt_mean(graded.own_edge, '%')}")
    if graded.own_profit is not None:
        say(f"untrusted, by the bettor's own prices: settled profit {plus(graded.own_profit, 2)}")
    if graded.unmatched.height:
        first = graded.unmatched.head(_LISTED).select("row", "reason", "detail")
        show_table(table(first, f"Not on the tape (first {first.height} of {graded.unmatched.height:,})"))
