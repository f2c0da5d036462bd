"""Scores with covariates: the regression of one agent's decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from clvlab.packs.manifest import league_of
from clvlab.packs.reader import Pack
from clvlab.report.export import Exportable, check_settings
from clvlab.report.html import Html, card
from clvlab.statistics.formulas import Formula, parse_formula
from clvlab.statistics.measures import MEASURES
from clvlab.statistics.regression import INTERCEPT, MIN_DEGREES, Regression, regress
from clvlab.words import counted, estimate, kinds_of, p_value, tally

RESPONSES: Mapping[str, str] = {one.column: one.short for one in MEASURES.values()}
"""Columns that can be explained, and their units."""

NUMBERS = ("to_close_s", "entry_prob_bps", "odds", "stake", "confidence", "closing_age_s")
CATEGORIES = ("league", "market", "side", "in_gap")
_LARGEST = 15  # rows of the card


@dataclass(frozen=True)
class RegressionResult(Exportable):
    """The regression of scores on facts known at the decision; made by ``Result.regress()``.

    Attributes
    ----------
    source
        The coefficients, and what was left out.
    formula
        The formula.
    level
        Level of the intervals, and of the tests by ``p_holm``.
    """

    source: Regression = field(repr=False)
    formula: Formula
    level: float = 0.95

    @property
    def frame(self) -> pl.DataFrame:
        """One row per coefficient: estimate, error, degrees of freedom, interval, p-values; see ``Regression.frame``."""
        return self.source.frame

    @property
    def unit(self) -> str:
        """Unit of the response."""
        return RESPONSES[self.formula.response]

    @property
    def cautions(self) -> list[str]:
        """Decisions and terms that are left out, and coefficients without an interval."""
        few = self.frame.filter(pl.col("degrees_of_freedom").fill_null(0) < MIN_DEGREES)["term"].to_list()
        texts = [f"decisions left out: {tally(self.source.left_out)}"] if self.source.left_out else []
        texts += [f"{term} has no coefficient: {why}" for term, why in self.source.dropped.items()]
        if few:
            texts.append(
                f"no interval for {', '.join(few)}: too few fixtures decide, with below {MIN_DEGREES:g} degrees of freedom"
            )
        return texts

    @property
    def line(self) -> str:
        """The regression in one sentence."""
        beyond = self.frame.filter(pl.col("p_holm") < 1 - self.level)
        apart = beyond.filter(pl.col("term") != INTERCEPT)
        tests = self.frame["p_holm"].count()
        head = f"{counted(self.source.n, 'decision')} in {counted(self.source.n_clusters, 'fixture')}"
        if not tests:
            return f"{head}: no coefficient can be tested"
        if apart.is_empty():
            which = "no coefficient" if beyond.is_empty() else "only the intercept"
            return f"{head}: {which} can be distinguished from 0 with {counted(tests, 'test')} counted"
        texts = (
            f"{row['term']} {estimate(row['coefficient'], row['low'], row['high'], self.unit)} (p {p_value(row['p_holm'])})"
            for row in apart.iter_rows(named=True)
        )
        return f"{head}: apart from 0 with {counted(tests, 'test')} counted: {', '.join(texts)}"

    def __repr__(self) -> str:
        left = self.cautions
        more = f"; {counted(len(left), 'caution')}, in .cautions" if left else ""
        return f"Regression {self.formula}: {self.line}{more}; next: .frame, .to_html(path)"

    def _repr_html_(self) -> Html:
        return card(
            "regression.html",
            f"Regression {self.formula}",
            line=self.line,
            cautions=self.cautions,
            rows=self.frame.head(_LARGEST).rows(named=True),
            height=self.frame.height,
            unit=self.unit,
            bases=", ".join(f"{name} {level}" for name, level in self.source.bases.items()),
            level=self.level,
            tests=self.frame["p_holm"].count(),
        )


def regression_of(scored: pl.DataFrame, pack: Pack, formula: str, level: float) -> RegressionResult:
    """Return the regression of scored decisions; see ``TearSheet.regress``."""
    check_settings(level)
    parsed = parse_formula(formula, RESPONSES, NUMBERS, CATEGORIES)
    return RegressionResult(regress(_known(scored, pack), parsed, "fixture_id", level=level), parsed, level)


def _known(scored: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """Return the decisions with the columns of formulas."""
    leagues = {fixture.fixture_id: league_of(fixture) for fixture in pack.manifest.fixtures}
    kinds = kinds_of(scored["market_key"].unique())
    return scored.with_columns(
        odds=pl.col("odds_milli") / 1000,
        league=pl.col("fixture_id").replace_strict(leagues, return_dtype=pl.String),
        market=pl.col("market_key").replace_strict(kinds, return_dtype=pl.String),
        in_gap=pl.when("in_gap").then(pl.lit("yes")).otherwise(pl.lit("no")),
    )
