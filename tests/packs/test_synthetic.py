"""What the generator promises: prices that nobody beats without looking back, one trend, margins, results that fit the close."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.application.packs import bundled_catalog
from clvlab.errors import PackFormatError
from clvlab.law.schema import FIXTURES
from clvlab.law.tape import Tape
from clvlab.packs.synthetic import Recipe, build, synthetic
from clvlab.packs.synthetic_markets import MARKETS
from tests.agents.strategies import clv_of

SERIES = ("fixture_id", "market_key", "side")
HOURS = (1, 6, 24)
EXPLOITING = ("cumulative-drift", "sharp-momentum-v2")


@dataclass(frozen=True)
class Feed:
    """Several seeds of a recipe as one, before play; ``entries`` has every side at first sight (null) and hours before kickoff."""

    before: pl.DataFrame
    entries: pl.DataFrame
    closes: pl.DataFrame


@pytest.fixture(scope="module")
def feed():
    seeds = [synthetic(Recipe(seed=seed, fixtures=300, messages=300)) for seed in (1, 2, 3)]
    kickoffs = pl.concat([numbered(pl.DataFrame(kickoffs_of(made)), n) for n, made in enumerate(seeds)])
    before = pl.concat([numbered(made.ticks, n) for n, made in enumerate(seeds)]).filter(~pl.col("in_running"))
    results = pl.concat([numbered(made.results, n) for n, made in enumerate(seeds)])
    priced = before.drop_nulls("prob_bps").sort("tick_seq").join(kickoffs, on="fixture_id")
    closes = before.sort("tick_seq").group_by(SERIES).agg(close_bps=pl.col("prob_bps").last()).drop_nulls()
    lead_ms = pl.col("kickoff_ts_ms") - pl.col("ts_ms")
    taken = [priced.filter(lead_ms >= hours * 3_600_000).with_columns(hours=hours) for hours in HOURS]
    firsts = priced.group_by(SERIES).agg(pl.col("prob_bps").first(), hours=pl.lit(None, pl.Int32))
    lasts = pl.concat(taken).group_by(*SERIES, "hours", maintain_order=True).agg(pl.col("prob_bps").last())
    entries = pl.concat([firsts, lasts.select(firsts.columns)]).join(closes, on=SERIES)
    return Feed(before, entries.with_columns(clv_bps=pl.col("close_bps") - pl.col("prob_bps")), closes.join(results, on=SERIES))


def numbered(frame, n):
    return frame.with_columns(pl.col("fixture_id") + 1_000_000 * n)


def kickoffs_of(made):
    rows = [(fixture.fixture_id, fixture.kickoff_ts_ms) for fixture in made.fixtures]
    return pl.DataFrame(rows, schema=FIXTURES, orient="row")


def bound(tests, level=0.01):
    """The |t| that chance passes in one family of so many tests out of a hundred: Bonferroni."""
    return NormalDist().inv_cdf(1 - level / (2 * tests))


def t_of(value, by="fixture_id"):
    """The t of a mean of values whose groups are independent, as a column per group of a ``group_by``."""
    return (value.mean() / value.std() * value.len().sqrt()).alias("t")


def mean_and_t(values, fixtures):
    own = pl.DataFrame({"v": values, "f": fixtures}).group_by("f").agg(total=pl.col("v").sum(), n=pl.len())
    total, n = own["total"].to_numpy(), own["n"].to_numpy()
    mean = total.sum() / n.sum()
    return mean, mean * n.sum() / np.sqrt(((total - mean * n) ** 2).sum())


def test_every_side_of_every_market_at_fixed_times_earns_nothing(feed):
    found = feed.entries.group_by("market_key", "side", "hours").agg(t_of(pl.col("clv_bps")), n=pl.len())

    assert found.height == 13 * (len(HOURS) + 1)
    assert found["n"].min() > 800
    assert found["t"].abs().max() < bound(found.height)


def test_favourites_and_first_sides_earn_nothing(feed):
    of_market = pl.col("fixture_id", "market_key", "hours")
    favourites = feed.entries.sort("prob_bps", "side", descending=[True, False]).unique(of_market.meta.output_name() and ["fixture_id", "market_key", "hours"], keep="first")
    firsts = feed.entries.sort("side").unique(["fixture_id", "market_key", "hours"], keep="first")

    for rule in (favourites, firsts):
        found = rule.group_by("market_key", "hours").agg(t_of(pl.col("clv_bps")))
        assert found["t"].abs().max() < bound(2 * found.height)
