"""What transcripts have in common: proposals that were recorded beforehand, held against the tape that they are about."""

from __future__ import annotations

import polars as pl

from clvlab.errors import AgentError
from clvlab.law.schema import Action
from clvlab.law.tape import Tape, last_row_at


def on_the_tape(tape: Tape, spoken: pl.DataFrame, strategy: str) -> pl.DataFrame:
    """Refuse recorded proposals about what the tape does not have; leave out what is later than a tape that may still grow.

    Parameters
    ----------
    tape
        A tape without a content hash may still grow, as a prefix of another or a live one does.
    spoken
        ``DECISIONS`` with ``number``, the place of each in its transcript.
    strategy
        Whose transcript it is, for the message.

    Raises
    ------
    AgentError
        A fixture, tick, market or side that is not on the tape, or a market that is not quoted yet at the tick.
    """
    last = tape.messages.group_by("fixture_id").agg(last=pl.col("tick_seq").max())
    fixtures = tape.fixtures.select("fixture_id").join(last, on="fixture_id", how="left").with_columns(known=pl.lit(value=True))
    found = spoken.join(fixtures, on="fixture_id", how="left", maintain_order="left")
    _refuse(strategy, found.filter(pl.col("known").is_null()), "fixture {fixture_id} is not on the tape")
    if tape.binding.content_hash is None:
        found = found.filter(pl.col("tick_seq") <= pl.col("last"))
    at = ["fixture_id", "tick_seq"]
    _refuse(strategy, found.join(tape.messages, on=at, how="anti"), "fixture {fixture_id} has no tick {tick_seq}")

    names = tape.series.with_row_index("series")
    markets = names.select("fixture_id", "market_key", quoted=pl.lit(value=True)).unique()
    found = found.join(markets, on=["fixture_id", "market_key"], how="left", maintain_order="left").join(
        names.select("fixture_id", "market_key", "side", "series", "start"),
        on=["fixture_id", "market_key", "side"],
        how="left",
        maintain_order="left",
    )
    backs = found.filter(pl.col("action") == Action.BACK)
    row = last_row_at(tape.key, backs["start"], backs["series"], backs["tick_seq"])
    _refuse(strategy, backs.filter(pl.col("quoted").is_null()), "fixture {fixture_id} has no market {market_key!r}")
    _refuse(
        strategy,
        backs.filter(pl.col("series").is_null()),
        "market {market_key!r} of fixture {fixture_id} has no side {side!r}",
    )
    _refuse(
        strategy,
        backs.filter(row.is_null()),
        "market {market_key!r} of fixture {fixture_id} is not quoted until after tick {tick_seq}",
    )
    return found.select(spoken.columns)


def _refuse(strategy: str, entries: pl.DataFrame, what: str) -> None:
    if entries.height:
        first = entries.sort("number").row(0, named=True)
        raise AgentError(f"{strategy}: transcript entry {first['number']}: " + what.format(**first))
