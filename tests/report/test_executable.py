import json

import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.ladders import LADDERS
from clvlab.packs.manifest import Gap
from clvlab.packs.writer import write_pack
from clvlab.report import executable
from clvlab.report.executable import EXECUTABLE, SUMMARY, Executable
from clvlab.statistics import cluster_mean, weighted_mean
from tests.booked import frames, manifest, write_booked


@pytest.fixture(scope="module")
def quoted():
    return cl.backtest("starter", "cumulative-drift").executable(stake=10, delay_s=20, commission=0.05)


def deep(monkeypatch, run, size=5000, levels=3):
    """Let the pack of a run keep ladders: at each tick its odds, in levels that get worse."""
    tape = run.pack.tape()
    names = tape.series.with_row_index("series").select("series", "fixture_id", "market_key", "side")
    rows = tape.rows.join(names, on="series", maintain_order="left").unique(["series", "ts_ms"], keep="last")
    levels = [
        rows.with_columns(
            level=pl.lit(level, pl.Int8),
            odds_milli=(pl.col("odds_milli") - 3 * level).cast(pl.Int32),
            stake_cents=pl.when(pl.col("odds_milli").is_not_null()).then(pl.lit(size, pl.Int64)),
        )
        for level in range(levels)
    ]
    found = pl.concat(levels).select(*LADDERS).sort("fixture_id", "market_key", "side", "level", "ts_ms")
    own = run.pack.manifest
    fixtures = tuple(one.model_copy(update={"ladders_digest": "sha256:" + 64 * "0"}) for one in own.fixtures)
    monkeypatch.setitem(
        vars(run.pack), "manifest", own.model_copy(update={"ladders": levels[-1]["level"][0] + 1, "fixtures": fixtures})
    )
    monkeypatch.setattr(
        type(run.pack), "ladders", lambda _, ids=None: found.lazy().filter(pl.col("fixture_id").is_in(ids)), raising=False
    )
    return found


@pytest.fixture
def booked(monkeypatch):
    bt = cl.backtest("starter", "cumulative-drift")
    deep(monkeypatch, bt.source)
    return bt


def test_orders_are_the_scored_decisions_but_those_at_the_closing_message(quoted):
    sheet = cl.backtest("starter", "cumulative-drift").tear_sheet(resamples=10, draws=10)

    assert quoted.frame["seq"].to_list() == sheet.scored.sort("seq")["seq"].to_list()
    ours, theirs = quoted.means["line", "ordered"][0], sheet.clv
    assert (ours.mean, ours.low, ours.high, ours.n) == pytest.approx((theirs.mean, theirs.low, theirs.high, theirs.n))
    assert quoted.means["line", "ordered"][1].mean == pytest.approx(sheet.price_ratio.mean)
    assert sum(quoted.unscored.values()) + quoted.frame.height == sheet.source.scores.height


def test_steps_subtract(quoted):
    frame = quoted.frame
    price = 10_000 / frame["odds"]

    assert frame["price_prob_bps"].to_list() == pytest.approx(price.to_list())
    assert frame["delayed_bps"].to_list() == pytest.approx((frame["close_prob_bps"] - price).to_list())
    profit = frame["close_prob_bps"] / 10_000 * frame["odds"] - 1
    assert frame["delayed_pct"].to_list() == pytest.approx((100 * profit).to_list())
    assert (frame["commission_bps"] <= frame["delayed_bps"]).all()


def test_a_quoted_price_fills_the_whole_stake_and_says_so(quoted):
    assert quoted.basis == "quoted price, size unknown"
    assert quoted.basis in repr(quoted)
    assert "without sizes" in quoted._repr_html_()
    assert set(quoted.frame["stake_filled"]) <= {0.0, 10.0}
    assert quoted.stakes.is_empty()  # where no size is known, a curve over stakes would be flat by construction


def test_without_prices_there_is_nothing_and_it_says_why(tmp_path):
    ticks, _ = frames(1)
    write_pack(ticks.with_columns(odds_milli=pl.lit(None, pl.Int32)), manifest(), tmp_path / "booked")

    found = cl.backtest(tmp_path / "booked", "baseline", policy=PolicyEnvelope(require_quote=False)).executable()

    assert found.frame.is_empty()
    assert found.summary.is_empty()
    assert "has neither offers nor prices" in found.line
    assert found.facts()["basis"] is None


@pytest.mark.parametrize(("priced", "basis"), [(False, ""), (True, "quoted price, size unknown")])
def test_books_without_prices_are_no_offers(tmp_path, priced, basis):
    ticks, books = frames(1)
    none = pl.lit(None, pl.Int32)
    ticks = ticks if priced else ticks.with_columns(odds_milli=none)
    write_pack(ticks, manifest(), tmp_path / "booked", books=books.with_columns(odds_milli=none))

    found = cl.backtest(tmp_path / "booked", "baseline", policy=PolicyEnvelope(require_quote=False)).executable(delay_s=0)

    assert found.basis == basis
    if priced:  # the price of the ticks, as no book says one
        assert found.counts == {"filled": found.frame.height}
        odds = found._scored["odds_milli"] / 1000
        assert found.frame["odds"].to_list() == pytest.approx(odds.to_list())
    else:
        assert "has neither offers nor prices" in found.line


def test_a_side_that_no_book_prices_has_the_price_of_its_ticks(tmp_path):
    ticks, books = frames(1)
    write_pack(ticks, manifest(), tmp_path / "booked", books=books.filter(pl.col("fixture_id") == 1))

    found = cl.backtest(tmp_path / "booked", "baseline", policy=PolicyEnvelope(require_quote=False)).executable(delay_s=0)

    others = found.frame.filter(pl.col("fixture_id") != 1)
    assert others.height
    assert set(others["outcome"]) == {"filled"}


@pytest.mark.parametrize(
    ("stake", "said"),
    [(10_000_000, "10,000,000"), (1_234_567, "1,234,567"), (10.5, "10.5"), (0.015, "0.02"), (33.333, "33.33")],
)
def test_the_stake_that_is_said_is_the_one_that_is_ordered(booked, stake, said):
    found = booked.executable(stake=stake)

    assert f"orders of {said}, " in found.line
    ordered = found.frame["stake"].unique().to_list()
    assert [found.facts()["stake"]] == ordered
    assert all(round(100 * value) / 100 == value for value in found.stakes["stake"])


def test_books_are_taken_at_the_best_of_their_prices(tmp_path):
    write_booked(tmp_path / "booked")
    found = cl.backtest(tmp_path / "booked", "baseline").executable(delay_s=0)

    books = found.source.pack.tape().books.collect().filter(~pl.col("suspended"))
    filled = found.frame.filter(pl.col("stake_filled") > 0)
    assert filled.height
    for row in filled.iter_rows(named=True):
        same = books.filter(pl.all_horizontal(pl.col(name) == row[name] for name in ("fixture_id", "market_key", "side")))
        assert round(1000 * row["odds"]) in same["odds_milli"].to_list()


def test_depth_is_taken_level_by_level_and_stakes_have_a_curve(booked):
    small, large = (booked.executable(stake=stake, delay_s=0) for stake in (50, 120))

    assert small.basis == "depth"
    assert set(large.counts) <= {"filled", "taken", "partly_filled", "suspended", "past_close"}
    assert large.frame["odds"].mean() < small.frame["odds"].mean()
    assert (large.frame["stake_filled"] <= 120).all()
    filled = large.stakes["filled"].to_list()
    assert filled == sorted(filled, reverse=True)
    assert filled[-1] < 0.1
    assert "CLV at the line" in large.line


def test_fixtures_without_depth_among_others_are_quoted_if_no_order_has_depth(tmp_path):
    ticks, _ = frames(1)
    own, policy = manifest(), PolicyEnvelope(require_quote=False)
    first = pl.col("fixture_id") == 1
    row = ticks.filter(first, ~pl.col("suspended")).head(1)
    ladders = row.select(
        "fixture_id", "market_key", "side", "ts_ms", "odds_milli", level=pl.lit(0, pl.Int8), stake_cents=pl.lit(1, pl.Int64)
    ).select(*LADDERS)
    for name, part, fixtures in (
        ("deep", ticks.filter(first), own.fixtures[:1]),
        ("bare", ticks.filter(~first), own.fixtures[1:]),
    ):
        described = own.model_copy(update={"pack_id": name, "fixtures": fixtures})
        write_pack(part, described, tmp_path / name, ladders=ladders if name == "deep" else None)
    both = cl.concat([tmp_path / "deep", tmp_path / "bare"])

    whole, bare = (
        cl.backtest(one, "baseline", policy=policy).executable(delay_s=0) for one in (both, both.where(fixtures=[2, 3]))
    )

    assert whole.basis == "depth"
    assert whole.counts["no_depth"] >= bare.frame.height > 0
    assert bare.basis == "quoted price, size unknown"
    assert bare.counts == {"filled": bare.frame.height}


def test_unfilled_stakes_count_as_zero_per_stake_ordered(booked):
    found = booked.executable(stake=300, delay_s=0)
    frame = found.frame

    part = frame["stake_filled"] / 300
    assert part.max() == 0.5
    ordered = cluster_mean((frame["delayed_bps"] * part).fill_null(0), frame["fixture_id"])
    assert found.means["delayed", "ordered"][0].mean == pytest.approx(ordered.mean)
    assert found.means["delayed", "ordered"][0].low == pytest.approx(ordered.low)
    assert found.means["delayed", "filled"][0].mean == pytest.approx(ordered.mean / part.mean())


@pytest.mark.parametrize(
    "setting",
    [
        {"stake": 0}, {"stake": -1}, {"stake": True}, {"stake": float("nan")}, {"stake": 10**8}, {"stake": "10"},
        {"delay_s": -1}, {"delay_s": 3601}, {"delay_s": None}, {"max_age_s": 0}, {"commission": 1}, {"commission": "bet"},
        {"level": 1}, {"stake": 10**400}, {"delay_s": 10**400}, {"max_age_s": 10**400}, {"commission": 10**400},
        {"commission": -(10**400)}, {"stake": float("inf")}, {"delay_s": float("nan")},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused_before_any_work(setting):
    with pytest.raises(StatisticsError):
        cl.backtest("starter", "baseline").executable(**setting)


def test_facts_are_json_and_tables_have_their_schemas(quoted):
    facts = json.loads(json.dumps(quoted.facts()))

    assert facts["rule"] == "clvlab-taking/1"
    assert sum(facts["outcomes"].values()) == facts["orders"] == quoted.frame.height
    assert dict(quoted.frame.schema) == EXECUTABLE
    assert dict(quoted.summary.schema) == SUMMARY
    assert quoted.delays["delay_s"].to_list() == [0, 1, 2, 5, 10, 20, 30, 60]


def test_the_card_shows_the_waterfall_and_escapes_nothing_twice(quoted, tmp_path):
    page = quoted.to_html(tmp_path / "e.html").read_text()

    assert "Would it have paid?" in page
    assert page.count("<svg") == 7  # all of it was filled, so both means are one: an axis, five steps and a curve
    assert "Per stake, all of it filled" in page
    assert "Per stake filled, which is a selection" not in page
    assert "&amp;lt;" not in page
    quoted.to_csv(tmp_path / "e.csv")
    quoted.to_parquet(tmp_path / "e.parquet")


def test_what_is_filled_in_part_has_both_means(booked):
    page = booked.executable(stake=10_000)._repr_html_()

    assert "Per stake ordered, what is not filled counts as 0" in page
    assert "Per stake filled, which is a selection" in page


def test_an_agent_without_a_scored_decision_has_nothing_to_take():
    found = cl.backtest("starter", "baseline", policy=None, params={"warmup_ticks": 10**6}).executable()

    assert found.frame.is_empty()
    assert found.summary.is_empty()
    assert "no scored decision" in repr(found)
    assert "nothing to take" in found._repr_html_()


def test_every_agent_of_a_run_competes_only_with_itself(booked):
    alone = booked.executable(stake=120, delay_s=0)
    again = Executable(booked.source, 120, 0.0)

    assert alone.frame.equals(again.frame)


def test_the_interval_of_a_mean_per_stake_filled_covers_the_truth():
    # what is filled depends on what it is worth, as offers that stay are those nobody else wanted
    rng, hits, runs, fixtures = np.random.default_rng(11), 0, 800, 25
    effect = rng.normal(0, 40, 4_000_000)
    noise = rng.normal(0, 100, effect.size)
    chance = 1 / (1 + np.exp((effect + noise) / 60))
    truth = float(((effect + noise) * chance).sum() / chance.sum())
    for _ in range(runs):
        sizes = rng.integers(1, 9, fixtures)
        fixture = np.repeat(np.arange(fixtures), sizes)
        value = np.repeat(rng.normal(0, 40, fixtures), sizes) + rng.normal(0, 100, len(fixture))
        filled = rng.binomial(20, 1 / (1 + np.exp(value / 60))) / 20
        found = weighted_mean(pl.Series(value), pl.Series(filled), pl.Series(fixture))
        hits += found.low <= truth <= found.high
    assert 0.925 < hits / runs < 0.975


@pytest.mark.parametrize("room", [0, 3_000, 10**9])
def test_a_pack_of_several_shards_is_read_again_and_gives_the_same(booked, monkeypatch, room):
    whole = booked.executable(stake=120, commission=0.05)
    held = (whole.frame, whole.summary, whole.delays, whole.stakes)
    monkeypatch.setattr(executable, "_HELD_ROWS", room)
    monkeypatch.setattr(executable, "shards_of", lambda fixtures, _: ((one,) for one in fixtures))

    apart = booked.executable(stake=120, commission=0.05)

    assert all(
        one.equals(other) for one, other in zip(held, (apart.frame, apart.summary, apart.delays, apart.stakes), strict=True)
    )
    fixtures = apart.frame["fixture_id"].unique().to_list()
    assert len(fixtures) > 1
    kept = [one for one in fixtures if one in apart._held]
    assert (len(kept) == len(fixtures)) == (room == 10**9)
    assert sum(apart._held.get(one, dict)[1].odds_milli.size for one in kept) <= room


def test_an_order_in_a_gap_of_the_capture_is_unknown(booked, monkeypatch):
    before = booked.executable(delay_s=0)
    first = before.frame.row(0, named=True)
    span = {"from_ts_ms": first["ts_ms"] - 10**9, "to_ts_ms": first["ts_ms"] + 1}

    for markets, touched in ((None, True), ((first["market_key"],), True), (("nobody's",), True)):
        monkeypatch.setattr(executable, "lasting_gaps", lambda _, own=markets: [Gap(**span, markets=own)])
        after = booked.executable(delay_s=0).frame.row(0, named=True)
        assert (after["outcome"] == "unknown") == touched
    other = next(key for key in before.frame["market_key"] if key != first["market_key"])
    monkeypatch.setattr(executable, "lasting_gaps", lambda _: [Gap(**span, markets=(other,))])
    assert booked.executable(delay_s=0).frame.row(0, named=True)["outcome"] == first["outcome"] != "unknown"
