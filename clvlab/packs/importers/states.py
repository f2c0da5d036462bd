"""From the states of markets to ticks: spilled to disk as they come, then numbered some fixtures at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from clvlab.law.schema import TICKS
from clvlab.packs.exchange.state import State
from clvlab.packs.importers.books import QuoteSpill, batches, number_messages
from clvlab.packs.importers.source import Account, Options

_STATES = TICKS | {"event": pl.String, "place": pl.Int64}
_AT = ("fixture_id", "market_key", "ts_ms")


class StateSpill:
    """Keeps states on disk; of those of one market at one time the last one counts."""

    def __init__(self, folder: Path) -> None:
        self._spill = QuoteSpill(folder)
        self._place = 0
        self._held: list[State] = []

    def add(self, states: Iterable[State], chunk_rows: int) -> None:
        """Take some more states, in order."""
        self._held += states
        if len(self._held) * 2 >= chunk_rows:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._spill.add(states_frame(self._held, self._place))
            self._place += len(self._held)
            self._held = []

    def parts(self, options: Options, account: Account) -> Iterator[pl.DataFrame]:
        """Return ``TICKS`` of some whole fixtures at a time, in ascending order of fixture_id."""
        self._flush()
        ids = {event: int(event) for event in self._spill.rows_of}
        for batch in batches(self._spill.rows_of, ids, options.chunk_rows):
            yield last_states(self._spill.rows(batch), account)


def states_frame(states: Iterable[State], place: int = 0) -> pl.DataFrame:
    """Make a frame of states that are counted from ``place``: ``TICKS``, still without their number, event and place."""
    rows = [
        (s.fixture_id, 0, s.ts_ms, s.in_running, s.market_key, side, prob, odds, s.suspended, str(s.fixture_id), place + n)
        for n, s in enumerate(states)
        for side, prob, odds in zip(s.sides, s.prob_bps, s.odds_milli, strict=True)
    ]
    order = (
        "fixture_id",
        "tick_seq",
        "ts_ms",
        "in_running",
        "market_key",
        "side",
        "prob_bps",
        "odds_milli",
        "suspended",
        "event",
        "place",
    )
    return pl.DataFrame(rows, schema={name: _STATES[name] for name in order}, orient="row")


def last_states(states: pl.DataFrame, account: Account) -> pl.DataFrame:
    """Return ``TICKS`` of states of whole fixtures, of which the last of one market at one time counts."""
    last = states.filter(pl.col("place") == pl.col("place").max().over(_AT))
    account.note("states that another of the same time followed", states["place"].n_unique() - last["place"].n_unique())
    for suspended, count in last.group_by("suspended").agg(pl.col("place").n_unique()).iter_rows():
        account.books[0 if suspended else 1] += count
    return number_messages(last)
