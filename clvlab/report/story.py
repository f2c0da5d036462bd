"""A tear sheet as a story: verdict, curve, money, agent, when, where, single decisions, figures by question, and the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain
from typing import Any

import orjson
import polars as pl

from clvlab.base.progress import report
from clvlab.packs.manifest import league_of
from clvlab.report import breakdowns
from clvlab.report.executable import Executable, listed_values
from clvlab.report.extremes import Extreme, decision_line, extremes
from clvlab.report.figures import BPS, GLOSSARY, MEANINGS, QUESTIONS, Figure, Sheet
from clvlab.report.headline import edge_bar, key_figures
from clvlab.report.html import Html, card, render, time_element
from clvlab.report.moved_lines import APART, mean_rows
from clvlab.report.plots import pictures
from clvlab.report.power import mean_ruler
from clvlab.report.svg import calendar_map, interval_bar, interval_cell, panel_line, scale, spelt, step_cell
from clvlab.runs.card import card_causality
from clvlab.statistics import Estimate, cluster_mean
from clvlab.statistics.clusters import TOP
from clvlab.statistics.measures import MEASURES, sums_of
from clvlab.statistics.measures import counted as is_counted
from clvlab.statistics.verdict import SEARCH, verdict
from clvlab.words import causality, clock, counted, interval, market_name, match_name, side_name, span

_PART = "chosen from a larger run"
_TALL = 280
_PICTURES = {
    "Does it beat the close?": ("clv", "entry_and_close"),
    "Would other matches or later bets do as well?": ("permutation",),
    "Does it depend on a few matches?": ("fixtures",),
    "What did the results pay?": ("settled", "results"),
}
"""The pictures of each question."""


def story(sheet: Sheet, executable: Executable | None = None, *, prefix: str = "", sealed: Html | None = None) -> Html:
    """Show a tear sheet as a card.

    Parameters
    ----------
    sheet
        The tear sheet.
    executable
        What taking offers would have paid; with the default settings if ``None``.
    prefix
        Put before every id, so that several sheets fit into one page.
    sealed
        What is said of the run at the end.
    """
    drawn = pictures(sheet)
    report("writing the sheet")
    paid = executable or Executable(sheet.source, level=sheet.level, selection=sheet.selection)
    families = [] if sheet.scored.is_empty() else list(_families(sheet))
    best, worst = extremes(sheet.source, sheet.scored)
    html = card(
        "tear_sheet.html",
        f"Tear sheet of {sheet.agent_id} on {sheet.source.pack.pack_id}",
        p=prefix,
        about=_about(sheet),
        marks=[panel.mark for family in families for panel in family.panels],
        when=[family for family in families if family.name == "by_time"],
        where=[family for family in families if family.name != "by_time"],
        agents=_agents(sheet),
        facts=_facts(sheet),
        decisions=_decisions(sheet, best, worst, families),
        steps=_steps(paid),
        paid=paid,
        sealed=sealed,
        **_verdict(sheet),
        **_dated(sheet, families),
        **_questions(sheet, drawn, paid),
    )
    # tables that are wider than the window are scrolled with the keyboard too
    return Html(str(html).replace('<div class="wide">', '<div class="wide" tabindex="0">'))


def _about(sheet: Sheet) -> str:
    pack, scored = sheet.source.pack, sheet.scored
    closes = scored["close_ts_ms"].drop_nulls()
    days = [spelt(time_ms) for time_ms in (closes.min(), closes.max()) if isinstance(time_ms, int)]
    over = "" if not days else f", {days[0]}" if days[0] == days[1] else f", {' to '.join(days)}"
    decisions, matches = counted(scored.height, "scored decision"), counted(scored["fixture_id"].n_unique(), "match", "matches")
    return f"{decisions} in {matches}{over}. Prices: {pack.provenance}, origin {pack.verified_grade}."


def _verdict(sheet: Sheet) -> dict[str, object]:
    clv, level = sheet.clv, f"{sheet.level:.0%}"
    ruler, ruled = mean_ruler(sums_of(sheet.scored)["clv"], MEASURES["clv"], sheet.level)
    return {
        "verdict": verdict(clv, sheet.edge, caveat=SEARCH if sheet.selection.is_whole else f"{_PART}, and {SEARCH}"),
        "selection": sheet.selection.words,
        "cautions": sheet.cautions,
        "interval": interval_bar(clv.mean, clv.low, clv.high),
        "edge_interval": edge_bar(sheet.edge),
        "ruler": ruler,
        "ruled": ruled,
        "key_figures": key_figures(clv, sheet.edge, sheet.beat, level) if clv.n else {},
        "line": sheet.line,
        "level": level,
    }


# Small multiples: a panel for each league, market and span of time, all in one style, and marks that link them.


@dataclass(frozen=True, slots=True)
class Panel:
    """A group of decisions: its name and figures, its interval and its sum by date, and the mark of all that is of it."""

    mark: str
    name: str
    row: Mapping[str, Any]
    interval: Html
    walk: Html


@dataclass(frozen=True, slots=True)
class PanelFamily:
    """Panels on common axes; ``groups`` are the keys of the decisions, ``marks`` the mark of each key."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    groups: pl.Series
    marks: Mapping[str, str]
    walks: Mapping[str, list[tuple[int, int]]]


_FAMILIES = (
    ("by_time", "t", "Time from the decision to the close"),
    ("by_league", "l", "Leagues"),
    ("by_market", "m", "Markets"),
)


def _families(sheet: Sheet) -> Iterator[PanelFamily]:
    """Yield the families with a group, in the order of ``_FAMILIES``."""
    groups = breakdowns.groups_of(sheet.source, sheet.scored)
    closes = sheet.scored["close_ts_ms"].drop_nulls()
    within_ms = (int(closes.min() or 0), int(closes.max() or 0))  # type: ignore[arg-type]
    for name, letter, title in _FAMILIES:
        table = sheet.tables[name]
        if table.is_empty():
            continue
        walks = breakdowns.group_walks(sheet.scored, groups[name])
        bounds, sums = scale([*table["low"], *table["high"], *table["mean_clv_bps"]]), scale([*_totals(walks)])
        names = breakdowns.group_names(name, table, sheet.scored)
        marks = {key: f"{letter}{number}" for number, key in enumerate(table.to_series(0))}
        panels = tuple(
            Panel(
                marks[key],
                words,
                row,
                interval_cell(row["mean_clv_bps"], row["low"], row["high"], bounds),
                panel_line(walks.get(key, []), within_ms, sums),
            )
            for (key, row), words in zip(zip(table.to_series(0), table.iter_rows(named=True), strict=True), names, strict=True)
        )
        yield PanelFamily(name, title, panels, groups[name], marks, walks)


def _totals(walks: Mapping[str, list[tuple[int, int]]]) -> Iterator[float]:
    return (float(total) for walk in walks.values() for _, total in walk)


def _dated(sheet: Sheet, families: Sequence[PanelFamily]) -> dict[str, object]:
    parts = {f"part g-{own.marks[key]}": walk for own in families for key, walk in own.walks.items() if len(walk) > 1}
    curve, *strips = breakdowns.dated_pictures(sheet.scored, sheet.level, tall=_TALL, parts=parts) or [Html("")]
    return {"curve": curve, "strips": strips, "calendar": calendar_map(_days(sheet.scored))}


def _days(scored: pl.DataFrame) -> dict[date, tuple[float, int]]:
    day = pl.from_epoch("close_ts_ms", time_unit="ms").dt.date().alias("day")
    found = scored.drop_nulls("close_ts_ms").group_by(day).agg(mean=pl.mean("clv_bps"), n=pl.len()).sort("day")
    return {row[0]: (row[1], row[2]) for row in found.iter_rows()}


# From CLV to money, in percent of the stake ordered.


@dataclass(frozen=True, slots=True)
class MoneyStep:
    """A step of the waterfall: its name, a change or a total with its interval, and its bar."""

    name: str
    note: str
    change: float | None
    total: Estimate | None
    bar: Html


def _steps(paid: Executable) -> list[MoneyStep]:
    means = {step: pct for (step, per), (_, pct) in paid.means.items() if per == "ordered" and pct.mean is not None}
    known = {step: found.mean for step, found in means.items() if found.mean is not None}
    if not {"line", "taken", "delayed", "commission"} <= known.keys():
        return []
    expected = means["commission"]
    within = scale([*known.values(), expected.low, expected.high])

    def total(name: str, note: str, found: Estimate) -> MoneyStep:
        bar = step_cell(0.0, found.mean or 0.0, within, bounds=(found.low, found.high), is_total=True)
        return MoneyStep(name, note, None, found, bar)

    def change(name: str, note: str, before: str, after: str) -> MoneyStep:
        bar = step_cell(known[before], known[after], within)
        return MoneyStep(name, note, known[after] - known[before], None, bar)

    steps = [
        total("CLV at the fair price", "the gain if the fair price could be taken", means["line"]),
        change("margin and spread", "the best offer is worse than the fair price", "line", "taken"),
        change(f"{paid.delay_s:g} s of delay", "the offers left after it", "taken", "delayed"),
        change("commission", str(paid.charges), "delayed", "commission"),
        total("expected profit", "if the close is right", expected),
    ]
    if "settled" in known:
        if paid.frame["result"].null_count() == 0:
            steps.append(change("luck", "results minus expected profit", "commission", "settled"))
        steps.append(total("settled profit", "the results, one draw of luck", means["settled"]))
    return steps


# The agent, and others that decided in the same run.


@dataclass(frozen=True, slots=True)
class AgentRow:
    """A mean CLV under a name, with its picture; ``own`` marks the agent of the sheet."""

    name: str
    note: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    own: bool = False
    picture: Html | None = None


def _agents(sheet: Sheet) -> list[AgentRow]:
    """Return the agent's row, the rows of others in its run, and of the same decisions elsewhere and later."""
    clv = sheet.clv
    if clv.mean is None:
        return []
    rows = [AgentRow(sheet.agent_id, "the agent of this sheet", clv.mean, clv.low, clv.high, clv.n, own=True)]
    rows += [
        AgentRow(agent_id, "another agent of the run", found.mean, found.low, found.high, found.n)
        for agent_id, found in _others(sheet)
    ]
    for moved, name in (
        (sheet.permutation, "the same decisions in other matches"),
        (sheet.delay, "the same decisions, entered later"),
    ):
        if moved is not None:
            rows.append(AgentRow(name, "range of 95 % of the draws", moved.mean, moved.low, moved.high, moved.n))
    within = scale(list(chain.from_iterable((row.mean, row.low, row.high) for row in rows)))
    return [replace(row, picture=interval_cell(row.mean, row.low, row.high, within)) for row in rows]


def _others(sheet: Sheet) -> list[tuple[str, Estimate]]:
    """Return the mean CLV of every other agent in the sealed bytes of a whole run."""
    events = sheet.source.sealed.events
    agents = [one["agent_id"] for one in orjson.loads(events[: events.index(b"\n")])["payload"]["agents"]]
    if len(agents) < 2 or not sheet.selection.is_whole:
        return []
    marked = replace(sheet.source).marked.filter(is_counted())
    found = ((name, marked.filter(agent_id=name)) for name in sorted(agents) if name != sheet.agent_id)
    return [(name, cluster_mean(own["clv_bps"], own["fixture_id"], level=sheet.level)) for name, own in found]


def _facts(sheet: Sheet) -> dict[str, object]:
    agent = sheet.source.agent
    return {
        "strategy": f"{agent['strategy']}, version {agent['strategy_version']}",
        "no look ahead": causality(card_causality(agent), agent["config"].get("blind")),
        "spread over matches": _spread(sheet),
    }


def _spread(sheet: Sheet) -> str:
    found = sheet.concentration
    if found.effective_clusters is None or found.largest_share is None or found.top_share is None:
        return "There is no scored decision."
    return (
        f"{counted(sheet.clv.n, 'scored decision')} in {counted(sheet.clv.n_clusters, 'fixture')}, as informative as "
        f"{found.effective_clusters:,.1f} fixtures of equal size (Kish). The largest fixture has "
        f"{100 * found.largest_share:.1f} % of them, the {TOP} largest {100 * found.top_share:.1f} %."
    )


# Single decisions.


@dataclass(frozen=True, slots=True)
class DecisionPanel:
    """A decision in words, its picture, the marks of its groups, and its ids for the details."""

    match: str
    bet: str
    league: str
    prices: str
    clv: float
    when: Html
    early: str
    taken: str
    marks: tuple[str, ...]
    picture: Html
    ids: tuple[object, ...]


def _decisions(
    sheet: Sheet, best: Sequence[Extreme], worst: Sequence[Extreme], families: Sequence[PanelFamily]
) -> dict[str, list[DecisionPanel]]:
    """Return the decisions under their headings."""
    if not best:
        return {}
    fixtures = {one.fixture_id: one for one in sheet.source.pack.manifest.fixtures}
    place = {seq: number for number, seq in enumerate(sheet.scored["seq"])}

    def panel_of(found: Extreme, within: tuple[int, int]) -> DecisionPanel:
        row, fixture = found.row, fixtures[found.row["fixture_id"]]
        groups = ((own, own.groups[place[row["seq"]]]) for own in families)
        decided_ms, odds = found.path[0][0], row["odds_milli"]
        side = side_name(row["market_key"], row["side"], fixture.names)
        return DecisionPanel(
            match_name(fixture.names, fixture.fixture_id),
            f"{market_name(row['market_key'])}: {side}",
            league_of(fixture) or "",
            f"{row['entry_prob_bps'] / 100:.1f} to {row['close_prob_bps'] / 100:.1f} %",
            row["clv_bps"],
            time_element(decided_ms, clock(decided_ms).replace(" UTC", "\N{NO-BREAK SPACE}UTC")),
            f"{span(row['to_close_s'])} before the close",
            "no price" if odds is None else f"odds {odds / 1000:.2f}",
            tuple(own.marks[key] for own, key in groups if key in own.marks),
            decision_line(found, within),
            (row["seq"], row["fixture_id"], row["market_key"], row["side"], row["tick_seq"], found.is_whole),
        )

    every = "All {} decisions, the best first" if len(best) > 1 else "The only decision"
    titles = ("The {} best decisions", "The {} worst decisions") if worst else (every,)
    return {
        title.format(len(found)): [panel_of(one, _within(found)) for one in found]
        for title, found in zip(titles, (best, worst), strict=False)
    }


def _within(found: Sequence[Extreme]) -> tuple[int, int]:
    lows, highs = zip(*(one.reach for one in found), strict=True)
    return min(lows), max(highs)


# Figures, pictures and tables by question.


def _questions(sheet: Sheet, drawn: Mapping[str, Html], paid: Executable) -> dict[str, object]:
    settled, own = sheet.settled, sheet.tables
    rows = {row[0]: row for row in sheet.frame.iter_rows()}
    figures = {
        question: [(name, MEANINGS.get(name, ""), *_value(rows[name]), rows[name][4]) for name in names if name in rows]
        for question, names in QUESTIONS.items()
    }
    calibrations = {
        "Confidence against beating the close": sheet.calibration,
        "Closing probability against results": settled.close if settled else None,
        "Entry probability against results": settled.entry if settled else None,
    }
    return {
        "questions": {question: found for question, found in figures.items() if found},
        "pictures": {question: [drawn[name] for name in names if name in drawn] for question, names in _PICTURES.items()},
        "confidence": drawn.get("calibration"),
        "calibrations": {title: found for title, found in calibrations.items() if found},
        "means": [
            (title, own[name].columns[0], _named_rows(name, own[name], sheet.scored))
            for name, title in breakdowns.TITLES.items()
            if name.startswith("by_") and own[name].height
        ],
        "tables": {
            name: (title, _rows(name, own[name], sheet.scored), own[name].columns)
            for name, title in breakdowns.TITLES.items()
            if not name.startswith("by_") and own[name].height
        },
        "priced": sheet.edge.n > 0,
        "settled": settled is not None,
        "glossary": GLOSSARY,
        "moved": mean_rows(sheet.moved_lines, sheet.level),
        "apart": APART,
        "executable": _executable(paid),
    }


def _executable(paid: Executable) -> Html:
    """Show the orders as a part of a section, with headings a level lower than in a card."""
    return Html("") if paid.why else Html(str(render("executable.html", **listed_values(paid))).replace("h5>", "h6>"))


def _value(row: Figure) -> tuple[str | None, str]:
    """Return a figure and its interval as text; `None` without a value."""
    _, value, low, high, unit = row
    digits = 4 if unit.endswith("probability") and unit != BPS else 2
    form = f"z,.{digits}f"
    return None if value is None else f"{value:{form}}", interval(low, high, form)


def _named_rows(name: str, table: pl.DataFrame, scored: pl.DataFrame) -> list[Mapping[str, object]]:
    """Return the rows of a breakdown with ``name`` and ``key`` of their group, and their interval on one scale."""
    names = breakdowns.group_names(name, table, scored)
    keys = table.to_series(0).to_list()
    return [{**row, "name": words, "key": key} for row, words, key in zip(_with_pictures(table), names, keys, strict=True)]


def _with_pictures(table: pl.DataFrame) -> list[Mapping[str, Any]]:
    """Return the rows of a breakdown with pictures of their intervals on one scale."""
    within = scale([*table["low"], *table["high"], *table["mean_clv_bps"]])
    return [
        row | {"picture": interval_cell(row["mean_clv_bps"], row["low"], row["high"], within)}
        for row in table.iter_rows(named=True)
    ]


def _rows(name: str, table: pl.DataFrame, scored: pl.DataFrame) -> Sequence[object]:
    if name == "closes":
        return _with_pictures(table)
    if name == "on_offer":
        return table.rows(named=True)
    return [
        (words, key, *rest)
        for words, (key, *rest) in zip(breakdowns.group_names(name, table, scored), table.iter_rows(), strict=True)
    ]
