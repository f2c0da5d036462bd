"""The book that message-by-message agents see: the latest state of every market of a fixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from clvlab.law.actions import Decision
from clvlab.law.schema import ABOUT, Action
from clvlab.law.tape import Tape

NULL = -1  # stands for a missing price; a price is never negative


class Known(NamedTuple):
    """Facts about a fixture that were known beforehand; ``None`` for a fact that the source lacks."""

    kickoff_ts_ms: int | None = None
    home: str | None = None
    away: str | None = None
    league: str | None = None
    season: str | None = None
    source_id: str | None = None


NOTHING_KNOWN = Known()


class Book:
    """The latest state of every market of a fixture at one message. It is valid during ``on_tick`` only.

    Attributes
    ----------
    fixture_id, tick_seq, ts_ms, in_running
        The message.
    market_key
        The message's market, which is the default of the methods.
    fixture
        Facts known beforehand: ``kickoff_ts_ms, home, away, league, season, source_id``.

    Examples
    --------
    >>> import clvlab as cl
    >>> class Careful(cl.TickAgent):
    ...     markets = ("1X2",)
    ...
    ...     def on_tick(self, book):
    ...         if book.suspended() or book.in_running or book.age_ms() > 0:
    ...             return None
    ...         side = max(book.sides(), key=lambda side: book.prob_bps(side) or 0)
    ...         if book.odds_milli(side) is None:
    ...             return book.wait("no quote")
    ...         return book.back(side, stake=50, confidence=0.6) if book.prob_bps(side) >= 5000 else None
    >>> bt = cl.backtest("starter", Careful())
    >>> bt.scores["entry_prob_bps"].min() >= 5000
    True
    """

    __slots__ = ("_columns", "_rows", "_sides", "fixture", "fixture_id", "in_running", "market_key", "tick_seq", "ts_ms")

    _columns: Mapping[str, Sequence[int]]
    _rows: Mapping[str, int]
    _sides: Mapping[str, Mapping[str, int]]

    fixture_id: int
    tick_seq: int
    ts_ms: int
    in_running: bool
    market_key: str
    fixture: Known

    @property
    def to_close_s(self) -> float | None:
        """Seconds until the announced kickoff; ``None`` if the kickoff is unknown."""
        kickoff_ts_ms = self.fixture.kickoff_ts_ms
        return None if kickoff_ts_ms is None else (kickoff_ts_ms - self.ts_ms) / 1000

    @property
    def markets(self) -> list[str]:
        """Markets of the fixture with a quote so far, in order of their first message."""
        return list(self._rows)

    def sides(self, market_key: str | None = None) -> tuple[str, ...]:
        """Sides of a market in byte order; empty before the market's first message."""
        market = self._market(market_key)
        return tuple(self._sides[market]) if market in self._rows else ()

    def prob_bps(self, side: str, market_key: str | None = None) -> int | None:
        """Consensus probability of a side, basis points; ``None`` if unpriced, suspended, or not quoted yet."""
        return self._value("prob_bps", side, market_key)

    def odds_milli(self, side: str, market_key: str | None = None) -> int | None:
        """Decimal odds on offer x 1000; ``None`` without a quote."""
        return self._value("odds_milli", side, market_key)

    def suspended(self, market_key: str | None = None) -> bool:
        """Whether every side of the market is unpriced in its last message. It is true before the first message."""
        row = self._rows.get(self._market(market_key))
        return row is None or bool(self._columns["suspended"][row])

    def age_ms(self, market_key: str | None = None) -> int | None:
        """Milliseconds since the market's last message; ``None`` before its first."""
        row = self._rows.get(self._market(market_key))
        return None if row is None else self.ts_ms - int(self._columns["ts_ms"][row])

    def back(
        self,
        side: str,
        market_key: str | None = None,
        *,
        stake: int = 100,
        limit_odds_milli: int | None = None,
        reason: str | None = None,
        confidence: float | None = None,
        claimed_edge_bps: int | None = None,
    ) -> Decision:
        """Return a position on a side, for ``on_tick`` to return. Its claims are recorded, but never scored."""
        market = self._market(market_key)
        claims = (reason, confidence, claimed_edge_bps)
        return (self.fixture_id, self.tick_seq, Action.BACK.value, market, side, stake, limit_odds_milli, *claims)

    def wait(self, reason: str | None = None) -> Decision:
        """Return a recorded abstention, for ``on_tick`` to return."""
        return (self.fixture_id, self.tick_seq, Action.WAIT.value, None, None, None, None, reason, None, None)

    def _market(self, market_key: str | None) -> str:
        return self.market_key if market_key is None else market_key

    def _value(self, column: str, side: str, market_key: str | None) -> int | None:
        market = self._market(market_key)
        try:
            value = self._columns[column][self._rows[market] + self._sides[market][side]]
        except KeyError:
            return None
        return None if value == NULL else value


class MovingBook(Book):
    """A book that is updated at each message. The columns of prices stay as they are; only row numbers change."""

    __slots__ = ()

    def __init__(self, columns: Mapping[str, Sequence[int]]) -> None:
        self._columns = columns

    def move(
        self,
        at: tuple[int, int, int, bool, str],
        rows: Mapping[str, int],
        sides: Mapping[str, Mapping[str, int]],
        fixture: Known = NOTHING_KNOWN,
    ) -> None:
        """Move to a message (time, fixture, tick, in play, market), with the last row and the sides of each market."""
        self.fixture = fixture
        self.ts_ms, self.fixture_id, self.tick_seq, self.in_running, self.market_key = at
        self._rows, self._sides = rows, sides


def columns_of(tape: Tape) -> Mapping[str, memoryview]:
    prices = {name: tape.rows[name].fill_null(NULL) for name in ("prob_bps", "odds_milli")}
    columns = prices | {name: tape.rows[name] for name in ("suspended", "ts_ms")}
    return {name: column.to_numpy().data for name, column in columns.items()}


def known_of(tape: Tape) -> dict[int, Known]:
    about = pl.DataFrame(schema=ABOUT) if tape.about is None else tape.about
    rows = tape.fixtures.join(about, on="fixture_id", how="left", maintain_order="left").select("fixture_id", *Known._fields)
    return {fixture_id: Known(*known) for fixture_id, *known in rows.iter_rows()}
