"""The exploration of a backtest, market by market, without a widget."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Self

import polars as pl

from clvlab.api.runs import InspectorRecord
from clvlab.errors import EvidenceError, StatisticsError, UnknownFixtureError, UnknownMarketError
from clvlab.law.schema import Action
from clvlab.law.tape import Tape
from clvlab.packs.manifest import about
from clvlab.report.explorer.figure import LATEST_MS
from clvlab.report.explorer.view import MarketView, ReplayMarket, market
from clvlab.report.proofs.evidence import Lines
from clvlab.report.selection import Selection
from clvlab.runs.inspector import decision_record
from clvlab.runs.run import Run
from clvlab.words import TO_DAY, counted

# Labels of fixtures: teams, date and number.


def fixture_labels(fixtures: pl.DataFrame) -> pl.Series:
    """Return a label for each fixture: the teams, or without them the number; the league and the UTC date if known.

    Examples
    --------
    >>> row = {"fixture_id": 7, "names": "Heath - Glen", "league": "E0", "kickoff_ts_ms": 1_767_387_600_000}
    >>> fixture_labels(pl.DataFrame(row)).to_list()
    ['Heath - Glen, E0, 2 Jan 2026']
    """
    names = pl.when(pl.col("names").fill_null("") == "").then(pl.format("fixture {}", "fixture_id")).otherwise("names")
    date = pl.from_epoch(pl.col("kickoff_ts_ms").clip(None, LATEST_MS), time_unit="ms").dt.strftime(f", {TO_DAY}")
    league = pl.format(", {}", "league").fill_null("")
    return fixtures.select(pl.concat_str(names, league, date.fill_null("")).alias("label")).to_series()


def matching(fixtures: pl.DataFrame, query: str) -> pl.DataFrame:
    """Return the fixtures whose label or number has every word of the query, in any case."""
    held = pl.concat_str(pl.col("fixture_id").cast(pl.String), pl.lit(" "), "label").str.to_lowercase()
    words = query.lower().split()
    return fixtures.filter(pl.all_horizontal(held.str.contains(word, literal=True) for word in words)) if words else fixtures


_WHOLE = Selection()


class Exploration:
    """A backtest, market by market.

    Parameters
    ----------
    source
        The backtest. It opens at the market with the most decisions.
    selection
        Selected decisions, with their fixtures and markets; see ``TearSheet.only``. All by default.

    Raises
    ------
    StatisticsError
        The selection has no decision.

    Attributes
    ----------
    fixture_id, market, view
        The chosen market, at the position of the replay.
    tape, decisions
        Tape and decisions of the fixture.
    position, span_ms
        As for ``show``.
    followers
        Called after every change of the view.
    """

    def __init__(self, source: Run, selection: Selection = _WHOLE) -> None:
        self.source, self.selection = source, selection
        self.followers: list[Callable[[], None]] = []
        if self.fixtures.is_empty():
            raise StatisticsError(f"there is no decision on {selection.words}: choose a part that has decisions")
        first = self.fixtures.sort("decisions", descending=True, maintain_order=True)["fixture_id"][0]
        self._load(first)
        self.show(first)

    @cached_property
    def fixtures(self) -> pl.DataFrame:
        """One row per replayed fixture: (fixture_id, names, kickoff_ts_ms, decisions, label), in order of the pack.

        With a selection, only fixtures with a selected decision.
        """
        decided = self._scores.group_by("fixture_id").agg(decisions=pl.len().cast(pl.Int64))
        replayed = pl.Series(self.source.fixture_ids, dtype=pl.Int64).implode()
        own = self.source.pack.fixtures.filter(pl.col("fixture_id").is_in(replayed))
        own = own.select("fixture_id", "names", "kickoff_ts_ms")
        league = about(self.source.pack.manifest.fixtures).select("fixture_id", "league")
        labels = fixture_labels(own.join(league, on="fixture_id", how="left", maintain_order="left"))
        joined = own.join(decided, on="fixture_id", how="left", maintain_order="left")
        named = joined.with_columns(pl.col("decisions").fill_null(0), labels)
        return named if self.selection.is_whole else named.filter(pl.col("decisions") > 0)

    @cached_property
    def _scores(self) -> pl.DataFrame:
        """The selected decisions with their time and action."""
        made, closes = self.source.evidence.decisions.select("ts_ms", "action"), self.source.evidence.closes
        scores = pl.concat([self.source.scores, made], how="horizontal")
        if self.selection.is_whole:
            return scores
        closing = closes.select("fixture_id", "close_ts_ms").unique()
        timed = scores.join(closing, on="fixture_id", how="left", maintain_order="left")
        return timed.filter(self.selection.matching(self.source.pack)).drop("close_ts_ms")

    @cached_property
    def _lines(self) -> tuple[Lines, Lines]:
        return Lines(self.source.sealed.events), Lines(self.source.sealed.scores)

    def show(
        self,
        fixture_id: int,
        market_key: str | None = None,
        *,
        position: int | None = None,
        span_ms: tuple[int, int] | None = None,
    ) -> Self:
        """Choose a market, and return the explorer.

        Parameters
        ----------
        fixture_id
            One of ``.fixtures``.
        market_key
            One of ``.markets``; by default the one with the most decisions.
        position
            Number of messages replayed; all by default.
        span_ms
            First and last time of the picture; the whole market by default.

        Raises
        ------
        UnknownFixtureError, UnknownMarketError
            The fixture or market is not listed.
        """
        if fixture_id not in self.fixtures["fixture_id"]:
            raise UnknownFixtureError(fixture_id, self.source.pack.pack_id, tuple(self.fixtures["fixture_id"]))
        if self.fixture_id != fixture_id:
            self._load(fixture_id)
        chosen = self._market_key(market_key)
        self.market: ReplayMarket = market(self.tape, self.source.window, chosen, self.decisions, self.teams)
        return self.seek(position, span_ms)

    def _load(self, fixture_id: int) -> None:
        self.fixture_id = fixture_id
        self.tape: Tape = self.source.pack.tape([fixture_id])
        self.decisions = self._scores.filter(pl.col("fixture_id") == fixture_id)

    def seek(self, position: int | None = None, span_ms: tuple[int, int] | None = None) -> Self:
        """Move the replay and the zoom within the market, and return the explorer."""
        self.position, self.span_ms = position, span_ms
        self.view: MarketView = self.market.view(position, span_ms)
        for follow in self.followers:
            follow()
        return self

    @property
    def markets(self) -> pl.DataFrame:
        """One row per market of the fixture, on the tape or in a decision: (market_key, decisions).

        With a selection, only markets with a selected decision.
        """
        keys = self.tape.series.select("market_key").unique(maintain_order=True)
        decided = self.decisions.drop_nulls("market_key").group_by("market_key").agg(decisions=pl.len().cast(pl.Int64))
        joined = keys.join(decided, on="market_key", how="full", coalesce=True)
        known = joined.with_columns(pl.col("decisions").fill_null(0)).sort("market_key")
        return known if self.selection.is_whole else known.filter(pl.col("decisions") > 0)

    def _market_key(self, wanted: str | None) -> str:
        known = self.markets
        if wanted is None:
            most = known.sort("decisions", descending=True, maintain_order=True)["market_key"]
            return most[0] if most.len() else ""
        if wanted not in known["market_key"]:
            raise UnknownMarketError(wanted, self.fixture_id, tuple(known["market_key"]))
        return wanted

    @property
    def frame(self) -> pl.DataFrame:
        """The decisions on the market up to the replay: ``clvlab.report.explorer.view.MARKS``."""
        return self.view.decided.drop("n")

    @property
    def query(self) -> str:
        """The call on the backtest that returns to this view."""
        chosen = {"position": self.position, "span_ms": self.span_ms}
        more = "".join(f", {name}={value!r}" for name, value in chosen.items() if value is not None)
        only = "" if self.selection.is_whole else ", only=sheet.selection"
        return f"bt.explore({self.fixture_id}, {self.market.market_key!r}{more}{only})"

    def record(self, seq: int) -> InspectorRecord:
        """Return the complete inspector record of the decision at event ``seq``, at any position of the replay.

        Raises
        ------
        EvidenceError
            No decision at ``seq``.
        """
        events, scores = self._lines
        if not 1 <= seq <= len(scores):  # decisions are numbered from 1, and each has a score row
            raise EvidenceError(f"run {self.source.sealed.run_id} has no decision at seq {seq}: it has {len(scores)}, from 1")
        return decision_record(self.source.sealed.run_id, seq, events.get(seq), scores.get(seq - 1))

    @property
    def known(self) -> bool:
        """Whether the replay has reached the close, so that verdicts may be shown."""
        return self.view.now_ms is None or self.view.close is not None

    @property
    def label(self) -> str:
        """Teams, league and date, as far as they are known."""
        return str(self.fixtures.filter(pl.col("fixture_id") == self.fixture_id)["label"][0])

    @property
    def teams(self) -> tuple[str, ...]:
        """Names of the teams of the fixture; empty where the pack has none."""
        return next(one.names for one in self.source.pack.manifest.fixtures if one.fixture_id == self.fixture_id)

    @property
    def line(self) -> str:
        """The view in a sentence."""
        view = self.view
        counts = dict(view.decided.group_by("outcome").len().sort("len", "outcome", descending=[True, False]).iter_rows())
        astray = self.decisions.filter(pl.col("action") == Action.BACK)["market_key"].null_count()
        waits = int((self.decisions["action"] == Action.WAIT).sum())
        updates = ("" if view.now_ms is None else f"{view.position:,} of ") + counted(view.messages, "price update")
        part = f"only {self.selection.words}: " if self.selection.words else ""
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
        return (
            f"{part}{updates}; {counted(view.decided.height, 'decision')}{': ' if outcomes else ''}{outcomes}"
            + (f"; {counted(waits, 'WAIT')} in the fixture" if waits else "")
            + (f"; {counted(astray, 'BACK')} without a market" if astray else "")
        )
