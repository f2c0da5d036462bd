"""``python -m tests.simulations.attacks``: agents without an edge that get one announced, and some that tried and did not.

All prices are martingales, no agent looks ahead, and each search counts all of its points. What the nulls of ``nulls`` leave
out is here: falls so rare that no sample shows them, at prices that can win as much as lose; fixtures that share news; closes
that are missing because of what happened; and prices that are rounded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clvlab.report.cautions import MAX_SKEWNESS, MIN_EFFECTIVE
from clvlab.statistics import BoundedClusters, estimates, family_of, mean_skewness
from tests.simulations.nulls import Decided, Floats, Null, drawn

Draw = Callable[[np.random.Generator], BoundedClusters]
_MOVE = 0.03


def falls_at_a_half(rng: np.random.Generator, fixtures: int = 120, rarity: int = 120) -> BoundedClusters:
    """Prices just below one half creep up; one in so many goes to 0, as many as there are to see it."""
    entry = rng.uniform(0.45, 0.5, fixtures)
    return _backed(entry, _crept(rng, entry, 1 / rarity))


def falls_in_few_fixtures(rng: np.random.Generator) -> BoundedClusters:
    """The same with 20 fixtures, one in 20 of which goes to 0."""
    return falls_at_a_half(rng, 20, 20)


def falls_in_six_fixtures(rng: np.random.Generator) -> BoundedClusters:
    """Six fixtures, one in ten of which loses 30 % of its price."""
    entry = rng.uniform(0.45, 0.5, 6)
    return _backed(entry, _crept(rng, entry, 0.1, 0.3))


def falls_among_noise(rng: np.random.Generator, fixtures: int = 300) -> BoundedClusters:
    """Falls to 0 at a half, one in 300; the others move up and down by more than they creep, so that two in five lose."""
    entry = rng.uniform(0.45, 0.5, fixtures)
    close = _crept(rng, entry, 1 / fixtures)
    return _backed(entry, np.where(close > 0.01, close + 0.006 * rng.standard_normal(fixtures), close))


def falls_of_a_thousand_favourites(rng: np.random.Generator) -> BoundedClusters:
    """Favourites from .6 to .7, one in 1,000 of which goes to 0: with so many the mean is not skewed by its prices."""
    entry = rng.uniform(0.6, 0.7, 1_000)
    return _backed(entry, _crept(rng, entry, 1 / 1_000))


def opposite_sides(rng: np.random.Generator, fixtures: int = 120, gain: float = 0.004) -> BoundedClusters:
    """A side at one half that moves freely up and down until it is 0 or 1; once it gained a little, the other is backed too.

    That locks the gain in. Reaching it before 0 has the chance that makes the price fair.
    """
    gains = gain * rng.uniform(0.5, 1.5, fixtures)
    reached = rng.random(fixtures) < 0.5 / (0.5 + gains)
    entry = np.column_stack([np.full(fixtures, 0.5), 0.5 - gains])
    close = np.column_stack([np.where(reached, 0.5 + gains, 0), np.where(reached, 0.5 - gains, 1)])
    made = np.column_stack([np.ones(fixtures, bool), reached])[:, :, None]
    return Decided(entry, close, np.ones((fixtures, 1)), made).clusters()


def diluted_favourites(rng: np.random.Generator, fixtures: int = 120) -> BoundedClusters:
    """Favourites that creep up or lose 40 %, each with as long a shot of a market that never moves in its fixture."""
    entry = rng.uniform(0.6, 0.95, fixtures)
    close = _crept(rng, entry, 1 / 60, 0.4)
    made = np.repeat((entry[:, None] >= np.linspace(0.6, 0.8, 20))[:, None], 2, axis=1)
    return Decided(
        np.column_stack([entry, 1 - entry]), np.column_stack([close, 1 - entry]), np.ones((fixtures, 1)), made
    ).clusters()


def falls_of_favourites(rng: np.random.Generator, fixtures: int = 120) -> BoundedClusters:
    """Favourites that creep up; one in 60 loses all of its price, not the share that the unseen fixture loses."""
    entry = rng.uniform(0.6, 0.95, fixtures)
    return _backed(entry, _crept(rng, entry, 1 / 60))


def doubling(rng: np.random.Generator, fixtures: int = 120, steps: int = 6) -> BoundedClusters:
    """Twice as many decisions after each step down, and the other side for all of them after the first step up."""
    path = 0.5 + 0.05 * np.column_stack([np.zeros(fixtures), rng.choice([-1, 1], (fixtures, steps)).cumsum(1)])
    entries, closes, made = [], [], []
    losing = np.ones(fixtures, bool)
    for step in range(steps):
        now, close = path[:, step], path[:, -1]
        up = losing & (path[:, step + 1] > now)
        backed = [(now, close, losing)] * 2**step
        if step + 1 < steps:
            backed += [(1 - path[:, step + 1], 1 - close, up)] * (2 ** (step + 1) - 1)
        for column, part in zip((entries, closes, made), zip(*backed, strict=True), strict=True):
            column.extend(part)
        losing = losing & ~up
    return Decided(
        *map(np.column_stack, (entries, closes)), np.ones((fixtures, 1)), np.column_stack(made)[:, :, None]
    ).clusters()


def shared_news(rng: np.random.Generator, fixtures: int = 120, shared: float = 0.2, points: int = 20) -> BoundedClusters:
    """Ten fixtures a day have a fifth of the variance of their news in common; twenty thresholds."""
    return by_row(*_shared(rng, fixtures, shared), points)


def shared_news_of_many(rng: np.random.Generator) -> BoundedClusters:
    """The same with a thousand fixtures, a hundred a day, and a tenth in common."""
    return by_row(*_shared(rng, 1_000, 0.1, 100), 20)


def listed_thrice(rng: np.random.Generator) -> BoundedClusters:
    """Forty matches that stand in the pack as three fixtures each, with prices of their own."""
    return by_row(*_shared(rng, 120, 0.95, 3), 1)


def suspended_after_a_fall(rng: np.random.Generator, fixtures: int = 60) -> BoundedClusters:
    """Prices that fell by more than 2 points are suspended, or their line is no longer quoted: no close, and no score."""
    entry = rng.uniform(0.45, 0.5, fixtures)
    close = entry + _MOVE * rng.standard_normal(fixtures)
    return _backed(entry, close, made=close > entry - 0.02)


def seldom_suspended_in_many(rng: np.random.Generator) -> BoundedClusters:
    """A thousand fixtures, of which the lowest twenty-fifth is suspended."""
    entry, move = rng.uniform(0.45, 0.5, 1_000), rng.standard_normal(1_000)
    return _backed(entry, entry + _MOVE * move, made=move > -1.75)


def suspended_in_many(rng: np.random.Generator) -> BoundedClusters:
    """The same with 400 fixtures."""
    return suspended_after_a_fall(rng, 400)


def rounded_longshots(rng: np.random.Generator, fixtures: int = 120) -> BoundedClusters:
    """Quiet longshots at fair odds, backed where whole basis points make more of the price than the odds do; by edge."""
    first = rng.uniform(0.004, 0.02, fixtures)
    moved = first * (1 + 0.02 * rng.standard_normal(fixtures) * (rng.random(fixtures) < 0.3))
    (odds, entry), (_, close) = quoted(first), quoted(moved)
    made = entry * odds / 1e5 - 100 >= 0.2
    edge = ((2 * close * odds + 1_000) // 2_000 - 10_000) / 100
    return BoundedClusters(*(np.where(made, part, 0)[:, None] for part in (edge, edge**0, edge**2, -100, odds / 10 - 100)))


def padded_losers(rng: np.random.Generator, fixtures: int = 60, more: int = 30) -> BoundedClusters:
    """Where the price fell, many more decisions shortly before the close, which gain nothing: losers look small."""
    entry = rng.uniform(0.45, 0.5, fixtures)
    late = entry + _MOVE * rng.standard_normal(fixtures)
    close = late + 0.0005 * rng.standard_normal(fixtures)
    made = np.column_stack([np.ones(fixtures, bool), np.repeat((late < entry)[:, None], more, axis=1)])
    entries = np.column_stack([entry, np.repeat(late[:, None], more, axis=1)])
    return Decided(entries, np.repeat(close[:, None], 1 + more, axis=1), np.ones((fixtures, 1)), made[:, :, None]).clusters()


def points_of_few_fixtures(rng: np.random.Generator, points: int = 300, each: int = 6) -> BoundedClusters:
    """Three hundred points of six fixtures each, of a hundred, at prices that move by a step or not at all."""
    entry = rng.uniform(0.45, 0.55, 100)
    made = np.argsort(rng.random((100, points)), axis=0) < each
    return _backed(entry, entry + 0.02 * rng.choice([-1, 0, 0, 1], 100), made)


def by_row(entry: Floats, close: Floats, points: int) -> BoundedClusters:
    """Back the first side above each of some thresholds."""
    return _backed(entry, close, entry[:, None] >= np.linspace(0.4, 0.55, points))


def quoted(probability: Floats) -> tuple[Floats, Floats]:
    """Odds in thousandths, and whole basis points without a margin, of one of two sides at fair odds."""
    odds, other = (np.rint(1_000 / own).astype(int) for own in (probability, 1 - probability))
    return odds, np.rint(10_000 * other / (odds + other)).astype(int)


def _backed(entry: Floats, close: Floats, made: Floats | None = None) -> BoundedClusters:
    made = np.ones((len(entry), 1), bool) if made is None else made.reshape(len(entry), -1)
    return Decided(entry[:, None], close[:, None], np.ones((len(entry), 1)), made[:, None]).clusters()


def _crept(rng: np.random.Generator, entry: Floats, rarity: float, loss: float = 1.0) -> Floats:
    """Closes that lose a share of the entry with a small chance, and else rise by as much in all."""
    rise = np.minimum(loss * entry * rarity / (1 - rarity), 0.9 * (1 - entry))
    scale = rng.uniform(0.9, 1.1, len(entry))
    return entry + np.where(rng.random(len(entry)) < rarity, -rise * (1 - rarity) / rarity, scale * rise)


def _shared(rng: np.random.Generator, fixtures: int, shared: float, each: int = 10) -> tuple[Floats, Floats]:
    entry, day = rng.uniform(0.4, 0.6, fixtures), np.repeat(rng.standard_normal(fixtures // each), each)
    return entry, entry + _MOVE * (np.sqrt(shared) * day + np.sqrt(1 - shared) * rng.standard_normal(fixtures))


WON: tuple[Draw, ...] = (
    falls_at_a_half, falls_in_few_fixtures, falls_in_six_fixtures, falls_among_noise, falls_of_a_thousand_favourites,
    opposite_sides, diluted_favourites, falls_of_favourites, doubling, shared_news, shared_news_of_many, listed_thrice,
    suspended_after_a_fall, suspended_in_many, seldom_suspended_in_many, rounded_longshots,
)  # fmt: skip
FAILED: tuple[Draw, ...] = (padded_losers, points_of_few_fixtures)


@dataclass(frozen=True, slots=True)
class Announced:
    """In which share of draws an edge is announced at 5 %.

    Attributes
    ----------
    family, worst
        By the lowest p of all points.
    sheet
        By the interval of the tear sheet of the first point.
    family_uncautioned, sheet_uncautioned
        The same where nothing says that the mean comes out above zero too often: neither a skewness to losses, of any point,
        nor, on a sheet, few fixtures. That gains are skewed is no such caution: it says the contrary. Missing closes, which
        all faces tell, are not asked here: what is drawn are the decisions that were scored.
    """

    family: float
    worst: float
    sheet: float
    family_uncautioned: float
    sheet_uncautioned: float


def announced(draw: Draw, rounds: int, seed: int = 1, resamples: int = 999) -> Announced:
    """Judge draws as the faces do."""
    return Announced(*np.mean([_faces(draw(np.random.default_rng([seed, n])), n, resamples) for n in range(rounds)], axis=0))


def _faces(clusters: BoundedClusters, seed: int, resamples: int) -> tuple[bool, ...]:
    found, first = family_of(clusters, resamples=resamples, seed=seed), clusters.columns(np.array([0]))
    family, worst = (np.nanmin(p, initial=1) < 0.05 for p in (found.p_values, found.p_worst))
    own = estimates(first)[0]
    beats = own.low is not None and own.low > 0
    thin = (own.effective_clusters or 0) < MIN_EFFECTIVE
    return family, worst, beats, family and not _skewed(clusters), beats and not thin and not _skewed(first)


def _skewed(clusters: BoundedClusters) -> bool:
    return bool((mean_skewness(clusters) < -MAX_SKEWNESS).any())


def shopped_seeds(rounds: int, seeds: int = 60, resamples: int = 20) -> tuple[float, float]:
    """Return how often an edge is announced of few draws: by one seed, and by the best of many, which no face counts."""
    found = []
    for number in range(rounds):
        clusters = drawn(Null("totals", "equal", 120, 1, 1), np.random.default_rng([1, number])).clusters()
        found.append([family_of(clusters, resamples=resamples, seed=seed).p_values[0] < 0.05 for seed in range(seeds)])
    return float(np.mean([own[0] for own in found])), float(np.mean([any(own) for own in found]))


def table(rounds: int) -> str:
    """What each of them gets."""
    lines = ["without an edge | p_family | p_worst | tear sheet | p_family, no caution | tear sheet, no caution"]
    for draw in (*WON, *FAILED):
        own = announced(draw, rounds)
        shares = (own.family, own.worst, own.sheet, own.family_uncautioned, own.sheet_uncautioned)
        lines += [f"{draw.__name__.replace('_', ' ')} | " + " | ".join(f"{share:.3f}" for share in shares)]
        lines += [f"    {' '.join((draw.__doc__ or '').split())}"]
    one, best = shopped_seeds(rounds)
    lines += [f"one of 60 seeds of 20 resamples | {best:.3f}", f"    The first of them alone: {one:.3f}"]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Announce edges where there are none.")
    parser.add_argument("--rounds", type=int, default=400)
    sys.stdout.write(table(parser.parse_args().rounds) + "\n")


if __name__ == "__main__":
    main()
