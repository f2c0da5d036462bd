import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

import clvlab as cl

mpl.use("Agg")

NAMES = [
    "clv", "cumulative", "by_time", "by_market", "by_side", "by_probability", "fixtures", "entry_and_close", "permutation",
    "calibration",
]  # fmt: skip


@pytest.fixture(scope="module")
def sheets():
    many = cl.backtest("season", agent="cumulative-drift").tear_sheet(resamples=200, draws=20)
    none = cl.backtest("starter", window=cl.Window("none", market_allowlist=("NOTHING",))).tear_sheet(resamples=50, draws=5)
    return {"many": many, "none": none}


@pytest.mark.parametrize("size", ["many", "none"])
@pytest.mark.parametrize("name", NAMES)
def test_a_plot_draws_on_the_axes_it_is_given_and_names_its_units(sheets, name, size):
    ax = Figure().add_subplot()

    drawn = getattr(sheets[size].plot, name)(ax)

    assert drawn is ax
    assert ax.get_xlabel()
    assert ax.get_title(loc="left") or ax.get_title()


def test_a_plot_without_axes_makes_some():
    ax = cl.backtest("starter", agent="cumulative-drift").plot.by_side()

    assert ax.get_xlabel() == "CLV, bps of probability, 95% interval"
    plt.close(ax.figure)


def test_many_decisions_are_aggregated_and_the_plot_says_so(sheets):
    figure = Figure()
    entry, walk = (getattr(sheets["many"].plot, name)(figure.add_subplot()) for name in ("entry_and_close", "cumulative"))

    assert "5,324 decisions in cells of 5 %" in entry.get_title()
    assert sum(len(dots.get_offsets()) for dots in entry.collections) < 400
    assert "(14 to a point)" in walk.get_xlabel()
    assert len(walk.lines[0].get_xdata()) <= 400
    assert walk.lines[0].get_ydata()[-1] == sheets["many"].scored["clv_bps"].sum()
