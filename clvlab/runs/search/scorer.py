"""The work at a point of a search, in this process or in another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.agents.isolation.agent import IsolatedAgent
from clvlab.agents.template import Params
from clvlab.base.parallel import Work, parallel_map
from clvlab.engine.agent import Agent, ProcessAgent, decided_over, decisions_of, register, seen_by
from clvlab.engine.replay import confidence_ppm, locate, market_rows
from clvlab.law.actions import check_decisions
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.clv import scores
from clvlab.law.lines import Positions, columns_of
from clvlab.law.positions import SEALED_ORDER, check_prices
from clvlab.law.schema import POSITIONS, Action
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.packs.views.view_file import Place, load_place
from clvlab.runs.search.search import Search, at_point, spoken
from clvlab.runs.spec import resolve
from clvlab.statistics.measures import counted, fixture_sums, without_close

# Scores without evidence: the law applied to decisions that are not sealed, such as those of a search's points.


_MARKET = ["fixture_id", "market_key"]
_SIDE = [*_MARKET, "side"]

_MOST_ROWS = 2_000_000  # of a tape whose rows are scored: they take up to 80 bytes each
_ROWS_AT_ONCE = 100_000  # are scored, at about a kilobyte each; a fixture is scored whole
_POINT_ROWS = 5_000  # decisions that are scored in the time that a point takes without any
_UNCOUNTED, _UNSCORED = -1, -2
_SUMMED = ["fixture_id", "reason", "at_close", "entry_prob_bps", "odds_milli", "close_prob_bps", "clv_bps", "edge_bps"]


@dataclass(frozen=True, slots=True)
class _ScoredRows:
    """Scores of a BACK on each row of a tape.

    ``place`` is each row's place in ``scores``, which are in sealed order within a fixture; ``_UNCOUNTED`` if such a decision
    adds nothing to ``FIXTURE_SUMS``, and ``_UNSCORED`` if its market has no message at its tick.
    """

    names: pl.DataFrame
    key: npt.NDArray[np.int64]
    place: npt.NDArray[np.int32]
    scores: pl.DataFrame

    def scores_of(self, decisions: pl.DataFrame) -> pl.DataFrame | None:
        """Return the scores that sums need, in sealed order; ``None`` unless one agent made all decisions on scored rows."""
        named = decisions[["tick_seq", "action", *_SIDE]]
        several = (decisions["agent_id"] != decisions["agent_id"].shift()).any()
        if several or any(column.null_count() for column in named) or (named["action"] != Action.BACK).any():
            return None
        # Sides are compared with those before, as agents mostly decide side by side: texts of few rows are looked up.
        another = pl.any_horizontal(pl.col(name) != pl.col(name).shift() for name in _SIDE)
        begins = named.select(another.fill_null(value=True)).to_series()  # null at the first row alone
        series = named.filter(begins).join(self.names, on=_SIDE, how="left", maintain_order="left")["series"]
        if series.null_count():
            return None
        number = series.to_numpy().astype(np.int64)[np.cumsum(begins.to_numpy()) - 1]
        key = number * 2**32 + named["tick_seq"].to_numpy()
        row = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        place = self.place[row]
        if (self.key[row] != key).any() or (place == _UNSCORED).any():
            return None
        return self.scores[np.sort(place[place >= 0])]


class Scorer:
    """A tape and a window, prepared to score one agent after another.

    A replay writes out each state, for evidence to carry, and the law reads the prices back from it. Here they are read from
    the tape itself; the scores are those of the replay (tests/engine/test_scoring.py).

    A BACK on a row of the tape has one score for every agent. Once the decisions of several agents took as long to score as
    all rows of the tape, these are scored, and ``sums`` adds up the rows that an agent backs.
    """

    def __init__(self, tape: Tape, window: Window) -> None:
        own = tape.at_source(window.close_source)
        check_prices(own.rows)
        self.tape, self.window, self._own = tape, window, own
        ends = fixture_closes(tape, window)
        first_sides = own.series.filter(pl.col("side_no") == 0)
        self._closes = market_closes(own, first_sides.select(_MARKET), ends).select(*_MARKET, "close_row")
        self._ends = ends.select("fixture_id", "end_seq", "close_ts_ms", "close_kind")
        self._sides = own.series.select(*_SIDE, "side_no", "rows")
        self._seen: dict[bool, Tape] = {}
        self._scored_rows: _ScoredRows | None = None
        self._work = 0  # in decisions, so far

    def scores(self, agent: Agent) -> pl.DataFrame:
        """Return ``SCORES`` of an agent's decisions, with ``at_close``: whether it acted on its market's closing message."""
        return self.timed_scores(agent).drop("ts_ms")

    def timed_scores(self, agent: Agent) -> pl.DataFrame:
        return self._scores(self._decisions(agent), "ts_ms")

    def sums(self, agent: Agent) -> pl.DataFrame:
        """Return ``FIXTURE_SUMS`` of an agent's decisions."""
        decisions = self._decisions(agent)
        self._work += decisions.height + _POINT_ROWS
        if self._scored_rows is None and 0 < self.tape.rows.height <= min(self._work, _MOST_ROWS):
            self._scored_rows = self._score_rows()
        found = None if self._scored_rows is None else self._scored_rows.scores_of(decisions)
        return fixture_sums(self._scores(decisions) if found is None else found)

    def _decisions(self, agent: Agent) -> pl.DataFrame:
        if not isinstance(agent, ProcessAgent):
            return decisions_of(agent, self.tape)
        asks = agent.identity.asks_for_books
        if asks not in self._seen:
            self._seen[asks] = seen_by(agent, self.tape)
        return check_decisions(decided_over(agent, self._seen[asks]))  # the same tape is handed to a process once

    def _score_rows(self) -> _ScoredRows:
        tape, parts = self.tape, list[pl.DataFrame]()
        names = tape.series.with_row_index("series").select("series", *_SIDE)
        place = np.full(tape.rows.height, _UNSCORED, np.int32)
        constant = {"agent_id": pl.lit(""), "action": pl.lit(Action.BACK.value), "confidence": pl.lit(None, pl.Float64)}
        first = count = 0
        for size in _slices(tape.series):
            rows = tape.rows.slice(first, size).select("tick_seq", "series", row=pl.int_range(first, first + size))
            backs = rows.hstack(names.select(_SIDE)[rows["series"]]).drop("series").with_columns(**constant)
            message = tape.rows["tick_seq"].gather(market_rows(tape, backs)["market_row"])
            backs = backs.filter(message == backs["tick_seq"])
            found = self._scores(backs, "row").filter(counted() | without_close())
            place[backs["row"]] = _UNCOUNTED
            place[found["row"]] = np.arange(count, count + found.height)
            parts.append(found.select(_SUMMED))
            first, count = first + size, count + found.height
        return _ScoredRows(names, tape.key.to_numpy(), place, pl.concat(parts, rechunk=True))

    def _scores(self, decisions: pl.DataFrame, *kept: str) -> pl.DataFrame:
        located = locate(self.tape, decisions).sort(SEALED_ORDER, nulls_last=False)
        if self._own is not self.tape:
            located = located.with_columns(*market_rows(self._own, located))
        rows, back = self._own.rows, pl.col("action") == Action.BACK
        closing = pl.col("end_seq", "close_ts_ms", "close_kind", "close_row")
        found = (
            located.lazy()
            .join(self._sides.lazy(), on=[*_MARKET, "side"], how="left", maintain_order="left")
            .join(self._closes.lazy(), on=_MARKET, how="left", maintain_order="left")
            .join(self._ends.lazy(), on="fixture_id", how="left", maintain_order="left")
            .with_columns(
                pl.when(back & pl.col("market_key").is_not_null()).then(closing),
                entry_row=pl.when(back).then("market_row"),
                offset=pl.col("side_no") * pl.col("rows"),
            )
            .collect(engine="in-memory")
        )
        entry, close = found["entry_row"], found["close_row"]
        own_entry, own_close = entry + found["offset"], close + found["offset"]
        positions = found.with_columns(
            confidence_ppm=confidence_ppm(),
            seq=pl.int_range(1, pl.len() + 1),
            entry_present=entry.is_not_null(),
            entry_suspended=rows["suspended"].gather(entry),
            entry_prob_bps=rows["prob_bps"].gather(own_entry),
            odds_milli=rows["odds_milli"].gather(own_entry),
            closing_present=close.is_not_null(),
            closing_suspended=rows["suspended"].gather(close),
            close_prob_bps=rows["prob_bps"].gather(own_close),
            closing_ts_ms=rows["ts_ms"].gather(close),
        )
        scored = scores(Positions(**columns_of(positions.select(*POSITIONS))), self.window, self.tape.max_close_age_s)
        return scored.with_columns(*(found[name] for name in kept), at_close=(entry == close).fill_null(value=False))


def _slices(series: pl.DataFrame) -> pl.Series:
    """Return numbers of consecutive rows, of whole fixtures, that are scored at once."""
    fixtures = series.group_by("fixture_id", maintain_order=True).agg(pl.col("rows").sum())
    part = (pl.col("rows").cum_sum() - pl.col("rows")) // _ROWS_AT_ONCE
    return fixtures.group_by(part.alias("part"), maintain_order=True).agg(pl.col("rows").sum())["rows"]


Task = tuple[Search, Params]

_MOST_POINTS = 256  # in a task
_SHARDS_AT_ONCE = 2  # as in a run
_KEPT = 1  # tapes that a process keeps: a pack may be large


def point_scores(search: Search, params: Params) -> pl.DataFrame:
    """Return ``SCORES`` with ``at_close`` of the agent at a point; a note of an error names the point."""
    parts = search.parts
    with ThreadPoolExecutor(_SHARDS_AT_ONCE if isinstance(search.agent, str) else 1) as pool:
        found = pl.concat(pool.map(partial(_at, Scorer.timed_scores, params=params), parts))
    if len(parts) > 1:  # each is in sealed order
        found = found.sort("ts_ms", "fixture_id", "tick_seq", maintain_order=True).with_columns(
            seq=pl.int_range(1, pl.len() + 1)
        )
    return found.drop("ts_ms")


def _at(scored: Callable[[Scorer, Agent], pl.DataFrame], search: Search, params: Params) -> pl.DataFrame:
    scorer = _scorer_of(search)
    agent = register(search.agent) if isinstance(search.agent, IsolatedAgent) else search.agent
    with at_point(params):
        return scored(scorer, resolve(agent, params, search.window))


def sums_at(tasks: Iterable[Task]) -> list[pl.DataFrame]:
    return [_at(Scorer.sums, search, params) for search, params in tasks]


def sums_of_tasks(tasks: Iterable[Task], count: int, executor: Executor | None) -> Iterator[pl.DataFrame]:
    """Yield ``FIXTURE_SUMS`` of each task in order, whichever process computes it.

    A process keeps the tape of one search, so the tasks of each search must be consecutive.
    """
    return parallel_map(Work(sums_at, sums_at, _point_text, _search_of, _MOST_POINTS, _forget), tasks, count, executor)


def _point_text(task: Task) -> str:
    return f"at the setting {spoken(task[1])}"


def _search_of(task: Task) -> Search:
    return task[0]


def tape_of(search: Search) -> Tape:
    return _scorer_of(search).tape


def _forget() -> None:
    _scorer.cache_clear()


def _scorer_of(search: Search) -> Scorer:
    return _scorer(search.place, search.content_hash, search.fixture_ids, search.window)


@lru_cache(maxsize=_KEPT)
def _scorer(place: Place, content_hash: str, fixture_ids: tuple[int, ...], window: Window) -> Scorer:
    return Scorer(_pack(place, content_hash).tape(fixture_ids), window)


@lru_cache(maxsize=_KEPT)
def _pack(place: Place, content_hash: str) -> Pack:
    """Open a pack once for all its shards, as its file is hashed whole."""
    return load_place(place, content_hash)
