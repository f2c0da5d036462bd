"""The decisions and closes of a run as columns of numbers, as the law reads them.

Columns are NumPy arrays, one value a line. Python adds a fixed cost to every call, so a few calls on whole columns are fast for
one decision and for a million.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from clvlab.law.schema import Schema

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Column: TypeAlias = "Ints | Bools | Categorical[Any] | pl.Series"

NONE = -(2**63)
"""Stands for null in a column of integers. It is below every sealed integer, so no comparison ``>`` holds for it."""

_T = TypeVar("_T", str, tuple[str, ...])
_FEW = 10_000  # of fewer texts, a dictionary is faster than setting up Polars


@dataclass(frozen=True, slots=True)
class Categorical(Generic[_T]):
    """A column of few distinct values.

    Attributes
    ----------
    codes
        Place of each value in ``values``; -1 for null.
    values
        The distinct values. Texts are in byte order.
    """

    codes: Ints
    values: Sequence[_T]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Ints) -> Categorical[_T]:
        """Return the values of some rows; null for row -1."""
        return Categorical(take(self.codes, rows, -1), self.values)

    def equals(self, value: _T) -> Bools:
        """Return where a value stands. A null equals nothing."""
        found: Bools = self.map(lambda one: one == value, default=False)
        return found

    def map(self, function: Callable[[_T], Any], default: Any) -> NDArray[Any]:
        """Return the result for each row's value, computed once a distinct value, and ``default`` for null."""
        return np.array([*map(function, self.values), default])[self.codes]  # code -1 is the last, the default

    def tolist(self) -> list[_T | None]:
        values = [*self.values, None]
        return [values[code] for code in self.codes.tolist()]


@dataclass(frozen=True, slots=True)
class MarketStates:
    """The market states in some lines. The prices of all states stand end to end, those of one state in order of its sides.

    Attributes
    ----------
    line
        Row of the line that has the state, ascending.
    tick_seq, ts_ms, suspended, size
        Message of each state, and its number of sides.
    side, prob_bps, odds_milli
        One value a price.
    """

    line: Ints
    tick_seq: Ints
    ts_ms: Ints
    suspended: Bools
    size: Ints
    side: Categorical[str]
    prob_bps: Ints
    odds_milli: Ints


@dataclass(frozen=True, slots=True)
class Decisions:
    """The DECISION lines in order. ``pre`` and ``post`` are the reasons of the gate, null for a WAIT."""

    agent_id: Categorical[str]
    fixture_id: Ints
    tick_seq: Ints
    ts_ms: Ints
    action: Categorical[str]
    market_key: Categorical[str]
    side: Categorical[str]
    stake: Ints
    limit_odds_milli: Ints
    confidence_ppm: Ints
    states: MarketStates
    pre: Categorical[tuple[str, ...]]
    post: Categorical[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.fixture_id)


@dataclass(frozen=True, slots=True)
class Closes:
    """The MARKET_CLOSE lines in order. Their market keys and sides have the codes of the decisions' ones."""

    fixture_id: Ints
    market_key: Categorical[str]
    end_seq: Ints
    close_ts_ms: Ints
    close_kind: Categorical[str]
    states: MarketStates

    def __len__(self) -> int:
        return len(self.fixture_id)


@dataclass(frozen=True, slots=True)
class Positions:
    """Decisions with the two states that score them, in order of ``seq``: the only input of the scoring law.

    Attributes
    ----------
    entry_present, entry_suspended, entry_prob_bps, odds_milli
        The state acted on, and the price of the side.
    closing_present, closing_suspended, close_prob_bps, closing_ts_ms
        The closing state, and the probability of the side in it.
    end_seq, close_ts_ms, close_kind
        Close of the market; null for a decision that backs no market.
    """

    seq: Ints
    agent_id: Categorical[str]
    fixture_id: Ints
    tick_seq: Ints
    ts_ms: Ints
    action: Categorical[str]
    market_key: Categorical[str]
    side: Categorical[str]
    confidence_ppm: Ints
    entry_present: Bools
    entry_suspended: Bools
    entry_prob_bps: Ints
    odds_milli: Ints
    closing_present: Bools
    closing_suspended: Bools
    close_prob_bps: Ints
    closing_ts_ms: Ints
    end_seq: Ints
    close_ts_ms: Ints
    close_kind: Categorical[str]


@dataclass(frozen=True, slots=True)
class Proposals:
    """Decisions in sealed order with the quote that each would take: the only input of the gate.

    ``odds_milli`` is missing if there is no quote, and ``quote_age_ms`` if there is no market state.
    """

    agent_id: Categorical[str]
    fixture_id: Ints
    tick_seq: Ints
    ts_ms: Ints
    action: Categorical[str]
    market_key: Categorical[str]
    stake: Ints
    limit_odds_milli: Ints
    entry_prob_bps: Ints
    odds_milli: Ints
    quote_age_ms: Ints


# Operations on columns.


def known(column: Ints) -> Bools:
    """Return where a column is not null."""
    there: Bools = column != NONE
    return there


def take(column: NDArray[Any], rows: Ints, default: Any) -> NDArray[Any]:
    """Return the values of some rows; ``default`` for row -1."""
    other = column.dtype.type(default)
    return np.where(rows < 0, other, column[rows]) if len(column) else np.full(len(rows), other)


def spread(column: NDArray[Any], rows: Ints, count: int, default: Any) -> NDArray[Any]:
    """Return ``count`` values: those of a column at its ``rows``, and ``default`` elsewhere."""
    whole = np.full(count, default, dtype=column.dtype)
    whole[rows] = column
    return whole


def changes(column: NDArray[Any]) -> Bools:
    """Return whether each value is the first or differs from the previous value."""
    differs = np.ones(len(column), dtype=np.bool_)
    differs[1:] = column[1:] != column[:-1]
    return differs


def distinct(column: Ints) -> int:
    """Return the number of distinct values."""
    return int(changes(np.sort(column)).sum())  # for as much, np.unique loads numpy.ma


def within(column: Ints, low: int, high: int | None = None) -> bool:
    """Tell whether all values that are not null are in a range."""
    values = column[known(column)]
    return not len(values) or (int(values.min()) >= low and (high is None or int(values.max()) <= high))


def find(values: Ints, wanted: Ints) -> Ints:
    """Return the row of each wanted number in an ascending column; -1 for a number that is not in it."""
    row = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(take(values, row, NONE) == wanted, row, -1)


def first_known(*columns: Ints) -> Ints:
    """Return the first value of each row that is not null."""
    first, *others = columns
    for column in others:
        first = np.where(known(first), first, column)
    return first


def starts(size: Ints) -> Ints:
    """Return where each of some groups begins, given their sizes."""
    return cast("Ints", np.cumsum(size) - size)


def ranges(first: Ints, size: Ints) -> Ints:
    """Return the rows of some groups end to end, given the first row and the size of each."""
    return cast("Ints", np.arange(size.sum()) + np.repeat(first - starts(size), size))


class Names(Generic[_T]):
    """Distinct texts in the order in which they are met. ``None`` has place -1."""

    def __init__(self) -> None:
        self._places: dict[_T | None, int] = {None: -1}

    def codes(self, values: Iterable[_T | None]) -> list[int]:
        places = self._places
        return [places[value] if value in places else places.setdefault(value, len(places) - 1) for value in values]

    def coded(self, codes: array[int]) -> Categorical[_T]:
        """Return a column of places as a column of texts in byte order."""
        names = [name for name in self._places if name is not None]
        order = sorted(range(len(names)), key=lambda place: names[place])
        rank = np.empty(len(names) + 1, dtype=np.int64)
        rank[order], rank[-1] = range(len(names)), -1
        return Categorical(rank[np.frombuffer(codes, dtype=np.int64)], [names[place] for place in order])


def recoded(*columns: Categorical[_T]) -> list[Categorical[_T]]:
    """Return columns with common codes."""
    values = sorted({value for column in columns for value in column.values})
    place = {value: code for code, value in enumerate(values)}
    return [Categorical(column.map(lambda value: place[value], default=-1), values) for column in columns]


class ColumnBuilder(defaultdict[str, "array[int]"]):
    """Columns of integers that grow by pieces."""

    def __init__(self) -> None:
        super().__init__(lambda: array("q"))

    def add_nullable(self, name: str, values: Iterable[int | None]) -> None:
        self[name].fromlist([NONE if value is None else value for value in values])

    def ints(self, name: str) -> Ints:
        return np.frombuffer(self[name], dtype=np.int64)


class _Price(Protocol):
    side: str
    prob_bps: int | None
    odds_milli: int | None


class _State(Protocol):
    tick_seq: int
    ts_ms: int
    suspended: bool

    @property
    def sides(self) -> Sequence[_Price]: ...


class StatesBuilder:
    """The market states of lines that are read in pieces."""

    def __init__(self, sides: Names[str]) -> None:
        self._columns, self._sides, self._count = ColumnBuilder(), sides, 0

    def add(self, states: Sequence[_State | None]) -> None:
        columns, start = self._columns, self._count
        self._count += len(states)
        columns["line"].fromlist([line for line, state in enumerate(states, start) if state is not None])
        there = [state for state in states if state is not None]
        columns["tick_seq"].fromlist([state.tick_seq for state in there])
        columns["ts_ms"].fromlist([state.ts_ms for state in there])
        columns["suspended"].fromlist([state.suspended for state in there])
        columns["size"].fromlist([len(state.sides) for state in there])
        prices = [price for state in there for price in state.sides]
        columns["side"].fromlist(self._sides.codes([price.side for price in prices]))
        columns.add_nullable("prob_bps", [price.prob_bps for price in prices])
        columns.add_nullable("odds_milli", [price.odds_milli for price in prices])

    def states(self) -> MarketStates:
        columns = self._columns
        return MarketStates(
            columns.ints("line"),
            columns.ints("tick_seq"),
            columns.ints("ts_ms"),
            columns.ints("suspended").astype(np.bool_),
            columns.ints("size"),
            self._sides.coded(columns["side"]),
            columns.ints("prob_bps"),
            columns.ints("odds_milli"),
        )


# To and from frames.


def texts_of(*columns: pl.Series) -> list[Categorical[str]]:
    """Return columns of texts with common codes, in byte order."""
    if sum(map(len, columns)) < _FEW:
        names: Names[str] = Names()
        codes = [array("q", names.codes(column.to_list())) for column in columns]
        return [names.coded(code) for code in codes]
    texts = pl.concat(columns).drop_nulls().unique().sort()
    places = [column.cast(pl.Enum(texts)).to_physical().cast(pl.Int64).fill_null(-1).to_numpy() for column in columns]
    return [Categorical(place, texts.to_list()) for place in places]


def ints_of(column: pl.Series) -> Ints:
    whole = column.cast(pl.Int64)
    return (whole.fill_null(NONE) if whole.null_count() else whole).to_numpy()


def columns_of(frame: pl.DataFrame) -> Mapping[str, Any]:
    """Return the columns of a frame by name. A null in a Boolean column is false."""
    whole = frame.with_columns(cs.integer().cast(pl.Int64).fill_null(NONE), cs.boolean().fill_null(value=False))
    return {column.name: texts_of(column)[0] if column.dtype == pl.String else column.to_numpy() for column in whole}


def frame_of(columns: Mapping[str, Column], schema: Schema) -> pl.DataFrame:
    """Return columns as a frame of a schema, with null for ``NONE`` and for the code -1."""
    return pl.DataFrame([_series(columns[name], dtype).alias(name) for name, dtype in schema.items()])


def _series(column: Column, dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    if isinstance(column, pl.Series):
        return column
    if isinstance(column, Categorical):
        values = pl.Series([*column.values, None], dtype=dtype)
        return values[np.where(column.codes < 0, len(column.values), column.codes)]
    values = pl.Series(column, dtype=dtype)
    is_null = pl.Series(column == NONE) if column.dtype == np.int64 else None
    return values.set(is_null, None) if is_null is not None and is_null.any() else values
