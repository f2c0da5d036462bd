"""Results of a sealed run on a page: a sentence, two pictures, and the decisions with the largest effect."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from clvlab.arena.runs.decisions import RunDecisions
from clvlab.base.cache import BoundedCache
from clvlab.law.schema import Reason
from clvlab.report.headline import edge_bar
from clvlab.report.html import Html
from clvlab.report.share import SharedPicture
from clvlab.report.svg import cumulative_line, interval_bar
from clvlab.statistics import Estimate, cluster_mean
from clvlab.statistics.by_date import cumulative
from clvlab.statistics.measures import counted, priced_edge_pct
from clvlab.statistics.verdict import verdict

_KEPT_BYTES = 32 << 20
_KEPT_PICTURE_BYTES = 16 << 20
_DRAWN = 12  # agents with pictures; the others have their figures
_EXTREMES = 5
_MOVED = ("seq", "agent_id", "fixture_id", "market_key", "side", "ts_ms", "entry_prob_bps", "close_prob_bps", "clv_bps")


@dataclass(frozen=True, slots=True)
class AgentResult:
    """One agent.

    ``estimate`` is the mean CLV with its interval over fixtures, ``edge`` the mean edge at the prices taken, in percent.
    ``sentence`` is the verdict as plain text, ``tone`` the verdict in a word. ``interval``, ``edge_interval`` and ``by_date``
    are SVG elements, empty without data.
    """

    agent_id: str
    estimate: Estimate
    edge: Estimate
    sentence: str
    tone: str
    interval: Html
    edge_interval: Html
    by_date: Html


@dataclass(frozen=True, slots=True)
class ExtremeDecision:
    seq: int
    agent_id: str
    fixture_id: int
    market_key: str
    side: str
    ts_ms: int
    entry_prob_bps: int
    close_prob_bps: int
    clv_bps: int


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """A sealed run.

    ``agents`` has the agents with scores, in order of their ids. ``worst`` and ``best`` are the decisions with the most
    negative and the most positive CLV, the largest first; of equal ones the earlier comes first. ``at_close`` counts the scored
    decisions at the closing message, which are not in the means, as on a tear sheet. ``fixtures`` counts those in the means.
    """

    agents: tuple[AgentResult, ...]
    worst: tuple[ExtremeDecision, ...]
    best: tuple[ExtremeDecision, ...]
    at_close: int
    fixtures: int

    @property
    def size_bytes(self) -> int:
        return 8192 + sum(2048 + len(own.interval) + len(own.edge_interval) + len(own.by_date) for own in self.agents)


def _results_cache() -> BoundedCache[ResultSummary]:
    return BoundedCache(_KEPT_BYTES, lambda result: result.size_bytes)


def _pictures_cache() -> BoundedCache[bytes]:
    return BoundedCache(_KEPT_PICTURE_BYTES, len)


@dataclass(frozen=True)
class RunResults:
    decisions: RunDecisions
    _results: BoundedCache[ResultSummary] = field(default_factory=_results_cache)
    _pictures: BoundedCache[bytes] = field(default_factory=_pictures_cache)

    def of(self, run_id: str) -> ResultSummary:
        """Return the results of a sealed run. Blocks while the run is read for the first time."""
        sealed = self.decisions.evidence_hash(run_id)
        return self._results.get((run_id, sealed), lambda: run_result(self.decisions.rows(run_id)))

    def picture(self, run_id: str, page: str | None, *, png: bool) -> bytes:
        """Return the picture to send of a sealed run, as SVG or PNG; ``page`` is the address in its code."""
        key = run_id, self.decisions.evidence_hash(run_id), page, png

        def draw() -> bytes:
            picture = SharedPicture(self.decisions.sealed(run_id), page)
            return picture.png() if png else picture.svg().encode()

        return self._pictures.get(key, draw)


def run_result(rows: pl.DataFrame) -> ResultSummary:
    scored = rows.filter(counted()).with_columns(
        pl.col("clv_bps", "edge_bps", "ts_ms", "seq").cast(pl.Int64), pl.col("agent_id").cast(pl.String)
    )
    agents = scored["agent_id"].unique().sort()
    found = [
        _agent_result(agent_id, scored.filter(pl.col("agent_id") == agent_id), drawn=place < _DRAWN)
        for place, agent_id in enumerate(agents)
    ]
    late = rows.filter(pl.col("reason") == Reason.SCORED).height - scored.height
    worst, best = _extremes(scored, gained=False), _extremes(scored, gained=True)
    return ResultSummary(tuple(found), worst, best, late, scored["fixture_id"].n_unique())


def _agent_result(agent_id: str, scored: pl.DataFrame, *, drawn: bool) -> AgentResult:
    mean = cluster_mean(scored["clv_bps"], scored["fixture_id"])
    edge = cluster_mean(scored.select(priced_edge_pct()).to_series(), scored["fixture_id"])
    found = verdict(mean, edge)
    empty = Html("")
    pictures = (
        interval_bar(mean.mean, mean.low, mean.high) if drawn else empty,
        edge_bar(edge) if drawn else empty,
        _by_date(scored) if drawn else empty,
    )
    return AgentResult(agent_id, mean, edge, found.sentence, found.tone, *pictures)


def _by_date(scored: pl.DataFrame) -> Html:
    """Draw the sum by the time of the last scored decision on each fixture, because evidence rows lack the close's time.

    On a single fixture it is the sum by decision, without a band, because decisions on one fixture are not independent.
    """
    several = scored["fixture_id"].n_unique() > 1
    last = scored.select(pl.col("ts_ms").max().over("fixture_id"))["ts_ms"]
    each = (scored["fixture_id"], last) if several else (scored["seq"], scored["ts_ms"])
    found = cumulative(scored["clv_bps"], *each)
    times_ms, totals, *bounds = (found[name].to_list() for name in ("time_ms", "total", "low", "high"))
    lows, highs = bounds if several else ([None] * len(totals),) * 2
    title = "Cumulative CLV by date, 95 % band" if several else "Cumulative CLV"
    return cumulative_line(times_ms, totals, lows, highs, title=title)


def _extremes(scored: pl.DataFrame, *, gained: bool) -> tuple[ExtremeDecision, ...]:
    moved = scored.filter(pl.col("clv_bps") > 0 if gained else pl.col("clv_bps") < 0)
    first = moved.sort("clv_bps", "seq", descending=[gained, False]).head(_EXTREMES).select(_MOVED)
    return tuple(ExtremeDecision(**row) for row in first.iter_rows(named=True))
