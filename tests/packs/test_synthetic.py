"""What the generator promises: prices fair to whoever does not look back, one trend, margins, results that fit closes."""

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
import polars as pl
import pytest

from clvlab.agents.registry import template
from clvlab.arena.packs import bundled_catalog
from clvlab.errors import PackFormatError
from clvlab.law.schema import FIXTURES
from clvlab.law.tape import Tape
from clvlab.packs.synthetic import Dice, Recipe, build, synthetic
from tests.length import few, length

SERIES = ["fixture_id", "market_key", "side"]
HOURS = (1, 6, 24)
SEEDS = length((1,), (1, 2, 3))


@dataclass(frozen=True)
class Season:
    """A synthetic season; ``entries`` are at first sight (hours 0) and some hours before kickoff, on every side."""

    tape: Tape
    results: pl.DataFrame

    @classmethod
    def of(cls, made):
        kickoffs = [(fixture.fixture_id, fixture.kickoff_ts_ms) for fixture in made.fixtures]
        return cls(Tape.from_ticks(made.ticks, pl.DataFrame(kickoffs, schema=FIXTURES, orient="row")), made.results)

    @property
    def before(self):
        """Ticks before play, in order of time."""
        return self.tape.ticks().filter(~pl.col("in_running")).collect().sort("tick_seq", maintain_order=True)

    @property
    def closes(self):
        return self.before.group_by(SERIES).agg(close_bps=pl.col("prob_bps").last()).drop_nulls()

    def entries(self):
        priced = self.before.drop_nulls("prob_bps").join(self.tape.fixtures, on="fixture_id", maintain_order="left")
        lead_ms = pl.col("kickoff_ts_ms") - pl.col("ts_ms")
        price = pl.col("prob_bps")
        taken = [priced.group_by(SERIES).agg(price.first()).with_columns(hours=0)] + [
            priced.filter(lead_ms >= 3_600_000 * hours).group_by(SERIES).agg(price.last()).with_columns(hours=hours)
            for hours in HOURS
        ]
        return pl.concat(taken).join(self.closes, on=SERIES).with_columns(clv_bps=pl.col("close_bps") - price)

    def clv(self, strategy):
        """CLV of a template's decisions by the last price of each side, with their fixtures."""
        priced = self.before.join(self.closes, on=SERIES).with_columns(clv_bps=pl.col("close_bps") - pl.col("prob_bps"))
        return template(strategy).decide(self.tape).join(priced, on=[*SERIES, "tick_seq"]).select("fixture_id", "clv_bps")


@cache
def season(seed, messages=300):
    return Season.of(synthetic(Recipe(seed=seed, fixtures=300, messages=messages)))


def over_seeds(frames):
    """Rows of several seasons, whose fixtures are others."""
    return pl.concat(frame.with_columns(pl.col("fixture_id") + 1_000_000 * n) for n, frame in enumerate(frames))


@cache
def all_entries():
    return over_seeds(season(seed).entries() for seed in SEEDS)


def bound(tests, level=0.01):
    """The |t| that the largest of so many exceeds in one case of a hundred: Bonferroni."""
    return NormalDist().inv_cdf(1 - level / (2 * tests))


def t_of(name):
    """The t of a mean over fixtures, one row each."""
    return (pl.col(name).mean() / pl.col(name).std() * pl.len().sqrt()).alias("t")


def mean_and_t(clv):
    """The mean over decisions, and its t over fixtures."""
    sums = clv.group_by("fixture_id").agg(pl.col("clv_bps").sum(), n=pl.len())
    total, n = sums["clv_bps"].to_numpy(), sums["n"].to_numpy()
    mean = total.sum() / n.sum()
    return mean, mean * n.sum() / np.sqrt(((total - mean * n) ** 2).sum())


def variance_ratio(ticks, lag=10):
    """Variance of the change over some messages of a series, over so many times that of the change over one."""
    price, ordered = pl.col("prob_bps"), {"partition_by": SERIES, "order_by": "tick_seq"}
    change = [(price - price.shift(steps)).over(**ordered).pow(2).mean() for steps in (lag, 1)]
    return ticks.drop_nulls("prob_bps").select(change[0].alias("long") / (lag * change[1])).item()


@few(1)
@pytest.mark.parametrize("pack_id", ["starter", "season"])
def test_a_bundled_pack_is_rebuilt_from_its_recipe_to_the_same_content_hash(tmp_path, pack_id):
    bundled = bundled_catalog().open(pack_id)

    built = build(Recipe(**bundled.manifest.recipe), tmp_path / pack_id)

    assert built.content_hash == bundled.content_hash


def test_a_recipe_gives_the_same_bytes_twice(tmp_path):
    folders = [tmp_path / name / "pack" for name in ("one", "two")]

    for folder in folders:
        build(Recipe(fixtures=6, messages=100), folder)

    one, two = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders)
    assert len(one) == 3
    assert one == two


def test_neighbouring_seeds_and_streams_have_nothing_in_common():
    runs = [Dice(seed, stream).below(2**40, 2000) for seed in (0, 1, 2) for stream in (0, 1, 2)]

    assert np.unique(np.concatenate(runs)).size == 9 * 2000
    assert np.abs(np.corrcoef(runs) - np.eye(9)).max() < 0.1


def test_dice_fall_as_often_below_zero_as_above():
    rolled = Dice(5, 0).bell(1000, 100_000)

    assert abs(rolled.mean()) < 3 * 1000 / 100_000**0.5
    assert rolled.std() == pytest.approx(1000, rel=0.01)


def test_every_side_of_every_market_at_fixed_times_earns_nothing():
    found = all_entries().group_by("market_key", "side", "hours").agg(t_of("clv_bps"), n=pl.len())

    assert found.height == 13 * (1 + len(HOURS))
    assert found["n"].min() > 260 * len(SEEDS)
    assert found["t"].abs().max() < bound(found.height)


@pytest.mark.parametrize(
    "order", [{"by": ["prob_bps", "side"], "descending": [True, False]}, {"by": ["side"]}], ids=["favourites", "first sides"]
)
def test_a_rule_about_sides_earns_nothing(order):
    market = ["fixture_id", "market_key", "hours"]
    chosen = all_entries().sort(**order).unique(market, keep="first", maintain_order=True)

    found = chosen.group_by("market_key", "hours").agg(t_of("clv_bps"))

    assert found.height == 6 * (1 + len(HOURS))
    assert found["t"].abs().max() < bound(found.height)


def test_no_height_of_a_price_earns_anything():
    heights = all_entries().group_by("fixture_id", pl.col("prob_bps") // 1000, "hours").agg(pl.col("clv_bps").mean())

    found = heights.group_by("prob_bps", "hours").agg(t_of("clv_bps"), n=pl.len()).filter(pl.col("n") > 30)

    assert found.height > 30
    assert found["t"].abs().max() < bound(found.height)


def test_baseline_earns_nothing():
    _, t = mean_and_t(over_seeds(season(seed).clv("baseline") for seed in SEEDS))

    assert abs(t) < bound(1)


@pytest.mark.parametrize("pack_id", ["starter", "season"])
def test_baseline_does_not_look_skilled_in_a_bundled_pack(pack_id):
    pack = bundled_catalog().open(pack_id)

    _, t = mean_and_t(Season(pack.tape(), pl.DataFrame()).clv("baseline"))

    assert abs(t) < 1.5


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["cumulative-drift", "sharp-momentum-v2"])
def test_agents_that_look_back_find_the_trend_and_gain_less_than_the_margin(strategy):
    mean, t = mean_and_t(over_seeds(season(seed, 900).clv(strategy) for seed in (1, 2, 3)))

    assert t > 2
    assert 5 < mean < 60


def test_the_trend_of_the_season_is_that_of_real_odds():
    ticks = Season(bundled_catalog().open("season").tape(), pl.DataFrame()).before

    assert 1.2 < variance_ratio(ticks) < 1.4
    for (market_key,), own in ticks.group_by("market_key"):
        assert 1.2 < variance_ratio(own) < 1.4, market_key


def test_margins_are_two_to_seven_percent_and_differ_by_market():
    ticks = season(1).before.drop_nulls("prob_bps")

    overround = ticks.group_by("market_key", "fixture_id", "tick_seq").agg(over=(1000 / pl.col("odds_milli")).sum() - 1)

    assert overround["over"].is_between(0.02, 0.07).all()
    by_market = overround.group_by("market_key").agg(pl.col("over").median())["over"].sort()
    assert by_market.diff().drop_nulls().min() > 0.003


def test_odds_are_probabilities_with_a_margin_in_proportion():
    ticks = season(1).before.drop_nulls("prob_bps")
    message = ["market_key", "fixture_id", "tick_seq"]

    implied = 1 / pl.col("odds_milli")
    fair = ticks.with_columns(fair=10_000 * implied / implied.sum().over(message), whole=pl.col("prob_bps").sum().over(message))

    assert (fair["whole"] == 10_000).all()
    # odds of 1.07 are rounded to half a thousandth: 4 bps of probability
    assert (fair["fair"] - fair["prob_bps"]).abs().max() < 5


def test_markets_of_one_event_agree():
    latest = season(1).before.drop_nulls("prob_bps").group_by(SERIES).agg(pl.col("prob_bps").first())
    opening = latest.pivot(on=["market_key", "side"], index="fixture_id", values="prob_bps")
    won = season(1).results.filter(pl.col("result") == "won").pivot(on="market_key", index="fixture_id", values="side")

    one, two, three = (opening[f'{{"OVERUNDER_PARTICIPANT_GOALS||line={line}","over"}}'] for line in ("1.5", "2.5", "3.5"))
    assert ((one > two) & (two > three)).all()
    low, high = (won[f"OVERUNDER_PARTICIPANT_GOALS||line={line}"] == "over" for line in ("1.5", "2.5"))
    assert (high & ~low).sum() == 0
    home = won["1X2_PARTICIPANT_RESULT||"] == "part1"
    assert (home == (won["ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5"] == "part1")).all()


def test_results_come_as_often_as_the_closes_say():
    closes = over_seeds(season(seed).closes.join(season(seed).results, on=SERIES) for seed in SEEDS)
    miss = (pl.col("result") == "won").cast(pl.Float64) - pl.col("close_bps") / 10_000
    closes = closes.with_columns(miss=miss)

    by_side = closes.group_by("market_key", "side").agg(t_of("miss"))
    own = closes.group_by("fixture_id", pl.col("close_bps") // 1000).agg(pl.col("miss").mean())
    by_height = own.group_by("close_bps").agg(t_of("miss"), n=pl.len()).filter(pl.col("n") > 30)

    assert (by_side.height, by_height.height) >= (13, 9)
    assert max(by_side["t"].abs().max(), by_height["t"].abs().max()) < bound(by_side.height + by_height.height)


def test_every_market_has_one_winner():
    results = season(1).results

    assert results.height == 300 * 13
    assert (results.group_by("fixture_id", "market_key").agg(won=(pl.col("result") == "won").sum())["won"] == 1).all()


def test_another_seed_gives_other_ticks():
    one, other = (synthetic(Recipe(seed=seed, fixtures=1, messages=50)).ticks for seed in (1, 2))

    assert not one.equals(other)


def test_the_feed_has_what_real_feeds_have():
    made = synthetic(Recipe(seed=3, fixtures=6, messages=400))

    messages = made.ticks.unique(["fixture_id", "tick_seq"])
    assert messages["market_key"].n_unique() == 6
    assert 0.005 < messages["suspended"].mean() < 0.1
    assert messages.filter("in_running")["fixture_id"].n_unique() == 4  # one league in three does not say that play began
    assert all(fixture.kickoff_ts_ms for fixture in made.fixtures)
    before = made.ticks.join(Season.of(made).tape.fixtures, on="fixture_id")
    assert (before["in_running"] == (before["ts_ms"] > before["kickoff_ts_ms"])).all()
    assert messages.select(pl.struct("fixture_id", "ts_ms").is_duplicated().any()).item()


@pytest.mark.parametrize("messages", [20, 100_000])
def test_the_shortest_and_long_feeds_have_prices(messages):
    ticks = synthetic(Recipe(seed=4, fixtures=3, messages=messages)).ticks

    assert ticks["prob_bps"].drop_nulls().is_between(1, 9_999).all()


@pytest.mark.parametrize("recipe", [{"seed": -1}, {"fixtures": 0}, {"messages": 5}])
def test_a_recipe_out_of_bounds_is_refused(recipe):
    with pytest.raises(PackFormatError, match="a recipe needs"):
        Recipe(**recipe)
