import matplotlib as mpl
import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError
from clvlab.law.closing import Window
from clvlab.statistics import path_slopes

mpl.use("Agg")


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """A pack of thirty fixtures with results, two markets each, of which one opens an hour before the close."""
    rng, lines = np.random.default_rng(3), ["fixture,time,market,side,odds,kickoff,result"]
    for n in range(30):
        for market, times in (("WINNER||", ("09:00", "12:00", "14:45")), ("GOALS|half|line=1", ("14:00", "14:45"))):
            home = rng.random() < 0.5
            for time in times:
                prob = rng.uniform(0.35, 0.65)
                for side, share, won in (("home", prob, home), ("away", 1 - prob, not home)):
                    result = "void" if n == 0 else "won" if won else "lost"
                    lines.append(f"m{n},2026-01-02T{time}Z,{market},{side},{1 / share:.3f},2026-01-02T15:00Z,{result}")
    folder = tmp_path_factory.mktemp("odds")
    (folder / "odds.csv").write_text("\n".join(lines))
    with cl.Lab() as lab:
        yield cl.open_pack(lab.import_odds("csv", folder / "odds.csv").source.folder)


def test_slopes_and_shares_stand_by_market_without_parameters(settled):
    found = settled.price_path(hours=[6, 2, 0.5])

    assert found.frame["market"].unique(maintain_order=True).to_list() == ["all markets", "GOALS|half", "WINNER"]
    assert found.frame["leg"].unique(maintain_order=True).to_list() == ["opening", "close", "reversal"]
    assert found.known["hours"].unique(maintain_order=True).to_list() == [6, 2, 0.5]
    one = found.points.filter(pl.col("market_key") == "WINNER||")
    assert found.frame.filter(pl.col("market") == "WINNER").drop("market").equals(path_slopes(one))


def test_voids_are_no_result_and_late_markets_had_not_opened(settled):
    found = settled.price_path(hours=[2])

    assert found.points["won"].null_count() == 4
    assert found.frame.filter(pl.col("market") == "all markets")["fixtures"].to_list() == [30, 29, 29]
    assert found.known["opened"].to_list() == [0.5, 0, 1]


def test_a_window_chooses_the_markets(settled):
    found = settled.price_path(Window(market_allowlist=("WINNER",)))

    assert found.frame["market"].unique().to_list() == ["all markets"]
    assert found.points["market_key"].unique().to_list() == ["WINNER||"]


def test_some_fixtures_are_those_alone(settled):
    some = settled.fixture_ids[:12]

    found = settled.price_path(fixture_ids=some)

    assert set(found.points["fixture_id"]) == set(some)
    assert found.points.equals(settled.price_path().points.filter(pl.col("fixture_id").is_in(some)))


def test_the_page_draws_what_has_a_slope_and_says_how_to_read_it(settled, tmp_path, monkeypatch):
    page = settled.price_path().to_html(tmp_path / "path.html").read_text("utf-8")
    monkeypatch.setattr("clvlab.packs.reader.Pack.results", None)
    without = cl.open_pack("starter").price_path()._repr_html_()

    assert (page.count("<svg"), without.count("<svg")) == (4, 2)
    assert "29 fixtures with results are few" in page
    assert "are few" not in without
    assert "A slope is 0 where prices are fair" in page
    assert "no result is known" in without


def test_the_line_names_slopes_and_the_hour(settled):
    found = cl.open_pack("starter").price_path()

    assert "half of the move was known 12 h before the close" in found.line
    assert repr(found).startswith("Price path of 'starter': 150 sides; slopes: opening +0.02 [")
    assert "reversal" in settled.price_path().line


def test_pictures_take_axes_of_one_s_own(settled):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()

    assert settled.price_path().slopes("close", ax) is ax
    assert settled.price_path().chart(Figure().add_subplot()).get_xlabel() == "hours before the close"


@pytest.mark.parametrize("options", [{"hours": [0]}, {"hours": []}, {"level": 1}])
def test_what_can_not_be_asked_is_refused(settled, options):
    with pytest.raises(StatisticsError):
        settled.price_path(**options)
