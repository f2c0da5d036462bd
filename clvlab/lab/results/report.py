"""The scores and the report of a backtest."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import orjson
import polars as pl

from clvlab.drawing import html
from clvlab.drawing.showing import Shown, optional


class Scores(pl.DataFrame):
    """One row per decision: a polars frame that is taken elsewhere like every other result."""

    frame = property(lambda self: self)
    to_parquet, to_csv, to_html = Shown.to_parquet, Shown.to_csv, Shown.to_html

    def to_pandas(self, *arguments: Any, **options: Any) -> Any:
        """Return a pandas ``DataFrame``; arguments are those of polars.

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
        named = self.get("backtest_id", self["run_id"])
        return f"Report {named} of {self['agent']['agent_id']} on {self['pack_id']!r}; next: .frame, .keys()"

    @property
    def title(self) -> str:
        """What ran: its mode, agent and pack."""
        return f"{self['mode_label']} of {self['agent']['agent_id']} on {self['pack_id']}"

    def _repr_html_(self) -> str:
        metrics = self["metrics"]
        mean = bps(metrics["avg_clv_bps"])
        alone = mean if metrics["avg_clv_bps"] is None else f"{mean} (no interval here: see .tear_sheet())"
        return html.block(
            self.title,
            html.strip({"mean CLV": alone, "scored decisions": metrics["action_count"]}),
            *(f"<p>{escape(warning)}</p>" for warning in self["warnings"]),
            html.section("", html.table(["decisions by reason", "count"], list(self["reasons"].items()))),
            html.marks(self["checks"]),
            html.details("Details", *self.folded()),
        )

    def folded(self) -> list[str]:
        """What a card folds away, as HTML: everything but means and reasons."""
        age = self["closing_age_ms"]
        facts = {
            "mean CLV as the law ranks": bps(self["metrics"]["avg_clv_bps"]),
            "fixtures": self["n_fixtures"],
            "markets": self["markets_matched"],
            "decisions by close": counted(self["close_kinds"]),
            "age of the close": _age(age["median"], age["max"]),
            "source of the close": f"{self['closing_source']} ({self['provenance']}, {self.get('grade', 'not shown')})",
        }
        facts |= {"gaps": counted(self["gaps"])} if "gaps" in self else {}
        facts |= {"verification": self["pack_verification"]} if "pack_verification" in self else {}
        return [html.facts(facts | {"run": self["run_id"], "evidence hash": self["evidence_hash"]})]


def counted(counts: Mapping[str, int]) -> str:
    """Say counts by name."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def bps(value: float | None) -> str:
    return "no scored action" if value is None else f"{value:+.2f} bps of probability"


def _age(median_ms: float | None, max_ms: int | None) -> str:
    if median_ms is None or max_ms is None:
        return "no scored action"
    return f"median {median_ms / 1000:,.0f} s, at most {max_ms / 1000:,.0f} s"
