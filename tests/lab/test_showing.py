import re
import sys

import pandas as pd
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import MissingLibraryError
from tests.hostile import without_times_script


@pytest.fixture(scope="module")
def results():
    bt = cl.backtest("starter", agent="cumulative-drift")
    return {
        "backtest": bt,
        "scores": bt.scores,
        "report": bt.report,
        "tear sheet": bt.tear_sheet(resamples=100, draws=5),
        "leaderboard": cl.leaderboard([bt]),
        "comparison": cl.compare([bt, bt]),
        "sweep": cl.sweep("starter", "baseline", {"warmup_ticks": [0, 20]}, resamples=1_000),
        "power": bt.power(34),
        "regression": bt.regress("clv_bps ~ log(to_close_s) + side"),
        "audit report": cl.lookahead_audit("baseline", "starter"),
        "pack": cl.open_pack("starter"),
        "verification": bt.run.verify(),
        "explorer": bt.explore(),
        "proof card": bt.run.proof_card(),
        "evidence browser": bt.run.browse(),
        "Merkle path": bt.run.merkle_path(1),
        "playground": bt.run.tamper(),
    }


NAMES = [
    "backtest", "scores", "report", "tear sheet", "leaderboard", "comparison", "sweep", "power", "regression", "audit report",
    "pack", "verification", "explorer", "proof card", "evidence browser", "Merkle path", "playground",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
class TestEveryResult:
    def test_is_written_as_parquet_and_read_again(self, results, name, tmp_path):
        result = results[name]

        path = result.to_parquet(tmp_path / "a.parquet")

        assert pl.read_parquet(path).equals(pl.DataFrame(result.frame))

    def test_is_written_as_csv(self, results, name, tmp_path):
        frame = results[name].frame

        read = pl.read_csv(results[name].to_csv(tmp_path / "a.csv"), infer_schema=False)

        assert read.columns == frame.columns
        assert read.height == frame.height

    def test_is_given_to_pandas(self, results, name):
        frame = results[name].to_pandas()

        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == results[name].frame.columns

    def test_is_written_as_a_page_that_fetches_nothing(self, results, name, tmp_path):
        page = results[name].to_html(tmp_path / "a.html").read_text(encoding="utf-8")

        assert page.startswith("<!DOCTYPE html>")
        assert page.partition("</head>")[0].count("<title>") == 1
        assert not re.search(
            r"https?://|<script|<link|url\((?!#)|@import|(?:src|href)=.(?!#|data:)", without_times_script(page)
        )
        assert not re.search("&lt;/?(?:div|table|svg|p|span)", page)  # what is HTML is shown as HTML, not as its source

    def test_has_a_repr_of_one_line_with_a_next_step(self, results, name):
        if name == "scores":
            pytest.skip("scores are a frame, and show themselves as one")

        assert "\n" not in repr(results[name])
        assert "next:" in repr(results[name]) or name == "audit report"

    def test_says_what_is_missing_without_pandas(self, results, name, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)

        with pytest.raises(
            MissingLibraryError, match=r"to_pandas\(\) needs pandas, which is not installed: pip install pandas"
        ):
            results[name].to_pandas()


def test_without_matplotlib_a_plot_says_what_is_missing(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)

    with pytest.raises(MissingLibraryError, match="pip install matplotlib"):
        results["backtest"].plot.clv()


def test_scores_stay_a_frame_of_polars(results):
    scored = results["scores"].filter(pl.col("reason") == "scored")

    assert isinstance(results["scores"], pl.DataFrame)
    assert scored.height == results["report"]["metrics"]["action_count"]


def test_a_list_in_a_csv_is_text(results, tmp_path):
    class Lists(type(results["report"]).__mro__[2]):
        frame = pl.DataFrame({"a": [["x", "y"], []]})

        def _repr_html_(self):
            return ""

    assert Lists().to_csv(tmp_path / "a.csv").read_text() == 'a\nx y\n""\n'
