"""Synthetic packs with the structure of a real odds feed, rebuilt from a seed to the same ``content_hash`` anywhere.

Two hidden numbers per fixture, strength and goals, walk by noise and by news that the market takes in over several messages;
some messages suspend their market, and play goes on for a while. Every market is a view of one of the two, and they settle it.
Whoever looks at present prices alone gets what the close expects, on average; trends are there for whoever looks back. All
arithmetic is on integers; no library's random stream or logarithm can change a byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np
import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.odds.probit import Ints
from clvlab.packs.manifest import Fixture, PackManifest, pack_id_of
from clvlab.packs.results import RESULTS, Settled
from clvlab.packs.synthetic_markets import MARKETS, SyntheticMarket
from clvlab.packs.synthetic_walk import Dice, Flags, Hidden, News, hidden_number
from clvlab.packs.writer import write_pack

_FIRST_FIXTURE = 90_000_000
_FIRST_KICKOFF_MS = 1_767_355_200_000  # 2026-01-02 12:00 UTC
_HOUR_MS = 3_600_000
_PLAY_MS = 15 * 60_000
_STRENGTH, _GOALS = 500_000, 120_000  # standard deviations at the first message; play adds 1 000 000
_NEWS_TAKES = 6  # a piece of news is taken in over the messages before kickoff, divided by this
_CALM = 40  # messages before kickoff when all news is in: every market has one of them
_SPREAD_BPS = 30  # by which the overround of a message differs from its market's, either way
_CLUBS = ("Ash", "Birch", "Cedar", "Dale", "Elm", "Fern", "Glen", "Heath", "Ivy", "Juniper", "Kestrel", "Linden")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that shapes a synthetic pack.

    Attributes
    ----------
    seed
        Any integer from 0.
    fixtures
        How many, spread over three leagues.
    messages
        Messages before kickoff per fixture, about; leagues differ.
    """

    seed: int = 1
    fixtures: int = 12
    messages: int = 300

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= SAFE_INTEGER or not 1 <= self.fixtures <= 1_000_000 or not 20 <= self.messages <= 1_000_000:
            raise PackFormatError(f"a recipe needs seed >= 0, fixtures 1 to 1000000 and messages 20 to 1000000: {self}")


@dataclass(frozen=True, slots=True)
class Synthetic:
    """What a recipe makes: ``TICKS``, the fixtures, and ``RESULTS``."""

    ticks: pl.DataFrame
    fixtures: tuple[Fixture, ...]
    results: pl.DataFrame


@dataclass(frozen=True, slots=True)
class _League:
    name: str
    hours: int  # from the first message to kickoff
    pace: int  # messages, in percent of the recipe's
    noise: int  # standard deviation from the first message to kickoff
    pieces: int  # of news, about
    news_step: int  # standard deviation of what a message takes in of a piece, in percent of its noise
    shows_play: bool  # whether the feed says that play has begun


_LEAGUES = (
    _League("North", hours=96, pace=100, noise=114_000, pieces=7, news_step=8, shows_play=True),
    _League("Coast", hours=48, pace=130, noise=170_000, pieces=9, news_step=7, shows_play=True),
    _League("Valley", hours=168, pace=70, noise=78_000, pieces=5, news_step=9, shows_play=False),
)


def build(recipe: Recipe, folder: Path) -> PackManifest:
    """Write the recipe's pack at ``folder``; its name becomes the pack id."""
    made = synthetic(recipe)
    manifest = PackManifest(
        pack_id=pack_id_of(folder),
        provenance="synthetic-clvlab",
        closing_source="model",
        margin="none",
        consensus="model",
        normaliser="synthetic/2",
        recipe={"seed": recipe.seed, "fixtures": recipe.fixtures, "messages": recipe.messages},
        fixtures=made.fixtures,
    )
    return write_pack(made.ticks, manifest, folder, results=made.results)


def synthetic(recipe: Recipe) -> Synthetic:
    """Make ticks, fixtures and results of a recipe."""
    frames: list[pl.DataFrame] = []
    fixtures: list[Fixture] = []
    results: list[tuple[int, str, str, str, None]] = []
    for number in range(recipe.fixtures):
        dice = Dice(recipe.seed, number)
        league = _LEAGUES[number % len(_LEAGUES)]
        home, away = (int(pick) for pick in dice.below(len(_CLUBS), 2))
        away = (away + 1) % len(_CLUBS) if away == home else away
        kickoff = _FIRST_KICKOFF_MS + (number // 6) * 24 * _HOUR_MS + int(dice.below(10, 1)[0]) * _HOUR_MS
        fixture = Fixture(
            fixture_id=_FIRST_FIXTURE + number,
            names=(f"{_CLUBS[home]} {league.name}", f"{_CLUBS[away]} {league.name}"),
            kickoff_ts_ms=kickoff,
        )
        fixtures.append(fixture)
        feed = _feed(kickoff, league, max(recipe.messages * league.pace // 100, 20), dice)
        frames += feed.rows(fixture.fixture_id)
        results += [(fixture.fixture_id, *settled, None) for settled in feed.results()]
    return Synthetic(pl.concat(frames), tuple(fixtures), pl.DataFrame(results, schema=RESULTS, orient="row"))


@dataclass(frozen=True, slots=True)
class _Feed:
    """The messages of a fixture, and its hidden numbers at each."""

    market: Ints
    ts_ms: Ints
    in_running: Flags
    suspended: Flags
    spread_bps: Ints
    strength: Hidden
    goals: Hidden

    def hidden(self, market: SyntheticMarket) -> Hidden:
        return self.goals if market.of_goals else self.strength

    def rows(self, fixture_id: int) -> Iterator[pl.DataFrame]:
        for number, market in enumerate(MARKETS):
            at = np.flatnonzero(self.market == number)
            unpriced = pl.Series(self.suspended[at])
            for side, prob in zip(market.sides, market.probs_bps(self.hidden(market), at), strict=True):
                yield pl.DataFrame(
                    {
                        "tick_seq": at,
                        "ts_ms": self.ts_ms[at],
                        "in_running": self.in_running[at],
                        "prob_bps": prob,
                        "odds_milli": market.odds_milli(prob, self.spread_bps[at]),
                        "suspended": unpriced,
                    }
                ).select(
                    pl.lit(fixture_id).cast(pl.Int64).alias("fixture_id"),
                    pl.col("tick_seq").cast(pl.Int32),
                    "ts_ms",
                    "in_running",
                    pl.lit(market.key).alias("market_key"),
                    pl.lit(side).alias("side"),
                    pl.when(~unpriced).then(pl.col("prob_bps", "odds_milli")).cast(pl.Int32),
                    "suspended",
                )

    def results(self) -> Iterator[tuple[str, str, str]]:
        for market in MARKETS:
            winner = market.winner(self.hidden(market))
            for side in market.sides:
                yield market.key, side, Settled.WON if side == winner else Settled.LOST


def _feed(kickoff: int, league: _League, before: int, dice: Dice) -> _Feed:
    play = before // 12 if league.shows_play else 0
    n = before + play
    market = _markets(n, dice)
    ts_ms = _times(kickoff, league, before, play, dice)
    at = np.arange(n)
    takes = max(before // _NEWS_TAKES, 1)
    arrives = (dice.below(before, n) < league.pieces) & (at + takes + _CALM < before)
    noise = isqrt(league.noise**2 // before)
    news = News(arrives, takes, noise * league.news_step // 100)
    strength, goals = (hidden_number(start, noise, news, play, dice) for start in (_STRENGTH, _GOALS))
    suspended = (dice.below(60, n) == 0) | (arrives & (dice.below(2, n) == 0))
    suspended[: len(MARKETS)] = False  # every market opens with a price
    spread = dice.below(2 * _SPREAD_BPS + 1, n) - _SPREAD_BPS
    return _Feed(market, ts_ms, at >= before, suspended, spread, strength, goals)


def _markets(n: int, dice: Dice) -> Ints:
    """Which market each message is about: every market once at the start, then by share."""
    bounds = np.cumsum([market.share for market in MARKETS])
    chosen = np.searchsorted(bounds, dice.below(int(bounds[-1]), n), side="right")
    chosen[: len(MARKETS)] = np.arange(len(MARKETS))
    return np.asarray(chosen, dtype=np.int64)


def _times(kickoff: int, league: _League, before: int, play: int, dice: Dice) -> Ints:
    """Times of messages: denser towards kickoff, several at once at the start, even in play."""
    share = np.sort(dice.below(1000, before))
    lead = league.hours * _HOUR_MS
    left = (1000 - share) * (1000 - share) * lead // 1_000_000
    early = np.sort(kickoff - left + np.sort(dice.below(900, before)))
    early[: len(MARKETS)] = early[0]
    started = kickoff + 1000 + np.sort(dice.below(_PLAY_MS, play))
    return np.concatenate([np.minimum(early, kickoff - 1000), started])
