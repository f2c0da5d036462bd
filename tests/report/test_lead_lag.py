"""Who leads, of two packs that are joined: each source's own times, one side of a fixture, the clocks, and what is refused."""

import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import HeldOutError, StatisticsError, UnknownFixtureError
from clvlab.law.schema import TICKS
from clvlab.packs.manifest import Fixture, PackManifest, TimeRule
from clvlab.packs.writer import write_pack
from clvlab.report.lead_lag import LeadLagReport

OFF_MS = 1_780_000_000_000
TEAMS = [("Arsenal", "Leeds United"), ("Mainz", "Wolves"), ("Man United", "Ajax")]
SPAN_S = 1_500
SIDES = ("home", "away")


def path(number):
    """The price of the home side of a fixture, in tenths of a second until a minute after the off."""
    return np.clip(5_000 + np.cumsum(np.random.default_rng(number).normal(0, 1.2, 10 * (SPAN_S + 60))), 500, 9_500)


def source(folder, provider, *, late_s=0.0, every_s=2.0, market="h2h||", reading=None, whole_ms=1, only=3, in_play=0):
    """Write a pack of fixtures whose prices are so many seconds late, until after the off."""
    rows, fixtures = [], []
    for number, teams in enumerate(TEAMS[:only]):
        off = OFF_MS + 86_400_000 * number
        looks = np.arange(20 + every_s * 0.37 * (1 + len(provider) % 2), SPAN_S + 50, every_s)
        fixtures.append(Fixture(fixture_id=len(provider) * 100 + number, names=teams, kickoff_ts_ms=off))
        for seq, look in enumerate(looks):
            at = int(off - 1000 * SPAN_S + 1000 * look) // whole_ms * whole_ms
            home = int(path(number)[int(10 * (look - late_s))]) + (in_play if look > SPAN_S else 0)
            rows += [
                (fixtures[-1].fixture_id, seq, at, look > SPAN_S, market, side, prob, 2000, False)
                for side, prob in zip(SIDES, (home, 10_000 - home), strict=True)
            ]
    named = PackManifest(pack_id=folder.name, provenance=f"imported-{provider}", fixtures=tuple(fixtures), reading=reading)
    write_pack(pl.DataFrame(rows, schema=TICKS, orient="row"), named, folder)
    return cl.open_pack(folder)


def compared(*packs, **settings):
    return cl.lead_lag(cl.join_sources(packs), **{"max_lag_s": 20, "draws": 99} | settings)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return source(tmp_path_factory.mktemp("first") / "fast", "quick")


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    return source(tmp_path_factory.mktemp("late") / "late", "lagging", late_s=10)


@pytest.fixture(scope="module")
def found(first, late):
    return compared(first, late)


def test_the_source_that_is_ten_seconds_ahead_leads(found, first, late):
    assert found.leader == "quick"
    assert found.lead_s == pytest.approx(10, abs=3)
    assert found.verdict.sentence.startswith(f"quick leads lagging by about {found.lead_s:.3g} s, over 3 fixtures (p 0.01)")
    turned = compared(late, first)
    assert (turned.leader, turned.lead_s) == ("quick", pytest.approx(-10, abs=3))


def test_a_row_for_each_lag_has_covariance_correlation_and_band(found):
    assert found.frame.columns == ["lag_s", "hy_cov", "correlation", "asymmetry", "null_low", "null_high"]
    assert found.frame["lag_s"].to_list() == list(range(-20, 21))
    beyond = found.frame.filter(pl.col("asymmetry") > pl.col("null_high"))
    assert 10.0 in beyond["lag_s"].to_list()
    assert beyond["lag_s"].min() > 0


def test_of_each_fixture_one_side_counts(found):
    assert found.fixtures["fixture_id"].to_list() == [500, 501, 502]
    assert found.fixtures["side"].to_list() == ["away"] * 3
    assert found.fixtures["other_side"].to_list() == ["away"] * 3
    assert found.fixtures["updates"].min() > 600


def test_a_slower_feed_of_the_same_price_does_not_follow(first, tmp_path):
    slow = source(tmp_path / "slow", "hourly", every_s=30.0)

    found = compared(first, slow)

    assert (found.leader, found.lead_s) == (None, None)
    assert found.verdict.sentence.startswith("No lead is shown between quick and hourly up to 20 s, over 3 fixtures")


def test_prices_in_play_do_not_count(first, found, tmp_path):
    jumped = source(tmp_path / "late", "lagging", late_s=10, in_play=2_000)

    assert compared(first, jumped).frame.equals(found.frame)


def test_a_clock_that_is_a_second_off_is_no_lead(tmp_path):
    other = source(tmp_path / "clock", "offset", late_s=1.0, every_s=0.5, only=1)
    quick = source(tmp_path / "quick", "quick", every_s=0.5, only=1)

    found = compared(quick, other, max_lag_s=5)

    assert found.found.lead_s == pytest.approx(1, abs=0.6)
    assert (found.leader, found.uncertainty_s) == (None, 2)
    assert "No lead is shown: quick is about" in found.verdict.sentence
    assert "but the clocks may differ by 2 s" in found.verdict.sentence


def test_the_measured_offset_of_a_clock_and_rounded_times_bound_the_lead(first, tmp_path):
    rule = TimeRule(rule=2, skew_s=60, offset_ms=12_000, refused=0)
    other = source(tmp_path / "late", "lagging", late_s=10, reading=rule, whole_ms=1_000)

    found = compared(first, other)

    assert (found.leader, found.uncertainty_s) == (None, 14)
    assert str(found.clocks[1]) == "as the provider states them, in whole seconds; offset 12,000 ms"
    assert str(found.clocks[0]) == "as the provider states them; offset not measured"
    assert found.facts()["times of lagging"] == str(found.clocks[1])


def test_the_card_the_files_and_the_line_say_it(found, tmp_path):
    shown = found._repr_html_()

    assert shown.count("<svg role") == 2
    assert found.verdict.sentence.split(",")[0] in shown.replace("\u00a0", " ")
    assert repr(found).startswith("Lead-lag of 'fast.join-")
    assert pl.read_csv(found.to_csv(tmp_path / "lags.csv")).columns == found.frame.columns
    assert "quick leads lagging" in found.to_html(tmp_path / "lags.html").read_text().replace("\u00a0", " ")


def test_the_seed_and_the_fixtures_decide_the_figures(first, late, found):
    assert compared(first, late).frame.equals(found.frame)
    assert not compared(first, late, seed=1).frame.equals(found.frame)
    assert compared(first, late, fixture_ids=[501], market="h2h").fixtures["fixture_id"].to_list() == [501]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"market": "h2hh||"}, "no market 'h2hh||' is in both sources: did you mean 'h2h||'?"),
        ({"market": 3}, "a market is named by its key"),
        ({"book": "laging"}, "has no source 'laging' after its first: did you mean 'lagging'?"),
        ({"draws": 10}, "10 draws can't bound a level of 0.95: 19 at least"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"level": 2}, "the level of an interval"),
        ({"seed": -1}, "a seed is a whole number"),
        ({"max_lag_s": 700}, "700 lags of 1 s up to 700 s are more than 600"),
        ({"draws": 10**8}, "updates x 41 lags x 100,000,000 draws are more than"),
    ],
)
def test_what_can_not_be_compared_is_refused_by_name(first, late, settings, said):
    with pytest.raises(StatisticsError) as refused:
        _ = compared(first, late, **settings).verdict

    assert said in str(refused.value)


def test_one_source_is_refused(first, late):
    with pytest.raises(StatisticsError, match="'fast' is not a join of sources"):
        cl.lead_lag(first)
    with pytest.raises(StatisticsError, match="is not a join of sources: filter each"):
        cl.lead_lag(cl.join_sources([first, late]).where(markets="h2h"))
    with pytest.raises(StatisticsError, match=r"give join_sources\(\[a, b\]\)"):
        cl.lead_lag("fast")


def test_of_several_other_sources_one_is_named(first, late, tmp_path):
    third = source(tmp_path / "third", "thirdly")
    joined = cl.join_sources([first, late, third])

    with pytest.raises(StatisticsError, match="name one by book=: lagging, thirdly"):
        cl.lead_lag(joined)

    settings = {"max_lag_s": 20, "draws": 99}
    assert cl.lead_lag(joined, book="thirdly", **settings).leader is None
    assert cl.lead_lag(joined, book="lagging", **settings).leader == "quick"


def test_two_packs_of_one_provider_are_named_by_their_ids(first, tmp_path):
    again = source(tmp_path / "again", "quick", only=1)

    assert compared(first, again).names == ("fast", "again")


def test_too_few_updates_are_refused(first, tmp_path):
    rare = source(tmp_path / "rare", "rarely", every_s=400.0)

    with pytest.raises(StatisticsError, match="no fixture has 5 updates and a change of 'quick' and 'rarely'"):
        _ = compared(first, rare).frame


def test_fixtures_that_are_unknown_or_held_out_are_refused(first, late):
    joined = cl.join_sources([first, late])
    with pytest.raises(UnknownFixtureError):
        _ = cl.lead_lag(joined, fixture_ids=[9]).frame
    held = LeadLagReport(joined.source.held({501: "plan_1"}))
    with pytest.raises(HeldOutError):
        _ = held.frame


@pytest.mark.realdata
def test_two_real_sources_of_one_match_are_compared(realdata, tmp_path):
    odds = cl.import_odds("the-odds-api", realdata / "the-odds-api/worldcup_ticks.parquet", tmp_path / "odds", lenient=True)
    venue = cl.import_odds("polymarket", realdata / "polymarket", tmp_path / "venue")

    found = compared(odds, venue, max_lag_s=600, step_s=10)

    assert found.fixtures.height == 9
    assert found.fixtures["fixture_id"].n_unique() == 9
    assert "the-odds-api" in found.verdict.sentence
    assert found.lead_s is None or 4 < abs(found.lead_s) <= 600
    assert found.frame["correlation"].abs().max() > 0.05
    assert found.clocks[0].whole_ms == 1_000
