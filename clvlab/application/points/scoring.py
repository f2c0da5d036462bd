"""The work at a point, in this process or in another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.agents.isolation.isolated import IsolatedAgent
from clvlab.application import backtests
from clvlab.application.points.search import Params, Search, at_point
from clvlab.application.sheets.sums import fixture_sums
from clvlab.engine.agent import register
from clvlab.engine.scoring import Scorer
from clvlab.errors import ClvlabError, PackTamperedError
from clvlab.law.closing import Window
from clvlab.law.tape import Tape
from clvlab.packs.reader import load_pack

_KEPT = 1  # tapes that a process keeps: a pack may be large


def point_scores(search: Search, params: Params) -> pl.DataFrame:
    """Return ``SCORES`` with ``at_close`` of the agent at a point.

    Raises
    ------
    ClvlabError
        The agent, the pack or the parameters are at fault; a note names the point.
    """
    parts = [_timed(part, params) for part in search.parts]
    found = pl.concat(parts)
    if len(parts) > 1:  # each is in sealed order
        found = found.sort("ts_ms", "fixture_id", "tick_seq", maintain_order=True).with_columns(
            seq=pl.int_range(1, pl.len() + 1)
        )
    return found.drop("ts_ms")


def _timed(search: Search, params: Params) -> pl.DataFrame:
    scorer = _scorer_of(search)
    agent = register(search.agent) if isinstance(search.agent, IsolatedAgent) else search.agent
    with at_point(params):
        return scorer.timed_scores(backtests.resolve(agent, params, search.window))


def sums_at(tasks: Iterable[tuple[Search, Params]]) -> list[pl.DataFrame]:
    """Return ``FIXTURE_SUMS`` of points of searches, without a look at their shards."""
    return [fixture_sums(_timed(search, params)) for search, params in tasks]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error on its way from another process: its class may not let it be pickled."""

    kind: type[ClvlabError]
    arguments: tuple[Any, ...]
    state: dict[str, Any]

    @property
    def error(self) -> ClvlabError:
        error = self.kind.__new__(self.kind, *self.arguments)
        error.__dict__.update(self.state)
        return error


def answer_at(tasks: Sequence[tuple[Search, Params]]) -> list[pl.DataFrame] | Fault:
    """Return what ``sums_at`` returns or raises; what other processes are asked."""
    try:
        return sums_at(tasks)
    except ClvlabError as error:
        return Fault(type(error), error.args, error.__dict__)


def tape_of(search: Search) -> Tape:
    """Return the tape of a search, that of the newest one as it was read."""
    return _scorer_of(search).tape


def forget() -> None:
    """Let the tape go that this process keeps: others are asked from now on."""
    _scorer.cache_clear()


def _scorer_of(search: Search) -> Scorer:
    return _scorer(search.folder, search.content_hash, search.fixture_ids, search.window)


@lru_cache(maxsize=_KEPT)
def _scorer(folder: Path, content_hash: str, fixture_ids: tuple[int, ...], window: Window) -> Scorer:
    pack = load_pack(folder)
    if pack.content_hash != content_hash:
        raise PackTamperedError(f"content_hash of {pack.pack_id!r}", content_hash, pack.content_hash)
    return Scorer(pack.tape(fixture_ids), window)
