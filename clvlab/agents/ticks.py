"""``TickAgent``: an agent that sees one message after another, with the state of all markets at each message."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import Any

import polars as pl

from clvlab.agents.book import NOTHING_KNOWN, NULL, Book, Known, MovingBook, columns_of, known_of
from clvlab.agents.source import agent_sha256
from clvlab.agents.template import checked_markets, in_markets
from clvlab.base.progress import ReportClock
from clvlab.engine.agent import Identity
from clvlab.errors import AgentError
from clvlab.law.actions import DECISION_COLUMNS, Decision, decisions_of
from clvlab.law.message import Message
from clvlab.law.tape import Tape

_SLICE = 65_536  # messages in memory as Python values
_EXAMPLE = """for example

    class Favourite(clvlab.TickAgent):
        def on_tick(self, book):
            if (book.prob_bps("part1") or 0) >= 6000:
                return book.back("part1")
"""
_NONE = type(None)
DECISION_TYPES = {
    "fixture_id": (int,), "tick_seq": (int,), "action": (str,), "market_key": (str, _NONE), "side": (str, _NONE),
    "stake": (int, _NONE), "limit_odds_milli": (int, _NONE), "reason": (str, _NONE), "confidence": (float, int, _NONE),
    "claimed_edge_bps": (int, _NONE),
}  # fmt: skip


class TickAgent:
    """Base class of agents that decide at every message, without later messages.

    Subclass it and write ``on_tick``. Messages of all fixtures come in order of time, then fixture, then tick. Every run starts
    from a copy of the agent in a process of its own, so the agent's attributes last for one run.

    Attributes
    ----------
    agent_id
        Name of the agent; the class's name by default.
    version
        Version of the strategy, as sealed.
    markets
        Market-key prefixes of the messages that it sees.
    params
        Parameters, as sealed: JSON values by name.

    Examples
    --------
    >>> import clvlab as cl
    >>> class Underdog(cl.TickAgent):
    ...     markets = ("1X2",)
    ...     def on_tick(self, book):
    ...         if book.tick_seq == 20:
    ...             return book.back(min(book.sides(), key=lambda side: book.prob_bps(side) or 10_000))
    >>> cl.backtest("starter", Underdog()).run.verify().passed
    True
    >>> Underdog().decide(cl.open_pack("starter").source.tape())["tick_seq"].unique().to_list()
    [20]
    """

    agent_id: str | None = None
    version: str = "1"
    markets: tuple[str, ...] = ("",)
    params: Mapping[str, Any] = MappingProxyType({})

    def on_tick(self, book: Book) -> Decision | Iterable[Decision] | None:
        """Return decisions at a message: ``book.back(...)``, ``book.wait(...)``, several of them, or ``None``."""
        raise NotImplementedError(f"{type(self).__name__} needs an on_tick; {_EXAMPLE}")

    @property
    def identity(self) -> Identity:
        """Identity of the agent, as it is sealed."""
        own = type(self)
        name = self.agent_id or own.__name__
        if not isinstance(self.params, Mapping) or "markets" in self.params:
            raise AgentError(
                f"params of {name} must be a dict of values by name, 'markets' not among them: {self.params!r:.80}"
            )
        config = dict(self.params) | {"markets": list(checked_markets(self.markets))}
        return Identity(name, own.__name__, self.version, config, source_sha256=agent_sha256(self))

    def decide(self, tape: Tape) -> pl.DataFrame:
        """Return ``DECISIONS`` of the agent at every message.

        Raises
        ------
        AgentError
            ``on_tick`` returned something other than decisions, or a decision at another message.
        """
        return Walk(self).decide(tape)


class Walk:
    def __init__(self, agent: TickAgent) -> None:
        self._on_tick, self._markets, self._name = deepcopy(agent).on_tick, agent.markets, agent.identity.agent_id
        self._decided: list[Decision] = []
        self._seen = 0

    def decide(self, tape: Tape, on_progress: Callable[[int, int], None] | None = None) -> pl.DataFrame:
        """Return ``DECISIONS`` over a tape that begins with the previous tape.

        ``on_progress`` gets the number of fixtures whose last message was seen, and of all fixtures, about ten times a second.
        """
        is_due, ends = ReportClock(), fixture_ends(tape, self._markets) if on_progress else []
        for book in _walked(tape, self._markets, self._seen):
            answer = self._on_tick(book)
            self._seen += 1
            if answer is not None:
                self._decided += _checked(answer, book)
            if on_progress and is_due():
                on_progress(bisect_right(ends, self._seen), len(ends))
        return decisions_of(self._decided, self._name)


class TickFollower:
    def __init__(self, agent: TickAgent) -> None:
        self._on_tick, self._markets = deepcopy(agent).on_tick, agent.markets
        self._probs: list[int] = []
        self._odds: list[int] = []
        self._suspended: list[int] = []
        self._times: list[int] = []
        columns = {"prob_bps": self._probs, "odds_milli": self._odds, "suspended": self._suspended, "ts_ms": self._times}
        self._book = MovingBook(columns)
        self._rows: dict[int, dict[str, int]] = {}
        self._sides: dict[int, dict[str, dict[str, int]]] = {}
        self._known: dict[int, Known] = {}

    def know(self, fixture_id: int, known: Known) -> None:
        self._known[fixture_id] = known

    def take(self, message: Message) -> list[Decision]:
        fixture_id, tick_seq, ts_ms, in_running, market, sides, prob_bps, odds_milli, suspended = message
        probs, odds = ([NULL if value is None else value for value in values] for values in (prob_bps, odds_milli))
        return self.move((ts_ms, fixture_id, tick_seq, in_running, market), sides, probs, odds, suspended)

    def move(
        self, at: tuple[int, int, int, bool, str], sides: Sequence[str], probs: list[int], odds: list[int], suspended: int
    ) -> list[Decision]:
        """Return the agent's decisions at a message. A missing price is ``NULL``, as in columns."""
        fixture_id, market = at[1], at[4]
        try:
            row = self._rows[fixture_id][market]
        except KeyError:
            if not market.startswith(self._markets):
                return []
            row = self._new_market(fixture_id, market, sides)
        last = row + len(probs)
        self._probs[row:last], self._odds[row:last] = probs, odds
        self._suspended[row], self._times[row] = suspended, at[0]
        self._book.move(at, self._rows[fixture_id], self._sides[fixture_id], self._known.get(fixture_id, NOTHING_KNOWN))
        answer = self._on_tick(self._book)
        return [] if answer is None else _checked(answer, self._book)

    def _new_market(self, fixture_id: int, market: str, sides: Sequence[str]) -> int:
        row = self._rows.setdefault(fixture_id, {})[market] = len(self._probs)
        self._sides.setdefault(fixture_id, {})[market] = {side: number for number, side in enumerate(sides)}
        for column in (self._probs, self._odds, self._suspended, self._times):
            column.extend([NULL] * len(sides))
        return row


def fixture_ends(tape: Tape, markets: tuple[str, ...] = ("",)) -> list[int]:
    """Return for each fixture the number of messages, in order of time, fixture and tick, up to its last one; sorted."""
    named = in_markets(tape, markets)
    messages = in_order(tape, named.filter(pl.col("side_no") == 0)).with_row_index("number", 1)
    return messages.group_by("fixture_id").agg(pl.max("number"))["number"].sort().to_list()


def in_order(tape: Tape, first_sides: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return the messages of some markets in order of time, fixture and tick.

    ``first_sides`` has the first series of each market. The columns of the result are time, fixture, tick, in play and row of
    the first side, then ``columns``.
    """
    return (
        tape.rows.lazy()
        .with_row_index("row")
        .join(first_sides.lazy(), on="series")
        .select("ts_ms", "fixture_id", "tick_seq", "in_running", pl.col("row").cast(pl.Int64), *columns)
        .sort("ts_ms", "fixture_id", "tick_seq")
        .collect(engine="in-memory")
    )


def _walked(tape: Tape, markets: tuple[str, ...], seen: int) -> Iterator[Book]:
    named = in_markets(tape, markets)
    messages = in_order(tape, named.filter(pl.col("side_no") == 0), "market_key")
    sides: dict[int, dict[str, dict[str, int]]] = {}
    offsets = named.select("fixture_id", "market_key", "side", pl.col("side_no") * pl.col("rows"))
    for fixture_id, market_key, side, offset in offsets.iter_rows():
        sides.setdefault(fixture_id, {}).setdefault(market_key, {})[side] = offset
    states: dict[int, dict[str, int]] = {fixture_id: {} for fixture_id in sides}
    before = messages.head(seen).group_by("fixture_id", "market_key", maintain_order=True).agg(pl.last("row"))
    for fixture_id, market_key, row in before.iter_rows():
        states[fixture_id][market_key] = row
    book, known = MovingBook(columns_of(tape)), known_of(tape)
    for part in messages.slice(seen).iter_slices(_SLICE):
        for ts_ms, fixture_id, tick_seq, in_running, row, market_key in zip(*(c.to_list() for c in part), strict=True):
            rows = states[fixture_id]
            rows[market_key] = row
            book.move((ts_ms, fixture_id, tick_seq, in_running, market_key), rows, sides[fixture_id], known[fixture_id])
            yield book


def _checked(answer: Any, book: Book) -> list[Decision]:
    alone = isinstance(answer, tuple) and len(answer) == len(DECISION_COLUMNS) and not isinstance(answer[0], tuple)
    several = [answer] if alone or not isinstance(answer, Iterable) or isinstance(answer, str | dict) else list(answer)
    at = (book.fixture_id, book.tick_seq)
    for one in several:
        if not isinstance(one, tuple) or len(one) != len(DECISION_COLUMNS):
            raise AgentError(
                f"on_tick must return book.back(...), book.wait(...), several of them, or None, not {answer!r:.80} "
                f"(tick {book.tick_seq} of fixture {book.fixture_id}); {_EXAMPLE}"
            )
        if one[:2] != at:
            raise AgentError(f"on_tick was asked at {_named(at)}, and returned a decision made at {_named(one)}: make it again")
        for (column, types), value in zip(DECISION_TYPES.items(), one, strict=True):
            if type(value) not in types:
                wanted = " or ".join(kind.__name__ for kind in types)
                raise AgentError(f"{column} of a decision at {_named(at)} must be {wanted}, not {value!r:.80}")
    return several


def _named(at: tuple[Any, ...]) -> str:
    return f"tick {at[1]} of fixture {at[0]}"
