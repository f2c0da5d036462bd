"""What the command line prints: plain lines, so that a hash is never cut, and tables for frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clvlab.application import backtests
from clvlab.application.runs.perform import PerformedRun
from clvlab.packs.quality import Quality
from clvlab.packs.reader import Pack
from clvlab.proof.verify import Verification

# No emoji: a name such as did:x:me must not be shown as another.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def plain(text: str) -> str:
    """Keep data from being read as markup, and on one line."""
    return escape("".join(char if char.isprintable() else repr(char)[1:-1] for char in text))


def plain_lines(text: str) -> str:
    """Keep data from being read as markup, line by line."""
    return "\n".join(plain(line) for line in text.rstrip().splitlines())


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def show_pack(pack: Pack) -> None:
    facts(
        f"Pack {pack.pack_id}",
        {
            "provenance": pack.provenance,
            "genuine": "not judged here" if pack.verification else _yes(pack.is_genuine),
            "fixtures": len(pack.fixture_ids),
            "closing policy": pack.closing,
            "source of the close": pack.manifest.closing_source,
        }
        | ({"kickoffs": pack.kickoffs} if pack.kickoffs else {})
        | ({"verification": pack.verification} if pack.verification else {})
        | {"content hash": pack.content_hash},
    )


def show_quality(quality: Quality) -> None:
    """Print what an import found: counts, refused rows with examples, and spreads."""
    for line in quality.remarks:
        out.print(plain(line))
    facts("Quality", quality.facts)


def show_report(report: Mapping[str, Any]) -> None:
    metrics, age = report["metrics"], report["closing_age_ms"]
    mean = metrics["avg_clv_bps"]
    small = " (small sample)" if metrics["low_sample"] else ""
    ages = "none" if age["median"] is None else f"median {age['median'] / 1000:,.0f} s, at most {age['max'] / 1000:,.0f} s"
    facts(
        f"{report['mode_label']}: {report['agent']['agent_id']} on {report['pack_id']}",
        {
            "mean CLV": "no scored action" if mean is None else f"{mean:+.2f} bps of probability",
            "scored actions": f"{metrics['action_count']:,} in {report['n_fixtures']:,} fixtures",
            "confidence": f"{metrics['clv_confidence']}{small}",
            "decisions by reason": _counted(report["reasons"]),
            "allowed to execute": _gate(report["policy"]),
            "decisions by close": _counted(report["close_kinds"]),
            "age of the close": ages,
            "source of the close": f"{report['closing_source']} ({report['provenance']})",
        }
        | ({"gaps": _counted(report["gaps"])} if "gaps" in report else {})
        | ({"verification": report["pack_verification"]} if "pack_verification" in report else {})
        | {
            "evidence hash": report["evidence_hash"],
            "run": report["run_id"],
        },
    )
    for warning in report["warnings"]:
        out.print(f"[yellow]warning:[/] {warning}")


def _gate(policy: Mapping[str, Any]) -> str:
    refused = f"; refused by {_counted(policy['refused'])}" if policy["refused"] else ""
    return f"{policy['allowed']:,} on paper{refused}"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def show_checks(verdict: Verification, judge: Mapping[str, str] | None = None) -> None:
    """Print every check, by what it was judged where that is given, and the verdict."""
    out.print(f"[bold]Run {plain(verdict.run_id)}[/]")
    colours = {"pass": "green", "fail": "red"}
    for name, check in verdict.checks.items():
        shown = check.verdict.value.replace("_", " ")
        out.print(f"  {name:<20} [{colours.get(check.verdict.value, 'dim')}]{shown:<15}[/] {plain(check.detail)}")
    if judge:
        named = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in judge.items())
        out.print(f"  {'judged by':<20} {plain(named)}")
    if verdict.passed:
        out.print("[green]verified[/]: the seal is intact and no check failed\n")
    elif verdict.verified:
        out.print("[red]not fully verified[/]: the seal is intact, but a check failed\n")
    else:
        out.print(f"[red]NOT verified[/]: recomputed {plain(verdict.recomputed_evidence_hash)}\n")


def leaderboard(tests: Sequence[PerformedRun]) -> Table:
    board = backtests.leaderboard(tests)
    shown = board.select(
        "rank",
        agent="agent_id",
        clv_bps="mean_clv_bps",
        scored="action_count",
        valid_pct="valid_pct",
        sim_pnl="sim_pnl",
        drawdown=pl.col("max_drawdown").cast(pl.Int64),  # a sum of basis points, and short enough for 80 columns
    )
    return table(shown, "Leaderboard, by mean CLV")


def facts(title: str, pairs: Mapping[str, object]) -> None:
    """Print names and values, a line each, so that a hash is never cut."""
    out.print(f"[bold]{plain(title)}[/]")
    for name, value in pairs.items():
        out.print(f"  {name:<20} {plain(str(value))}")
    out.print()


def table(frame: pl.DataFrame, title: str) -> Table:
    shown = Table(title=title, title_justify="left", title_style="bold")
    for column, dtype in frame.schema.items():
        shown.add_column(column, justify="right" if dtype.is_numeric() else "left", overflow="fold")
    for row in frame.iter_rows():
        shown.add_row(
            *("" if value is None else f"{value:.2f}" if isinstance(value, float) else plain(str(value)) for value in row)
        )
    return shown


def print_json(value: object) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
