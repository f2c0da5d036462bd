"""``strategy``: an agent from one function of all ticks to all decisions."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, overload

import cloudpickle
import polars as pl

from clvlab.agents.source import source_sha256
from clvlab.agents.template import Params, checked_markets, in_markets
from clvlab.engine.agent import Identity
from clvlab.errors import AgentError, SchemaError
from clvlab.law.schema import ABOUT, DECISIONS, SAFE_INTEGER, TICKS, Action, conform
from clvlab.law.tape import Tape

Rule = Callable[..., pl.LazyFrame | pl.DataFrame]

_BASE_COLUMNS = (*TICKS, "series", "kickoff_ts_ms", "to_close_s", *(column for column in ABOUT if column != "fixture_id"))
_NAMED = ("fixture_id", "tick_seq", "market_key", "side")
_EXAMPLE = """for example

    @clvlab.strategy
    def favourites(ticks):
        return ticks.filter(pl.col("prob_bps") >= 6000).unique("series", keep="first", maintain_order=True)
"""


@dataclass(frozen=True)
class Strategy:
    """An agent that is a function of a lazy frame.

    Attributes
    ----------
    rule
        Function of the ticks and of named parameters, which returns decisions.
    agent_id
        Name of the agent; the function's name by default.
    version
        Version of the strategy, as sealed.
    markets
        Market-key prefixes of the ticks that the rule sees.
    stake
        Default stake of a position, integer units.
    params
        Values of the rule's parameters: its defaults, unless ``with_params`` replaced them.
    books
        Whether the rule also takes each book's quotes, as its second argument.
    """

    rule: Rule
    agent_id: str
    version: str = "1"
    markets: tuple[str, ...] = ("",)
    stake: int = 100
    params: Params = field(default_factory=dict)
    books: bool = False

    def __post_init__(self) -> None:
        if type(self.stake) is not int or not 0 <= self.stake <= SAFE_INTEGER:
            raise AgentError(f"the stake of {self.agent_id} must be a whole number from 0 to 2**53 - 1, not {self.stake!r}")
        checked_markets(self.markets)

    def __reduce__(self) -> tuple[Callable[..., Strategy], tuple[Any, ...]]:
        """Pickle the rule by value, because its name refers to the strategy and not to the function."""
        own = (self.agent_id, self.version, self.markets, self.stake, dict(self.params), self.books)
        return _unpickled, (cloudpickle.dumps(self.rule), *own)

    @property
    def identity(self) -> Identity:
        config = dict(self.params) | {"markets": list(self.markets), "stake": self.stake}
        config |= {"books": True} if self.books else {}
        return Identity(self.agent_id, _name(self.rule), self.version, config, source_sha256=source_sha256(self.rule))

    def with_params(self, agent_id: str | None = None, **params: Any) -> Strategy:
        """Return the same strategy with other values of its parameters.

        Raises
        ------
        AgentError
            The rule has no parameter of that name.
        """
        unknown = params.keys() - self.params.keys()
        if unknown:
            known = ", ".join(self.params) or "none"
            raise AgentError(f"{self.agent_id} has no parameter {min(unknown)!r}; it has: {known}")
        return replace(self, agent_id=agent_id or self.agent_id, params=dict(self.params) | params)

    def decide(self, tape: Tape) -> pl.DataFrame:
        """Return ``DECISIONS`` of the rule, with defaults for missing columns.

        Raises
        ------
        SchemaError
            The rule returned something other than a frame, or a required column is missing or of another dtype.
        """
        return self._over(_ticks(tape, self.markets), tape)

    def _over(self, ticks: pl.LazyFrame, tape: Tape) -> pl.DataFrame:
        seen = (ticks, *([_ticks_by_book(tape, self.markets)] if self.books else []))
        decided = self.rule(*seen, **self.params)
        if not isinstance(decided, pl.DataFrame | pl.LazyFrame):
            own = type(decided)
            meant = " of pandas: wrap it in pl.from_pandas(...)" if own.__module__.startswith("pandas") else ""
            raise SchemaError(f"{self.agent_id} must return a polars frame, not {own.__name__}{meant}; {_EXAMPLE}")
        columns = decided.collect_schema().names()
        missing = [column for column in _NAMED if column not in columns]
        if missing:
            raise SchemaError(
                f"{self.agent_id} returned decisions without {', '.join(missing)}: they need {', '.join(_NAMED)}; {_EXAMPLE}"
            )
        for column in [column for column in columns if column not in {*DECISIONS, *_BASE_COLUMNS}]:
            meant = get_close_matches(column, DECISIONS, 1, cutoff=0.8)
            if meant and meant[0] not in columns:
                raise SchemaError(f"{self.agent_id} returned a column {column!r}: is {meant[0]!r} meant? If not, rename it")
        # The rule may have kept other columns of the ticks, such as names. They are never read.
        kept = decided.lazy().select(column for column in columns if column in DECISIONS).collect(engine="in-memory")
        try:
            return conform(self._completed(kept), DECISIONS, f"the decisions of {self.agent_id}")
        except SchemaError as error:
            raise SchemaError(f"{error}: cast such a column, as by pl.col(...).cast(pl.Int64)") from error

    def _completed(self, decided: pl.DataFrame) -> pl.DataFrame:
        defaults = {"action": pl.lit(Action.BACK.value), "stake": pl.lit(self.stake, pl.Int64)}
        absent = [
            defaults.get(column, pl.lit(None, dtype)).alias(column)
            for column, dtype in DECISIONS.items()
            if column not in decided.columns or column == "agent_id"
        ]
        full = decided.with_columns(absent).with_columns(agent_id=pl.lit(self.agent_id))
        if full["confidence"].dtype.is_numeric():
            full = full.with_columns(pl.col("confidence").cast(pl.Float64))
        return full.select(*DECISIONS)


def _unpickled(rule: bytes, *own: Any) -> Strategy:
    return Strategy(pickle.loads(rule), *own)  # noqa: S301  part of a pickle that is being read


@overload
def strategy(rule: Rule, /) -> Strategy: ...
@overload
def strategy(
    *, agent_id: str | None = None, version: str = "1", markets: tuple[str, ...] = ("",), stake: int = 100, books: bool = False
) -> Callable[[Rule], Strategy]: ...
def strategy(
    rule: Rule | None = None,
    /,
    *,
    agent_id: str | None = None,
    version: str = "1",
    markets: tuple[str, ...] = ("",),
    stake: int = 100,
    books: bool = False,
) -> Strategy | Callable[[Rule], Strategy]:
    """Return an agent from a function of a lazy frame of ticks that returns a frame of decisions.

    The frame has the columns of ``TICKS`` (``fixture_id, tick_seq, ts_ms, in_running, market_key, side, prob_bps, odds_milli,
    suspended``) and ``series``, a number of the (fixture, market, side) to group by. Rows are in order of (series, tick_seq),
    so a ``shift`` or a ``rolling`` over ``series`` looks back only. The frame also has facts of the fixture: ``home, away,
    league, season, source_id``, the announced ``kickoff_ts_ms``, and ``to_close_s``, the seconds until then. An unknown fact is
    null.

    The result has a row for each position and needs the columns ``fixture_id, tick_seq, market_key, side``. The columns
    ``action, stake, limit_odds_milli, reason, confidence, claimed_edge_bps`` are optional, and other columns are ignored.
    Keyword parameters with defaults become the agent's parameters.

    Before a run is sealed the agent is audited for look-ahead.

    Parameters
    ----------
    rule
        The function. Without it, ``strategy`` returns a decorator.
    agent_id
        Name of the agent; the function's name by default.
    version
        Version of the strategy, as sealed.
    markets
        Market-key prefixes of the ticks that the function sees.
    stake
        Default stake of a position, integer units.
    books
        Whether the function also takes a second frame, with each book's quotes. That frame has the same columns without
        ``in_running``, and a column ``book``; its ``series`` numbers (fixture, market, side, book). The pack must keep its
        books.

    Raises
    ------
    AgentError
        The decorated object is not a function, or a parameter has no default.

    Examples
    --------
    >>> import clvlab as cl, polars as pl
    >>> @cl.strategy(markets=("1X2",))
    ... def steam(ticks, *, rise_bps=150):
    ...     rise = pl.col("prob_bps") - pl.col("prob_bps").shift(10).over("series")
    ...     return ticks.filter(rise >= rise_bps, ~pl.col("in_running"))
    >>> cl.backtest("starter", steam).run.verify().passed
    True
    >>> steam.with_params(rise_bps=300).params
    {'rise_bps': 300}
    """

    def made(function: Rule) -> Strategy:
        params = _defaults(function, count=1 + books)
        return Strategy(function, agent_id or _name(function), version, checked_markets(markets), stake, params, books)

    return made if rule is None else made(rule)


def _name(rule: Rule) -> str:
    return str(rule.__name__)


def _defaults(rule: Rule, count: int) -> Params:
    if not inspect.isfunction(rule) or inspect.iscoroutinefunction(rule):
        raise AgentError(f"strategy takes a function (def or lambda) of a lazy frame, not {rule!r:.80}; {_EXAMPLE}")
    declared = list(inspect.signature(rule).parameters.values())
    if len(declared) < count:
        raise AgentError(
            f"{_name(rule)} is shown books: write def {_name(rule)}(ticks, ticks_by_book), not {len(declared)} arguments"
        )
    own = declared[count:]
    for parameter in own:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise AgentError(f"parameter {parameter.name!r} of {_name(rule)} can't be given by name")
        if parameter.default is inspect.Parameter.empty:
            raise AgentError(f"parameter {parameter.name!r} of {_name(rule)} needs a default: it is sealed with the run")
        if parameter.name in ("markets", "stake", "books"):
            raise AgentError(f"parameter {parameter.name!r} of {_name(rule)} needs another name: strategy has one of that name")
    return {parameter.name: parameter.default for parameter in own}


def _ticks(tape: Tape, markets: tuple[str, ...]) -> pl.LazyFrame:
    """Return ``TICKS`` of some markets with ``series`` and facts of the fixtures, in order of (series, tick_seq)."""
    return _timed(_named_ticks(tape, markets)).select(*_BASE_COLUMNS)


def _named_ticks(tape: Tape, markets: tuple[str, ...]) -> pl.LazyFrame:
    series = _known(tape, in_markets(tape, markets).select("series", "fixture_id", "market_key", "side"))
    return tape.rows.lazy().join(series.lazy(), on="series", maintain_order="left")


@dataclass
class RepeatedTape:
    """A tape about which a strategy is asked with several parameters. From the second time on its named ticks are in memory.

    They are named each time if there are more than ``most_rows``. A row takes about 150 bytes.
    """

    tape: Tape
    most_rows: int
    _has_decided: bool = False
    _named: pl.LazyFrame | None = None

    def decide(self, strategy: Strategy) -> pl.DataFrame:
        named = _named_ticks(self.tape, strategy.markets) if self._named is None else self._named
        if self._has_decided and self._named is None and self.tape.rows.height <= self.most_rows:
            named = self._named = named.collect(engine="in-memory").lazy()
        self._has_decided = True
        # Polars divides one row otherwise than several in the last bit: times are computed after the rule's filters, as ever.
        return strategy._over(_timed(named).select(*_BASE_COLUMNS), self.tape)  # noqa: SLF001  of this module


def _ticks_by_book(tape: Tape, markets: tuple[str, ...]) -> pl.LazyFrame:
    """Return ``BOOKS`` of some markets in the same way. A series is one book's quotes of a side."""
    if tape.books is None:
        raise AgentError("the tape has no books besides the consensus")
    named = [*_NAMED[:1], *_NAMED[2:]]
    known = _known(tape, in_markets(tape, markets).select(named))
    number = pl.struct(*named, "book").rle_id().cast(pl.UInt32)
    stated = tape.books.join(known.lazy(), on=named, maintain_order="left").with_columns(series=number)
    return _timed(stated).select("book", *(column for column in _BASE_COLUMNS if column != "in_running"))


def _known(tape: Tape, series: pl.DataFrame) -> pl.DataFrame:
    about = pl.DataFrame(schema=ABOUT) if tape.about is None else tape.about
    of_fixture = tape.fixtures.join(about, on="fixture_id", how="left")
    return series.join(of_fixture, on="fixture_id", how="left", maintain_order="left")


def _timed(ticks: pl.LazyFrame) -> pl.LazyFrame:
    return ticks.with_columns(to_close_s=(pl.col("kickoff_ts_ms") - pl.col("ts_ms")) / 1000)
