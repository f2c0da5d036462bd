"""The tear sheet: everything that a backtest says of an agent, each figure with its unit and its interval."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import polars as pl

from clvlab.application.runs.perform import PerformedRun
from clvlab.application.sheets import breakdowns
from clvlab.application.sheets.plots import Plots
from clvlab.application.sheets.settling import PERCENT, Figure, Settlement, settlement
from clvlab.drawing import axes as drawing
from clvlab.drawing import html
from clvlab.drawing.showing import Shown, check_settings
from clvlab.statistics import (
    BeatRate,
    Calibration,
    Concentration,
    Estimate,
    Middle,
    Placebo,
    beat_close_rate,
    calibration,
    cluster_median,
    concentration,
    estimates_together,
    placebos,
    sum_by_cluster,
)

BPS = "bps of probability"
_MEANS = ("clv_bps", "price_ratio_pct", "edge_pct")
_CAUTION = (
    "CLV is not return on investment. Results are one draw of luck: over as many decisions their interval is far wider than "
    "that of CLV, and the return also bears the margin of the price taken. Read the return beside what the close expected."
)
_INTERVALS = "Intervals hold {level:.0%}, by the bootstrap over fixtures; decisions of one fixture are not independent."


@dataclass(frozen=True)
class TearSheet(Shown):
    """What a backtest says of its agent; made by ``Result.tear_sheet()``.

    Attributes
    ----------
    source
        The backtest.
    level
        Of all intervals.
    resamples, draws, seed
        Of the cluster bootstrap and of the placebo.
    """

    source: PerformedRun
    level: float = 0.95
    resamples: int = 5_000
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self.level, resamples=self.resamples, draws=self.draws)

    @property
    def agent_id(self) -> str:
        return str(self.source.result.outcomes["agent_id"][0])

    @cached_property
    def scored(self) -> pl.DataFrame:
        """Scored decisions with what the sheet groups them by; see ``breakdowns.scored_decisions``."""
        return breakdowns.scored_decisions(self.source)

    @property
    def clv(self) -> Estimate:
        """Mean CLV, in bps of probability."""
        return self._means["clv_bps"]

    @property
    def price_ratio(self) -> Estimate:
        """Mean of closing over entry probability, less one, in percent: what a fair price would have gained."""
        return self._means["price_ratio_pct"]

    @property
    def edge(self) -> Estimate:
        """Mean value of the price taken at the closing probability, in percent: "CLV %", with the margin that was paid."""
        return self._means["edge_pct"]

    @cached_property
    def _means(self) -> dict[str, Estimate]:
        sums = [sum_by_cluster(self.scored[name], self.scored["fixture_id"])[0] for name in _MEANS]
        found = estimates_together(sums, level=self.level, resamples=self.resamples, seed=self.seed)
        return {name: estimate for name, (estimate,) in zip(_MEANS, found, strict=True)}

    @cached_property
    def median(self) -> Middle:
        """Median CLV, in bps of probability."""
        return cluster_median(self.scored["clv_bps"], self.scored["fixture_id"], self.level)

    @cached_property
    def beat(self) -> BeatRate:
        """How often the close was beaten, ties apart."""
        return beat_close_rate(self.scored["clv_bps"], self.scored["fixture_id"], self.level)

    @cached_property
    def concentration(self) -> Concentration:
        """How evenly the scored decisions are spread over their fixtures."""
        return concentration(self.scored["fixture_id"])

    @property
    def placebo(self) -> Placebo | None:
        """Random entries in the same series and as long before the close."""
        return self._placebos[0] if self._placebos else None

    @property
    def delayed(self) -> Placebo | None:
        """The same positions, each entered at a random later message; see ``delayed`` of ``statistics.placebo``."""
        return self._placebos[1] if self._placebos else None

    @cached_property
    def _placebos(self) -> tuple[Placebo, Placebo] | None:
        if self.scored.is_empty():
            return None
        whole = len(self.source.fixture_ids) == len(self.source.pack.fixture_ids)
        tape = self.source.pack.tape(None if whole else self.scored["fixture_id"].unique().to_list())
        ends = self.source.result.closes.select("fixture_id", "end_seq", "close_ts_ms").unique()
        horizon_s = self.source.window.min_clv_horizon_s
        return placebos(tape, self.scored, ends, horizon_s=horizon_s, draws=self.draws, seed=self.seed)

    @cached_property
    def calibration(self) -> Calibration | None:
        """Confidence beside the share that beat the close; null where no decision has one."""
        return calibration(self.scored["confidence"], self.scored["clv_bps"], self.scored["fixture_id"], seed=self.seed)

    @cached_property
    def settled(self) -> Settlement | None:
        """What the decisions won, where the pack has results; null where it has none."""
        results = self.source.pack.results
        return settlement(self.scored, results, level=self.level, resamples=self.resamples, seed=self.seed)

    @cached_property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The breakdowns by name: by_time, by_market, by_side, by_probability, by_gap, fixtures, reasons, refusals, quality."""
        return breakdowns.tables(self.source, self.scored, self.level, self.seed)

    @cached_property
    def top_five(self) -> tuple[float | None, float | None]:
        """Share of the total CLV, in percent, that the five best fixtures bring, and the mean CLV without them, in bps."""
        fixtures = breakdowns.fixture_totals(self.scored)
        total, n, top, best = (
            int(part[name].sum()) for part in (fixtures, fixtures.head(5)) for name in ("total_clv_bps", "n")
        )
        left = n - best
        return 100 * top / total if total > 0 else None, (total - top) / left if left else None

    @property
    def plot(self) -> Plots:
        """Every picture of the sheet: ``sheet.plot.clv()``, also on axes of one's own."""
        return Plots(self)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per figure: (figure, value, low, high, unit), intervals as far as there are some."""
        schema = {"figure": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "unit": pl.String}
        return pl.DataFrame(self.figures(), schema=schema, orient="row")

    def figures(self, *, placebos: bool = True) -> list[Figure]:
        """Return the rows of ``.frame``; without those of the placebos, which read the whole tape, in far less time."""
        clv, beat, median, ratio, edge = self.clv, self.beat, self.median, self.price_ratio, self.edge
        naive = clv.t * sqrt(clv.design_effect) if clv.t is not None and clv.design_effect is not None else None
        drawdown = float(self.source.result.outcomes["max_drawdown"][0]) if clv.n else None
        return [
            ("mean CLV", clv.mean, clv.low, clv.high, BPS),
            ("median CLV", median.median, median.low, median.high, BPS),
            ("mean CLV as price ratio", ratio.mean, ratio.low, ratio.high, PERCENT),
            ("mean edge at the price taken", edge.mean, edge.low, edge.high, PERCENT),
            ("t, clustered by fixture", clv.t, None, None, "standard errors"),
            ("t, as if decisions were independent", naive, None, None, "standard errors"),
            ("one-sided p of the bootstrap of t", clv.p_value, None, None, "probability"),
            ("design effect", clv.design_effect, None, None, "times the variance"),
            ("effective sample size", clv.effective_n, None, None, "decisions"),
            ("beat the close, of those that moved", _percent(beat.rate), _percent(beat.low), _percent(beat.high), PERCENT),
            ("unmoved", 100 * beat.tied / clv.n if clv.n else None, None, None, PERCENT),
            *(self._placebo_figures if placebos else []),
            ("largest fall of the cumulative CLV", drawdown, None, None, BPS),
            ("share of the five best fixtures in the total", self.top_five[0], None, None, PERCENT),
            ("mean CLV without them", self.top_five[1], None, None, BPS),
            *(self.settled.figures if self.settled else []),
        ]

    @property
    def _placebo_figures(self) -> list[Figure]:
        found, later = self.placebo, self.delayed
        return [
            ("placebo: mean CLV of random entries", *_band(found), BPS),
            ("one-sided p of the placebo", found.p_value if found else None, None, None, "probability"),
            ("mean CLV of the same entries, delayed at random", *_band(later), BPS),
            ("one-sided p of the delay", later.p_value if later else None, None, None, "probability"),
        ]

    @property
    def line(self) -> str:
        """The sheet in one sentence."""
        clv, ratio, beat = self.clv, self.price_ratio, self.beat
        if clv.mean is None:
            return "no scored decision"
        t = "none" if clv.t is None else f"{clv.t:.2f}"
        share = "nothing moved" if beat.rate is None else f"{100 * beat.rate:.1f} % {_span(beat.low, beat.high, 100)}"
        return (
            f"{clv.n:,} scored decisions in {clv.n_clusters:,} fixtures: mean CLV {clv.mean:+z.2f} bps "
            f"{_span(clv.low, clv.high)}, median {self.median.median:+z.1f} bps; price ratio {ratio.mean or 0:+z.2f} % "
            f"{_span(ratio.low, ratio.high)}; cluster t {t}; beat the close {share}, {beat.tied:,} unmoved{self._returned}"
        )

    @property
    def _returned(self) -> str:
        roi = self.settled.roi if self.settled else None
        if roi is None or roi.mean is None:
            return ""
        return f"; return on investment {roi.mean:+z.2f} % {_span(roi.low, roi.high)} of {roi.n:,} settled, which is not CLV"

    def __repr__(self) -> str:
        return f"Tear sheet of {self.agent_id}: {self.line}; next: .frame, .tables, .plot, .to_html(path)"

    def _repr_html_(self) -> str:
        pictures, own = self._pictures(), self.tables
        shown = [
            html.section(title, html.table(own[name].columns, own[name].rows()))
            for name, title in breakdowns.TITLES.items()
            if own[name].height
        ]
        return html.block(
            f"Tear sheet of {self.agent_id} on {self.source.pack.pack_id} ({self.source.pack.provenance})",
            f"<p>{html.unbroken(self.line)}.</p>",
            f'<p class="quiet">{_INTERVALS.format(level=self.level)}</p>',
            *(f"<p>{html.escape(warning)}</p>" for warning in self.source.report["warnings"]),
            *([f"<p>{_CAUTION}</p>"] if self.settled else []),
            html.section("Figures", html.table(["figure", "value", "interval", "unit"], map(_row, self.frame.rows()))),
            html.figures(pictures),
            *(html.section(title, _calibration(found)) for title, found in self._calibrations if found),
            *shown,
        )

    def _pictures(self) -> list[str]:
        """Draw everything; the placebo is drawn last, and its entries are picked meanwhile, outside the interpreter's lock."""
        asked = dict(self.plot.drawings())
        with ThreadPoolExecutor(1) as pool:
            picked = pool.submit(lambda: self._placebos)
            drawn = {title: drawing.svg(draw, title) for title, draw in asked.items() if title != "placebo"}
            picked.result()
        return [drawn.get(title) or drawing.svg(draw, title) for title, draw in asked.items()]

    @property
    def _calibrations(self) -> tuple[tuple[str, Calibration | None], ...]:
        settled = self.settled
        return (
            ("Calibration: confidence against beating the close", self.calibration),
            ("Calibration: closing probability against results", settled.close if settled else None),
            ("Calibration: entry probability against results", settled.entry if settled else None),
        )


def _calibration(found: Calibration) -> str:
    parts = (
        f"Brier score {found.brier:.4f} = reliability {found.reliability:.4f} - resolution {found.resolution:.4f} + "
        f"uncertainty {found.uncertainty:.4f}, over {found.n:,} decisions"
    )
    return f"<p>{parts}.</p>" + html.table(found.frame.columns, found.frame.rows())


def _band(found: Placebo | None) -> tuple[float | None, float | None, float | None]:
    return (found.mean, found.low, found.high) if found else (None, None, None)


def _row(row: Figure) -> tuple[str, str, str, str]:
    name, value, low, high, unit = row
    digits = 4 if unit.endswith("probability") and unit != BPS else 2
    interval = "" if low is None or high is None else f"[{low:z,.{digits}f}, {high:z,.{digits}f}]"
    return name, "none" if value is None else f"{value:z,.{digits}f}", interval, unit


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _span(low: float | None, high: float | None, times: float = 1) -> str:
    return "[too few fixtures for an interval]" if low is None or high is None else f"[{times * low:z.2f}, {times * high:z.2f}]"
