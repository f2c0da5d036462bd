"""Output of the command line: plain lines, so that a hash is never cut, and tables for frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import orjson
from rich.console import Console
from rich.markup import escape

from clvlab.base.invocation import command
from clvlab.base.names import printable
from clvlab.words import CLOSE_KINDS, REASONS, REFUSALS, close_facts, counted, estimate, mean_clv, named_tally, sample, yes

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    import polars as pl
    from rich.table import Table

    from clvlab.packs.quality import Quality
    from clvlab.packs.reader import Pack
    from clvlab.proof.verify import Verification
    from clvlab.report.headline import Headline
    from clvlab.runs.run import Run

_TONES = {"beats": "bold green", "loses": "bold red", "unclear": "bold", "nothing": "bold"}  # by statistics.verdict.Tone
_NARROWEST = 30
_BELOW = 4
_PIPE_WIDTH = 500

# Without emoji, because a name such as did:x:me must be printed as it is.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def plain(text: str) -> str:
    """Escape markup in data, and keep it on one line."""
    return escape(printable(text))


def plain_lines(text: str) -> str:
    """Escape markup in data, and keep its lines."""
    return "\n".join(plain(line) for line in text.rstrip().splitlines())


def show_pack(pack: Pack) -> None:
    from clvlab.packs.views.derivation import DerivedPack, derived_words

    facts(
        f"Pack {pack.pack_id}",
        {
            "provenance": pack.provenance,
            "genuine": "not judged here" if pack.verification else yes(pack.is_genuine),
            "origin": pack.grade.value,
            "fixtures": len(pack.fixture_ids),
            "closing policy": pack.closing,
            "source of the close": pack.manifest.closing_source,
        }
        | ({"made of": derived_words(pack)} if isinstance(pack, DerivedPack) else {})
        | ({"kickoffs": pack.kickoffs} if pack.kickoffs else {})
        | ({"verification": pack.verification} if pack.verification else {})
        | {"content hash": pack.content_hash},
    )


def show_quality(quality: Quality) -> None:
    """Print an import's counts, refused rows with examples, and spreads."""
    for line in list(map(printable, quality.remarks)):
        out.print(escape(line))
    facts("Quality", quality.facts)


def say(text: str, style: str = "") -> None:
    """Print a sentence, wrapped in a terminal below its own indent, and on one line elsewhere."""
    from rich.text import Text

    width = out.width if out.is_terminal else 0
    text = printable(text)
    below = " " * (len(text) - len(text.lstrip())) * 2
    lines = wrap(text, width, subsequent_indent=below, break_long_words=False, break_on_hyphens=False) if width else [text]
    for line in lines:
        out.print(Text(line, style=style))


def show_next(*words: object) -> None:
    """Print the next command on one line, so that it can be typed as it is."""
    out.print(f"Next: {plain(command(*words))}")


def show_verdict(found: Headline, agent: str = "") -> None:
    """Print the verdict on a run's means."""
    sentence = f"{agent}: {found.verdict.sentence}" if agent else found.verdict.sentence
    say(sentence, _TONES[found.verdict.tone])


def show_report(report: Mapping[str, Any], found: Headline | None = None) -> None:
    """Print a report, with the verdict on its means first; a mean always has its interval."""
    metrics = report["metrics"]
    if found is not None:
        show_verdict(found, report["agent"]["agent_id"])
    mean = metrics["avg_clv_bps"]
    alone = mean_clv(mean) + (", as the law ranks" if mean is not None else "")
    at_close = 0 if found is None else metrics["action_count"] - found.clv.n
    left_out = f"; {at_close:,} at the closing price, excluded from the mean" if at_close else ""
    facts(
        f"{report['mode_label']}: {report['agent']['agent_id']} on {report['pack_id']}",
        {
            "mean CLV": alone if found is None else found.interval,
            **({} if found is None else {"edge at the price": found.price}),
            "scored actions": f"{metrics['action_count']:,} in {counted(report['n_fixtures'], 'fixture')}{left_out}",
            "sample": sample(metrics["clv_confidence"], metrics["valid_count"]),
            "decisions by reason": named_tally(report["reasons"], REASONS) or "none",
            "allowed to execute": _gate(report["policy"]),
        }
        | close_facts(report)
        | {"decisions by close": named_tally(report["close_kinds"], CLOSE_KINDS) or "none"}
        | {
            "evidence hash": report["evidence_hash"],
            "run": report["run_id"],
        },
    )
    for warning in report["warnings"]:
        say(f"warning: {warning}", "yellow")


def _gate(policy: Mapping[str, Any]) -> str:
    refused = f"; refused: {named_tally(policy['refused'], REFUSALS)}" if policy["refused"] else ""
    return f"{policy['allowed']:,} on paper{refused}"


def show_checks(verdict: Verification, judge: Mapping[str, str] | None = None) -> None:
    """Print every check, the judging version if known, and the verdict."""
    out.print(f"[bold]Run {plain(verdict.run_id)}[/]")
    colours = {"pass": "green", "fail": "red"}
    for name, check in verdict.checks.items():
        label = check.verdict.value.replace("_", " ")
        tone = colours.get(check.verdict.value, "dim")
        show_hung(f"  {name:<20} [{tone}]{label:<15}[/] ", printable(check.detail), 39)
    if judge:
        named = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in judge.items())
        show_hung(f"  {'judged by':<20} ", printable(named))
    if verdict.passed:
        say("verified: the seal is intact and no check failed", "green")
    elif verdict.verified:
        say("not fully verified: the seal is intact, but a check failed", "red")
    else:
        say(f"NOT verified: recomputed {verdict.recomputed_evidence_hash}", "red")
    out.print()


def show_leaderboard(tests: Sequence[Run]) -> None:
    """Print agents by mean CLV; agents that may contain past prices have a separate heading."""
    from clvlab.runs import ranking
    from clvlab.runs.card import ANSWERS_PUBLIC

    board = ranking.board(tests)
    for title, rows in (
        ("Leaderboard, by mean CLV", board.remove("hindsight_possible")),
        (ANSWERS_PUBLIC, board.filter("hindsight_possible")),
    ):
        if not rows.is_empty():
            show_table(_leaderboard(rows, title))


def _leaderboard(rows: pl.DataFrame, title: str) -> Table:
    import polars as pl

    edges = [
        None if mean is None else estimate(mean, low, high)
        for mean, low, high in rows.select("mean_edge_pct", "edge_low", "edge_high").iter_rows()
    ]
    alike = pl.format("{} and {} alike", "agent_id", "others")
    columns = rows.select(
        "rank",
        agent=pl.when(pl.col("others") > 0).then(alike).otherwise("agent_id"),
        CLV="mean_clv_bps",
        edge=pl.Series(edges, dtype=pl.String),
        scored="action_count",
        drawdown=pl.col("max_drawdown").cast(pl.Int64),  # whole basis points are short enough for 80 columns
    )
    return table(columns.rename({"edge": "edge, %"}), f"{title} (bps)")


def facts(title: str, pairs: Mapping[str, object]) -> None:
    """Print names and values, one pair a line, so that a hash is never cut."""
    head, *values = map(printable, [title, *map(str, pairs.values())])
    out.print(f"[bold]{escape(head)}[/]")
    for name, value in zip(pairs, values, strict=True):
        show_hung(f"  {name:<20} ", value)
    out.print()


def show_hung(label: str, text: str, width: int | None = None) -> None:
    """Print a label in markup and data next to it, or below it in a narrow terminal; ``width`` is that of the label."""
    indent = len(label) if width is None else width
    if out.is_terminal and out.width - indent < _NARROWEST:
        out.print(label.rstrip())
        label, indent = " " * _BELOW, _BELOW
    first, *more = hung(text, indent)
    out.print(f"{label}{first}")
    for line in more:
        out.print(f"{'':<{indent}}{line}")


def hung(text: str, indent: int) -> list[str]:
    """Wrap data with a hanging indent in a terminal, without a break in a word; return one line elsewhere."""
    escaped = escape(text)
    if not out.is_terminal:
        return [escaped]
    return wrap(escaped, max(out.width - indent, 1), break_long_words=False, break_on_hyphens=False) or [""]


def table(frame: pl.DataFrame, title: str) -> Table:
    # The lines of a box are not data, so a pipe gets plain columns.
    from rich import box
    from rich.table import Table

    layout = Table(title=title, title_justify="left", title_style="bold", box=box.HEAVY_HEAD if out.is_terminal else None)
    for column, dtype in frame.schema.items():
        layout.add_column(column, justify="right" if dtype.is_numeric() else "left", overflow="fold")
    for row in frame.iter_rows():
        layout.add_row(
            *("" if value is None else f"{value:.2f}" if isinstance(value, float) else plain(str(value)) for value in row)
        )
    return layout


def fits(layout: Table) -> bool:
    """Whether a table has room without breaks in its cells; always where the output is no terminal."""
    return not out.is_terminal or out.measure(layout, options=out.options.update(width=_PIPE_WIDTH)).maximum <= out.width


def show_table(layout: Table) -> None:
    """Print a table. In a terminal that is too narrow for it, print the cells of each row below each other."""
    if not out.is_terminal:  # a console prints nothing wider than itself
        Console(file=out.file, width=_PIPE_WIDTH, highlight=False, soft_wrap=True, emoji=False).print(layout)
        return
    if fits(layout):
        out.print(layout)
        return
    if layout.title:
        out.print(f"[bold]{layout.title}[/]")
    names = [str(column.header) for column in layout.columns]
    for first, *cells in zip(*(map(str, column.cells) for column in layout.columns), strict=True):
        out.print(f"[bold]{names[0]} {first}[/]")
        for name, cell in zip(names[1:], cells, strict=True):
            for line in filter(None, cell.split("\n")):
                say_markup(f"  {name}: {line}")


def say_markup(text: str) -> None:
    """Print a line of escaped data, wrapped below its own indent."""
    for line in wrap(text, out.width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False):
        out.print(line)


def print_json(value: object) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
