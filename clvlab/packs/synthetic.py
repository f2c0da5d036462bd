"""Synthetic packs with the structure of a real odds feed; a seed gives the same ``content_hash`` on any machine.

Each fixture has two hidden numbers, strength and goals, which move by noise and by news that is taken in over several messages.
Every market depends on one of the two, which also settles it. Some messages suspend their market, and in some leagues
messages continue after kickoff. Present prices forecast the close without bias; past prices show trends. All arithmetic is on
integers, so that a library's random stream or logarithm can't change a byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.base.progress import each
from clvlab.errors import PackFormatError
from clvlab.law.markets import HANDICAP_GOALS, RESULT_1X2, TOTAL_GOALS, compose_key
from clvlab.law.schema import ODDS_MILLI, SAFE_INTEGER
from clvlab.odds.integers import MICRO, WHOLE_BPS, Ints, normal_bps
from clvlab.packs.manifest import Fixture, PackManifest, pack_id_of
from clvlab.packs.rows import RESULTS, Payout
from clvlab.packs.writer import write_pack

# A hidden number is the sum of a start, of noise, and of news taken in over several messages, so its steps trend while news
# arrives. Prices quote the conditional expectation of its end, given the present level and which messages bring news, but not
# the earlier levels. They are therefore unbiased given the present alone, and too slow given the past.


Flags = npt.NDArray[np.bool_]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

PLAY_NOISE = 5
"""Noise of a message in play, as a multiple of that before kickoff."""


class Dice:
    """SplitMix64: integers that depend on seed and stream alone.

    Both are mixed into the state. If they were only added to it, neighbouring seeds would give the same sequence, one step
    apart.

    References
    ----------
    Steele, Lea and Flood (2014), "Fast Splittable Pseudorandom Number Generators", OOPSLA; the mixing is Stafford's variant 13.
    """

    def __init__(self, seed: int, stream: int) -> None:
        root = _mixed(np.array([seed], dtype=np.uint64))
        self._state = int(_mixed(root + np.uint64(stream))[0])

    def below(self, bound: int, n: int) -> Ints:
        """Draw ``n`` integers from 0 to bound - 1."""
        steps = np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN + np.uint64(self._state)
        self._state = int(steps[-1]) if n else self._state
        return np.asarray(_mixed(steps) >> np.uint64(11), dtype=np.int64) % bound

    def bell(self, scale: int, n: int) -> Ints:
        """Draw ``n`` symmetric integers with standard deviation ``scale``: sums of twelve uniforms."""
        total = (self.below(2 * scale + 1, 12 * n) - scale).reshape(n, 12).sum(axis=1)
        return np.asarray(np.sign(total) * (np.abs(total) // 2))  # not total // 2: rounding down would add a drift


def _mixed(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hidden number and its forecast, in millionths of the standard deviation of its change from kickoff to the end of play.

    ``forecast`` is the expectation of ``end`` given the level at each message, and ``error`` is the standard deviation of
    ``end`` about it; ``end`` settles the markets.
    """

    forecast: Ints
    error: Ints
    end: int

    def chance_bps(self, offset: int, at: Ints) -> Ints:
        """Return the probability, in basis points, that the number ends above ``-offset``, at some messages."""
        return normal_bps((self.forecast[at] + offset) * MICRO // self.error[at])


@dataclass(frozen=True, slots=True)
class News:
    """News of a fixture.

    ``arrives`` flags the messages that bring a piece. A piece is taken in over ``takes`` messages, its own included, in equal
    parts with standard deviation ``step``.
    """

    arrives: Flags
    takes: int
    step: int


def hidden_number(start: int, noise: int, news: News, played: int, dice: Dice) -> Hidden:
    """Draw a hidden number.

    ``start`` and ``noise`` are standard deviations, ``noise`` that of a message before kickoff. In the ``played`` last messages
    noise is ``PLAY_NOISE`` times as large. From kickoff to its end the number moves by a standard deviation of ``MICRO`` in
    all.

    References
    ----------
    The forecast is the regression of jointly normal variables: with V the variance of the level and C its covariance with the
    end, E = level x C / V, and the error's variance is Var(end) - C x C / V. The sums of twelve uniforms are normal enough.
    """
    pieces = news.arrives.astype(np.int64)
    parts = np.zeros_like(pieces)
    parts[news.arrives] = dice.bell(news.step, int(pieces.sum()))
    factors = np.ones_like(pieces)
    factors[len(factors) - played :] = PLAY_NOISE
    level = dice.bell(start, 1)[0] + np.cumsum(dice.bell(noise, len(factors)) * factors + _over_next(parts, news.takes))
    # Variances in millionths. If k of ``takes`` parts of a piece are in, it adds k x k to V and k x takes to C.
    at_once = start * start + noise * noise * np.cumsum(factors * factors)
    arriving = _over_next(pieces, news.takes)
    taken_in = np.cumsum(arriving - news.takes * _later(pieces, news.takes))  # k, summed over the pieces that are arriving
    variance = (at_once + news.step**2 * np.cumsum(2 * taken_in - arriving)) // MICRO  # k x k is the sum of 2 k - 1
    covariance = (at_once + news.step**2 * news.takes * np.cumsum(arriving)) // MICRO
    rest = MICRO - played * (PLAY_NOISE * noise) ** 2 // MICRO
    forecast = level + level * (covariance - variance) // variance
    error = (int(covariance[-1]) + rest - covariance - covariance * (covariance - variance) // variance) * MICRO
    # A square root is rounded alike on every machine (IEEE 754).
    return Hidden(forecast, np.sqrt(error).astype(np.int64), int(level[-1]) + int(dice.bell(int(np.sqrt(rest * MICRO)), 1)[0]))


def _over_next(values: Ints, messages: int) -> Ints:
    """Add each value to its own message and to those after it, to ``messages`` of them in total."""
    return np.cumsum(values - _later(values, messages))


def _later(values: Ints, messages: int) -> Ints:
    return np.concatenate([np.zeros(messages, dtype=np.int64), values])[: len(values)]


# Each price of a synthetic market is the chance of an event of the hidden numbers; its odds carry a margin.


_HOME = 250_000  # home advantage
_DRAW = 345_000  # with home advantage added, part1 wins above this and part2 below its negative; between them is a draw


@dataclass(frozen=True, slots=True)
class SyntheticMarket:
    """A market of every fixture.

    ``sides`` are in byte order; ``share`` is the percentage of messages; ``overround_bps`` is the mean over messages. The first
    of two sides wins where the hidden number ends above ``-offset``. With three sides ``part1`` wins there, and ``part2`` wins
    where the number ends at or below the mirror image of ``-offset`` about ``-_HOME``. The hidden number is goals if
    ``of_goals`` is set, else strength.
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
        not_second = np.clip(hidden.chance_bps(self._second_offset, at), first + 1, WHOLE_BPS - 1)
        return not_second - first, first, WHOLE_BPS - not_second

    def winner(self, hidden: Hidden) -> str:
        if len(self.sides) == 2:
            return self.sides[0] if hidden.end > -self.offset else self.sides[1]
        draw, part1, part2 = self.sides
        if hidden.end > -self.offset:
            return part1
        return draw if hidden.end > -self._second_offset else part2

    @property
    def _second_offset(self) -> int:
        """The offset of ``part2``, which wins where the hidden number ends at or below its negative."""
        return 2 * _HOME - self.offset

    def odds_milli(self, prob_bps: Ints, spread_bps: Ints) -> Ints:
        """Return the odds on offer: each side bears overround and spread of the message in proportion."""
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
_NEWS_DIVISOR = 6  # a piece of news is taken in over the messages before kickoff, divided by this
_CALM = 40  # messages between the last news and kickoff, enough for every market to have one
_SPREAD_BPS = 30  # largest difference of a message's overround from its market's mean, either way
_CLUBS = ("Ash", "Birch", "Cedar", "Dale", "Elm", "Fern", "Glen", "Heath", "Ivy", "Juniper", "Kestrel", "Linden")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that shapes a synthetic pack.

    ``seed`` is an integer from 0, ``fixtures`` the number of fixtures in three leagues, ``messages`` the approximate number
    before kickoff per fixture, which varies by league.
    """

    seed: int = 1
    fixtures: int = 12
    messages: int = 300

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= SAFE_INTEGER or not 1 <= self.fixtures <= 1_000_000 or not 20 <= self.messages <= 1_000_000:
            raise PackFormatError(f"a recipe needs seed >= 0, fixtures 1 to 1000000 and messages 20 to 1000000: {self}")


@dataclass(frozen=True, slots=True)
class Synthetic:
    ticks: pl.DataFrame
    fixtures: tuple[Fixture, ...]
    results: pl.DataFrame


@dataclass(frozen=True, slots=True)
class _League:
    name: str
    hours: int  # from the first message to kickoff
    pace: int  # number of messages, in percent of the recipe's
    noise: int  # standard deviation from the first message to kickoff
    pieces: int  # approximate number of pieces of news
    news_step: int  # standard deviation of one part of a piece, in percent of the noise
    shows_play: bool  # whether the feed shows that play has started


_LEAGUES = (
    _League("North", hours=96, pace=100, noise=114_000, pieces=7, news_step=8, shows_play=True),
    _League("Coast", hours=48, pace=130, noise=170_000, pieces=9, news_step=7, shows_play=True),
    _League("Valley", hours=168, pace=70, noise=78_000, pieces=5, news_step=9, shows_play=False),
)


def build(recipe: Recipe, folder: Path) -> PackManifest:
    """Write the recipe's pack at ``folder``, whose name becomes the pack id."""
    content = synthetic(recipe)
    manifest = PackManifest(
        pack_id=pack_id_of(folder),
        provenance="synthetic-clvlab",
        closing_source="model",
        margin="none",
        consensus="model",
        normaliser="synthetic/2",
        recipe={"seed": recipe.seed, "fixtures": recipe.fixtures, "messages": recipe.messages},
        fixtures=content.fixtures,
    )
    return write_pack(content.ticks, manifest, folder, results=content.results)


def synthetic(recipe: Recipe) -> Synthetic:
    frames: list[pl.DataFrame] = []
    fixtures: list[Fixture] = []
    results: list[tuple[int, str, str, str, None]] = []
    for number in each("making fixtures", range(recipe.fixtures), recipe.fixtures):
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


def _feed(kickoff: int, league: _League, n_before: int, dice: Dice) -> _Feed:
    n_play = n_before // 12 if league.shows_play else 0
    n = n_before + n_play
    market = _markets(n, dice)
    ts_ms = _times(kickoff, league, n_before, n_play, dice)
    at = np.arange(n)
    takes = max(n_before // _NEWS_DIVISOR, 1)
    arrives = (dice.below(n_before, n) < league.pieces) & (at + takes + _CALM < n_before)
    noise = isqrt(league.noise**2 // n_before)
    news = News(arrives, takes, noise * league.news_step // 100)
    strength, goals = (hidden_number(start, noise, news, n_play, dice) for start in (_STRENGTH, _GOALS))
    suspended = (dice.below(60, n) == 0) | (arrives & (dice.below(2, n) == 0))
    suspended[: len(MARKETS)] = False  # every market opens with a price
    spread = dice.below(2 * _SPREAD_BPS + 1, n) - _SPREAD_BPS
    return _Feed(market, ts_ms, at >= n_before, suspended, spread, strength, goals)


def _markets(n: int, dice: Dice) -> Ints:
    """Return the market of each message: every market once at the start, then by share."""
    bounds = np.cumsum([market.share for market in MARKETS])
    chosen = np.searchsorted(bounds, dice.below(int(bounds[-1]), n), side="right")
    chosen[: len(MARKETS)] = np.arange(len(MARKETS))
    return np.asarray(chosen, dtype=np.int64)


def _times(kickoff: int, league: _League, n_before: int, n_play: int, dice: Dice) -> Ints:
    """Return times of messages: denser towards kickoff, several at once at the start, drawn uniformly in play."""
    share = np.sort(dice.below(1000, n_before))
    lead = league.hours * _HOUR_MS
    left = (1000 - share) * (1000 - share) * lead // 1_000_000
    early = np.sort(kickoff - left + np.sort(dice.below(900, n_before)))
    early[: len(MARKETS)] = early[0]
    started = kickoff + 1000 + np.sort(dice.below(_PLAY_MS, n_play))
    return np.concatenate([np.minimum(early, kickoff - 1000), started])
