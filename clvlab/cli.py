"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from clvlab.application import backtests, importing, packs, runs
from clvlab.errors import ClvlabError
from clvlab.law.closing import Window
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import Pack, verify_pack
from clvlab.proof.verify import Verification

__all__ = ["app", "main"]

app = typer.Typer(
    name="clvlab",
    help="Does a betting or trading agent beat the closing line? Backtests that anyone can check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
packs_app = typer.Typer(help="List, show, verify, build, import and export packs.", no_args_is_help=True)
app.add_typer(packs_app, name="packs")

_BAD_INPUT = 2
_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_PackArg = Annotated[str, typer.Argument(help="Pack id in the catalog, or path of a pack folder.", metavar="PACK")]
_RunArg = Annotated[Path, typer.Argument(help="Folder of a sealed run.", metavar="RUN")]
_RunsOption = Annotated[Path, typer.Option("--runs", help="Where sealed runs are written.")]


def main() -> None:
    """Run the command line: exit 0 good, 1 verification failed, 2 bad input."""
    try:
        app()
    except ClvlabError as error:
        _err.print(f"[red]error:[/] {_plain(str(error))}")
        sys.exit(_BAD_INPUT)
    except OSError as error:
        _err.print(f"[red]error:[/] {_plain(f'{error.strerror}: {error.filename}')}")
        sys.exit(_BAD_INPUT)


def _plain(text: str) -> str:
    """Keep square brackets of data from being read as markup."""
    return text.replace("[", r"\[")


@app.command()
def demo(runs_folder: _RunsOption = Path("runs")) -> None:
    """Backtest two agents over a synthetic pack, seal and verify both runs, and show the checks."""
    pack = packs.open_pack("season")
    _out.print(f"Pack [bold]{pack.pack_id}[/]: {len(pack.fixture_ids)} fixtures, {pack.provenance} (no real odds)\n")
    tests = []
    for name in ("baseline", "cumulative-drift"):
        with _err.status(f"backtesting {name}"):
            tests.append(backtests.backtest(pack, name))
    _out.print(_leaderboard(tests))
    for test in tests:
        _show_report(test.report)
    with _err.status("verifying"):
        folders = [runs.keep(test.run, runs_folder) for test in tests]
        verdicts = [runs.verified(folder) for folder in folders]
    for verdict in verdicts:
        _show_checks(verdict)
    _out.print("Try next:")
    _out.print(f"  clvlab verify {folders[1]}")
    _out.print(f"  sha256sum {folders[1] / 'events.jsonl'}")
    _out.print(f"  clvlab show {folders[1]} --decisions 5")
    _out.print("  clvlab backtest starter --agent cumulative-drift --param cooldown_s=3600")
    raise typer.Exit(0 if all(verdict.passed for verdict in verdicts) else 1)


@app.command()
def backtest(
    pack: _PackArg,
    agent: Annotated[str, typer.Option(help="Name of a template.")] = "baseline",
    param: Annotated[list[str] | None, typer.Option(help="A parameter as name=value; may be repeated.")] = None,
    fixture: Annotated[list[int] | None, typer.Option(help="A fixture id; may be repeated; all by default.")] = None,
    market: Annotated[list[str] | None, typer.Option(help="A market-key prefix; may be repeated; all by default.")] = None,
    end_rule: Annotated[str, typer.Option(help="pre_match, fixed_duration or manual_stop.")] = "pre_match",
    duration_s: Annotated[int | None, typer.Option(help="Seconds, with fixed_duration only.")] = None,
    horizon_s: Annotated[int, typer.Option(help="Decisions closer than this to the close stay pending.")] = 60,
    window_id: Annotated[str, typer.Option(help="Label of the window.")] = "full",
    runs_folder: _RunsOption = Path("runs"),
    as_json: _Json = False,
) -> None:
    """Replay a pack through an agent, score it against the close, and seal the run."""
    window = Window(window_id, end_rule, duration_s, horizon_s, tuple(market or ("",)))
    with _err.status("backtesting"):
        test = backtests.backtest(packs.open_pack(pack), agent, params=_params(param or []), fixture_ids=fixture, window=window)
        folder = runs.keep(test.run, runs_folder)
    if as_json:
        _print_json(test.report | {"run_folder": str(folder)})
        return
    _show_report(test.report)
    _out.print(f"Sealed in {_plain(str(folder))}")
    _out.print(f"Next: clvlab verify {_plain(str(folder))}")


def _params(pairs: Sequence[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not name=value")
        try:
            params[name] = orjson.loads(value)
        except orjson.JSONDecodeError:  # not JSON: a plain word
            params[name] = value
    return params


@app.command()
def verify(run: _RunArg, as_json: _Json = False) -> None:
    """Recompute the proof of a sealed run; exit 1 if the seal is broken or a check fails."""
    with _err.status("verifying"):
        verdict = runs.verified(run)
    if as_json:
        _print_json(_verification(verdict))
    else:
        _show_checks(verdict)
    raise typer.Exit(0 if verdict.passed else 1)


def _verification(verdict: Verification) -> dict[str, Any]:
    card = runs.proof_card(verdict)
    return {
        "run_id": verdict.run_id,
        "verified": verdict.verified,
        "evidence_hash": verdict.evidence_hash,
        "recomputed_evidence_hash": verdict.recomputed_evidence_hash,
        "manifest_hash": verdict.manifest_hash,
        "checks": card["checks"],
        "metrics": card["metrics"],
        "anchor": card["anchor"],
        "proof_card": card,
    }


@app.command()
def show(
    run: _RunArg,
    decisions: Annotated[int, typer.Option(help="Show the first so many decisions with their scores.", min=0)] = 0,
    seq: Annotated[int | None, typer.Option(help="Show one decision whole.")] = None,
    as_json: _Json = False,
) -> None:
    """Show a run's proof card, its decisions, or one of them."""
    if seq is not None:
        _print_json(runs.decision(run, seq))
        return
    verdict = runs.verified(run)
    if as_json:
        _print_json(runs.proof_card(verdict))
        return
    _show_checks(verdict)
    if verdict.outcomes is not None:
        _out.print(
            _frame(
                verdict.outcomes.select("agent_id", "action_count", "valid_count", "mean_clv_bps", "total_clv_bps"), "Outcomes"
            )
        )
    if decisions and verdict.scores is not None:
        _out.print(f"[bold]First {min(decisions, verdict.scores.height):,} of {verdict.scores.height:,} decisions[/]")
        for row in verdict.scores.head(decisions).iter_rows(named=True):
            _out.print(_plain(_decision(row)))


def _decision(row: Mapping[str, Any]) -> str:
    where = f"{row['seq']:>6}  {row['fixture_id']} tick {row['tick_seq']}"
    proposed = f"{row['market_key'] or 'no market'} {row['side'] or ''}".strip()
    if row["clv_bps"] is None:
        return f"{where}  {proposed}: {row['reason']}"
    return f"{where}  {proposed}: {row['entry_prob_bps']} -> {row['close_prob_bps']} bps, CLV {row['clv_bps']:+}"


@packs_app.command("list")
def packs_list(as_json: _Json = False) -> None:
    """List the packs of the catalog."""
    found = packs.bundled_catalog().packs()
    if as_json:
        _print_json([_pack_info(pack) for pack in found])
        return
    for pack in found:
        _show_pack(pack)


@packs_app.command("show")
def packs_show(pack: _PackArg, as_json: _Json = False) -> None:
    """Show a pack: labels, hashes, fixtures."""
    opened = packs.open_pack(pack)
    if as_json:
        _print_json(_pack_info(opened) | opened.manifest.model_dump(mode="json"))
        return
    _show_pack(opened)
    kickoff = pl.from_epoch("kickoff_ts_ms", time_unit="ms").dt.strftime("%Y-%m-%d %H:%M").alias("kickoff (UTC)")
    _out.print(_frame(opened.fixtures.select("fixture_id", "names", kickoff, "rows").head(20), "Fixtures (first 20)"))


@packs_app.command("verify")
def packs_verify(pack: _PackArg) -> None:
    """Recompute every digest and rule of a pack."""
    with _err.status("verifying"):
        opened = verify_pack(packs.open_pack(pack).folder)
    _show_pack(opened)
    _out.print("[green]pass[/] labels, ticks and raw files are what their hashes say")


@packs_app.command("build")
def packs_build(
    out: Annotated[Path, typer.Option(help="Folder of the new pack; its name becomes the pack id.")],
    seed: int = 1,
    fixtures: int = 12,
    messages: Annotated[int, typer.Option(help="Messages before kickoff per fixture, about.")] = 300,
) -> None:
    """Build a synthetic pack; the same recipe gives the same content hash anywhere."""
    with _err.status("building"):
        importing.build(importing.Recipe(seed, fixtures, messages), out)
    _show_pack(packs.open_pack(out))


@packs_app.command("import")
def packs_import(
    source: Annotated[str, typer.Argument(help=f"One of {', '.join(sorted(importing.IMPORTERS))}.")],
    paths: Annotated[list[Path], typer.Argument(help="Files or folders of the source.")],
    out: Annotated[Path, typer.Option(help="Folder of the new pack; its name becomes the pack id.")],
    lenient: Annotated[bool, typer.Option("--lenient", help="Count rows that can't be read instead of stopping.")] = False,
) -> None:
    """Make a pack of a provider's own messages."""
    with _err.status("importing"):
        report = importing.import_source(source, paths, out, lenient=lenient)
    _out.print(
        f"Read {report.messages:,} messages of {report.files} files: {report.ticks:,} ticks, {report.suspended:,} of them "
        f"suspended; refused {len(report.refused):,}"
    )
    for row in report.refused[:5]:
        _out.print(f"  {_plain(str(row))}")
    for name in report.unread:
        _out.print(f"  not read: {_plain(name)}")
    _show_pack(packs.open_pack(out))


@packs_app.command("export")
def packs_export(pack: _PackArg, out: Annotated[Path, typer.Argument(help="A .csv or .parquet file to write.")]) -> None:
    """Write a pack's ticks as a long table, with each fixture's kickoff."""
    opened = packs.open_pack(pack)
    ticks = (
        opened.tape()
        .ticks()
        .join(opened.fixtures.lazy().select("fixture_id", "kickoff_ts_ms"), on="fixture_id", maintain_order="left")
    )
    if out.exists():
        raise typer.BadParameter(f"{out} exists; it is not overwritten")
    frame = ticks.collect(engine="in-memory")
    if out.suffix == ".parquet":
        frame.write_parquet(out)
    else:
        frame.write_csv(out)
    _out.print(f"Wrote {frame.height:,} rows to {_plain(str(out))}")


@packs_app.command("admit")
def packs_admit(
    pack_id: Annotated[str, typer.Argument(help="Name of a pack folder inside the catalog's folder.")],
    catalog: Annotated[Path, typer.Option(help="Folder of the catalog.")],
) -> None:
    """Verify a pack whole and put it on the catalog's allowlist."""
    opened = Catalog(catalog).admit(pack_id)
    _show_pack(opened)


def _pack_info(pack: Pack) -> dict[str, Any]:
    return {
        "pack_id": pack.pack_id,
        "content_hash": pack.content_hash,
        "provenance": pack.provenance,
        "is_genuine": pack.is_genuine,
        "fixtures": list(pack.fixture_ids),
    }


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _show_pack(pack: Pack) -> None:
    _facts(
        f"Pack {pack.pack_id}",
        {
            "provenance": pack.provenance,
            "genuine": _yes(pack.is_genuine),
            "fixtures": len(pack.fixture_ids),
            "closing policy": pack.manifest.closing_policy.value,
            "source of the close": pack.manifest.closing_source,
            "content hash": pack.content_hash,
        },
    )


def _show_report(report: Mapping[str, Any]) -> None:
    metrics, age = report["metrics"], report["closing_age_ms"]
    mean = metrics["avg_clv_bps"]
    small = " (small sample)" if metrics["low_sample"] else ""
    ages = "none" if age["median"] is None else f"median {age['median'] / 1000:,.0f} s, at most {age['max'] / 1000:,.0f} s"
    _facts(
        f"{report['mode_label']}: {report['agent']['agent_id']} on {report['pack_id']}",
        {
            "mean CLV": "no scored action" if mean is None else f"{mean:+.2f} bps of probability",
            "scored actions": f"{metrics['action_count']:,} in {report['n_fixtures']:,} fixtures",
            "confidence": f"{metrics['clv_confidence']}{small}",
            "decisions by reason": _counted(report["reasons"]),
            "closing lines": _counted(report["close_kinds"]),
            "age of the close": ages,
            "source of the close": f"{report['closing_source']} ({report['provenance']})",
            "evidence hash": report["evidence_hash"],
            "run": report["run_id"],
        },
    )
    for warning in report["warnings"]:
        _out.print(f"[yellow]warning:[/] {warning}")


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def _show_checks(verdict: Verification) -> None:
    _out.print(f"[bold]Run {verdict.run_id}[/]")
    colours = {"pass": "green", "fail": "red"}
    for name, check in verdict.checks.items():
        shown = check.verdict.value.replace("_", " ")
        _out.print(f"  {name:<20} [{colours.get(check.verdict.value, 'dim')}]{shown:<15}[/] {_plain(check.detail)}")
    if verdict.passed:
        _out.print("[green]verified[/]: the seal is intact and no check failed\n")
    elif verdict.verified:
        _out.print("[red]not fully verified[/]: the seal is intact, but a check failed\n")
    else:
        _out.print(f"[red]NOT verified[/]: recomputed {_plain(verdict.recomputed_evidence_hash)}\n")


def _leaderboard(tests: Sequence[backtests.Backtest]) -> Table:
    board = backtests.leaderboard(tests)
    shown = board.select(
        "rank",
        agent="agent_id",
        clv_bps="mean_clv_bps",
        scored="action_count",
        valid_pct="valid_pct",
        sim_pnl="sim_pnl",
        drawdown="max_drawdown",
    )
    return _frame(shown, "Leaderboard, by mean CLV")


def _facts(title: str, pairs: Mapping[str, object]) -> None:
    """Print names and values, a line each, so that a hash is never cut."""
    _out.print(f"[bold]{_plain(title)}[/]")
    for name, value in pairs.items():
        _out.print(f"  {name:<20} {_plain(str(value))}")
    _out.print()


def _frame(frame: pl.DataFrame, title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column, dtype in frame.schema.items():
        table.add_column(column, justify="right" if dtype.is_numeric() else "left", overflow="fold")
    for row in frame.iter_rows():
        table.add_row(
            *("" if value is None else f"{value:.2f}" if isinstance(value, float) else _plain(str(value)) for value in row)
        )
    return table


def _print_json(value: object) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
