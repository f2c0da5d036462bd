"""What agents without an edge get announced today: bounds are wide, and a mend moves them down."""

import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError
from clvlab.report.search import honest_search
from tests.length import few, length
from tests.simulations import attacks

# share of draws by p_family, and by the tear sheet, without a caution on that face: the least and the most
GOT = {
    attacks.falls_at_a_half: ((0, 0.1), (0.2, 0.55)),
    attacks.falls_in_few_fixtures: ((0, 0.1), (0.15, 0.55)),
    attacks.falls_in_six_fixtures: ((0, 0.1), (0, 0)),
    attacks.falls_among_noise: ((0.15, 0.55), (0.15, 0.55)),
    attacks.falls_of_a_thousand_favourites: ((0, 0.1), (0.2, 0.6)),
    attacks.opposite_sides: ((0, 0.1), (0.2, 0.55)),
    attacks.diluted_favourites: ((0, 0.1), (0.03, 0.3)),
    attacks.falls_of_favourites: ((0.02, 0.3), (0.02, 0.3)),
    attacks.doubling: ((0, 0), (0, 0)),
    attacks.shared_news: ((0.03, 0.3), (0.03, 0.3)),
    attacks.shared_news_of_many: ((0.1, 0.5), (0.1, 0.5)),
    attacks.listed_thrice: ((0.05, 0.4), (0.03, 0.35)),
    attacks.suspended_after_a_fall: ((0.9, 1), (0.9, 1)),
    attacks.seldom_suspended_in_many: ((0.6, 1), (0.5, 1)),
    attacks.rounded_longshots: ((0.05, 0.4), (0.15, 0.6)),
    attacks.padded_losers: ((0, 0.13), (0, 0.05)),
    attacks.points_of_few_fixtures: ((0, 0.05), (0, 0.05)),
}


@few(4)
@pytest.mark.parametrize("draw", GOT, ids=lambda draw: draw.__name__)
def test_an_agent_without_an_edge_gets_what_it_gets_today(draw):
    found = attacks.announced(draw, length(50, 400), resamples=199)

    for share, (least, most) in zip((found.family_uncautioned, found.sheet_uncautioned), GOT[draw], strict=True):
        assert least <= share <= most


def test_if_the_whole_price_may_be_lost_news_and_missing_closes_alone_are_announced():
    found = {draw: attacks.announced(draw, length(20, 400), resamples=199).worst for draw in attacks.WON}

    most = {draw for draw, share in found.items() if share > 0.064}
    assert most == {attacks.shared_news_of_many, attacks.suspended_in_many, attacks.seldom_suspended_in_many}


def test_the_best_of_many_seeds_of_few_draws_is_not_counted():
    one, best = attacks.shopped_seeds(length(50, 400))

    assert one <= 0.12
    assert 0.06 <= best <= 0.4


@cl.strategy
def first_quotes(ticks, *, from_bps=0, gain_bps=-10_000):
    """Back the first side at once, where its odds and its basis points together say that it gains so much."""
    gain = pl.col("odds_milli") * pl.col("prob_bps") // 1_000 - 10_000
    first = ticks.filter(pl.col("side") == "a").sort("tick_seq").unique("fixture_id", keep="first", maintain_order=True)
    return first.filter(pl.col("prob_bps") >= from_bps, gain >= gain_bps)


def pack_of(folder, matches):
    """A pack of matches, each of messages (minute, line, probability of the first side, or none where suspended)."""
    lines = ["fixture,time,kickoff,market,side,odds"]
    for match, messages in enumerate(matches):
        day = f"2026-{1 + match // 28:02d}-{1 + match % 28:02d}"
        for minute, line, probability in messages:
            for side in "ab":
                own = probability if side == "a" or probability is None else 1 - probability
                odds = "" if own is None else f"{1 / own:.3f}"
                lines.append(f"m{match},{day}T10:{minute:02d}Z,{day}T12:00Z,LINE||line={line},{side},{odds}")
    (folder / "odds.csv").write_text("\n".join(lines) + "\n")
    return cl.import_odds("csv", folder / "odds.csv", folder / "pack")


def falling(rng):
    """One of three hundred, of which none is among these, goes to 0; the others creep up by as much in all."""
    entry = rng.uniform(0.45, 0.499)
    return [(0, 2.5, entry), (30, 2.5, entry + entry / 299 * rng.uniform(0.5, 1.5))]


def suspended(rng):
    """Suspended until kickoff where the price fell by more than 2 points."""
    entry, move = rng.uniform(0.45, 0.499), 0.03 * rng.standard_normal()
    after = [(31, 2.5, None)] if move < -0.02 else []
    return [(0, 2.5, entry), (30, 2.5, entry + move), *after]


def on_another_line(rng):
    """Quoted on another line alone where the price fell by more than 2 points."""
    entry, move = rng.uniform(0.45, 0.499), 0.03 * rng.standard_normal()
    if move >= -0.02:
        return [(0, 2.5, entry), (30, 2.5, entry + move)]
    return [(0, 2.5, entry), (30, 2.5, None), (30, 2.25, entry + move + 0.06)]


def quiet(rng):
    """A longshot at fair odds that moves in three fixtures of ten, by 2 %."""
    entry = rng.uniform(0.004, 0.02)
    return [(0, 2.5, entry), (30, 2.5, entry * (1 + 0.02 * rng.standard_normal() * (rng.random() < 0.3)))]


def test_a_search_and_a_walk_forward_announce_it_too(tmp_path):
    rng = np.random.default_rng(5)
    pack = pack_of(tmp_path, [suspended(rng) for _ in range(80)])

    search = honest_search(pack.source, first_quotes, {"from_bps": [0]})
    walk = cl.walk_forward(pack, first_quotes, {"from_bps": [0]}, folds=3, progress=False)

    assert search.verdict.sentence.startswith("The best setting beats the closing line")
    assert not any("above zero more often" in caution for caution in search.cautions)
    assert "Out of sample, beats the closing line" in walk._repr_html_()
    assert "have no close. Their market or line was gone or suspended" in " ".join(walk.sheet.cautions)


@pytest.mark.parametrize("match", [suspended, on_another_line])
def test_a_sweep_announces_what_closes_that_are_missing_leave(tmp_path, match):
    rng = np.random.default_rng(5)
    pack = pack_of(tmp_path, [match(rng) for _ in range(80)])

    found = cl.sweep(pack, first_quotes, {"gain_bps": [-10_000]}, progress=False)

    assert "1 of 1 settings stays above zero after correction for 1 trial (1 uncorrected, best p" in found.verdict.sentence
    assert found.frame["p_family"][0] < 0.01
    assert any("decisions of a setting have no close" in caution for caution in found.cautions)
    sealed = found.best().seal()
    assert sealed.run.verify().passed  # audited: it does not look ahead
    assert any("have no close" in caution for caution in sealed.tear_sheet(resamples=50, draws=2).cautions)


@pytest.mark.parametrize(("match", "by", "gain_bps"), [(falling, "clv", -10_000), (quiet, "edge", 20)])
def test_where_next_to_none_lost_a_sweep_announces_nothing(tmp_path, match, by, gain_bps):
    rng = np.random.default_rng(5)
    pack = pack_of(tmp_path, [match(rng) for _ in range(80)])

    found = cl.sweep(pack, first_quotes, {"gain_bps": [gain_bps]}, by=by, progress=False)

    assert found.frame["p_alone"][0] < 0.05
    assert found.verdict.sentence.startswith("No setting stays above zero")


@pytest.mark.parametrize("name", ["low", "n", "p_family", "mean_edge_pct"])
def test_a_parameter_named_as_a_column_is_refused_before_any_work(name):
    with pytest.raises(StatisticsError, match=f"has a column '{name}' of its own"):
        cl.sweep("starter", first_quotes, {name: [1]}, progress=False)


def test_few_resamples_are_refused_before_any_work():
    with pytest.raises(StatisticsError, match="1,000 resamples or more, not 20"):
        cl.sweep("starter", first_quotes, {"from_bps": [0]}, resamples=20, progress=False)


def test_a_sweep_of_a_low_level_says_that_a_point_stays_above_zero_with_a_p_above_one_in_twenty(tmp_path):
    rng = np.random.default_rng(2)
    entries = rng.uniform(0.45, 0.5, 40)
    moves = rng.standard_normal(40)
    moves += 1.2 * moves.std(ddof=1) / np.sqrt(40) - moves.mean()  # a t of 1.2
    pack = pack_of(tmp_path, [[(0, 2.5, own), (30, 2.5, own + 0.03 * move)] for own, move in zip(entries, moves, strict=True)])

    said = cl.sweep(pack, first_quotes, {"from_bps": [0]}, level=0.5, progress=False).verdict.sentence

    assert said.startswith("1 of 1 settings stays above zero after correction for 1 trial (1 uncorrected, best p .1")
