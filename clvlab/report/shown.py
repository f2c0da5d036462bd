"""A tear sheet as HTML: what can be said, pictures by date, markets, more pictures, figures with what they ask, tables."""

from __future__ import annotations

from datetime import date

import polars as pl

from clvlab.drawing import html
from clvlab.drawing.calendar import calendar_map
from clvlab.drawing.ink import interval_cell, scale, sparkline
from clvlab.report import breakdowns
from clvlab.report.breakdowns import dated_pictures
from clvlab.report.figures import BPS, GLOSSARY, MEANINGS, Sheet
from clvlab.report.headline import SEARCH, interval_bar, verdict_of
from clvlab.report.means import key_figures, mean_cell
from clvlab.report.moved_lines import moved_html
from clvlab.report.settling import Figure
from clvlab.statistics import Calibration
from clvlab.words import REASONS, counted, interval, market_names, share

_CAUTION = (
    "CLV is not return on investment. Results are one draw of luck: over as many decisions their interval is far wider than "
    "that of CLV, and the return also bears the margin of the price taken. Read the return beside what the close expected."
)
_PART = "chosen from a larger run"


def sheet_html(sheet: Sheet, pictures: list[str]) -> str:
    """Show a tear sheet, with pictures that were drawn of it."""
    clv, own, pack = sheet.clv, sheet.tables, sheet.source.pack
    said = verdict_of(clv, caveat=SEARCH if sheet.selection.is_whole else f"{_PART}, and {SEARCH}")
    strip = html.strip(key_figures(clv, sheet.edge, sheet.beat, f"{sheet.level:.0%}")) if clv.n else ""
    head = interval_bar(clv.mean, clv.low, clv.high) + strip
    scored = sheet.scored
    tables = {
        name: html.section(title, _SHOWN[name](own[name]) if name in _SHOWN else _table(name, own[name]))
        for name, title in breakdowns.TITLES.items()
        if own[name].height
    }
    calibrations = [html.section(title, _calibration(found)) for title, found in _calibrations(sheet) if found]
    means = [drawn for name, drawn in tables.items() if name.startswith("by_")]
    return html.block(
        f"Tear sheet of {sheet.agent_id} on {pack.pack_id} ({pack.provenance}, {pack.verified_grade})",
        html.verdict(said.sentence, said.tone),
        f"<p>Of {html.escape(sheet.selection.words)} alone.</p>" if sheet.selection.words else "",
        *(f"<p>{html.escape(caution)}</p>" for caution in sheet.cautions),
        html.figures([part for part in (head, *dated_pictures(scored, sheet.level)) if part]),
        calendar_map(_days(scored)),
        html.section("Markets", _markets(sheet)) if clv.n else "",
        html.figures(pictures),
        f"<p>{html.unbroken(sheet.line)}.</p>",
        html.section("Figures", _figures(sheet.frame)),
        f'<p class="quiet">Intervals of {sheet.level:.0%}, over fixtures; decisions of one fixture are not independent.</p>',
        *([f"<p>{_CAUTION}</p>"] if sheet.settled else []),
        html.details("What the words mean", html.facts(GLOSSARY)),
        html.details("Tables of the means in the pictures", *means) if means else "",
        html.details("Tables of the calibrations", *calibrations) if calibrations else "",
        *(drawn for name, drawn in tables.items() if not name.startswith("by_")),
        moved_html(sheet.moved_lines, sheet.level),
    )


def _days(scored: pl.DataFrame) -> dict[date, tuple[float, int]]:
    day = pl.from_epoch("close_ts_ms", time_unit="ms").dt.date().alias("day")
    found = scored.drop_nulls("close_ts_ms").group_by(day).agg(mean=pl.mean("clv_bps"), n=pl.len()).sort("day")
    return {row[0]: (row[1], row[2]) for row in found.iter_rows()}


def _markets(sheet: Sheet) -> str:
    """Show a row for each market: mean, interval and how the sum went."""
    rows, walks = sheet.tables["by_market"], breakdowns.market_walks(sheet.scored)
    names, within = market_names(rows["market"]), scale([*rows["low"], *rows["high"], *rows["mean_clv_bps"]])
    shown = [
        (
            html.hinted(names[row["market"]], row["market"]),
            mean_cell(row["mean_clv_bps"], row["low"], row["high"]),
            interval_cell(row["mean_clv_bps"], row["low"], row["high"], within),
            sparkline(walks[row["market"]]),
            row["n"],
            row["fixtures"],
        )
        for row in rows.iter_rows(named=True)
    ]
    columns = ["market", "mean CLV, bps", "", "running sum", "decisions", "fixtures"]
    return html.table(columns, shown, pictures=(2, 3))


def _figures(frame: pl.DataFrame) -> str:
    """Show a row for each figure: value and interval first, then what it asks."""
    rows = [
        (html.noted(name, MEANINGS.get(name, "")), _value((name, value, low, high, unit)), unit)
        for name, value, low, high, unit in frame.iter_rows()
    ]
    return html.table(["figure, and what it asks", "value [interval]", "unit"], rows)


def _value(row: Figure) -> html.Html:
    """Spell a figure and its interval, which never part."""
    _, value, low, high, unit = row
    digits = 4 if unit.endswith("probability") and unit != BPS else 2
    if value is None:
        return html.Html('<span class="quiet">none</span>')
    form = f"z,.{digits}f"
    return html.Html(f"<span><strong>{value:{form}}</strong>{interval(low, high, form)}</span>")


def _table(name: str, table: pl.DataFrame) -> str:
    return html.table(table.columns, _in_words(name, table))


def _closes(table: pl.DataFrame) -> str:
    within = scale([*table["low"], *table["high"], *table["mean_clv_bps"]])
    rows = [
        (
            row["close"],
            mean_cell(row["mean_clv_bps"], row["low"], row["high"]),
            interval_cell(row["mean_clv_bps"], row["low"], row["high"], within),
            row["n"],
            row["fixtures"],
            mean_cell(row["difference_bps"], row["difference_low"], row["difference_high"]),
            share(row["opposite"]) or "none",
        )
        for row in table.iter_rows(named=True)
    ]
    columns = ["close", "mean CLV, bps", "", "decisions", "fixtures", "less that of the consensus", "of opposite sign"]
    return html.table(columns, rows, pictures=(2,))


def _on_offer(table: pl.DataFrame) -> str:
    rows = [
        (
            row["book"],
            mean_cell(row["mean_edge_pct"], row["low"], row["high"]),
            share(row["quoted"]) or "none",
            share(row["best"]) or "none",
            "none" if row["behind_best_pct"] is None else f"{row['behind_best_pct']:.2f}%",
        )
        for row in table.iter_rows(named=True)
    ]
    return html.table(["book", "edge at its price, %", "had a price", "had the best price", "behind the best, mean"], rows)


_SHOWN = {"closes": _closes, "on_offer": _on_offer}


def _in_words(name: str, table: pl.DataFrame) -> list[tuple[object, ...]]:
    """Return the rows of a breakdown, keys of markets and reasons as people call them."""
    if name == "by_market":
        names = market_names(table["market"])
        return [(html.hinted(names[key], key), *rest) for key, *rest in table.iter_rows()]
    if name in ("reasons", "refusals"):
        return [(html.hinted(REASONS.get(key, key), key), *rest) for key, *rest in table.iter_rows()]
    return table.rows()


def _calibrations(sheet: Sheet) -> tuple[tuple[str, Calibration | None], ...]:
    settled = sheet.settled
    return (
        ("Calibration: confidence against beating the close", sheet.calibration),
        ("Calibration: closing probability against results", settled.close if settled else None),
        ("Calibration: entry probability against results", settled.entry if settled else None),
    )


def _calibration(found: Calibration) -> str:
    parts = (
        f"Brier score {found.brier:.4f} = reliability {found.reliability:.4f} - resolution {found.resolution:.4f} + "
        f"uncertainty {found.uncertainty:.4f}, over {counted(found.n, 'decision')}"
    )
    return f"<p>{parts}.</p>" + html.table(found.frame.columns, found.frame.rows())
