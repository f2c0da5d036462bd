"""Cards of a run, a pack, a report and an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import polars as pl

from clvlab import words
from clvlab.api.runs import Metrics
from clvlab.engine.lookahead import BlindDraw, LookaheadReport
from clvlab.law.schema import Reason
from clvlab.packs.quality import Quality, QualityAccount, Spread
from clvlab.packs.reader import Pack as StoredPack
from clvlab.packs.views.derivation import DerivedPack, derived_words
from clvlab.report.breakdowns import cumulative_clv, cumulative_picture
from clvlab.report.export import Exportable, optional
from clvlab.report.headline import LEVEL, edge_bar, key_figures, means_of
from clvlab.report.html import Html, card
from clvlab.report.svg import interval_bar, time_columns
from clvlab.statistics import Estimate, beat_close_rate
from clvlab.statistics.measures import counted
from clvlab.statistics.verdict import Tone, Verdict, verdict
from clvlab.words import TO_MINUTE, close_facts, mean_clv, seconds, share

# A look-ahead audit in a notebook.


_MAX_ROWS = 20
_MOVED = ("change", "fixture_id", "tick_seq", "action", "market_key", "side", "cut_fixture_id", "cut_tick_seq")


class AuditReport(Exportable):
    """The result of a look-ahead audit."""

    def __init__(self, report: LookaheadReport) -> None:
        self.source = report

    @property
    def agent_id(self) -> str:
        return self.source.agent_id

    @property
    def passed(self) -> bool:
        """Whether no decision depended on later ticks."""
        return self.source.passed

    @property
    def cuts(self) -> int:
        """Number of prefixes compared with the whole."""
        return len(self.source.cuts)

    @property
    def seed(self) -> int:
        """Seed of the cuts."""
        return self.source.seed

    @property
    def blind(self) -> BlindDraw | None:
        """The fixtures drawn without regard to decisions, and the bound on undetected look-ahead."""
        return self.source.blind

    @property
    def moved(self) -> pl.DataFrame:
        """One row per decision that depends on later ticks; see ``clvlab.engine.lookahead.LookaheadReport``."""
        return self.source.moved

    @property
    def frame(self) -> pl.DataFrame:
        return self.moved

    def __repr__(self) -> str:
        return repr(self.source)

    def _repr_html_(self) -> Html:
        rows = self.moved.select(_MOVED).head(_MAX_ROWS)
        basis = f"compared on {self.cuts:,} prefixes of the tape"
        sentence = (
            f"No decision of {self.agent_id} depended on later price updates, {basis}; {self.blind}."
            if self.passed
            else f"{self.agent_id} looks ahead: {self.moved.height:,} decisions depended on later price updates, {basis}."
        )
        return card(
            "audit.html",
            f"Look-ahead audit of {self.agent_id}: {'passed' if self.passed else 'FAILED'}",
            verdict=Verdict(sentence, Tone.BEATS if self.passed else Tone.LOSES),
            rows=rows,
            height=self.moved.height,
            facts=self._facts(),
        )

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"prefixes compared with the whole": self.cuts, "seed of the cuts": self.seed}
        if self.blind is None:
            return facts
        return facts | {
            "fixtures drawn blindly": f"{len(self.blind.fixture_ids):,} of {self.blind.of:,}",
            "gained in fewer fixtures": "not bounded: fixtures that were left out may have lost any amount",
            "attempts": "not counted" if self.blind.attempts is None else self.blind.attempts,
        }


# The card of one agent's run.


def agent_card(
    title: str,
    scores: pl.DataFrame,
    closes: pl.DataFrame,
    metrics: Metrics,
    checks: Mapping[str, str],
    *,
    warnings: Sequence[str] = (),
    folded: Sequence[Mapping[str, object]] = (),
) -> Html:
    """Show the ``SCORES`` of one agent, with the column ``at_close``; ``folded`` facts are collapsed."""
    scored, means = scores.filter(counted()), means_of(scores, "clv", "edge")
    clv = means["clv"]
    return card(
        "run.html",
        title,
        verdict=verdict(clv, means["edge"]),
        interval=interval_bar(clv.mean, clv.low, clv.high),
        edge_interval=edge_bar(means["edge"]),
        key_figures=_key_figures(scored, means, metrics),
        by_date=cumulative_picture(cumulative_clv(scored, closes, LEVEL), LEVEL),
        warnings=warnings,
        decisions=scores.height,
        left_out=_not_scored(scores, scored),
        checks=checks,
        folded=folded,
    )


def _key_figures(scored: pl.DataFrame, means: Mapping[str, Estimate], metrics: Metrics) -> dict[str, str]:
    size = {"sample": words.sample(metrics["clv_confidence"], metrics["valid_count"])}
    if scored.is_empty():
        return size
    beat = beat_close_rate(scored["clv_bps"], scored["fixture_id"], LEVEL)
    return key_figures(means["clv"], means["edge"], beat, "95 %") | size


def _not_scored(scores: pl.DataFrame, scored: pl.DataFrame) -> list[tuple[int, str, str]]:
    """Return count, share and reason of decisions that the statistics leave out."""
    others = scores.filter(pl.col("reason") != Reason.SCORED)["reason"].value_counts(name="n")
    late = scores.height - int(others["n"].sum()) - scored.height
    rows = [
        (count, _share(count, scores.height), words.REASONS.get(reason, reason))
        for reason, count in others.sort("n", "reason", descending=[True, False]).rows()
    ]
    if late:
        why = "bet at the closing price: scores 0, excluded from averages"
        rows.append((late, _share(late, scores.height), why))
    return rows


def _share(count: int, whole: int) -> str:
    return "< 0.1%" if 1000 * count < whole else f"{words.share(count / whole)}"


class Scores(pl.DataFrame):
    """One row per decision: a polars frame with the exports of a result."""

    frame = property(lambda self: self)
    to_parquet, to_csv, to_html = Exportable.to_parquet, Exportable.to_csv, Exportable.to_html

    def to_pandas(self, *arguments: Any, **options: Any) -> Any:
        """Return a pandas ``DataFrame``; arguments are those of polars.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        optional("pandas", "to_pandas()")
        return super().to_pandas(*arguments, **options)

    def _repr_html_(self, *, _from_series: bool = False) -> Html:
        return Html(super()._repr_html_(_from_series=_from_series))  # polars has escaped the text in it


class Report(dict[str, Any], Exportable):
    """A backtest report: a dict with a card."""

    @property
    def frame(self) -> pl.DataFrame:
        """One row per entry, values as JSON text."""
        rows = [(name, orjson.dumps(value).decode()) for name, value in self.items()]
        return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.String}, orient="row")

    def __repr__(self) -> str:
        named = self.get("backtest_id", self["run_id"])
        return f"Report {named} of {self['agent']['agent_id']} on {self['pack_id']!r}; next: .frame, .keys()"

    @property
    def title(self) -> str:
        """Mode, agent and pack."""
        return f"{self['mode_label']} of {self['agent']['agent_id']} on {self['pack_id']}"

    def _repr_html_(self) -> Html:
        metrics = self["metrics"]
        mean = mean_clv(metrics["avg_clv_bps"])
        alone = mean if metrics["avg_clv_bps"] is None else f"{mean} (no interval here: see .tear_sheet())"
        figures = {"mean CLV": alone, "scored decisions": metrics["action_count"]}
        return card("report.html", self.title, report=self, figures=figures, facts=self.facts())

    def facts(self) -> dict[str, object]:
        """Return the collapsed facts of a card: all facts but means and reasons."""
        facts: dict[str, object] = {
            "mean CLV as the law ranks": mean_clv(self["metrics"]["avg_clv_bps"]),
            "fixtures": self["n_fixtures"],
            "markets": self["markets_matched"],
        }
        return facts | close_facts(self, "no scored action") | {"run": self["run_id"], "evidence hash": self["evidence_hash"]}


# The card of a pack: its origin, its kickoffs, and the coverage of its fixtures.


_MOST_ROWS = 1_000_000  # limit of the ticks that a card reads itself, in about a fifth of a second
_MAX_FIXTURES = 8


def pack_card(pack: StoredPack, found: Quality | None) -> Html:
    """Show a pack and the quality of its ticks; see ``quality_of``."""
    kickoffs = [kickoff for kickoff in pack.fixtures["kickoff_ts_ms"].to_list() if kickoff is not None]
    return card(
        "pack.html",
        f"Pack {pack.pack_id}",
        verdict=Verdict(_sentence(pack, len(kickoffs)), Tone.NOTHING),
        kickoffs=time_columns(kickoffs),
        coverage=_coverage(pack, found),
        warnings=[] if found is None else _warnings(found),
        fixtures=_fixtures(pack),
        count=len(pack.fixture_ids),
        facts=_facts(pack),
    )


def quality_of(pack: StoredPack) -> Quality | None:
    """Return the quality of a pack without an import report; `None` if it is large or remote, or has held-out fixtures."""
    rows = sum(fixture.rows for fixture in pack.manifest.fixtures)
    if pack.verification or pack.held_out or not 0 < rows <= _MOST_ROWS:
        return None
    account = QualityAccount()
    account.add(pack.tape())
    return account.report(files=0, fixtures=pack.fixtures["kickoff_ts_ms"].to_list())


def _sentence(pack: StoredPack, kickoffs: int) -> str:
    count = len(pack.fixture_ids)
    made = {
        "synthetic": "made by a generator: its figures say nothing about a real market",
        "genuine": f"labelled a provider's capture, {pack.grade}",
        "imported": "imported: only the importer vouches for their source",
    }.get(pack.provenance.partition("-")[0], "of unknown origin")
    summary = f"{words.counted(count, 'fixture')}, {made}"
    without = "" if kickoffs == count else f"; {count - kickoffs:,} without a kickoff"
    held = f"; {len(pack.held_out):,} held out by a plan" if pack.held_out else ""
    unsure = f"; {len(pack.doubtful):,} that a plan may hold out, which is unknown" if pack.doubtful else ""
    return f"{summary}{without}{held}{unsure}."


def _coverage(pack: StoredPack, found: Quality | None) -> dict[str, str]:
    if found is None:
        return {"rows": pack.rows}
    closed = found.markets - found.markets_without_close - found.markets_suspended_at_close
    part = f" ({closed / found.markets:.0%})" if found.markets else ""
    return {
        "markets with an open close": f"{closed:,} of {found.markets:,}{part}",
        "overround, median": _median(found.book_overround_bps or found.price_overround_bps, 100, "%", 1),
        "longest silence of a market, median": _median(found.largest_gap_s, 3600, "h", 1),
        "age of the close, median": _median(found.closing_age_s, 1, "s", 0),
        "ticks": f"{found.ticks:,}, {share(found.suspended_share)} suspended",
        "gaps of the capture": _gaps(pack),
    }


def _gaps(pack: StoredPack) -> str:
    capture = pack.manifest.capture
    if capture is None:
        return "not captured"
    lasting = [gap for gap in capture.gaps if not gap.replayed]
    lost_s = sum(gap.to_ts_ms - gap.from_ts_ms for gap in lasting) / 1000
    return f"{len(lasting):,}, {seconds(lost_s)}" if lasting else "none"


def _warnings(found: Quality) -> list[str]:
    low = found.price_overround_bps.median if found.price_overround_bps else 0
    return [
        *([f"{found.refused_rows:,} of {found.messages:,} rows were refused: see .quality"] if found.refused_rows else []),
        *([f"{found.fixtures_without_ticks:,} fixtures have no ticks"] if found.fixtures_without_ticks else []),
        *(["prices sum to less than a whole: nobody could have taken all of them from one book"] if low < 0 else []),
    ]


def _median(spread: Spread | None, size: float, unit: str, digits: int) -> str:
    if spread is None:
        return "none"
    median, low, high = (f"{value / size:,.{digits}f}" for value in (spread.median, spread.p05, spread.p95))
    return f"{median} {unit} (5-95 %: {low} to {high})"


def _fixtures(pack: StoredPack) -> pl.DataFrame:
    return pack.fixtures.head(_MAX_FIXTURES).select(
        pl.col("fixture_id").cast(pl.String).alias("fixture"),
        "names",
        pl.from_epoch("kickoff_ts_ms", time_unit="ms").dt.strftime(TO_MINUTE).alias("kickoff (UTC)"),
        "rows",
    )


def _facts(pack: StoredPack) -> dict[str, object]:
    facts: dict[str, object] = {
        "provenance": pack.provenance,
        "genuine capture": pack.is_genuine,
        "grade": pack.grade.value,
        "content hash": pack.content_hash,
        "closing policy": pack.closing,
    }
    facts |= {"made of": derived_words(pack)} if isinstance(pack, DerivedPack) else {}
    facts |= {"kickoffs": pack.kickoffs} if pack.kickoffs else {}
    facts |= {"verification": pack.verification} if pack.verification else {}
    return facts
