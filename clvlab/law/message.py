"""Messages: the price updates of a tape. Each is about one market of one fixture, with all its sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from clvlab.law.schema import FIXTURES, TICKS
from clvlab.law.tape import Tape


class Message(NamedTuple):
    """One price update of a market.

    Attributes
    ----------
    fixture_id, tick_seq, ts_ms
        Fixture, number on the tape, and the time that the law uses.
    in_running
        Whether the fixture is in play.
    market_key
        Key of the market.
    sides
        Sides of the market in byte order, the same in every message about it.
    prob_bps, odds_milli
        Price of each side; ``None`` for an unpriced side.
    suspended
        Whether all sides are without a probability.
    """

    fixture_id: int
    tick_seq: int
    ts_ms: int
    in_running: bool
    market_key: str
    sides: tuple[str, ...]
    prob_bps: tuple[int | None, ...]
    odds_milli: tuple[int | None, ...]
    suspended: bool


def ticks_of(messages: Sequence[Message]) -> pl.DataFrame:
    rows = [
        (m.fixture_id, m.tick_seq, m.ts_ms, m.in_running, m.market_key, side, prob, odds, m.suspended)
        for m in messages
        for side, prob, odds in zip(m.sides, m.prob_bps, m.odds_milli, strict=True)
    ]
    order = ("fixture_id", "tick_seq", "ts_ms", "in_running", "market_key", "side", "prob_bps", "odds_milli", "suspended")
    return pl.DataFrame(rows, schema={name: TICKS[name] for name in order}, orient="row").select(*TICKS)


def tape_of(messages: Sequence[Message], fixtures: pl.DataFrame | None = None) -> Tape:
    """Return the tape of the messages so far. ``fixtures`` is ``FIXTURES``, by default without kickoffs."""
    if fixtures is None:
        ids = sorted({message.fixture_id for message in messages})
        fixtures = pl.DataFrame([(fixture_id, None) for fixture_id in ids], schema=FIXTURES, orient="row")
    return Tape.from_ticks(ticks_of(messages), fixtures)
