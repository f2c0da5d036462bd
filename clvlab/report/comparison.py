"""Comparisons and leaderboards of agents, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import polars as pl

from clvlab.errors import StatisticsError
from clvlab.law.metrics import rank
from clvlab.law.schema import Schema
from clvlab.report.export import Exportable, check_settings
from clvlab.report.figures import flat_return
from clvlab.report.headline import Column, forest
from clvlab.report.html import Html, card
from clvlab.runs import ranking
from clvlab.runs.card import ANSWERS_PUBLIC, may_hold_past
from clvlab.runs.run import Run
from clvlab.statistics import Clusters, Difference, Estimate, estimates, paired_difference
from clvlab.statistics.measures import MEASURES, Measure, fixture_sums, measure_of, stacked
from clvlab.statistics.verdict import RUN, SEARCH, Figure, Tone, Verdict, difference_phrases, tone_of, verdict
from clvlab.words import interval

# Comparisons of backtests, paired by fixture.


_KEY = ("fixture_id", "tick_seq", "market_key", "side")


def mean_table(sums: Sequence[pl.DataFrame], measure: Measure, level: float) -> pl.DataFrame:
    """Return one row for each of several ``FIXTURE_SUMS``: the mean of a measure with its errors, and the other means.

    Returns
    -------
    pl.DataFrame
        ``n, fixtures``, the mean under its name, its ``low, high, t, p_value``, and the means by the other measures with
        intervals, such as ``mean_edge_pct, edge_low, edge_high``.
    """
    found = estimates(stacked(sums, measure)[0], level=level)
    named = {
        "n": [one.n for one in found],
        "fixtures": [one.n_clusters for one in found],
        measure.mean: [one.mean for one in found],
        "low": [one.low for one in found],
        "high": [one.high for one in found],
        "t": [one.t for one in found],
        "p_value": [one.p_value for one in found],
    }
    for other in MEASURES.values():
        if other is not measure:
            others = estimates(stacked(sums, other)[0], level=level)
            named[other.mean] = [one.mean for one in others]
            named[f"{other.name}_low"] = [one.low for one in others]
            named[f"{other.name}_high"] = [one.high for one in others]
    schema = {name: pl.Int64 if name in ("n", "fixtures") else pl.Float64 for name in named}
    return pl.DataFrame(named, schema=schema)


def returns_table(sources: Sequence[Run], level: float) -> pl.DataFrame:
    """Return (return_pct, return_low, return_high) of a flat stake per run; without columns if no pack has results."""
    found = [flat_return(source, level) for source in sources]
    if all(one is None for one in found):
        return pl.DataFrame()
    rows = [(None,) * 3 if one is None else (one.mean, one.low, one.high) for one in found]
    return pl.DataFrame(rows, schema=dict.fromkeys(("return_pct", "return_low", "return_high"), pl.Float64), orient="row")


def _line_and_price(by: str) -> tuple[Measure, Measure]:
    """Return the measures of a verdict: the line by CLV unless by another measure of it, and the price by the edge."""
    return MEASURES["clv"] if by == "edge" else measure_of(by), MEASURES["edge"]


def _others(measure: Measure, columns: Sequence[str]) -> list[Column]:
    """Return the columns of a forest besides those of its measure: CLV, edge, and the return where there is one."""
    named = [(one.mean, one.name, f"{one.title}, {one.short}") for one in (MEASURES["clv"], MEASURES["edge"])]
    named.append(("return_pct", "return", "return on a flat stake, %"))
    return [
        Column(title, mean, f"{name}_low", f"{name}_high")
        for mean, name, title in named
        if mean in columns and mean != measure.mean
    ]


def unique_names(names: Sequence[str]) -> list[str]:
    """Number repeated names: ``a, b, a (2)``."""
    return [name if not (n := names[:k].count(name)) else f"{name} ({n + 1})" for k, name in enumerate(names)]


@dataclass(frozen=True)
class Comparison(Exportable):
    """Several agents over the same pack; made by ``clvlab.compare()``.

    Attributes
    ----------
    sources
        The agents; the first is the reference.
    by
        The measure: ``clv``, ``edge`` or ``price_ratio``.
    level
        Level of all intervals.
    """

    sources: tuple[Run, ...]
    by: str = "clv"
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self.level)
        measure_of(self.by)
        if len(self.sources) < 2:
            raise StatisticsError(f"a comparison needs at least two backtests, not {len(self.sources)}")
        first = self.sources[0]
        for other in self.sources[1:]:
            if other.content_hash != first.content_hash:
                raise StatisticsError(
                    f"backtests over different packs have no fixtures in common: {first.pack_id!r} is {first.content_hash}, "
                    f"{other.pack_id!r} is {other.content_hash}"
                )

    @cached_property
    def names(self) -> list[str]:
        return unique_names([source.agent_id for source in self.sources])

    @cached_property
    def _each(self) -> list[pl.DataFrame]:
        return [fixture_sums(source.marked) for source in self.sources]

    @cached_property
    def _sums(self) -> tuple[Clusters, pl.Series]:
        return stacked(self._each, self._measure)

    @property
    def _measure(self) -> Measure:
        return measure_of(self.by)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per backtest: mean, interval, cluster t, one-sided p, the other means with intervals, and the return.

        ``return_pct`` is that of a flat stake, with ``return_low`` and ``return_high``, where the pack has results.
        """
        means = mean_table(self._each, self._measure, self.level).hstack(returns_table(self.sources, self.level))
        return means.insert_column(0, pl.Series("agent", self.names))

    @cached_property
    def differences(self) -> pl.DataFrame:
        """One row per other backtest: its mean minus that of the first, paired by fixture; and so by line and price."""
        others = [one for one in _line_and_price(self.by) if one is not self._measure]
        numbers = [self._measure.mean, "low", "high", "t"]
        numbers += [name for one in others for name in (one.mean, f"{one.name}_low", f"{one.name}_high")]
        rows = []
        for k in range(1, len(self.sources)):
            found, further = self._difference(self._measure, k), [self._difference(one, k) for one in others]
            own = (found.n_clusters, found.difference, found.low, found.high, found.t)
            rest = (value for one in further for value in (one.difference, one.low, one.high))
            rows.append((f"{self.names[k]} - {self.names[0]}", *own, *rest))
        schema: Schema = {"difference": pl.String, "fixtures": pl.Int64, **dict.fromkeys(numbers, pl.Float64)}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _difference(self, measure: Measure, k: int) -> Difference:
        return paired_difference(stacked(self._each, measure)[0], k, 0, level=self.level)

    @cached_property
    def fixtures(self) -> pl.DataFrame:
        """One row per fixture, with the mean of each backtest, or ``None`` without a scored decision."""
        sums, fixtures = self._sums
        means = {
            name: pl.select(pl.when(pl.Series(n) > 0).then(pl.Series(s) / pl.Series(n))).to_series()
            for name, s, n in zip(self.names, sums.sums.T, sums.counts.T, strict=True)
        }
        return pl.DataFrame({"fixture_id": fixtures} | means)

    @cached_property
    def settings(self) -> pl.DataFrame:
        """One row per setting that differs: (setting, one column per backtest), as text."""
        each = [_settings(source) for source in self.sources]
        known = list(dict.fromkeys(name for own in each for name in own))
        rows = [(name, *(own.get(name) for own in each)) for name in known]
        differing = [row for row in rows if len(set(row[1:])) > 1]
        return pl.DataFrame(differing, schema=dict.fromkeys(["setting", *self.names], pl.String), orient="row")

    @property
    def yardsticks(self) -> str:
        """The closes of the backtests in words if they differ; otherwise empty."""
        closes = [_closing(source) for source in self.sources]
        if len(set(closes)) == 1:
            return ""
        each = ", ".join(f"{name} by {close}" for name, close in zip(self.names, closes, strict=True))
        return f"The yardsticks differ: {each}; only the closes may differ."

    @cached_property
    def overlap(self) -> pl.DataFrame:
        """One row per pair: positions (tick, market and side) of both, positions of only one, and the shared percentage."""
        keys = [source.scores.drop_nulls(["market_key", "side"]).select(_KEY).unique() for source in self.sources]
        rows = []
        for a, b in combinations(range(len(keys)), 2):
            both = keys[a].join(keys[b], on=_KEY, how="semi").height
            either = keys[a].height + keys[b].height - both
            shared = 100 * both / either if either else None
            rows.append((f"{self.names[a]}, {self.names[b]}", both, keys[a].height - both, keys[b].height - both, shared))
        schema = {
            "pair": pl.String,
            "both": pl.Int64,
            "first_only": pl.Int64,
            "second_only": pl.Int64,
            "shared_pct": pl.Float64,
        }
        return pl.DataFrame(rows, schema=schema, orient="row")

    def __repr__(self) -> str:
        text = "; ".join(
            f"{row['difference']}: "
            + ("no difference to estimate" if row[self._measure.mean] is None else _difference_text(row, self._measure))
            for row in self.differences.iter_rows(named=True)
        )
        differ = f"{self.yardsticks} " if self.yardsticks else ""
        steps = "next: .differences, .settings, .overlap, .fixtures"
        return f"Comparison of {len(self.sources)} backtests: {differ}{text}; {steps}"

    def _repr_html_(self) -> Html:
        measure = self._measure
        tables = {
            f"Mean {measure.title}, {measure.unit}": self.frame,
            f"Difference of mean {measure.title}, paired by fixture, {measure.unit}": self.differences,
            "Settings that differ": self.settings,
            "Positions in common": self.overlap,
        }
        return card(
            "comparison.html",
            f"Comparison on {self.sources[0].pack_id}",
            verdict=self.verdict,
            yardsticks=self.yardsticks,
            differences=forest(
                self.differences.rename({"difference": "agent"}), measure, _others(measure, self.differences.columns)
            ),
            each=forest(self.frame, measure, _others(measure, self.frame.columns)),
            measure=measure,
            level=self.level,
            tables=tables,
        )

    @property
    def verdict(self) -> Verdict:
        """The differences in one sentence."""
        line, price = _line_and_price(self.by)
        first, others = self.names[0], range(1, len(self.sources))
        if len(others) == 1:
            words = difference_phrases(self.names[1], first)
            return verdict(
                self._difference(line, 1), self._difference(price, 1), wording=words, caveat="", unit=line.short, of=line.title
            )
        tones = [[Figure.of(self._difference(one, k)).tone for k in others] for one in (line, price)]
        counts = [_tally(own) for own in tones]
        priced = any(tone is not Tone.NOTHING for tone in tones[1])
        at = f"at the prices taken, if the close is right, {counts[1]}" if priced else "not both have prices"
        whole = tone_of(*(_common(own) for own in tones))
        return Verdict(f"Versus {first}: by the line {counts[0]}; {at}; each is tested alone.", whole)


def _common(tones: Sequence[Tone]) -> Tone:
    """Return the tone of several differences: clear only where none contradicts."""
    ahead, behind = Tone.BEATS in tones, Tone.LOSES in tones
    if all(tone is Tone.NOTHING for tone in tones):
        return Tone.NOTHING
    return Tone.UNCLEAR if ahead == behind else Tone.BEATS if ahead else Tone.LOSES


def _tally(tones: Sequence[Tone]) -> str:
    ahead, behind = tones.count(Tone.BEATS), tones.count(Tone.LOSES)
    others = len(tones) - ahead - behind
    return f"{ahead} better, {behind} worse{f', {others} undecided' if others else ''}"


def _closing(source: Run) -> str:
    window = source.started["window"]
    ends = window["end_rule"] if window["duration_s"] is None else f"{window['end_rule']} of {window['duration_s']} s"
    age = f", at most {window['max_close_age_s']} s old" if "max_close_age_s" in window else ""
    return f"{window.get('close_source', 'the consensus')} ({ends}, {window['closing_policy']}{age})"


def _difference_text(row: dict[str, Any], measure: Measure) -> str:
    return f"{row[measure.mean]:+.2f} {measure.unit}{interval(row['low'], row['high'], '.2f')}"


def _settings(source: Run) -> dict[str, str | None]:
    """Return the settings of a backtest as text: agent, parameters, window, policy, fixtures."""
    started, agent = source.started, source.agent
    named: dict[str, object] = {name: agent[name] for name in ("strategy", "strategy_version", "source_sha256")}
    named |= {f"config.{name}": value for name, value in agent["config"].items()}
    named |= {f"window.{name}": value for name, value in started["window"].items()}
    named |= {f"policy.{name}": value for name, value in started["policy"].items()}
    named["fixtures"] = len(started["binding"]["fixture_ids"])
    return {name: None if value is None else str(value) for name, value in named.items()}


_RANKING = ("rank", "agent_id", "mean_clv_bps", "action_count", "fixtures", "total_clv_bps", "sim_pnl")


@dataclass(frozen=True)
class Leaderboard(Exportable):
    """Backtests with ranks by mean CLV, sorted by this or another mean; made by ``clvlab.leaderboard()``."""

    sources: tuple[Run, ...]
    by: str = "clv"
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self.level)
        measure_of(self.by)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``OUTCOMES`` with the law's ``rank``, and ``fixtures``, ``low``, ``high``, ``t`` and ``p_value`` of the mean.

        Agents with ``hindsight_possible`` come last. A measure other than CLV adds its mean and sets the order, not the rank.
        The other means follow with intervals, and the return of a flat stake where a pack has results; see ``Comparison``.
        Means and intervals leave out entries at the closing message; the law's ``rank`` includes them.
        """
        return self._ranked.drop("source")

    @cached_property
    def _ranked(self) -> pl.DataFrame:
        """``frame`` with ``source``, the number of the backtest."""
        if not self.sources:
            return ranking.leaderboard([]).with_columns(hindsight_possible=pl.lit(value=False), source=pl.lit(0))
        measure = measure_of(self.by)
        found = mean_table([fixture_sums(source.marked) for source in self.sources], measure, self.level)
        held = [may_hold_past(source.agent, source.started["source_mode"]) for source in self.sources]
        made = pl.concat([source.outcomes for source in self.sources]).hstack(found.drop("n", "mean_clv_bps"))
        made = made.hstack(returns_table(self.sources, self.level)).with_row_index("source")
        ranked = rank(made.with_columns(hindsight_possible=pl.Series(held, dtype=pl.Boolean)))
        if self.by != "clv":
            ranked = ranked.sort(measure.mean, descending=True, nulls_last=True, maintain_order=True)
        return ranked.sort("hindsight_possible", maintain_order=True)

    def __repr__(self) -> str:
        firm = self._firm
        first = "" if firm.is_empty() else f", {firm['agent_id'][0]} first"
        return f"Leaderboard of {len(self.sources)} backtests{first}; next: .frame, clvlab.compare(backtests)"

    @property
    def _firm(self) -> pl.DataFrame:
        """Rows of agents that can't contain past prices."""
        return self._ranked.remove("hindsight_possible")

    def card(self, title: str, *, checks: Mapping[str, str] | None = None, folded: Sequence[Mapping[str, object]] = ()) -> Html:
        """Show the verdict on the first agent, a forest of all, and the collapsed ranking.

        Agents that may contain past prices have a separate forest, without a verdict.

        Parameters
        ----------
        title
            Heading of the card.
        checks, folded
            The verdicts of a run's seven checks by name, and collapsed facts.
        """
        measure, rows = measure_of(self.by), self.frame
        firm, doubtful = (part.rename({"agent_id": "agent"}) for part in (self._firm, rows.filter("hindsight_possible")))
        others = _others(measure, rows.columns)
        further = [name for one in others for name in (one.mean, one.low, one.high)]
        named = dict.fromkeys((*_RANKING[:2], measure.mean, "low", "high", "t", "p_value", *further, *_RANKING[2:]))
        return card(
            "leaderboard.html",
            title,
            verdict=self._verdict() if firm.height else None,
            firm=forest(firm, measure, others) if firm.height else None,
            doubtful=forest(doubtful, measure, others) if doubtful.height else None,
            answers_public=ANSWERS_PUBLIC,
            measure=measure,
            level=self.level,
            ranking=rows.select([column for column in named if column in rows.columns]),
            checks=checks,
            folded=folded,
        )

    def _verdict(self) -> Verdict:
        rows, (line, price) = self._firm, _line_and_price(self.by)
        name, source = rows["agent_id"][0], self.sources[rows["source"][0]]
        best = f"the best of {rows.height} looks better than it is" if rows.height > 1 else SEARCH
        words = RUN.after(f"{name} is first,", f"{name} is first: nothing was scored")
        return verdict(*self._estimates(source, line, price), wording=words, caveat=best, unit=line.short, of=line.title)

    def _estimates(self, source: Run, line: Measure, price: Measure) -> tuple[Estimate, Estimate]:
        sums = [fixture_sums(source.marked)]
        first, second = (estimates(stacked(sums, one)[0], level=self.level)[0] for one in (line, price))
        return first, second

    def _repr_html_(self) -> Html:
        measure = measure_of(self.by)
        return self.card(f"Leaderboard by mean {measure.title} ({measure.unit})")
