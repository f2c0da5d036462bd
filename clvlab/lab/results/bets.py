"""Graded bets: a sealed run of placed bets, and the rows of their record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from clvlab.agents.registry import of_sealed_config
from clvlab.agents.template import Template
from clvlab.base.names import names_checked
from clvlab.bets.columns import Meaning
from clvlab.bets.grades import FLAGS, BetRows, GradingPlan
from clvlab.lab.results.result import Result
from clvlab.law.policy import PolicyEnvelope
from clvlab.report.cards import Report, Scores
from clvlab.report.headline import spelt_mean
from clvlab.report.html import Html, card
from clvlab.runs.run import Run
from clvlab.words import counted, plus

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.report.executable import Executable

_MAX_ROWS = 12


class GradedBets(Result):
    """Bets graded against a pack, made by ``clvlab.grade_bets``: the result of a backtest, and the rows.

    Parameters
    ----------
    source, view
        As for ``Result``.
    rows
        The rows of the record with their scores.
    """

    def __init__(self, source: Run, view: bytes, rows: BetRows) -> None:
        super().__init__(source, view)
        self._rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        return GradedBets, (self.source, self.run.view, self._rows)

    @classmethod
    def from_grading(cls, grading: GradingPlan, run: Run) -> GradedBets:
        """Return the bets of a run."""
        return cls(run, b"", grading.rows(run))

    @property
    def report(self) -> Report:
        """The report of the run, with the rows under ``bets``; the bettor's claims in them are ``untrusted``."""
        return Report(super().report | {"bets": self._rows.facts()})

    @property
    def bets(self) -> Scores:
        """One row per bet of the record.

        Columns ``told_*`` have the text of each cell of the record. ``unmatched`` and ``detail`` say why a row is not on the
        tape. ``seq, reason, entry_prob_bps, odds_milli, close_prob_bps, clv_bps, edge_bps`` and ``at_close`` belong to its
        decision. ``flags`` are from ``clvlab.bets.grades.FLAGS``. ``own_odds_milli, own_result, edge_own_price_bps`` and
        ``profit_own_price`` are unverified claims of the bettor.
        """
        return Scores(self._rows.frame)

    @property
    def unmatched(self) -> pl.DataFrame:
        """The rows that are not on the tape, with reason and detail."""
        return self._rows.unmatched

    @property
    def flags(self) -> dict[str, int]:
        """Number of rows with each flag."""
        return self._rows.flags

    @property
    def columns(self) -> dict[str, str]:
        """The column of the record for each meaning."""
        return {str(meaning): name for meaning, name in self._rows.columns.names.items()}

    @property
    def notes(self) -> list[str]:
        """Notes on the rows, in sentences."""
        return self._rows.notes

    @property
    def by_book(self) -> pl.DataFrame:
        """One row per bookmaker of the record: bets, scored bets, mean CLV, mean edge by tape and by bettor, and intervals."""
        return self._rows.by_book

    @names_checked
    def executable(
        self, *, stake: float | None = None, delay_s: float = 1.0, commission: float | str = 0.0, max_age_s: float = 900,
        agent_id: str | None = None, level: float = 0.95,
    ) -> Executable:  # fmt: skip
        """Return the profit of the bets, if each had taken offers; see ``Result.executable``.

        Without a ``stake``, each bet has its own, which the record states in the venue's unit; bets on one side at one tick are
        one order with the sum of their stakes.
        """
        from clvlab.report.executable import Executable

        if stake is not None:
            return super().executable(
                stake=stake, delay_s=delay_s, commission=commission, max_age_s=max_age_s, agent_id=agent_id, level=level
            )
        return Executable(
            self._part(agent_id), delay_s=delay_s, commission=commission, max_age_s=max_age_s, level=level, own_stakes=True
        )

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the template ``bets`` that reproduce the run, with ``policy``."""
        config = self._agent_sealed().config.model_dump(mode="json")
        return {name: config[name] for name in ("transcript", "transcript_sha256")}

    @property
    def policy(self) -> PolicyEnvelope:
        """The sealed policy, which refuses no bet for its size, price or age."""
        return PolicyEnvelope.sealed(self.read.started["policy"])

    def _agent_sealed(self) -> Template[Any]:
        agent = self.read.agent
        return of_sealed_config(agent["agent_id"], agent["strategy"], agent["config"])

    @property
    def _title(self) -> str:
        first = self.parts[0]
        return f"{counted(self._rows.frame.height, 'bet')} of {first.agent_id} on {first.pack_id!r}"

    def __repr__(self) -> str:
        head, _, steps = super().__repr__().partition("; next: ")
        left = self._rows.unmatched.height
        return f"{head}{f'; {left:,} not on the tape' if left else ''}; next: .bets, .unmatched, {steps}"

    def _repr_html_(self) -> Html:
        rows, unmatched = self._rows, self._rows.unmatched
        return card(
            "bets.html",
            run=super()._repr_html_(),
            counts=_counts(rows),
            notes=rows.notes,
            unmatched=unmatched.height,
            examples=[_unmatched_row(one) for one in unmatched.head(_MAX_ROWS).iter_rows(named=True)],
            by_word=_by_word(rows),
            read=rows.columns.words,
            flags=[(name, count, FLAGS[name]) for name, count in rows.flags.items()],
        )


def _counts(rows: BetRows) -> dict[str, str]:
    total = rows.frame.height
    return {
        "bets": f"{total:,}",
        "on the tape": f"{rows.matched.height:,}",
        "decisions": f"{rows.decisions:,}: bets on one side at one tick are one",
        "staked, on the tape": f"{rows.matched['stake_cents'].sum() / 100:,.2f}",
    }


def _by_word(rows: BetRows) -> dict[str, str]:
    profit = rows.own_profit
    return {
        "edge at own prices, 95 % interval": "none" if rows.own_edge.mean is None else spelt_mean(rows.own_edge, "%"),
        "profit at own prices": "none" if profit is None else plus(profit, 2),
    }


def _unmatched_row(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of a bet and the reason why it is not on the tape."""
    on = [row.get(f"told_{name}") for name in (Meaning.FIXTURE, Meaning.HOME, Meaning.AWAY, Meaning.MARKET, Meaning.SIDE)]
    when = " ".join(row.get(f"told_{name}") or "" for name in (Meaning.DATE, Meaning.TIME)).strip()
    return {
        "on": ", ".join(text for text in on if text),
        "when": f"row {row['row']:,}{f', {when}' if when else ''}",
        "detail": row["detail"],
        "reason": row["reason"],
    }
