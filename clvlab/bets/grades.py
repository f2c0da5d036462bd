"""Grade bets: those on the tape of a pack become a run of the strategy ``bets``, with a report of every row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from clvlab.agents.proposals import Bet, bets_sha256
from clvlab.agents.registry import template
from clvlab.agents.template import Params
from clvlab.base.progress import report
from clvlab.bets.columns import Columns, Meaning
from clvlab.bets.fixtures import Unmatched
from clvlab.bets.positions import Position, positions_of
from clvlab.bets.record import BetRecord, BetsFormat, Row, read_record
from clvlab.bets.values import CENTS
from clvlab.errors import SourceError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import SAFE_INTEGER, Reason, Schema
from clvlab.packs.matching.names import read_aliases
from clvlab.packs.reader import Pack
from clvlab.report.figures import returns_of
from clvlab.runs.run import Run
from clvlab.runs.spec import ReplaySpec
from clvlab.statistics import Estimate, cluster_mean, group_means
from clvlab.statistics.measures import priced_edge_pct
from clvlab.words import tally

# The rows of a record of bets with the law's scores. They are not evidence, and the bettor's own prices are unverified.


_KEY = ["fixture_id", "tick_seq", "market_key", "side"]
_LAW = ("seq", "reason", "entry_prob_bps", "odds_milli", "close_prob_bps", "clv_bps", "edge_bps", "at_close")
_OWN = ("own_odds_milli", "own_result", "edge_own_price_bps", "profit_own_price")
_ROWS: Schema = {
    "row": pl.Int64,
    **{f"told_{meaning}": pl.String for meaning in Meaning},
    "unmatched": pl.String,
    "detail": pl.String,
    "fixture_id": pl.Int64,
    "tick_seq": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "stake_cents": pl.Int64,
    "own_odds_milli": pl.Int64,
    "own_result": pl.String,
    "same_as": pl.Int64,
    "lost_kickoff": pl.Boolean,
}
FLAGS: Mapping[str, str] = {
    "duplicate": "the row says exactly what one before it says; both are counted",
    "kickoff_unreadable": "the kickoff can't be read; the fixture was looked for without it",
    "price_not_offered": "the price is above any that the pack had on offer then; graded all the same",
    "price_unreadable": "the price can't be read; graded without it",
    "result_unreadable": "the result can't be read",
    "result_differs": "the pack has another result, which counts",
}
"""What is noted about a row, which is graded all the same."""


@dataclass(frozen=True)
class BetRows:
    """The rows of a record of bets with their scores, see ``bet_rows``."""

    frame: pl.DataFrame = field(repr=False)
    columns: Columns
    decisions: int

    @property
    def matched(self) -> pl.DataFrame:
        return self.frame.filter(pl.col("unmatched").is_null())

    @property
    def unmatched(self) -> pl.DataFrame:
        """Rows that are not on the tape: ``row``, ``reason`` and ``detail``, and their cells."""
        cells = [f"told_{meaning}" for meaning in self.columns.names]
        rows = self.frame.filter(pl.col("unmatched").is_not_null())
        return rows.select("row", "detail", *cells, reason="unmatched").select("row", "reason", "detail", *cells)

    @property
    def reasons(self) -> dict[str, int]:
        return _counted(self.unmatched["reason"].to_list())

    @property
    def flags(self) -> dict[str, int]:
        return _counted(self.frame["flags"].explode().drop_nulls().to_list())

    @property
    def notes(self) -> list[str]:
        total = self.frame.height
        stakes = [] if Meaning.STAKE in self.columns.names else ["no column of stakes: each bet has a stake of one unit"]
        prices = [] if Meaning.PRICE in self.columns.names else ["no column of prices: there is no edge at prices of your own"]
        lost = sum(self.reasons.values())
        left = [f"{lost:,} of {total:,} bets are not on the tape, and not graded: {tally(self.reasons)}"] if lost else []
        flagged = [f"{count:,} of {total:,} bets are flagged {flag}: {FLAGS[flag]}" for flag, count in self.flags.items()]
        return [*left, *flagged, *stakes, *prices]

    @cached_property
    def own_edge(self) -> Estimate:
        """Unverified mean edge at the prices that the bettor states, in percent, with its interval over fixtures."""
        rows = self.frame.filter(pl.col("edge_own_price_bps").is_not_null(), ~pl.col("at_close"))
        return cluster_mean(rows["edge_own_price_bps"] / 100, rows["fixture_id"])

    @property
    def own_profit(self) -> float | None:
        """Unverified profit at the bettor's own prices, in units, settled by the pack's results or else by the bettor's."""
        profits = self.frame["profit_own_price"].drop_nulls()
        return float(profits.sum()) if len(profits) else None

    @cached_property
    def by_book(self) -> pl.DataFrame:
        """One row per book of the record: bets, scored bets, and means with their intervals over fixtures.

        The means are those of CLV, ``mean_clv_bps, clv_low, clv_high`` in bps of probability; of the edge at the tape's price,
        ``mean_edge_pct, edge_low, edge_high`` in percent; and of the edge at the bettor's own price, ``edge_own_price_bps,
        own_low, own_high`` in bps.
        """
        is_scored = (pl.col("reason") == Reason.SCORED) & ~pl.col("at_close")
        booked = self.matched.filter(pl.col("told_book").is_not_null())
        found, rows = booked.group_by(book="told_book").agg(bets=pl.len(), scored=is_scored.sum()), booked.filter(is_scored)
        for name, values, mean in (
            ("clv", rows["clv_bps"], "mean_clv_bps"),
            ("edge", rows.select(priced_edge_pct()).to_series(), "mean_edge_pct"),
            ("own", rows["edge_own_price_bps"], "edge_own_price_bps"),
        ):
            named = {"group": "book", "mean": mean, "low": f"{name}_low", "high": f"{name}_high"}
            means = group_means(values, rows["fixture_id"], rows["told_book"]).select(*named).rename(named)
            found = found.join(means, on="book", how="left")
        return found.sort("bets", "book", descending=[True, False])

    def csv(self, frame: pl.DataFrame) -> bytes:
        """Return a table of the rows as CSV, without columns that the record lacks; lists are separated by blanks."""
        lists = [name for name, dtype in frame.schema.items() if dtype == pl.List]
        absent = [f"told_{meaning}" for meaning in Meaning if meaning not in self.columns.names]
        return frame.drop(absent, strict=False).with_columns(pl.col(lists).list.join(" ")).write_csv().encode()

    def facts(self) -> Mapping[str, object]:
        own = self.own_edge
        return {
            "rows": self.frame.height,
            "matched": self.matched.height,
            "decisions": self.decisions,
            "columns": {str(meaning): name for meaning, name in self.columns.names.items()},
            "columns_guessed": sorted(str(meaning) for meaning in self.columns.guessed),
            "columns_not_read": list(self.columns.unused),
            "unmatched_reasons": self.reasons,
            "flags": self.flags,
            "notes": self.notes,
            "untrusted": {
                "edge_own_price_pct": {"mean": own.mean, "low": own.low, "high": own.high, "bets": own.n},
                "profit_own_price": self.own_profit,
            },
            "graded": [self._entry(row) for row in self.matched.iter_rows(named=True)],
            "unmatched": self.unmatched.to_dicts(),
        }

    def _entry(self, row: Mapping[str, object]) -> Mapping[str, object]:
        """Return a row on the tape, as JSON values: the sealed part, the record's cells, and unverified figures."""
        cells = {str(meaning): row[f"told_{meaning}"] for meaning in self.columns.names}
        law = {name: row[name] for name in ("row", *_KEY, "stake_cents", *_LAW)}
        return law | {"flags": row["flags"], "told": cells, "untrusted": {name: row[name] for name in _OWN}}


def bet_rows(record: BetRecord, positions: Sequence[Position | Unmatched], done: Run) -> BetRows:
    """Return every row of a record with its decision.

    The frame has ``row`` and the text of each cell that was read, such as ``told_time``. ``unmatched`` and ``detail`` say why a
    bet is not on the tape; otherwise its position follows. ``stake_cents`` and ``own_odds_milli`` are the bettor's. The law's
    columns are ``seq, reason, entry_prob_bps, odds_milli, close_prob_bps, clv_bps, edge_bps, at_close``. The last columns are
    ``edge_own_price_bps`` (the value of the bettor's own price at the closing probability), ``result``, ``profit_own_price`` in
    units, and ``flags``. A name with ``own`` marks an unverified statement of the bettor.
    """
    rows = pl.DataFrame(
        [_cells(one, position) for one, position in zip(record.rows, positions, strict=True)], schema=_ROWS, orient="row"
    )
    scores = done.scores.with_columns(done.at_close.alias("at_close")).select(*_KEY, *_LAW)
    frame = rows.join(scores, on=_KEY, how="left", maintain_order="left")
    results = done.pack.results
    settled = pl.DataFrame(schema=dict.fromkeys(("market_key", "side", "result"), pl.String) | {"fixture_id": pl.Int64})
    known = settled if results is None else results
    frame = frame.join(
        known.select("fixture_id", "market_key", "side", pack_result="result"),
        on=["fixture_id", "market_key", "side"],
        how="left",
        maintain_order="left",
    )
    own, close = pl.col("own_odds_milli"), pl.col("close_prob_bps")
    edge = (2 * close * own + 1000) // 2000 - 10_000  # the law's formula, at another price
    frame = frame.with_columns(
        edge_own_price_bps=pl.when(pl.col("reason") == Reason.SCORED).then(edge),
        result=pl.coalesce("pack_result", "own_result"),
    ).with_columns(
        profit_own_price=returns_of(pl.col("result"), own / 1000) * pl.col("stake_cents") / CENTS,
        flags=_flags(),
    )
    return BetRows(frame.drop("pack_result", "lost_kickoff"), record.columns, done.scores.height)


def _cells(row: Row, position: Position | Unmatched) -> tuple[Any, ...]:
    place = (
        (None, None, position.fixture_id, position.tick_seq, position.market_key, position.side)
        if isinstance(position, Position)
        else (position.reason, position.detail, None, None, None, None)
    )
    cells = (row.cells.get(meaning) for meaning in Meaning)
    return (row.row, *cells, *place, row.stake, row.odds_milli, row.result, row.same_as, row.lost_kickoff)


def _flags() -> pl.Expr:
    on_tape = pl.col("unmatched").is_null()
    rules = {
        "duplicate": pl.col("same_as").is_not_null(),
        "kickoff_unreadable": pl.col("lost_kickoff"),
        "price_not_offered": on_tape & (pl.col("own_odds_milli") > pl.col("odds_milli")),
        "price_unreadable": pl.col("told_price").is_not_null() & pl.col("own_odds_milli").is_null(),
        "result_unreadable": pl.col("told_result").is_not_null() & pl.col("own_result").is_null(),
        "result_differs": on_tape & (pl.col("pack_result") != pl.col("own_result")),
    }
    named = [pl.when(rule.fill_null(value=False)).then(pl.lit(flag)) for flag, rule in rules.items()]
    return pl.concat_list(named).list.drop_nulls()


def _counted(names: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


STRATEGY = "bets"
POLICY = PolicyEnvelope(
    max_stake=SAFE_INTEGER,
    min_prob_bps=0,
    max_prob_bps=10_000,
    require_quote=False,
    max_quote_age_s=SAFE_INTEGER // 1000,
    max_slippage_bps=10_000,
)
"""Refuses no bet for its size, price or age: it was placed. What had no price when it was, it refuses all the same."""


@dataclass(frozen=True)
class GradingPlan:
    """Bets before they are scored, each with its position on the tape of a pack or the reason why it has no position."""

    pack: Pack
    window: Window
    record: BetRecord = field(repr=False)
    positions: tuple[Position | Unmatched, ...] = field(repr=False)
    agent_id: str = STRATEGY

    @cached_property
    def params(self) -> Params:
        """Parameters of the template ``bets``; bets on one side at one tick become one bet with the sum of their stakes."""
        stakes: dict[Position, int] = defaultdict(int)
        for row, position in zip(self.record.rows, self.positions, strict=True):
            if isinstance(position, Position):
                stakes[position] += row.stake or 0
                if stakes[position] > SAFE_INTEGER:
                    at = f"tick {position.tick_seq} of fixture {position.fixture_id}"
                    raise SourceError(
                        f"row {row.row}: stakes on {position.side!r} at {at} sum to {stakes[position]:,} cents, too many"
                    )
        order = sorted(stakes, key=lambda one: (one.fixture_id, one.tick_seq, one.market_key.encode(), one.side.encode()))
        bets = [
            Bet(fixture_id=one.fixture_id, tick_seq=one.tick_seq, market_key=one.market_key, side=one.side, stake=stakes[one])
            for one in order
        ]
        return {"transcript": [bet.model_dump(mode="json") for bet in bets], "transcript_sha256": bets_sha256(bets)}

    @cached_property
    def spec(self) -> ReplaySpec:
        """The run over all open fixtures of the pack, which compares the bets with the fixtures that were passed over."""
        held_out = dict(self.pack.held_out)
        open_ids = [fixture_id for fixture_id in self.pack.fixture_ids if fixture_id not in held_out]
        agent = template(STRATEGY, self.params, agent_id=self.agent_id)
        return ReplaySpec(
            pack=self.pack, agents=[agent], window=self.window, policy=POLICY, fixtures=open_ids if held_out else None
        )

    def rows(self, done: Run) -> BetRows:
        return bet_rows(self.record, self.positions, done)


def plan_grading(bets: Any, pack: Pack, how: BetsFormat, window: Window | None = None, agent_id: str = STRATEGY) -> GradingPlan:
    """Read bets (a CSV as its path or its bytes, or a frame of Polars, pandas or Arrow) and put them on the tape of a pack."""
    window = window or Window()
    report("reading the bets")
    record = read_record(bets, how)
    report("finding the prices of the bets")
    positions = positions_of(record.rows, pack, window, read_aliases(how.team_aliases))
    return GradingPlan(pack, window, record, tuple(positions), agent_id)
