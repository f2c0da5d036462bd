"""``clvlab packs``: list, show, verify, build, import, export and admit packs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clvlab.base.files import written_file
from clvlab.base.invocation import command
from clvlab.cli.groups import Commands
from clvlab.cli.options import FolderArgument, JsonOption, PackArgument, UrlArgument
from clvlab.cli.output import err, out, plain, print_json, say, show_pack, show_quality, show_table, table
from clvlab.cli.progress import display_progress, interruptible
from clvlab.errors import PackFormatError, PackTamperedError, SourceError
from clvlab.words import counted, local_minute, market_name, moment, utc

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.arena.log.captures import LogGrade
    from clvlab.packs.reader import Pack


_LISTED = 20
packs_app = typer.Typer(cls=Commands, help="List, show, verify, build, import and export packs.", no_args_is_help=True)


@packs_app.command("list")
def packs_list(
    url: Annotated[str | None, typer.Argument(help="List the packs one level under this URL instead.", metavar="[URL]")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the packs of the catalog, or of a bucket."""
    from clvlab.arena import packs

    found = [("", pack) for pack in packs.bundled_catalog().packs()] if url is None else packs.packs_at(url)
    if as_json:
        print_json([_pack_info(pack) | ({"url": where} if where else {}) for where, pack in found])
        return
    for where, pack in found:
        if where:
            out.print(plain(where))
        show_pack(pack)


@packs_app.command("show")
def packs_show(pack: PackArgument, as_json: JsonOption = False) -> None:
    """Show a pack: labels, hashes, fixtures, markets."""
    from clvlab.arena import packs

    with interruptible(), display_progress(f"Opening of {pack}", as_json=as_json):
        opened = packs.open_pack(pack)
        first = opened.fixture_ids[:1]
        keys = opened.tape(first).series["market_key"].unique().sort().to_list() if first and not as_json else []
    if as_json:
        quality = {} if opened.quality is None else {"quality": opened.quality.model_dump(mode="json", by_alias=True)}
        print_json(_pack_info(opened) | opened.manifest.model_dump(mode="json") | quality)
        return
    show_pack(opened)
    if opened.quality is not None:
        show_quality(opened.quality)
    import polars as pl

    local = pl.col("kickoff_ts_ms").map_elements(_kickoff, return_dtype=pl.String)
    rows = opened.fixtures.head(_LISTED)
    listed = rows.select(pl.col("fixture_id").alias("fixture"), "names", local.alias("kickoff, local time"), "rows")
    title = "Fixtures" if opened.fixtures.height <= _LISTED else f"First {_LISTED} of {opened.fixtures.height:,} fixtures"
    show_table(table(listed, title))
    say("Markets of the first fixture, by prefix for --market", "bold")
    for prefix in dict.fromkeys(key.partition("|")[0] for key in keys):
        say(f"  {prefix}: {'; '.join(market_name(key) for key in keys if key.partition('|')[0] == prefix)}")


def _kickoff(ts_ms: int) -> str:
    when = utc(ts_ms)
    return moment(ts_ms) if when is None else local_minute(when)


@packs_app.command("verify")
def packs_verify(
    pack: PackArgument,
    log: Annotated[
        str | None,
        typer.Option("--log", help="File or URL of a run log that must have its segments; needs --key or --trust."),
    ] = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="Public key of the log; may be repeated.")] = None,
    trust: Annotated[Path | None, typer.Option(help="File of keys that you trust, as for the command 'verify'.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A signed checkpoint of the log; a service has its own.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every hash and rule of a pack; exit 1 if one fails, or if a named log lacks a segment."""
    from clvlab.arena import packs
    from clvlab.arena.log.captures import log_grade
    from clvlab.arena.runs.bundles import read_trust
    from clvlab.packs.manifest import Grade
    from clvlab.packs.remote.bucket import is_url
    from clvlab.packs.views.view_file import is_view_file

    trusted = read_trust(trust, key or [])
    if log is not None and not trusted.logs:
        raise typer.BadParameter("--log needs the public key of the log: name it with --key or --trust")
    if log is None and (key or trust or checkpoint):
        raise typer.BadParameter("--key, --trust and --checkpoint go with --log")
    if log is not None and (is_url(pack) or is_view_file(pack)):
        raise typer.BadParameter(f"--log judges the segments in a folder, and {str(pack)!r} is not a folder: pull it first")
    try:
        with interruptible(), display_progress(f"Verification of {pack}", as_json=as_json):
            opened = packs.verified_pack(pack)
    except (PackFormatError, PackTamperedError) as error:
        if as_json:
            print_json({"verdict": "fail", "detail": str(error)})
        else:
            err.print(f"[red]fail[/] {plain(str(error))}")
        raise typer.Exit(1) from error
    note = None if checkpoint is None else checkpoint.read_text(encoding="utf-8")
    found = None if log is None else log_grade(opened, log, trusted, note)
    if as_json:
        details = {} if found is None else _witness_info(found)
        print_json({"verdict": "pass"} | _pack_info(opened) | details)
    else:
        show_pack(opened)
        out.print("[green]pass[/] labels, ticks and raw files match their hashes")
        for reason in () if found is None else found.reasons:
            out.print(f"{found}: {plain(reason)}")
    if found is not None and found.grade is not Grade.WITNESSED:
        raise typer.Exit(1)


def _witness_info(found: LogGrade) -> dict[str, object]:
    since = None if found.since_ms is None else moment(found.since_ms)
    return {"grade": found.grade.value, "since": since, "late_days": found.late_days, "log": list(found.reasons)}


@packs_app.command("push")
def packs_push(pack: FolderArgument, url: UrlArgument) -> None:
    """Verify a pack in full and put it at a URL in a bucket; repeating is safe, and nothing is overwritten."""
    from clvlab.arena import packs
    from clvlab.packs.remote.bucket import Address

    with (
        interruptible(lambda: "the pack appears there once it is complete; the same command continues"),
        display_progress(f"Upload of {pack}"),
    ):
        pushed = packs.push_pack(pack, url)
    out.print(f"{plain(pushed.pack_id)} of {pushed.content_hash} is at {plain(str(Address(url)))}")


@packs_app.command("pull")
def packs_pull(
    url: UrlArgument,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the pack; it must not exist.")],
) -> None:
    """Download a pack from a URL, verified in full."""
    from clvlab.arena import packs
    from clvlab.packs.verification import verify_pack

    with interruptible(_whole_or_nothing(out_folder)), display_progress(f"Download of {out_folder.name}"):
        packs.pull_pack(url, out_folder)
        opened = verify_pack(out_folder)
    show_pack(opened)


@packs_app.command("build")
def packs_build(
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the new pack; its name becomes the pack id.")],
    seed: int = 1,
    fixtures: int = 12,
    messages: Annotated[int, typer.Option(help="Price updates before kickoff per fixture, approximately.")] = 300,
) -> None:
    """Build a synthetic pack; the same recipe gives the same content hash anywhere."""
    from clvlab.packs.synthetic import Recipe, build
    from clvlab.packs.verification import verify_pack

    with interruptible(_whole_or_nothing(out_folder)), display_progress(f"Making of {out_folder.name}"):
        build(Recipe(seed, fixtures, messages), out_folder)
        opened = verify_pack(out_folder)
    show_pack(opened)


@packs_app.command("import")
def packs_import(
    source: Annotated[
        str | None,
        typer.Argument(
            help="One of betfair, betfair-csv, csv, football-data, kalshi, oddsharvester, oddsportal, parquet, pmxt, "
            "polymarket, the-odds-api, trades, txline; recognised from the files by default.",
            metavar="[SOURCE]",
        ),
    ] = None,
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders of the source.", metavar="FILE...")] = None,
    *,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the new pack; its name becomes the pack id.")],
    lenient: Annotated[
        bool, typer.Option("--lenient/--strict", help="Skip and count unreadable input, or stop at the first.")
    ] = True,
    margin: Annotated[
        str, typer.Option(help="Method that removes the margin: multiplicative, additive, power, shin, odds-ratio, goto.")
    ] = "power",
    min_books: Annotated[int | None, typer.Option(help="Fewest fresh books for a price.")] = None,
    max_age_s: Annotated[int | None, typer.Option(help="Seconds after which a book's quote is stale.")] = None,
    max_overround: Annotated[
        float | None, typer.Option(help="Largest overround of a book, 0.3 for 30 %; above it the book counts as suspended.")
    ] = None,
    weight: Annotated[list[str] | None, typer.Option(help="BOOK=N: its weight in the median; repeat for more.")] = None,
    odds_format: Annotated[
        str | None, typer.Option(help="Format of prices: decimal, american, fractional, probability.")
    ] = None,
    time_zone: Annotated[str | None, typer.Option(help="IANA zone of times without one.")] = None,
    books: Annotated[bool, typer.Option("--books", help="Keep each book's quotes as well as the consensus.")] = False,
    ladders: Annotated[
        bool, typer.Option("--ladders", help="betfair, pmxt: keep the offers of each side, ten levels with their stakes.")
    ] = False,
    closing: Annotated[list[str] | None, typer.Option(help="football-data: closing columns, the preferred first.")] = None,
    mapping: Annotated[Path | None, typer.Option(help="YAML file with the meaning of columns or assets.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="csv, parquet, oddsportal, trades: MEANING=COLUMN; repeat.")] = None,
    side: Annotated[list[str] | None, typer.Option(help="csv, parquet, oddsportal: SIDE=COLUMN of a wide table.")] = None,
    market: Annotated[str | None, typer.Option(help="csv, parquet: the market of every row.")] = None,
    max_close_age_s: Annotated[
        int | None,
        typer.Option("--max-close-age-s", metavar="SECONDS", help="Oldest close that is scored."),
    ] = None,
) -> None:
    """Import odds from files as a pack; most formats are recognised."""
    from clvlab.packs.verification import verify_pack
    from clvlab.sources import importer
    from clvlab.sources.importer import import_source
    from clvlab.sources.mapping import texts_by_name, weights_by_book, with_flags

    with interruptible(_whole_or_nothing(out_folder)), display_progress(f"Import of {out_folder.name}"):
        if source is None:
            raise typer.BadParameter(
                f"name odds to read, as {command('packs', 'import', 'odds.csv', '--out', 'my-pack')}", param_hint="FILE"
            )
        try:
            weights = weights_by_book("--weight", weight)
            columns, sides = texts_by_name("--column", column), texts_by_name("--side", side)
        except SourceError as error:
            raise typer.BadParameter(str(error)) from error
        options = importer.import_options(
            lenient=lenient,
            margin=margin,
            min_books=min_books,
            max_age_s=max_age_s,
            weights=weights,
            max_overround=max_overround,
            odds_format=odds_format,
            time_zone=time_zone,
            books=books,
            ladders=ladders,
            closing=closing,
            mapping=with_flags(mapping, columns, sides, market),
            max_close_age_s=max_close_age_s,
        )
        report = import_source(*_source_first(source, paths or []), out_folder, options)
        opened = verify_pack(out_folder)
    if report.recognised is not None:
        out.print(f"Recognised {plain(str(report.recognised))}")
    show_quality(report.quality)
    for files in report.unread:
        out.print(f"  not read: {plain(str(files))}")
    show_pack(opened)


def _source_first(first: str, paths: list[Path]) -> tuple[str | None, list[Path]]:
    """Return the source and the files. The first word is a file if it is not a source, or if it is alone and names a file."""
    from clvlab.sources.providers import IMPORTERS

    is_file = Path(first).exists()
    is_source_named = (is_file and first not in IMPORTERS) if paths else (is_file or first not in IMPORTERS)
    return (None, [Path(first), *paths]) if is_source_named else (first, paths)


def _whole_or_nothing(folder: Path) -> Callable[[], str]:
    """Return a function that reports whether the new pack was written; it is put in place in one step."""
    return lambda: f"the pack in {folder} is complete" if folder.exists() else "no pack was written"


@packs_app.command("export")
def packs_export(
    pack: PackArgument,
    file: Annotated[Path, typer.Argument(help="A .csv or .parquet file to write.")],
    books: Annotated[bool, typer.Option("--books", help="Export the quotes of each book instead of the ticks.")] = False,
    ladders: Annotated[
        bool, typer.Option("--ladders", help="Export the offers, level by level, instead of the ticks.")
    ] = False,
) -> None:
    """Write a pack's ticks as a long table, with each fixture's kickoff."""
    from clvlab.arena import packs

    if books and ladders:
        raise typer.BadParameter("--books and --ladders are two tables: write one after the other")
    with interruptible(), display_progress(f"Opening of {pack}"):
        opened = packs.open_pack(pack)
    kickoffs = opened.fixtures.lazy().select("fixture_id", "kickoff_ts_ms")
    tape = opened.tape()
    ticks = tape.ticks().join(kickoffs, on="fixture_id", maintain_order="left")
    rows = opened.ladders() if ladders else tape.books if books else ticks
    if rows is None:
        raise typer.BadParameter(f"pack {opened.pack_id!r} keeps no books")
    if file.exists():
        raise typer.BadParameter(f"{file} exists; it is not overwritten")
    if file.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"{file} must end in .csv or .parquet")
    frame = rows.collect(engine="in-memory")
    with written_file(file) as whole:
        (frame.write_parquet if file.suffix == ".parquet" else frame.write_csv)(whole)
    out.print(f"Wrote {counted(frame.height, 'row')} to {plain(str(file))}")


@packs_app.command("admit")
def packs_admit(
    pack_id: Annotated[str, typer.Argument(help="Name of a pack folder inside the catalog's folder.")],
    catalog: Annotated[Path, typer.Option(help="Folder of the catalog.")],
) -> None:
    """Verify a pack in full and put it on the catalog's allowlist."""
    from clvlab.packs.catalog import Catalog

    with interruptible(lambda: "the pack is admitted only once it is verified"), display_progress(f"Verification of {pack_id}"):
        opened = Catalog(catalog).admit(pack_id)
    show_pack(opened)


def _pack_info(pack: Pack) -> dict[str, object]:
    return {
        "pack_id": pack.pack_id,
        "content_hash": pack.content_hash,
        "provenance": pack.provenance,
        "is_genuine": pack.is_genuine,
        "grade": pack.grade.value,
        "fixtures": list(pack.fixture_ids),
    } | ({"verification": pack.verification} if pack.verification else {})
