"""Synthetic packs with the structure of a real odds feed, rebuilt from a seed to the same ``content_hash`` anywhere.

Two hidden numbers per fixture, strength and goals, walk in integer micro-log-odds: noise that grows towards kickoff, news that
the market takes in over several messages (so prices drift), suspensions after news, and play at the end. Every market is a
view of these two. All arithmetic is on integers; no library's random stream or logarithm can change a byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import SAFE_INTEGER, TICKS
from clvlab.odds.logit import micro_logits
from clvlab.odds.rounding import WHOLE_BPS
from clvlab.packs.manifest import Fixture, PackManifest, pack_id_of
from clvlab.packs.writer import write_pack

_Ints = npt.NDArray[np.int64]
_FIRST_FIXTURE = 90_000_000
_FIRST_KICKOFF_MS = 1_767_355_200_000  # 2026-01-02 12:00 UTC
_HOUR_MS = 3_600_000
_NEWS_SIZE = 160_000
_NEWS_TAKES = 36  # messages over which the market takes news in
_PLAY_MS = 15 * 60_000
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
class _League:
    name: str
    hours: int  # from the first message to kickoff
    pace: int  # messages, in percent of the recipe's
    noise: int  # micro-log-odds a message
    news_odds: int  # one message in so many brings news
    shows_play: bool  # whether the feed says that play has begun


_LEAGUES = (
    _League("North", hours=96, pace=100, noise=6_000, news_odds=200, shows_play=True),
    _League("Coast", hours=48, pace=130, noise=8_000, news_odds=260, shows_play=True),
    _League("Valley", hours=168, pace=70, noise=5_000, news_odds=160, shows_play=False),
)


@dataclass(frozen=True, slots=True)
class _Market:
    key: str
    sides: tuple[str, ...]
    share: int  # of the messages, in parts of 100
    offset: int = 0  # micro-log-odds of the first side beyond its hidden number
    of_goals: bool = True


_MARKETS = (
    _Market("1X2_PARTICIPANT_RESULT||", ("draw", "part1", "part2"), share=30, of_goals=False),
    _Market("ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5", ("part1", "part2"), share=14, offset=-80_000, of_goals=False),
    _Market("OVERUNDER_PARTICIPANT_GOALS||line=1.5", ("over", "under"), share=12, offset=1_000_000),
    _Market("OVERUNDER_PARTICIPANT_GOALS||line=2.5", ("over", "under"), share=24),
    _Market("OVERUNDER_PARTICIPANT_GOALS||line=3.5", ("over", "under"), share=10, offset=-950_000),
    _Market("OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5", ("over", "under"), share=10, offset=-600_000),
)


class _Dice:
    """SplitMix64 over a counter: integers that depend on the seed alone."""

    def __init__(self, seed: int, stream: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) % 2**64

    def below(self, bound: int, n: int) -> _Ints:
        """Draw ``n`` integers of 0 .. bound - 1."""
        steps = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = steps + np.uint64(self._state)
        self._state = int(z[-1]) if n else self._state
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray((z ^ (z >> np.uint64(31))) >> np.uint64(11), dtype=np.int64) % bound

    def bell(self, scale: int, n: int) -> _Ints:
        """Draw ``n`` integers around 0 with a standard deviation of about ``scale``: twelve uniforms, less their mean."""
        total = (self.below(2 * scale + 1, 12 * n) - scale).reshape(n, 12).sum(axis=1)
        return np.asarray(total // 2, dtype=np.int64)


def build(recipe: Recipe, folder: Path) -> PackManifest:
    """Write the recipe's pack at ``folder``; its name becomes the pack id."""
    ticks, fixtures = synthetic_ticks(recipe)
    manifest = PackManifest(
        pack_id=pack_id_of(folder),
        provenance="synthetic-clvlab",
        closing_source="model",
        margin="none",
        consensus="model",
        normaliser="synthetic/1",
        recipe={"seed": recipe.seed, "fixtures": recipe.fixtures, "messages": recipe.messages},
        fixtures=fixtures,
    )
    return write_pack(ticks, manifest, folder)


def synthetic_ticks(recipe: Recipe) -> tuple[pl.DataFrame, tuple[Fixture, ...]]:
    """Return ``TICKS`` and the fixtures of a recipe."""
    frames: list[pl.DataFrame] = []
    fixtures: list[Fixture] = []
    for number in range(recipe.fixtures):
        dice = _Dice(recipe.seed, number)
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
        frames += _fixture(fixture.fixture_id, kickoff, league, max(recipe.messages * league.pace // 100, 20), dice)
    return pl.concat(frames), tuple(fixtures)


def _fixture(fixture_id: int, kickoff: int, league: _League, before: int, dice: _Dice) -> Iterator[pl.DataFrame]:
    play = before // 12 if league.shows_play else 0
    n = before + play
    market = _markets(n, dice)
    ts = _times(kickoff, league, before, play, dice)
    in_running = np.arange(n) >= before
    noise = np.where(in_running, 5 * league.noise, league.noise)
    news = dice.below(league.news_odds, n) == 0
    strength = _walk(dice.bell(500_000, 1)[0], dice.bell(1000, n) * noise // 1000, news, dice)
    goals = _walk(dice.bell(150_000, 1)[0], dice.bell(1000, n) * noise // 1000, news, dice)
    suspended = (dice.below(60, n) == 0) | (news & (dice.below(2, n) == 0))
    suspended[: len(_MARKETS)] = False  # every market opens with a price
    margin = 80 + dice.below(260, n)
    for number, spec in enumerate(_MARKETS):
        at = np.flatnonzero(market == number)
        hidden = (goals if spec.of_goals else strength)[at] + spec.offset
        probs = _three_way(hidden, goals[at]) if len(spec.sides) == 3 else _two_way(hidden)
        for side, prob in zip(spec.sides, probs, strict=True):
            yield _rows(fixture_id, spec.key, side, at, ts, in_running, suspended, prob, margin)


def _rows(
    fixture_id: int, key: str, side: str, at: _Ints, ts: _Ints, in_running: Any, suspended: Any, prob: _Ints, margin: _Ints
) -> pl.DataFrame:
    odds = np.clip(10_000_000 * (WHOLE_BPS - margin[at]) // (prob * WHOLE_BPS), 1001, 100_000_000)
    unpriced = pl.Series(suspended[at])
    return (
        pl.DataFrame(
            {
                "tick_seq": at,
                "ts_ms": ts[at],
                "in_running": in_running[at],
                "prob_bps": prob,
                "odds_milli": odds,
                "suspended": unpriced,
            }
        )
        .select(
            pl.lit(fixture_id).cast(pl.Int64).alias("fixture_id"),
            pl.col("tick_seq").cast(pl.Int32),
            "ts_ms",
            "in_running",
            pl.lit(key).alias("market_key"),
            pl.lit(side).alias("side"),
            pl.when(~unpriced).then(pl.col("prob_bps", "odds_milli")).cast(pl.Int32),
            "suspended",
        )
        .select(*TICKS)
    )


def _markets(n: int, dice: _Dice) -> _Ints:
    """Which market each message is about: every market once at the start, then by share."""
    bounds = np.cumsum([market.share for market in _MARKETS])
    chosen = np.searchsorted(bounds, dice.below(int(bounds[-1]), n), side="right")
    chosen[: len(_MARKETS)] = np.arange(len(_MARKETS))
    return np.asarray(chosen, dtype=np.int64)


def _times(kickoff: int, league: _League, before: int, play: int, dice: _Dice) -> _Ints:
    """Times of messages: denser towards kickoff, several at once at the start, even in play."""
    share = np.sort(dice.below(1000, before))
    lead = league.hours * _HOUR_MS
    left = (1000 - share) * (1000 - share) * lead // 1_000_000
    early = np.sort(kickoff - left + np.sort(dice.below(900, before)))
    early[: len(_MARKETS)] = early[0]
    started = kickoff + 1000 + np.sort(dice.below(_PLAY_MS, play))
    return np.concatenate([np.minimum(early, kickoff - 1000), started])


def _walk(start: int, steps: _Ints, news: Any, dice: _Dice) -> _Ints:
    """Add noise and news up; a piece of news arrives in equal parts over the next messages.

    A driftless walk of log-odds would pull every probability towards a half. The lean of half the variance, times how far
    the start is from a half, makes the probability itself driftless (to first order).
    """
    sizes = np.where(news, dice.bell(_NEWS_SIZE, len(steps)), 0) // _NEWS_TAKES
    arriving = np.cumsum(sizes)
    arriving[_NEWS_TAKES:] -= np.cumsum(sizes)[:-_NEWS_TAKES]
    variance = np.cumsum(steps * steps + np.where(news, _NEWS_SIZE * _NEWS_SIZE, 0)) // 1_000_000
    beyond_half = int(_sigmoid_bps(np.asarray([start]))[0]) - WHOLE_BPS // 2
    lean = variance * beyond_half // WHOLE_BPS
    return np.asarray(np.clip(start + np.cumsum(steps + arriving) + lean, -3_000_000, 3_000_000), dtype=np.int64)


def _sigmoid_bps(micro_logit: _Ints) -> _Ints:
    table = micro_logits().to_numpy()
    return np.clip(np.searchsorted(table, micro_logit), 150, WHOLE_BPS - 150)


def _two_way(hidden: _Ints) -> tuple[_Ints, ...]:
    first = _sigmoid_bps(hidden)
    return first, WHOLE_BPS - first


def _three_way(strength: _Ints, goals: _Ints) -> tuple[_Ints, ...]:
    """Share the whole among draw, part1 and part2 by integer weights; more goals, fewer draws. Largest remainder."""

    def weight(micro_logit: _Ints) -> _Ints:
        bps = _sigmoid_bps(micro_logit)
        return 1_000_000 * bps // (WHOLE_BPS - bps)

    weights = np.stack([weight(-280_000 - goals // 3), weight(strength // 2), weight(-strength // 2)])
    total = weights.sum(axis=0)
    shares, rest = np.divmod(weights * WHOLE_BPS, total)
    left = WHOLE_BPS - shares.sum(axis=0)
    rank = np.argsort(np.argsort(-rest, axis=0, kind="stable"), axis=0, kind="stable")
    return tuple(shares + (rank < left))
