"""Ladders from sources: whole ladders at each time become changes of their levels."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.integers import half_up
from clvlab.packs.ladders import LADDER, LADDERS, LEVEL_COUNT
from clvlab.sources.books import QuoteSpill
from clvlab.sources.exchange import WHOLE, odds_milli

SideKey = tuple[Any, str, str]
"""The fixture of a side, its market and its name, each as the source knows it."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Converter = Callable[[Floats, Floats], tuple[Ints, Ints]]

_STATE = (LEVEL_COUNT, 2)  # odds x 1000 and stake in cents of each level, -1 where nothing is offered


def as_stated(odds: Floats, stakes: Floats) -> tuple[Ints, Ints]:
    """Return odds x 1000 and stakes in cents as they are."""
    return odds.astype(np.int64), stakes.astype(np.int64)


class LadderSink(Protocol):
    """Takes whole ladders, of sides named by fixture, market and side."""

    def put(self, key: SideKey, ts_ms: int, odds: Sequence[float], stakes: Sequence[float]) -> None:
        """State a side's ladder from a time on, the best offer first; without offers it is empty or not known."""


class LadderLog:
    """Whole ladders in the order in which a source states them; of several at one time the last counts.

    A time before the ladder's last one counts as that one. ``convert`` makes odds x 1000 and stakes in cents of the stated
    numbers.
    """

    def __init__(self, convert: Converter = as_stated) -> None:
        self._convert = convert
        self._numbers: dict[SideKey, int] = {}
        self._last_ms = array("q")
        self._heads = array("q")  # number of the ladder, time, number of offers
        self._odds, self._stakes = array("d"), array("d")
        self._shown = np.empty((0, *_STATE), dtype=np.int64)  # by number of the ladder: the state that the rows give so far
        self._held = np.empty((0, 2), dtype=np.int64), np.empty((0, *_STATE), dtype=np.int64)  # states that may still change

    @property
    def size(self) -> int:
        """Number of ladders since rows were last taken."""
        return len(self._heads) // 3

    def number(self, key: SideKey) -> int:
        """Return the number of a side's ladder, which is new if the side is."""
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._last_ms):
            self._last_ms.append(-1)
        return number

    def put(self, key: SideKey, ts_ms: int, odds: Sequence[float], stakes: Sequence[float]) -> None:
        self.note(self.number(key), ts_ms, odds, stakes)

    def note(self, number: int, ts_ms: int, odds: Sequence[float], stakes: Sequence[float]) -> None:
        """State the ladder of a number, as ``put``."""
        if ts_ms < self._last_ms[number]:
            ts_ms = self._last_ms[number]
        else:
            self._last_ms[number] = ts_ms
        self._heads.extend((number, ts_ms, len(odds)))
        self._odds.extend(odds)
        self._stakes.extend(stakes)

    def take(self, *, is_ended: bool = False) -> pl.DataFrame:
        """Return the rows of ``LADDERS`` that no later state can change, in any order; at the end, all rows.

        Their names are those of the keys.
        """
        heads, states = self._states()
        heads, states = np.concatenate([self._held[0], heads]), np.concatenate([self._held[1], states])
        order = np.argsort(heads[:, 0], kind="stable")
        heads, states = heads[order], states[order]
        is_last = np.flip(_begins(*np.flip(heads, axis=0).T))  # of its ladder and time
        heads, states = heads[is_last], states[is_last]
        number = heads[:, 0]
        is_first = _begins(number)
        is_final = ~np.roll(is_first, -1) | is_ended  # the first row follows the last one
        unknown = np.full((len(self._numbers) - len(self._shown), *_STATE), -1, dtype=np.int64)
        self._shown = np.concatenate([self._shown, unknown])
        before = np.roll(states, 1, axis=0)
        before[is_first] = self._shown[number[is_first]]
        state, level = np.nonzero((states != before).any(axis=2) & is_final[:, None])
        self._shown[number[is_final]] = states[is_final]  # of several, the last is assigned last
        self._held = heads[~is_final], states[~is_final]
        return self._frame(heads[state], level, states[state, level])

    def _states(self) -> tuple[Ints, Ints]:
        """Return number and time of the new ladders, and their levels: offers of equal odds are one."""
        heads = np.array(self._heads, dtype=np.int64).reshape(-1, 3)
        odds, stake = self._convert(np.array(self._odds), np.array(self._stakes))
        self._heads, self._odds, self._stakes = array("q"), array("d"), array("d")
        of = np.repeat(np.arange(len(heads)), heads[:, 2])
        kept = (stake >= 1) & (odds >= ODDS_MILLI[0]) & (odds <= ODDS_MILLI[1])
        of, odds, stake = of[kept], odds[kept], stake[kept]
        is_new = _begins(of, odds)
        of, odds, stake = of[is_new], odds[is_new], np.bincount(np.cumsum(is_new) - 1, stake).astype(np.int64)
        level = np.arange(len(of)) - np.searchsorted(of, of)
        kept = level < LEVEL_COUNT
        states = np.full((len(heads), *_STATE), -1, dtype=np.int64)
        states[of[kept], level[kept], 0], states[of[kept], level[kept], 1] = odds[kept], stake[kept]
        return heads[:, :2], states

    def _frame(self, heads: Ints, level: Ints, offers: Ints) -> pl.DataFrame:
        number = pl.Series(heads[:, 0])
        names = {name: pl.Series([key[at] for key in self._numbers]).gather(number) for at, name in enumerate(LADDER)}
        columns = {"level": level, "ts_ms": heads[:, 1], "odds_milli": offers[:, 0], "stake_cents": offers[:, 1]}
        offer = pl.col("odds_milli", "stake_cents")
        frame = pl.DataFrame(names | columns).with_columns(pl.when(offer >= 0).then(offer))
        return frame.cast({name: LADDERS[name] for name in columns})


def _begins(*columns: Ints) -> npt.NDArray[np.bool_]:
    """Return where a row differs from the one before it in any column; the first row does."""
    found = np.ones(len(columns[0]), dtype=np.bool_)
    found[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return found


def share_offers(asks: Iterable[tuple[int, Decimal]]) -> tuple[list[int], list[int]]:
    """Return odds x 1000 and stakes in cents of the best asks for shares: prices in millionths, the lowest first, and numbers.

    The odds are 1 / p at the price p, and n shares cost the stake n x p.

    Examples
    --------
    >>> share_offers([(250_000, Decimal(40)), (400_000, Decimal("10.5"))])
    ([4000, 2500], [1000, 420])
    """
    levels: dict[int, int] = {}
    for price, count in asks:
        odds, stake = odds_milli(Decimal(price) / WHOLE), half_up(count * price * 100 / WHOLE)
        if odds is None or not stake:
            continue
        if len(levels) == LEVEL_COUNT and odds not in levels:
            break
        levels[odds] = levels.get(odds, 0) + stake
    return [*levels], [*levels.values()]


class SpilledLadders:
    """Ladders of fixtures by their ids, whose rows wait on disk; ``log`` takes them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.log = LadderLog()
        self._spill = QuoteSpill(folder)

    def flush(self, least: int = 0, *, is_ended: bool = False) -> None:
        """Keep the rows on disk, if at least this many levels came since."""
        if self.log.size * LEVEL_COUNT >= least:
            rows = self.log.take(is_ended=is_ended)
            if rows.height:
                self._spill.add(rows.with_columns(event=pl.col("fixture_id").cast(pl.String)))

    def rows(self, events: Sequence[str], ticks: pl.DataFrame) -> pl.DataFrame:
        """Return ``LADDERS`` of some fixtures, of the sides that have ticks; nothing is added afterwards."""
        self.flush(is_ended=True)
        if self._spill.rows_of.keys().isdisjoint(events):
            return pl.DataFrame(schema=LADDERS)
        rows = self._spill.rows(events).select(*LADDERS)
        return rows.join(ticks.select(LADDER).unique(), on=LADDER, how="semi")
