"""Results that show themselves: one line in a console, a small table in a notebook, data under ``.frame``."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from clvlab.application import backtests, runs
from clvlab.lab import html
from clvlab.lab.html import escape
from clvlab.lab.plots import Plots
from clvlab.lab.showing import Shown, optional
from clvlab.lab.tearsheet import TearSheet
from clvlab.packs import reader
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification

__all__ = ["Backtest", "Pack", "Report", "Run", "Scores", "VerificationResult"]


class Pack(Shown):
    """A hash-verified pack."""

    def __init__(self, pack: reader.Pack) -> None:
        self.source = pack

    @property
    def pack_id(self) -> str:
        return self.source.pack_id

    @property
    def content_hash(self) -> str:
        return self.source.content_hash

    @property
    def provenance(self) -> str:
        return self.source.provenance

    @property
    def is_genuine(self) -> bool:
        return self.source.is_genuine

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        return self.source.fixture_ids

    @property
    def frame(self) -> pl.DataFrame:
        """One row per fixture."""
        return self.source.fixtures

    def ticks(self, fixture_ids: list[int] | None = None) -> pl.DataFrame:
        """Give the ticks, one row per (fixture_id, tick_seq, market_key, side)."""
        return self.source.tape(fixture_ids).ticks().collect(engine="in-memory")

    def __repr__(self) -> str:
        rows = sum(fixture.rows for fixture in self.source.manifest.fixtures)
        return (
            f"Pack {self.pack_id!r} ({self.provenance}): {len(self.fixture_ids)} fixtures, {rows:,} rows; "
            "next: clvlab.backtest(pack)"
        )

    def _repr_html_(self) -> str:
        shown = self.frame.head(8)
        more = len(self.fixture_ids) - shown.height
        return html.block(
            f"Pack {self.pack_id}",
            html.facts(
                {
                    "provenance": self.provenance,
                    "genuine capture": self.is_genuine,
                    "fixtures": len(self.fixture_ids),
                    "content hash": self.content_hash,
                    "closing policy": self.source.manifest.closing_policy.value,
                }
            ),
            html.table(
                ["fixture", "names", "kickoff (UTC)", "rows"],
                shown.select(
                    pl.col("fixture_id").cast(pl.String),
                    "names",
                    pl.from_epoch("kickoff_ts_ms", time_unit="ms").dt.strftime("%Y-%m-%d %H:%M"),
                    "rows",
                ).rows(),
            ),
            f'<p class="quiet">and {more} more, in .frame</p>' if more else "",
        )


class VerificationResult(Shown):
    """The seven checks of one run."""

    def __init__(self, verification: Verification) -> None:
        self.source = verification

    @property
    def verified(self) -> bool:
        """Whether the recomputed evidence hash equals the sealed one."""
        return self.source.verified

    @property
    def passed(self) -> bool:
        """Whether the seal is intact and no check failed."""
        return self.source.passed

    @property
    def checks(self) -> dict[str, str]:
        return {name: check.verdict.value for name, check in self.source.checks.items()}

    @property
    def frame(self) -> pl.DataFrame:
        """One row per check: name, verdict, what it rests on."""
        rows = [(name, check.verdict.value, check.detail) for name, check in self.source.checks.items()]
        return pl.DataFrame(rows, schema=dict.fromkeys(("check", "verdict", "detail"), pl.String), orient="row")

    @property
    def proof_card(self) -> dict[str, Any]:
        return runs.proof_card(self.source)

    @property
    def _state(self) -> str:
        if self.passed:
            return "seal intact, no check failed"
        return "seal intact, a check failed" if self.verified else "seal broken"

    def __repr__(self) -> str:
        failed = ", ".join(name for name, verdict in self.checks.items() if verdict == "fail")
        named = f" ({failed})" if failed else ""
        return f"Verification of {self.source.run_id}: {self._state}{named}; next: .frame shows what each check rests on"

    def _repr_html_(self) -> str:
        rows = [(name, html.badge(check.verdict.value), check.detail) for name, check in self.source.checks.items()]
        return html.block(
            f"Verification of {self.source.run_id}: {self._state}",
            html.table(["check", "verdict", "rests on"], rows),
            html.facts(
                {
                    "evidence hash, sealed": self.source.evidence_hash,
                    "evidence hash, recomputed": self.source.recomputed_evidence_hash,
                    "manifest hash": self.source.manifest_hash,
                }
            ),
        )


class Run:
    """A sealed run."""

    def __init__(self, run: SealedRun, receipts: bytes = b"") -> None:
        self.source = run
        self.receipts = receipts

    @property
    def run_id(self) -> str:
        return self.source.run_id

    @property
    def evidence_hash(self) -> str:
        return self.source.evidence_hash

    @property
    def manifest_hash(self) -> str:
        return self.source.manifest_hash

    def verify(self) -> VerificationResult:
        """Recompute the proof from the sealed bytes."""
        return VerificationResult(runs.verify(self.source, self.receipts))

    def decision(self, seq: int) -> dict[str, Any]:
        """Give one sealed decision with the law's reading of it."""
        return runs.inspect_decision(self.source, seq)

    def save(self, folder: str | Path = "runs") -> Path:
        """Store the run under ``folder/<run_id>`` and give that path."""
        return runs.keep(self.source, folder, self.receipts)

    def __repr__(self) -> str:
        return f"Run {self.run_id} ({self._events:,} events); next: .verify() or .save()"

    @property
    def _events(self) -> int:
        return self.source.events.count(b"\n")

    def _repr_html_(self) -> str:
        return html.block(
            f"Run {self.run_id}",
            html.facts(
                {
                    "events": self._events,
                    "evidence hash": self.evidence_hash,
                    "manifest hash": self.manifest_hash,
                }
            ),
        )


class Scores(pl.DataFrame):
    """One row per decision: a polars frame that is taken elsewhere like every other result."""

    frame = property(lambda self: self)
    to_parquet, to_csv, to_html = Shown.to_parquet, Shown.to_csv, Shown.to_html

    def to_pandas(self, *arguments: Any, **options: Any) -> Any:
        """Give a pandas ``DataFrame``; arguments are those of polars.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        optional("pandas", "to_pandas()")
        return super().to_pandas(*arguments, **options)


class Report(dict[str, Any], Shown):
    """A backtest report: a dict that shows itself."""

    @property
    def frame(self) -> pl.DataFrame:
        """One row per entry, values as JSON text."""
        rows = [(name, orjson.dumps(value).decode()) for name, value in self.items()]
        return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.String}, orient="row")

    def __repr__(self) -> str:
        return f"Report {self['backtest_id']} of {self['agent']['agent_id']} on {self['pack_id']!r}; next: .frame, .keys()"

    def _repr_html_(self) -> str:
        metrics = self["metrics"]
        age = self["closing_age_ms"]
        return html.block(
            f"{self['mode_label']} of {self['agent']['agent_id']} on {self['pack_id']}",
            html.facts(
                {
                    "mean CLV": _bps(metrics["avg_clv_bps"]),
                    "scored actions": metrics["action_count"],
                    "fixtures": self["n_fixtures"],
                    "markets": self["markets_matched"],
                    "confidence": f"{metrics['clv_confidence']}{' (small sample)' if metrics['low_sample'] else ''}",
                    "decisions by close": ", ".join(f"{kind} {count:,}" for kind, count in self["close_kinds"].items())
                    or "none",
                    "age of the close": _age(age["median"], age["max"]),
                    "source of the close": f"{self['closing_source']} ({self['provenance']})",
                    "run": self["run_id"],
                }
            ),
            html.table(["decisions by reason", "count"], list(self["reasons"].items())),
            html.table(["check", "verdict"], [(name, html.badge(verdict)) for name, verdict in self["checks"].items()]),
            *(f"<p>{escape(warning)}</p>" for warning in self["warnings"]),
        )


def _bps(value: float | None) -> str:
    return "no scored action" if value is None else f"{value:+.2f} bps of probability"


def _age(median_ms: float | None, max_ms: int | None) -> str:
    if median_ms is None or max_ms is None:
        return "no scored action"
    return f"median {median_ms / 1000:,.0f} s, at most {max_ms / 1000:,.0f} s"


class Backtest(Shown):
    """A sealed backtest: report, scores, run."""

    def __init__(self, backtest: backtests.Backtest) -> None:
        self.source = backtest

    @property
    def report(self) -> Report:
        return Report(self.source.report)

    @property
    def scores(self) -> Scores:
        """One row per decision, abstentions and invalid ones included."""
        return Scores(self.source.scores)

    @property
    def frame(self) -> pl.DataFrame:
        """The outcomes per agent."""
        return self.source.result.outcomes

    @property
    def run(self) -> Run:
        return Run(self.source.run, self.source.receipts)

    def tear_sheet(self, *, level: float = 0.95, resamples: int = 5_000, draws: int = 200, seed: int = 0) -> TearSheet:
        """Give the statistics of the backtest: means with intervals over fixtures, breakdowns, placebo, pictures.

        Parameters
        ----------
        level
            Of the intervals, above 0 and below 1.
        resamples
            Of the bootstrap over fixtures.
        draws
            Of the placebo.
        seed
            Of both; the same seed gives the same sheet.

        Raises
        ------
        NotComparableError
            A level outside 0..1, or fewer than one resample or draw.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("starter", "cumulative-drift").tear_sheet().clv.n_clusters
        11
        """
        return TearSheet(self.source, level, resamples, draws, seed)

    @cached_property
    def plot(self) -> Plots:
        """The pictures of the tear sheet: ``bt.plot.clv()``, also on axes of one's own."""
        return self.tear_sheet().plot

    def __repr__(self) -> str:
        row = self.frame.row(0, named=True)
        mean = _bps(row["mean_clv_bps"])
        return (
            f"Backtest of {row['agent_id']} on {self.source.pack.pack_id!r}: mean CLV {mean} over {row['action_count']:,} "
            "scored actions; next: .tear_sheet(), .report, .scores, .run.verify()"
        )

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
