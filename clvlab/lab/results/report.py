"""The scores and the report of a backtest."""

from __future__ import annotations

from html import escape
from typing import Any

import orjson
import polars as pl

from clvlab.drawing import html
from clvlab.drawing.showing import Shown, optional
from clvlab.words import close_facts, mean_clv


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
        mean = mean_clv(metrics["avg_clv_bps"])
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
        facts = {
            "mean CLV as the law ranks": mean_clv(self["metrics"]["avg_clv_bps"]),
            "fixtures": self["n_fixtures"],
            "markets": self["markets_matched"],
        } | close_facts(self, "no scored action")
        return [html.facts(facts | {"run": self["run_id"], "evidence hash": self["evidence_hash"]})]
