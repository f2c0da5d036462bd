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
import numpy.typing as npt
import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.markets import HANDICAP_GOALS, RESULT_1X2, TOTAL_GOALS, compose_key
from clvlab.law.schema import ODDS_MILLI, SAFE_INTEGER
from clvlab.odds.integers import MICRO, WHOLE_BPS, Ints, normal_bps
from clvlab.packs.manifest import Fixture, PackManifest, pack_id_of
from clvlab.packs.rows import RESULTS, Payout
from clvlab.packs.writer import write_pack

# Hidden numbers of synthetic fixtures: walks of integers, and what a market that forgets how it got here expects of them.
#
# A hidden number is the sum of a start, of noise, and of news that is taken in over several messages, so that its steps are a
# trend while news arrives. At each message only its present level is quoted: the forecast of where it ends is the conditional
# expectation given that level, and given which messages bring news, but not given the levels before. So the forecast, and every
# probability made of it, is right on average for whoever looks at the present alone, and too slow for whoever looks back.


Flags = npt.NDArray[np.bool_]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

PLAY_NOISE = 5
"""Noise of a message in play, in times of that before."""


class Dice:
    """SplitMix64: integers that depend on seed and stream alone.

    Both are mixed before they become the state: added to it, they would make neighbouring seeds run the same course, a step
    apart.

    References
    ----------
    Steele, Lea and Flood (2014), "Fast Splittable Pseudorandom Number Generators", OOPSLA; the mixing is Stafford's variant 13.
    """

    def __init__(self, seed: int, stream: int) -> None:
        root = _mixed(np.array([seed], dtype=np.uint64))
        self._state = int(_mixed(root + np.uint64(stream))[0])

    def below(self, bound: int, n: int) -> Ints:
        """Draw ``n`` integers of 0 .. bound - 1."""
        steps = np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN + np.uint64(self._state)
        self._state = int(steps[-1]) if n else self._state
        return np.asarray(_mixed(steps) >> np.uint64(11), dtype=np.int64) % bound

    def bell(self, scale: int, n: int) -> Ints:
        """Draw ``n`` integers, as often below 0 as above, with a standard deviation of ``scale``: sums of twelve uniforms."""
        total = (self.below(2 * scale + 1, 12 * n) - scale).reshape(n, 12).sum(axis=1)
        return np.asarray(np.sign(total) * (np.abs(total) // 2))  # not total // 2: rounding down would be a drift


def _mixed(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hidden number and its forecast, in millionths of the standard deviation that play still adds at kickoff.

    Attributes
    ----------
    forecast
        Expectation of ``end``, given the level at each message.
    error
        Standard deviation of ``end`` about it.
    end
        Where the number ends; it settles the markets.
    """

    forecast: Ints
    error: Ints
    end: int

    def chance_bps(self, offset: int, at: Ints) -> Ints:
        """Return the chance, in basis points, that the number ends above ``-offset``, at some messages."""
        return normal_bps((self.forecast[at] + offset) * MICRO // self.error[at])


@dataclass(frozen=True, slots=True)
class News:
    """When news comes, and how it is taken in.

    Attributes
    ----------
    arrives
        Which messages bring a piece.
    takes
        Messages over which a piece is taken in, in equal parts, the one that brings it included.
    step
        Standard deviation of such a part.
    """

    arrives: Flags
    takes: int
    step: int


def hidden_number(start: int, noise: int, news: News, played: int, dice: Dice) -> Hidden:
    """Draw a hidden number.

    Parameters
    ----------
    start, noise
        Standard deviation of the start, and of the noise of a message before kickoff.
    news
        One flag per message.
    played
        How many of the messages are in play, where noise is ``PLAY_NOISE`` times as large. From kickoff to its end the number
        moves by a standard deviation of ``MICRO`` in all.
    dice
        Where chance comes from.

    References
    ----------
    The forecast is the regression of jointly normal variables: with V the variance of the level and C its covariance with the
    end, E = level x C / V, and the error's variance is Var(end) - C x C / V. The sums of twelve uniforms are normal enough.
    """
    pieces = news.arrives.astype(np.int64)
    parts = np.zeros_like(pieces)
    parts[news.arrives] = dice.bell(news.step, int(pieces.sum()))
    times = np.ones_like(pieces)
    times[len(times) - played :] = PLAY_NOISE
    level = dice.bell(start, 1)[0] + np.cumsum(dice.bell(noise, len(times)) * times + _over_next(parts, news.takes))
    # Variances in millionths. Of a piece of news k of ``takes`` parts are in: k x k count in V, k x takes in C.
    at_once = start * start + noise * noise * np.cumsum(times * times)
    arriving = _over_next(pieces, news.takes)
    taken_in = np.cumsum(arriving - news.takes * _later(pieces, news.takes))  # k, over the pieces that are arriving
    own = (at_once + news.step**2 * np.cumsum(2 * taken_in - arriving)) // MICRO  # k x k is the sum of 2 k - 1
    shared = (at_once + news.step**2 * news.takes * np.cumsum(arriving)) // MICRO
    rest = MICRO - played * (PLAY_NOISE * noise) ** 2 // MICRO
    forecast = level + level * (shared - own) // own
    error = (int(shared[-1]) + rest - shared - shared * (shared - own) // own) * MICRO
    # A square root is rounded alike on every machine: IEEE 754.
    return Hidden(forecast, np.sqrt(error).astype(np.int64), int(level[-1]) + int(dice.bell(int(np.sqrt(rest * MICRO)), 1)[0]))


def _over_next(values: Ints, messages: int) -> Ints:
    """Let each value count in its own message and those after it, so many in all."""
    return np.cumsum(values - _later(values, messages))


def _later(values: Ints, messages: int) -> Ints:
    return np.concatenate([np.zeros(messages, dtype=np.int64), values])[: len(values)]


# Markets of synthetic fixtures: each price is the chance of an event of the hidden numbers, and its odds carry a margin.


_HOME = 250_000  # what playing at home is worth
_DRAW = 345_000  # part1 wins above it, part2 below its negative, and between them nobody does


@dataclass(frozen=True, slots=True)
class SyntheticMarket:
    """A market of every fixture.

    Attributes
    ----------
    key, sides
        As they stand in the ticks; sides in byte order.
    share
        Of the messages, in parts of 100.
    overround_bps
        The mean over messages.
    offset
        The first side wins where the hidden number ends above its negative. Of three sides, ``part1`` wins there, and
        ``part2`` where the mirrored number does.
    of_goals
        Whether the hidden number is goals, and not strength.
    """

    key: str
    sides: tuple[str, ...]
    share: int
    overround_bps: int
    offset: int = 0
    of_goals: bool = True

    def probs_bps(self, hidden: Hidden, at: Ints) -> tuple[Ints, ...]:
        """Return the probability of each side at some messages; they sum to the whole."""
        first = np.clip(hidden.chance_bps(self.offset, at), 1, WHOLE_BPS - 2)
        if len(self.sides) == 2:
            return first, WHOLE_BPS - first
        not_second = np.clip(hidden.chance_bps(self._other, at), first + 1, WHOLE_BPS - 1)
        return not_second - first, first, WHOLE_BPS - not_second

    def winner(self, hidden: Hidden) -> str:
        """Return the side that won."""
        if len(self.sides) == 2:
            return self.sides[0] if hidden.end > -self.offset else self.sides[1]
        draw, part1, part2 = self.sides
        if hidden.end > -self.offset:
            return part1
        return draw if hidden.end > -self._other else part2

    @property
    def _other(self) -> int:
        """The offset above whose negative ``part2`` does not win."""
        return 2 * _HOME - self.offset

    def odds_milli(self, prob_bps: Ints, spread_bps: Ints) -> Ints:
        """Return the odds on offer for probabilities: each side bears the overround, and a message's spread, in proportion."""
        parts = prob_bps * (WHOLE_BPS + self.overround_bps + spread_bps)
        return np.clip((2_000 * WHOLE_BPS * WHOLE_BPS + parts) // (2 * parts), *ODDS_MILLI)


MARKETS = (
    SyntheticMarket(compose_key(RESULT_1X2), ("draw", "part1", "part2"), 18, 520, offset=_HOME - _DRAW, of_goals=False),
    SyntheticMarket(compose_key(HANDICAP_GOALS, line=-0.5), ("part1", "part2"), 17, 260, offset=_HOME - _DRAW, of_goals=False),
    SyntheticMarket(compose_key(TOTAL_GOALS, line=1.5), ("over", "under"), 16, 430, offset=610_000),
    SyntheticMarket(compose_key(TOTAL_GOALS, line=2.5), ("over", "under"), 17, 330),
    SyntheticMarket(compose_key(TOTAL_GOALS, line=3.5), ("over", "under"), 16, 470, offset=-580_000),
    SyntheticMarket(compose_key(TOTAL_GOALS, "half=1", line=1.5), ("over", "under"), 16, 620, offset=-370_000),
)


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
                yield market.key, side, Payout.WON if side == winner else Payout.LOST


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
