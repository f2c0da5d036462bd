import numpy as np
import polars as pl
import pytest

from clvlab.engine.run import run
from clvlab.law.closing import Window
from tests.factories import make_agent
from tests.length import few
from tests.martingale import BOUNDS_BPS, backed_clv, favourites, martingale_tape, risers


def t_of(tape, decisions, truth=0.0):
    """The mean CLV, and how many standard errors over fixtures it is from the truth."""
    own = backed_clv(tape, decisions).group_by("fixture_id").agg(total=pl.col("clv_bps").sum(), n=pl.len())
    total, n = own["total"].to_numpy(), own["n"].to_numpy()
    mean = total.sum() / n.sum()
    return mean, (mean - truth) * n.sum() / np.sqrt(((total - mean * n) ** 2).sum())


@few(1)
@pytest.mark.parametrize("sides", [("over", "under"), ("home", "draw", "away"), tuple("abcdef")])
def test_no_rule_earns_anything_on_a_martingale(sides):
    tape = martingale_tape(600, 60, 1, sides=sides)

    every_side = [t_of(tape, favourites(tape).with_columns(side=pl.lit(side)))[1] for side in sides]
    rules = [favourites(tape), favourites(tape, 30), risers(tape)]

    assert max(abs(t) for t in [*every_side, *(t_of(tape, rule)[1] for rule in rules)]) < 3.5  # 1 % of nine rules


def test_prices_are_integers_that_sum_to_the_whole_inside_the_bounds():
    ticks = martingale_tape(200, 300, 2, drift_bps=400, momentum_bps=60).ticks().collect()

    assert (ticks.group_by("fixture_id", "tick_seq").agg(pl.col("prob_bps").sum())["prob_bps"] == 10_000).all()
    assert ticks["prob_bps"].is_between(*BOUNDS_BPS).all()
    assert ticks["prob_bps"].max() - ticks["prob_bps"].min() > 4_000


def test_ups_and_downs_are_equally_likely_at_every_height():
    ticks = martingale_tape(1500, 60, 3).ticks().sort("fixture_id", "side", "tick_seq")
    move = (pl.col("prob_bps").shift(-1) - pl.col("prob_bps")).over("fixture_id", "side")

    found = ticks.with_columns(move=move).filter(pl.col("move") != 0).group_by(pl.col("prob_bps") // 500).agg(
        ups=(pl.col("move") > 0).sum(), n=pl.len()
    ).collect()  # fmt: skip

    z = (found["ups"] - found["n"] / 2) / (found["n"] / 4).sqrt()
    assert set(found.filter(pl.col("n") > 100)["prob_bps"]) >= set(range(2, 10))
    assert z.abs().max() < 4


@pytest.mark.parametrize("drift_bps", [-200, 30, 150])
def test_the_drift_is_what_favourites_gain(drift_bps):
    tape = martingale_tape(1200, 60, 4, drift_bps=drift_bps)

    mean, t = t_of(tape, favourites(tape), drift_bps)

    assert abs(t) < 3
    assert abs(mean - drift_bps) < 20


@pytest.mark.parametrize("momentum_bps", [10, 40])
def test_the_momentum_is_what_backing_a_rise_gains(momentum_bps):
    tape = martingale_tape(800, 150, 5, momentum_bps=momentum_bps)
    early = risers(tape).filter(pl.col("tick_seq") < 100)

    mean, t = t_of(tape, early, momentum_bps)

    assert abs(t) < 3
    assert abs(mean - momentum_bps) < momentum_bps / 2
    assert abs(t_of(tape, favourites(tape))[1]) < 3


def test_the_law_scores_its_decisions_as_they_were_counted():
    tape = martingale_tape(20, 40, 6, momentum_bps=20)
    decided = risers(tape).filter(pl.col("tick_seq") < 39)

    scores = run(tape, [make_agent(decided, "risers")], Window()).scores

    assert scores["valid"].all()
    assert sorted(scores["clv_bps"]) == sorted(backed_clv(tape, decided)["clv_bps"])


def test_the_same_seed_gives_the_same_tape_and_another_another():
    one, same, other = (martingale_tape(5, 30, seed).rows for seed in (7, 7, 8))

    assert one.equals(same)
    assert not one.equals(other)


@pytest.mark.parametrize("wrong", [{"sides": ("one",)}, {"sides": ("one", "one")}, {"momentum_bps": -1}])
def test_what_gives_no_tape_is_refused(wrong):
    with pytest.raises(ValueError, match="no tape of"):
        martingale_tape(2, 10, 0, **wrong)
