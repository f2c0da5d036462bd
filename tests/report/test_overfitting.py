import matplotlib as mpl
import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError
from clvlab.report.search import MOST_DOTS, overfitting_of
from clvlab.statistics.measures import MEASURES, fixture_sums

mpl.use("Agg")

POINTS = pl.DataFrame({"threshold": range(12)})


def sums_of(clv_bps):
    """``FIXTURE_SUMS`` of one point: one decision a fixture, fixture 100 first."""
    scores = {"fixture_id": range(100, 100 + len(clv_bps)), "clv_bps": clv_bps}
    rows = pl.DataFrame(scores, schema={"fixture_id": pl.Int64, "clv_bps": pl.Int64})
    return fixture_sums(
        rows.with_columns(
            reason=pl.lit("scored"), at_close=False, edge_bps=0, entry_prob_bps=0, close_prob_bps=0, odds_milli=2000
        )
    )


def fixtures_of(kickoffs):
    return pl.DataFrame({"fixture_id": range(100, 100 + len(kickoffs)), "kickoff_ts_ms": kickoffs})


def judged(values, kickoffs=None, **options):
    kickoffs = range(len(values)) if kickoffs is None else kickoffs
    asked = {"blocks": 8, "statistic": "mean"} | options
    return overfitting_of(
        [sums_of(column) for column in values.T], POINTS, MEASURES["clv"], fixtures_of(kickoffs), *asked.values()
    )


@pytest.fixture
def values():
    return np.random.default_rng(1).integers(-300, 301, (67, 12))


@pytest.fixture(scope="module")
def sweep():
    grid = {"warmup_ticks": [5, 10, 15, 20, 30, 40], "cooldown_s": [0, 3600]}
    return cl.sweep("season", "cumulative-drift", grid, resamples=1_000, progress=False)


def test_blocks_follow_kickoffs_and_not_ids(values):
    late_first = values[::-1]

    assert judged(values).frame.equals(judged(late_first, kickoffs=range(67, 0, -1)).frame)
    assert not judged(values).frame.equals(judged(late_first).frame)


def test_fixtures_without_a_kickoff_come_last_by_id(values):
    kickoffs = [*range(60), *[None] * 7]

    assert judged(values, kickoffs).frame.equals(judged(values).frame)


def test_a_better_point_is_named_as_the_choice(values):
    values[:, 7] += 200

    found = judged(values)

    assert found.chosen.row(0, named=True) == {"point": 7, "threshold": 7, "share": 1.0}
    assert found.pbo == 0
    assert found.frame.height == 70
    assert "the last 3 fixtures left out" in found.line


def test_few_points_are_refused(values):
    with pytest.raises(StatisticsError, match="9 of 9 configurations"):
        judged(values[:, :9])


def test_a_sweep_is_judged_by_its_measure(sweep):
    found = sweep.overfitting(blocks=8)

    assert found.source.configurations == 12
    assert found.chosen.columns == ["point", "warmup_ticks", "cooldown_s", "share"]
    assert found.chosen["share"].sum() == pytest.approx(1)
    assert "by mean CLV" in found.line
    assert "by cluster t of CLV" in sweep.overfitting(8, statistic="t").line
    assert repr(found).endswith("next: .frame, .chosen, .scatter()")


def test_the_page_says_how_to_read_it_and_draws_every_dot_it_can(sweep, tmp_path):
    found = sweep.overfitting()

    page = found.to_html(tmp_path / "found.html").read_text("utf-8")
    dots = sum(len(one.get_offsets()) for one in found.scatter().collections)

    assert "PBO is not a p-value" in page
    assert page.count("<svg") == 1
    assert MOST_DOTS / 2 < dots <= MOST_DOTS


def test_points_that_never_differ_have_no_slope(values):
    found = judged(np.full_like(values, 5))

    assert "slope of out of sample on in sample none" in found.line
    assert found.scatter().get_title().startswith("PBO 1.00") or found.scatter().get_title(loc="left").startswith("PBO 1.00")


def test_it_says_which_question_its_measure_answers(values):
    assert "did the price move my way after I took it?" in judged(values)._repr_html_()
