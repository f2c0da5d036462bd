"""Decisions on lines that moved, priced by other quotes at the close; outside the law."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property

import polars as pl

from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.markets import Market, Role, UnreadKey, role_of, unread_keys
from clvlab.law.schema import Reason, Schema
from clvlab.law.tape import Tape
from clvlab.report.export import Exportable, check_settings
from clvlab.report.headline import spelt_mean
from clvlab.report.html import Html, card
from clvlab.runs.run import Run
from clvlab.statistics import Estimate, cluster_mean
from clvlab.statistics.moved_lines import FIRST_ROLES, LineQuote, UnquotedLine, moved_closes, quotes_of, scored_by_goals
from clvlab.words import REASONS, counted, market_names

MOVED_LINES: Schema = {
    "seq": pl.Int64,
    "fixture_id": pl.Int64,
    "tick_seq": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "reason": pl.String,
    "entry_prob_bps": pl.Int64,
    "moved_close_prob_bps": pl.Int64,
    "moved_clv_bps": pl.Int64,
    "moved_rule": pl.String,
    "moved_error_bps": pl.Float64,
    "close_ts_ms": pl.Int64,
}
APART = (
    "These decisions are on lines that were no longer quoted at the close. The law does not score them. "
    "They are not part of the mean CLV."
)
TapeOf = Callable[[list[int]], Tape]
ClosingQuotes = dict[tuple[int, str], tuple[list[LineQuote], bool]]
"""By fixture and period: the open lines at the close, and whether the score counts goals."""
_REASONS = (Reason.CLOSING_MARKET_ABSENT, Reason.CLOSING_SUSPENDED, Reason.CLOSING_STALE)
_WHOLE_BPS = 10_000


def moved_lines(run: Run) -> pl.DataFrame:
    """Price the decisions of a run whose line is not quoted at the close; see ``priced_lines``."""
    return priced_lines(run.scores, run.evidence.decisions, run.pack.tape, run.window)


def priced_lines(scores: pl.DataFrame, decisions: pl.DataFrame, tape_of: TapeOf, window: Window) -> pl.DataFrame:
    """Price the decisions whose line is not quoted at the close, in order of ``seq``.

    Returns
    -------
    pl.DataFrame
        ``MOVED_LINES``: decisions that the rule can price, entered before the window's horizon.
    """
    rows = _without_close(scores)
    lines = {key: market for key in rows["market_key"].unique() if (market := _of_score(key)) and market.kind in FIRST_ROLES}
    rows = rows.filter(pl.col("market_key").is_in(list(lines)))
    if rows.is_empty():
        return pl.DataFrame(schema=MOVED_LINES)
    rows = rows.join(decisions.select("seq", "ts_ms"), on="seq", how="left", maintain_order="left")
    tape = tape_of(rows["fixture_id"].unique().sort().to_list())
    ends = fixture_closes(tape, window)
    rows = rows.join(ends.select("fixture_id", "close_ts_ms"), on="fixture_id", how="left", maintain_order="left")
    # As in the law, an entry just before the close has the closing price.
    rows = rows.filter(pl.col("close_ts_ms") - pl.col("ts_ms") >= 1000 * window.min_clv_horizon_s)
    quotes = closing_quotes(tape.at_source(window.close_source), ends)
    return pl.DataFrame(_priced_rows(rows, lines, quotes), schema=MOVED_LINES, orient="row").sort("seq")


def unread_markets(scores: pl.DataFrame) -> list[UnreadKey]:
    """Return the markets of decisions without a close whose keys can't be read; they have no price."""
    return unread_keys(_without_close(scores)["market_key"].unique().sort())


def _without_close(scores: pl.DataFrame) -> pl.DataFrame:
    return scores.filter(pl.col("reason").is_in([reason.value for reason in _REASONS]))


def _of_score(market_key: str, sides: Iterable[str] = ()) -> Market | None:
    """Return a market that both sides' score settles; `None` for any other market."""
    market = Market.parse(market_key, sides)
    return None if isinstance(market, UnreadKey) or market.of or market.stat else market


def moved_mean(found: pl.DataFrame, level: float) -> Estimate:
    """Return the mean of ``moved_clv_bps`` over fixtures, which is not the mean CLV."""
    return cluster_mean(found["moved_clv_bps"], found["fixture_id"], level=level)


def moved_means(found: pl.DataFrame, level: float) -> pl.DataFrame:
    """Return a row for all of ``MOVED_LINES``, and one for each rule if there are several.

    Returns
    -------
    pl.DataFrame
        ``rule, n, fixtures, mean, low, high``, and ``error_bps``, the root mean square of the estimated errors.
    """
    word = found["moved_rule"].str.split(" ").list.first()
    kinds = [("all", found), *((one, found.filter(word == one)) for one in word.unique().sort() if word.n_unique() > 1)]
    rows = []
    for name, part in kinds:
        mean, error = moved_mean(part, level), part.select((pl.col("moved_error_bps") ** 2).mean().sqrt()).item()
        rows.append((name, mean.n, mean.n_clusters, mean.mean, mean.low, mean.high, error))
    numbers = ("mean", "low", "high", "error_bps")
    schema = {"rule": pl.String, "n": pl.Int64, "fixtures": pl.Int64} | dict.fromkeys(numbers, pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


@dataclass(frozen=True, slots=True)
class MovedMean:
    """The mean of decisions on lines that moved, by one rule or all, and the error of the fit as text."""

    rule: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    fixtures: int
    error: str


def mean_rows(found: pl.DataFrame, level: float) -> list[MovedMean]:
    """Return the means of ``MOVED_LINES`` in readable form; empty without a decision."""
    if found.is_empty():
        return []
    return [
        MovedMean(rule, mean, low, high, n, fixtures, spelt_error(rule, error_bps))
        for rule, n, fixtures, mean, low, high, error_bps in moved_means(found, level).iter_rows()
    ]


def spelt_error(rule: str, error_bps: float | None) -> str:
    """Return the error of a fit as text; a quoted line has none.

    Examples
    --------
    >>> spelt_error("fitted goals, moved-lines/2", 93.4), spelt_error("fitted", None), spelt_error("alternate", None)
    ('93', 'not known', 'none: quoted')
    """
    if error_bps is None:
        return "none: quoted" if rule.startswith("alternate") else "not known"
    return f"{error_bps:,.0f}"


def closing_quotes(tape: Tape, ends: pl.DataFrame) -> ClosingQuotes:
    """Return the open lines of each fixture and period at its close, and whether its score counts goals."""
    states: dict[tuple[int, str], list[tuple[Market, dict[Role, int]]]] = {}
    read = cache(_of_score)
    for fixture_id, market_key, sides, probs in _closing_states(tape, ends).iter_rows():
        market = read(market_key, tuple(sides))
        if market is not None:
            prob_bps = {role: probs[sides.index(side)] for side, role in market.sides}
            states.setdefault((fixture_id, market.period), []).append((market, prob_bps))
    return {
        period: (
            [quote for state in found for quote in quotes_of(*state)],
            scored_by_goals([(market, Role.DRAW in probs) for market, probs in found]),
        )
        for period, found in states.items()
    }


def _closing_states(tape: Tape, ends: pl.DataFrame) -> pl.DataFrame:
    """Return (fixture_id, market_key, sides, probs) of all markets that are open and fresh at the close."""
    markets = tape.series.select("fixture_id", "market_key").unique()
    closed = market_closes(tape, markets, ends).drop_nulls("close_row")
    closes = closed.select("fixture_id", "market_key", "close_row", "close_ts_ms")
    sides = tape.series.select("fixture_id", "market_key", "side", "start", "market_start")
    named = closes.join(sides, on=["fixture_id", "market_key"]).sort("fixture_id", "market_key", "side")
    row = named["close_row"] + named["start"] - named["market_start"]
    states = named.with_columns(tape.rows["prob_bps"].gather(row), tape.rows["ts_ms"].gather(row)).drop_nulls("prob_bps")
    if tape.max_close_age_s is not None:
        states = states.filter(pl.col("close_ts_ms") - pl.col("ts_ms") <= 1000 * tape.max_close_age_s)
    return states.group_by("fixture_id", "market_key", maintain_order=True).agg("side", "prob_bps")


def _priced_rows(rows: pl.DataFrame, lines: dict[str, Market], quotes: ClosingQuotes) -> Iterable[tuple[object, ...]]:
    keys = rows.select("fixture_id", "market_key").unique(maintain_order=True).rows()
    markets = [lines[market_key] for _, market_key in keys]
    known = [
        quotes.get((fixture_id, market.period), ([], False)) for (fixture_id, _), market in zip(keys, markets, strict=True)
    ]
    priced = moved_closes(
        [UnquotedLine(market.kind, market.quarters, *own) for market, own in zip(markets, known, strict=True)]
    )
    closes = dict(zip(keys, priced, strict=True))
    roles = {key: role_of(key[1], lines[key[0]]) for key in rows.select("market_key", "side").unique().iter_rows()}
    for row in rows.iter_rows(named=True):
        role, either = roles[row["market_key"], row["side"]], FIRST_ROLES[lines[row["market_key"]].kind]
        close = closes[row["fixture_id"], row["market_key"]]
        if role not in either or close is None:
            continue
        prob = close.prob_bps if role is either[0] else _WHOLE_BPS - close.prob_bps
        entry = row["entry_prob_bps"]
        head = (row[name] for name in ("seq", "fixture_id", "tick_seq", "market_key", "side", "reason"))
        yield (*head, entry, prob, prob - entry, close.rule, close.error_bps, row["close_ts_ms"])


# The frame and card of decisions on lines that moved.


_MAX_ROWS, _NAMED = 20, 3


@dataclass(frozen=True)
class MovedLines(Exportable):
    """Decisions of one agent on lines that moved, outside the mean CLV; made by ``Result.moved_lines()``.

    Attributes
    ----------
    source
        The run of the agent.
    level
        Level of the interval.
    """

    source: Run = field(repr=False)
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self.level)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``MOVED_LINES``, one row per decision: entry, close, CLV, rule and error."""
        return moved_lines(self.source)

    @cached_property
    def mean(self) -> Estimate:
        """Mean of ``moved_clv_bps`` over fixtures, in bps of probability."""
        return moved_mean(self.frame, self.level)

    @cached_property
    def unread(self) -> list[UnreadKey]:
        """Markets of decisions without a close whose keys can't be read."""
        return unread_markets(self.source.scores)

    @property
    def _left_out(self) -> str:
        more = f", and {len(self.unread) - _NAMED:,} more, in .unread" if len(self.unread) > _NAMED else ""
        return "".join(f"; {one}" for one in self.unread[:_NAMED]) + more

    def __repr__(self) -> str:
        if self.frame.is_empty():
            return f"Lines that moved: no decision on one{self._left_out}"
        count, mean = counted(self.mean.n, "decision"), spelt_mean(self.mean, "bps")
        text = f"{count} in {counted(self.mean.n_clusters, 'fixture')}, mean {mean}, not part of the mean CLV{self._left_out}"
        return f"Lines that moved: {text}; next: .frame, .mean, .to_html(path)"

    def _repr_html_(self) -> Html:
        names, first = market_names(self.frame["market_key"]), self.frame.head(_MAX_ROWS)
        rows = [
            row
            | {
                "market": names[row["market_key"]],
                "why": REASONS[row["reason"]],
                "error": spelt_error(row["moved_rule"], row["moved_error_bps"]),
            }
            for row in first.iter_rows(named=True)
        ]
        return card(
            "moved_lines.html",
            "Lines that moved" if self.frame.is_empty() else "",
            means=mean_rows(self.frame, self.level),
            apart=APART,
            rows=rows,
            height=self.frame.height,
            unread=self._left_out[2:],
        )
