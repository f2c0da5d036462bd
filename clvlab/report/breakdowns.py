"""Scored decisions in groups by time, league, market, side, probability and fixture, and reasons of unscored decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.law.closing import LAST_OPEN_MAX_AGE_MS, fixture_closes
from clvlab.law.clv import clv_bps, quoted_edge_bps, reason
from clvlab.law.lines import NONE, Bools, Column, Ints, Positions, frame_of, ints_of, texts_of
from clvlab.law.schema import ClosingPolicy, Reason, Schema
from clvlab.law.tape import Tape
from clvlab.packs.manifest import league_of
from clvlab.packs.reader import shards_of
from clvlab.report.figures import returns_of, settled_profit
from clvlab.report.html import Html
from clvlab.report.svg import cumulative_line, fall_area
from clvlab.runs.run import Run
from clvlab.statistics import group_means
from clvlab.statistics.by_date import cumulative, falls, rolling
from clvlab.statistics.delays import EDGES_S
from clvlab.statistics.fills import series_of
from clvlab.statistics.measures import MEASURES
from clvlab.words import REASONS, REFUSALS, market_names, seconds, side_names, tally

TITLES = {
    "by_time": "Means by time to the close",
    "by_league": "Means by league",
    "by_market": "Means by market",
    "by_side": "Means by side",
    "by_probability": "Means by entry probability",
    "by_gap": "Means by gaps of the capture",
    "closes": "CLV against each close: entry and close from the same source, bps of probability",
    "on_offer": "Prices of each book at the decision, valued at the close of the consensus",
    "reasons": "Decisions by reason",
    "refusals": "Decisions refused by the policy (scores ignore it)",
    "quality": "Data quality of the scored decisions",
}
_MOST_GROUPS, _MOST_STEPS = 12, 60
_TIMES = (
    "under 5 min", "5-15 min", "15-30 min", "30-60 min", "1-2 h", "2-3 h", "3-6 h", "6-12 h", "12-24 h", "1-2 d", "2-4 d",
    "4 d and more",
)  # fmt: skip


def scored_decisions(backtest: Run) -> pl.DataFrame:
    """Return the scored decisions of a backtest, in order of time.

    Returns
    -------
    pl.DataFrame
        ``seq, fixture_id, tick_seq, market_key, side, entry_prob_bps, close_prob_bps, odds_milli, clv_bps, edge_bps, stake``;
        ``close_ts_ms`` of the fixture; ``edge_pct`` and ``price_ratio_pct`` in percent, and the ratio is ``None`` for an entry
        probability of 0; ``to_close_s`` from decision to close, and ``closing_age_s`` of the closing message, in seconds;
        ``confidence`` 0..1; ``in_gap``, whether a gap of the capture touches entry or close; ``at_close``, whether the entry
        is at the closing message.
    """
    closes = backtest.evidence.closes.select("fixture_id", "close_ts_ms").unique()
    return (
        backtest.scores.lazy()
        .with_columns(in_gap=backtest.in_gap, at_close=backtest.at_close)
        .filter(pl.col("reason") == Reason.SCORED)
        .join(backtest.evidence.decisions.lazy().select("seq", "ts_ms", "stake"), on="seq", how="left", maintain_order="left")
        .join(closes.lazy(), on="fixture_id", how="left", maintain_order="left")
        .select(
            "seq", "fixture_id", "tick_seq", "market_key", "side", "entry_prob_bps", "close_prob_bps", "odds_milli", "clv_bps",
            "edge_bps", "stake", "in_gap", "at_close", "close_ts_ms",
            *(one.value.alias(one.column) for one in (MEASURES["edge"], MEASURES["price_ratio"])),
            to_close_s=(pl.col("close_ts_ms") - pl.col("ts_ms")) / 1000,
            closing_age_s=pl.col("closing_age_ms") / 1000,
            confidence=pl.col("confidence_ppm") / 1_000_000,
        )
        .collect(engine="in-memory")
    )  # fmt: skip


def tables(backtest: Run, scored: pl.DataFrame, level: float, *, whole: bool = True) -> dict[str, pl.DataFrame]:
    """Return every breakdown by name: those of ``TITLES``, and ``fixtures``, with the best fixture first.

    A mean CLV with its interval is followed by the mean edge, ``mean_edge_pct, edge_low, edge_high``, and where the pack has
    results by the return of a flat stake, ``return_pct, return_low, return_high``. ``by_league`` is empty if the pack names no
    league, ``by_gap`` without a gap. ``reasons`` and ``refusals`` count the whole run, so they are empty for a part of it.
    """
    results, values = backtest.pack.results, {"edge": ("mean_edge_pct", scored["edge_pct"])}
    if results is not None:
        values["return"] = ("return_pct", 100 * settled_profit(scored, results)["profit"])

    def means(groups: pl.Series) -> pl.DataFrame:
        found = group_means(scored["clv_bps"], scored["fixture_id"], groups, level=level)
        for name, (column, own) in values.items():
            named = {"group": "group", "mean": column, "low": f"{name}_low", "high": f"{name}_high"}
            further = group_means(own, scored["fixture_id"], groups, level=level).select(*named).rename(named)
            found = found.join(further, on="group", how="left", nulls_equal=True, maintain_order="left")
        return found

    tenth = (scored["entry_prob_bps"] // 1000).clip(0, 9)
    by_gap = _with_labels(means(scored["in_gap"].cast(pl.Int64)), "entry and close", ("clear of gaps", "touched by a gap"))
    return {
        "by_time": _with_labels(means(pl.Series(_time_bins(scored))), "time to close", _TIMES),
        "by_league": _by_size(means(_leagues(backtest, scored)).drop_nulls("group"), "league"),
        "by_market": _by_size(means(_markets(scored["market_key"])), "market"),
        "by_side": means(scored["side"]).rename(_NAMES | {"group": "side"}),
        "by_probability": _with_labels(means(tenth), "entry probability", [f"{10 * k}-{10 * k + 10} %" for k in range(10)]),
        "by_gap": by_gap if scored["in_gap"].any() else by_gap.clear(),
        "fixtures": fixture_totals(scored),
        "reasons": _counts(backtest.report["reasons"] if whole else {}, "reason"),
        "refusals": _counts(backtest.report["policy"]["refused"] if whole else {}, "reason"),
        "quality": _quality(backtest, scored, whole=whole),
    }


def _time_bins(scored: pl.DataFrame) -> Ints:
    return np.searchsorted(EDGES_S[1:], scored["to_close_s"].to_numpy(), side="right")


def group_names(name: str, table: pl.DataFrame, scored: pl.DataFrame) -> list[str]:
    """Return the names of the groups of a breakdown for people; a market or a side without a name of its own keeps its key."""
    words: Mapping[str, str] = {}
    if name == "by_market":
        words = market_names(table["market"])
    elif name == "by_side":
        words = side_names(scored.select("market_key", "side").unique().sort("market_key", "side").iter_rows())
    elif name in ("reasons", "refusals"):
        words = REASONS if name == "reasons" else REFUSALS
    return [words.get(key, key) for key in table.to_series(0)]


def fixture_totals(scored: pl.DataFrame) -> pl.DataFrame:
    """Return (fixture_id, n, total_clv_bps), the best fixture first."""
    totals = scored.group_by("fixture_id").agg(n=pl.len(), total_clv_bps=pl.sum("clv_bps"))
    return totals.sort("total_clv_bps", "fixture_id", descending=[True, False])


_NAMES = {"n_clusters": "fixtures", "mean": "mean_clv_bps"}


def _by_size(means: pl.DataFrame, name: str) -> pl.DataFrame:
    return means.sort("n", "group", descending=[True, False]).rename(_NAMES | {"group": name})


def _leagues(backtest: Run, scored: pl.DataFrame) -> pl.Series:
    """Return the league of each decision; without values if the pack names none."""
    known = {one.fixture_id: league_of(one) for one in backtest.pack.manifest.fixtures}
    if not any(known.values()):
        return pl.Series("league", [None] * scored.height, dtype=pl.String)
    named = scored["fixture_id"].replace_strict(known, return_dtype=pl.String).fill_null("no league named")
    return _pooled(named.alias("league"), "leagues")


def _with_labels(means: pl.DataFrame, name: str, labels: list[str] | tuple[str, ...]) -> pl.DataFrame:
    names = pl.Series(name, [labels[number] for number in means["group"]], dtype=pl.String)
    return means.drop("group").rename(_NAMES).insert_column(0, names)


def _markets(keys: pl.Series) -> pl.Series:
    return _pooled(keys, "markets")


def _pooled(keys: pl.Series, what: str) -> pl.Series:
    """Keep the groups with the most decisions, and pool the others."""
    sizes = keys.value_counts(name="n").sort("n", keys.name, descending=[True, False])
    if sizes.height <= _MOST_GROUPS:
        return keys
    kept = sizes[keys.name].head(_MOST_GROUPS - 1)
    pooled = f"{sizes.height - kept.len()} other {what}"
    return pl.select(pl.when(keys.is_in(kept.implode())).then(keys).otherwise(pl.lit(pooled))).to_series()


def groups_of(backtest: Run, scored: pl.DataFrame) -> pl.DataFrame:
    """Return the groups of each scored decision in ``by_time``, ``by_league`` and ``by_market``, by these names.

    ``by_league`` is ``None`` if the pack names no league.
    """
    times = pl.Series(_TIMES, dtype=pl.String).gather(_time_bins(scored))
    league = _leagues(backtest, scored)
    return pl.DataFrame({"by_time": times, "by_league": league, "by_market": _markets(scored["market_key"])})


def group_walks(scored: pl.DataFrame, groups: pl.Series) -> dict[str, list[tuple[int, int]]]:
    """Return (time of the close in ms, cumulative CLV in bps) of each group, at most 60 points, from 0."""
    named = scored.select("clv_bps", "close_ts_ms", "fixture_id", group=groups).drop_nulls(["group", "close_ts_ms"])
    walks = {}
    for (group,), rows in named.group_by("group", maintain_order=True):
        totals = rows.group_by("fixture_id").agg(pl.sum("clv_bps"), pl.max("close_ts_ms")).sort("close_ts_ms", "fixture_id")
        ends, sums = totals["close_ts_ms"], totals["clv_bps"].cum_sum()
        places = np.unique(np.linspace(0, totals.height - 1, min(totals.height, _MOST_STEPS)).astype(int))
        walks[str(group)] = [(ends[0], 0), *zip(ends.gather(places), sums.gather(places), strict=True)]
    return walks


def _counts(counts: dict[str, int], name: str) -> pl.DataFrame:
    return pl.DataFrame(list(counts.items()), schema={name: pl.String, "decisions": pl.Int64}, orient="row")


def _quality(backtest: Run, scored: pl.DataFrame, *, whole: bool) -> pl.DataFrame:
    report = backtest.report
    age = scored["closing_age_s"]
    facts = [
        ("source of the close", f"{report['closing_source']} ({report['provenance']}, {backtest.pack.verified_grade})"),
        *([("decisions by kind of close", tally(report["close_kinds"]) or "none")] if whole else []),
        ("age of the closing message, median", _seconds(age.median())),
        ("age of the closing message, nine in ten at most", _seconds(age.quantile(0.9, "nearest"))),
        ("age of the closing message, at most", _seconds(age.max())),
        ("fixtures with a scored decision", f"{scored['fixture_id'].n_unique():,} of {report['n_fixtures']:,}"),
        ("scored decisions with a quote", f"{scored['odds_milli'].count():,} of {scored.height:,}"),
    ]
    return pl.DataFrame(facts, schema={"fact": pl.String, "value": pl.String}, orient="row")


def _seconds(age: object) -> str:
    return seconds(age) if isinstance(age, int | float) else "none"


# The same decisions against the closes of the consensus and of each book.


CONSENSUS = "consensus"

# Figures of the scored decisions by each close, where entry and close are of the same source. ``difference_bps`` is the
# difference from the consensus over the decisions that both score; ``opposite`` is the share of these with opposite signs.
CLOSES: Schema = {
    "close": pl.String, "n": pl.Int64, "fixtures": pl.Int64, "mean_clv_bps": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "difference_bps": pl.Float64, "difference_low": pl.Float64, "difference_high": pl.Float64, "opposite": pl.Float64,
}  # fmt: skip

# Prices of each book at the decisions: how often it had a price, how often it had the best one, how far it was behind the
# best, the value of its price at the closing probability of the consensus, and the return of a flat stake at its price, in
# percent. The return is ``None`` if the pack has no results.
ON_OFFER: Schema = {
    "book": pl.String, "quoted": pl.Float64, "best": pl.Float64, "behind_best_pct": pl.Float64, "n": pl.Int64,
    "mean_edge_pct": pl.Float64, "low": pl.Float64, "high": pl.Float64, "return_pct": pl.Float64, "return_low": pl.Float64,
    "return_high": pl.Float64,
}  # fmt: skip

_SIDE = ["fixture_id", "market_key", "side"]
_TICK = 2**32 - 1
_SCORED = [*Reason].index(Reason.SCORED)
_BY_SOURCE: Schema = dict.fromkeys(("fixture_id", "clv_bps", "close_prob_bps", "odds_milli"), pl.Int64)


@dataclass(frozen=True, slots=True)
class _States:
    """States of sides as some sources say them, by ``key``, which is ``stream << 32 | tick_seq``, ascending.

    The stream of a side and a source is ``series * sources + number of the source``. Row 0 is before all and has no price.
    """

    sources: int
    key: Ints
    prob_bps: Ints
    odds_milli: Ints
    suspended: Bools

    @classmethod
    def of(cls, rows: pl.DataFrame, stream: Ints, sources: int) -> _States:
        key = (stream << 32) | rows["tick_seq"].to_numpy()
        columns = [key, ints_of(rows["prob_bps"]), ints_of(rows["odds_milli"])]
        columns.append(rows["suspended"].to_numpy())
        if not (key[1:] > key[:-1]).all():
            order = np.argsort(key)
            columns = [column[order] for column in columns]
        first = (np.iinfo(np.int64).min, NONE, NONE, False)
        return cls(sources, *(np.insert(column, 0, value) for column, value in zip(columns, first, strict=True)))

    def latest(self, stream: Ints, tick: Ints, rows: Ints | slice = slice(None)) -> Ints:
        """Return the last row of each stream up to a tick, 0 without one; ``rows`` limits the choice, and has row 0."""
        found = np.searchsorted(self.key[rows], (stream << 32) | tick, side="right") - 1
        row = found if isinstance(rows, slice) else rows[found]
        return np.where(self.key[row] >> 32 == stream, row, 0)


def scored_by_source(backtest: Run, scored: pl.DataFrame) -> pl.DataFrame:
    """Score decisions by the consensus and by every book, with entry and close of the same source.

    Returns
    -------
    pl.DataFrame
        (source, fixture_id, clv_bps, close_prob_bps, odds_milli): a row for each decision and source. Sources follow each
        other, the consensus first, each with all decisions in sealed order. CLV and closing probability are ``None`` for
        unscored decisions and entries at the closing message; odds are ``None`` if the source had none at entry.
    """
    pack, window = backtest.pack, backtest.window
    decided = backtest.evidence.decisions.filter(pl.col("seq").is_in(scored["seq"].implode()))
    names, ends, found = [CONSENSUS, *pack.books], [], dict[str, npt.NDArray[Any]]()
    sources = pl.Series("source", names, dtype=pl.Enum(names))
    for shard in shards_of(pack.manifest.fixtures):
        rows = decided["fixture_id"].is_in([fixture.fixture_id for fixture in shard]).arg_true().to_numpy()
        if rows.size:
            own = decided[rows]
            backed = set(own["fixture_id"].unique().to_list())
            tape = pack.tape(sorted(backed))
            books = pack.files.books([one for one in shard if one.fixture_id in backed]).collect()
            ends.append(fixture_closes(tape, window))
            own = own.join(ends[-1], on="fixture_id", how="left", maintain_order="left")
            for first, states in ((0, _of_consensus(tape)), (1, _of_books(tape, books, pack.books))):
                for name, values in _entry_and_close(tape, own, states).items():
                    whole = found.setdefault(name, np.empty((len(sources), decided.height), values.dtype))
                    whole[first : first + states.sources, rows] = values.T
    decided = decided.join(pl.concat(ends), on="fixture_id", how="left", maintain_order="left")
    texts = {name: texts_of(decided[name])[0] for name in ("agent_id", "action", "market_key", "side", "close_kind")}
    numbers = ("seq", "fixture_id", "tick_seq", "ts_ms", "confidence_ppm", "end_seq", "close_ts_ms")
    common: Mapping[str, Any] = texts | {name: ints_of(decided[name]) for name in numbers}
    frames = []
    for number in range(len(sources)):
        placed = Positions(**common, **{name: values[number] for name, values in found.items() if name != "at_close"})
        counts = (reason(placed, window, pack.manifest.max_close_age_s) == _SCORED) & ~found["at_close"][number]
        columns: dict[str, Column] = {
            "fixture_id": placed.fixture_id,
            "clv_bps": np.where(counts, clv_bps(placed), NONE),
            "close_prob_bps": np.where(counts, placed.close_prob_bps, NONE),
            "odds_milli": placed.odds_milli,
        }
        frames.append(frame_of(columns, _BY_SOURCE).insert_column(0, sources.new_from_index(number, len(counts))))
    return pl.concat(frames)


def _of_consensus(tape: Tape) -> _States:
    return _States.of(tape.rows, tape.rows["series"].cast(pl.Int64).to_numpy(), 1)


def _of_books(tape: Tape, rows: pl.DataFrame, books: Sequence[str]) -> _States:
    """Return the states of books on the series of a tape from ``BOOK_ROWS`` of its fixtures."""
    book = rows["book"].cast(pl.Enum(books)).to_physical().cast(pl.Int64).to_numpy()
    return _States.of(rows, series_of(tape, rows) * len(books) + book, len(books))


def _entry_and_close(tape: Tape, decided: pl.DataFrame, states: _States) -> dict[str, npt.NDArray[Any]]:
    """Return what the law asks of entry and close of decisions (rows) by each source (columns)."""
    numbered = decided.join(tape.series.with_row_index("series"), on=_SIDE, how="left", maintain_order="left")
    series, tick, end_seq, close_ms = (
        numbered[name].cast(pl.Int64).to_numpy()[:, None] for name in ("series", "tick_seq", "end_seq", "close_ts_ms")
    )
    order = np.argsort(series, axis=None)  # what is neighbours in memory is found faster
    place = np.argsort(order)
    stream = (series * states.sources + np.arange(states.sources))[order]
    entry, close = (states.latest(stream, until[order])[place] for until in (tick, end_seq - 1))
    closing_ms = _times(tape, series, states.key[close] & _TICK)
    if tape.closing_policy == ClosingPolicy.LAST_OPEN:
        opened = states.latest(stream, end_seq[order] - 1, np.flatnonzero(~states.suspended))[place]
        open_ms = _times(tape, series, states.key[opened] & _TICK)
        taken = states.suspended[close] & (opened > 0) & (close_ms - open_ms <= LAST_OPEN_MAX_AGE_MS)
        close, closing_ms = np.where(taken, opened, close), np.where(taken, open_ms, closing_ms)
    return {
        "entry_present": entry > 0,
        "entry_suspended": states.suspended[entry],
        "entry_prob_bps": states.prob_bps[entry],
        "odds_milli": states.odds_milli[entry],
        "closing_present": close > 0,
        "closing_suspended": states.suspended[close],
        "close_prob_bps": states.prob_bps[close],
        "closing_ts_ms": closing_ms,
        "at_close": entry == close,
    }


def _times(tape: Tape, series: Ints, tick: Ints) -> Ints:
    """Return the time of the message of a series' fixture at each tick; of a tick that does not exist, any time."""
    fixture, message = tape.series["fixture_id"].to_numpy()[series], tape.messages
    ids, of = np.unique(message["fixture_id"].to_numpy(), return_inverse=True)
    key = (of.astype(np.int64) << 32) | message["tick_seq"].to_numpy()
    place = np.searchsorted(key, (np.searchsorted(ids, fixture) << 32) | tick)
    return message["ts_ms"].to_numpy()[np.minimum(place, len(key) - 1)]


def closes_table(found: pl.DataFrame, level: float) -> pl.DataFrame:
    """Return ``CLOSES`` of the rows of ``scored_by_source``, the consensus first, then books by name."""
    is_book = found["source"] != CONSENSUS
    of_consensus = _of_each(found.filter(~is_book)["clv_bps"], found)
    both = found.with_columns(of_consensus=of_consensus).filter(is_book).drop_nulls(["clv_bps", "of_consensus"])
    counted = found.drop_nulls("clv_bps")
    apart = group_means(both["clv_bps"] - both["of_consensus"], both["fixture_id"], both["source"], level=level)
    signs = both.group_by("source").agg(opposite=(pl.col("clv_bps") * pl.col("of_consensus") < 0).mean())
    return (
        group_means(counted["clv_bps"], counted["fixture_id"], counted["source"], level=level)
        .rename({"group": "close", "n_clusters": "fixtures", "mean": "mean_clv_bps"})
        .join(_apart(apart), on="close", how="left")
        .join(signs.rename({"source": "close"}), on="close", how="left")
        .sort(pl.col("close") != CONSENSUS, "close")
        .select(pl.col(name).cast(dtype) for name, dtype in CLOSES.items())
    )


def _of_each(values: pl.Series, found: pl.DataFrame) -> pl.Series:
    """Return the values of all decisions once more for each source."""
    return pl.concat([values] * (found.height // max(len(values), 1)))


def _apart(means: pl.DataFrame) -> pl.DataFrame:
    named = {"group": "close", "mean": "difference_bps", "low": "difference_low", "high": "difference_high"}
    return means.select(*named).rename(named)


def on_offer_table(found: pl.DataFrame, level: float, results: pl.Series | None = None) -> pl.DataFrame:
    """Return ``ON_OFFER`` of the rows of ``scored_by_source``, by book; ``results`` are those of the decisions in order."""
    of_consensus = found["source"] == CONSENSUS
    closing = found.filter(of_consensus)["close_prob_bps"]
    books = found.filter(~of_consensus).with_columns(closing=_of_each(closing, found.filter(~of_consensus)))
    each = books.partition_by("source", maintain_order=True)
    best = pl.select(best=pl.max_horizontal(own["odds_milli"] for own in each))
    # book by book, because the last bit of a mean over groups depends on threads
    offered = pl.concat(
        own.hstack(best).select(
            pl.first("source"),
            quoted=pl.col("odds_milli").is_not_null().mean(),
            best=(pl.col("odds_milli") == pl.col("best")).mean(),
            behind_best_pct=(100 * (1 - pl.col("odds_milli") / pl.col("best"))).mean(),
        )
        for own in each
    )
    valued = books.drop_nulls(["odds_milli", "closing"])
    edge_pct = pl.Series(quoted_edge_bps(ints_of(valued["closing"]), ints_of(valued["odds_milli"])) / 100)
    means = group_means(edge_pct, valued["fixture_id"], valued["source"], level=level)
    won = pl.Series([None], dtype=pl.String).new_from_index(0, books.height) if results is None else _of_each(results, books)
    profit = books.select((100 * returns_of(pl.lit(won), pl.col("odds_milli") / 1000)).cast(pl.Float64)).to_series()
    returns = group_means(profit, books["fixture_id"], books["source"], level=level)
    named = {"group": "source", "mean": "return_pct", "low": "return_low", "high": "return_high"}
    return (
        offered.join(means.rename({"group": "source", "mean": "mean_edge_pct"}), on="source", how="left")
        .join(returns.select(*named).rename(named), on="source", how="left")
        .sort("source")
        .rename({"source": "book"})
        .select(pl.col(name).cast(dtype) for name, dtype in ON_OFFER.items())
    )


def tables_of(backtest: Run, scored: pl.DataFrame, level: float) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield both tables by name, empty without books or scores."""
    if not backtest.pack.books or scored.is_empty():
        yield from (("closes", pl.DataFrame(schema=CLOSES)), ("on_offer", pl.DataFrame(schema=ON_OFFER)))
        return
    found = scored_by_source(backtest, scored)
    results = backtest.pack.results
    won = None if results is None else settled_profit(scored.sort("seq"), results)["result"]
    yield from (("closes", closes_table(found, level)), ("on_offer", on_offer_table(found, level, won)))


# Scored decisions by the date of their close: cards and tear sheets draw the sum so far.


_LEAST_ROLLED = 20


def cumulative_clv(scored: pl.DataFrame, closes: pl.DataFrame, level: float = 0.95) -> pl.DataFrame:
    """Return ``CUMULATIVE`` of the CLV of scored decisions, in bps, by the close of their fixture."""
    ends = closes.group_by("fixture_id").agg(pl.max("close_ts_ms"))
    dated = scored.select("fixture_id", "clv_bps").join(ends, on="fixture_id", maintain_order="left")
    return cumulative(dated["clv_bps"], dated["fixture_id"], dated["close_ts_ms"], level=level)


def cumulative_picture(found: pl.DataFrame, level: float = 0.95, **more: Any) -> Html:
    """Draw ``CUMULATIVE`` of CLV as an SVG element; empty with one date."""
    columns = (found[name].to_list() for name in ("time_ms", "total", "low", "high"))
    return cumulative_line(*columns, title=f"Cumulative CLV by date of the close, {level:.0%} band", unit="bps", **more)


def dated_pictures(
    scored: pl.DataFrame, level: float, *, tall: int = 166, parts: Mapping[str, Sequence[tuple[float, float]]] | None = None
) -> list[Html]:
    """Draw CLV by close on one axis of dates: the sum, ``tall`` pixels high, the rolling mean, and the fall from the peak.

    ``parts`` are sums of parts by the classes of their lines; see ``cumulative_line``.
    """
    if scored.is_empty():
        return []
    by_date = scored["clv_bps"], scored["fixture_id"], scored["close_ts_ms"]
    width = max(_LEAST_ROLLED, scored["fixture_id"].n_unique() // 10)
    rolled, fallen = rolling(*by_date, width, level=level), falls(*by_date)
    times = fallen["time_ms"].to_list()
    mean = cumulative_line(
        *(rolled[name].to_list() for name in ("time_ms", "mean", "low", "high")),
        title=f"Mean CLV of the last {width} fixtures, {level:.0%} band", unit="bps", within_ms=(times[0], times[-1]),
    )  # fmt: skip
    fall = fall_area(times, fallen["fall"].to_list(), title="Fall from the peak")
    total = cumulative_picture(cumulative(*by_date, level=level), level, height=tall, parts=parts)
    return [part for part in (total, mean, fall) if part]
