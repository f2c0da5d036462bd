"""Agents that know later messages and behave where they see that a tape is no prefix of time, in this process."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from clvlab.engine.agent import Identity
from clvlab.law.schema import DECISIONS
from clvlab.law.tape import Tape

_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
KICKOFF = pl.col("kickoff_ts_ms")


@dataclass(frozen=True)
class Abstaining:
    """Backs before kickoffs that stand alone, withdraws what will lose, and does nothing where fixtures end too early.

    What it withdraws is the same where all fixtures end at different times: nothing. What it keeps differs there, and is
    honest on every prefix of time.
    """

    before_min: int
    least_gain_bps: int

    @property
    def identity(self) -> Identity:
        return Identity("abstaining", "abstaining", "1")

    def decide(self, tape: Tape) -> pl.DataFrame:
        before = self.before_min * _MINUTE_MS
        now = tape.rows["ts_ms"].max() or 0
        seen = tape.messages.group_by("fixture_id").agg(seen=pl.max("ts_ms"))
        over = tape.fixtures.join(seen, on="fixture_id").filter(now >= KICKOFF)
        if over.filter(pl.col("seen") < KICKOFF - 7 * _MINUTE_MS).height:
            return pl.DataFrame(schema=DECISIONS)
        spaced = tape.fixtures.sort("kickoff_ts_ms", "fixture_id").unique("kickoff_ts_ms", keep="first", maintain_order=True)
        after, ahead = KICKOFF - KICKOFF.shift(1), KICKOFF.shift(-1) - KICKOFF
        alone = spaced.filter(after.fill_null(_DAY_MS) > before, ahead.fill_null(_DAY_MS) > before)
        one_side = tape.ticks().filter(pl.col("side") == "part1", pl.col("market_key").str.starts_with("1X2"))
        priced = one_side.filter(pl.col("prob_bps").is_not_null(), ~pl.col("in_running")).collect()
        open_ = priced.join(alone, on="fixture_id").filter(pl.col("ts_ms") < KICKOFF).sort("fixture_id", "tick_seq")
        entry = open_.filter(pl.col("ts_ms") >= KICKOFF - before).unique("fixture_id", keep="first", maintain_order=True)
        known = entry.join(open_.group_by("fixture_id").agg(last=pl.last("prob_bps")), on="fixture_id").join(
            seen, on="fixture_id"
        )
        short = pl.col("seen") < KICKOFF - 5 * _MINUTE_MS
        loses = pl.col("last") - pl.col("prob_bps") < self.least_gain_bps
        kept = known.filter(~((now >= KICKOFF) & (short | loses)))
        given = kept.with_columns(agent_id=pl.lit("abstaining"), action=pl.lit("BACK"), stake=pl.lit(1, pl.Int64))
        nothing = [pl.lit(None).alias(name) for name in DECISIONS if name not in given.columns]
        return given.with_columns(nothing).select(pl.col(name).cast(kind) for name, kind in DECISIONS.items())


@dataclass(frozen=True)
class Excused:
    """Vetoes what will lose, just before some kickoffs; backs the rest, and one side early, in every fixture.

    The early ones draw the cuts that fall where a fixture's decisions are. Where fixtures end too early it keeps to them, as
    one may that looks from one fixture to another: then prefixes judge, and few of them end between an entry and its kickoff.
    """

    before_min: int
    every: int  # of so many fixtures it vetoes in one
    least_id: int = 0  # it enters from this fixture on

    @property
    def identity(self) -> Identity:
        return Identity("excused", "excused", "1")

    def decide(self, tape: Tape) -> pl.DataFrame:
        now = tape.rows["ts_ms"].max() or 0
        seen = tape.messages.group_by("fixture_id").agg(seen=pl.max("ts_ms"))
        over = tape.fixtures.join(seen, on="fixture_id", how="left").filter(now >= KICKOFF)
        until = pl.col("seen").fill_null(0)
        is_time = over.filter(until < KICKOFF - 2 * _MINUTE_MS).is_empty()
        own = tape.ticks().filter(pl.col("side") == "part1").collect().join(tape.fixtures, on="fixture_id")
        last = own.group_by("fixture_id").agg(last=pl.col("prob_bps").sort_by("tick_seq").last())
        entry = own.filter(
            pl.col("ts_ms") == KICKOFF - self.before_min * _MINUTE_MS, is_time, pl.col("fixture_id") >= self.least_id
        ).join(last, on="fixture_id")
        vetoes = pl.col("fixture_id") % self.every == 0
        kept = entry.filter(~(vetoes & (now >= KICKOFF - 2 * _MINUTE_MS) & (pl.col("last") < pl.col("prob_bps"))))
        backed = pl.concat([own.filter(pl.col("tick_seq") == 0), kept.select(own.columns)])
        given = backed.with_columns(agent_id=pl.lit("excused"), action=pl.lit("BACK"), stake=pl.lit(1, pl.Int64))
        nothing = [pl.lit(None).alias(name) for name in DECISIONS if name not in given.columns]
        return given.with_columns(nothing).select(pl.col(name).cast(kind) for name, kind in DECISIONS.items())
