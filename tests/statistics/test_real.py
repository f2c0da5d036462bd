"""Known figures of real odds: what the statistics say of a rule whose decisions were counted by other code."""

import polars as pl
import pytest

from clvlab.statistics import cluster_mean

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def risen(realdata):
    """Sides of the World Cup's winners that rose by more than 30 bps over three changes, entered before the closing message."""
    rows = pl.read_parquet(realdata / "the-odds-api" / "worldcup_h2h_consensus.parquet")
    series = ["event_id", "market", "side"]
    prob = pl.col("prob_bps").cast(pl.Float64)
    entered = rows.sort(*series, "ts").with_columns(
        rise=(prob - prob.shift(3)).over(series),
        clv_bps=(prob.last() - prob).over(series),
        left=(pl.len() - 1 - pl.int_range(pl.len())).over(series),
    )
    return entered.filter(pl.col("rise") > 30)


def test_momentum_on_the_world_cup_is_known_to_a_tenth(risen):
    counted = risen.filter(pl.col("left") > 0)
    clv = counted["clv_bps"]

    found = cluster_mean(clv, counted["event_id"])

    assert (found.n, found.n_clusters) == (3_859, 104)
    assert round(found.mean, 1) == 74.9
    assert round(clv.mean() / (clv.std() / clv.len() ** 0.5), 1) == 12.3
    assert round(found.t, 1) == 3.4
    # resampled percentiles are 35 to 120: this interval is as wide, and even about the mean
    assert (found.low, found.high) == (pytest.approx(31, abs=1), pytest.approx(119, abs=1))


def test_entries_at_the_closing_message_dilute_it(risen):
    late = risen.filter(pl.col("left") == 0)

    assert (late.height, risen.height) == (94, 3_953)
    assert late["clv_bps"].to_list() == [0.0] * 94
    assert round(cluster_mean(risen["clv_bps"], risen["event_id"]).mean, 1) == 73.1
