import re
import sys
from dataclasses import replace
from itertools import pairwise

import IPython.display
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import EvidenceError, UnknownFixtureError, UnknownMarketError
from clvlab.lab.widgets.explorer import ExplorerWidget
from clvlab.law.schema import TICKS
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.writer import write_pack
from clvlab.report.explorer.figure import reach, traces
from clvlab.report.explorer.view import MarkOutcome
from tests.factories import message

BUSY = 90000005


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("starter", agent="cumulative-drift")


@pytest.fixture
def explorer(bt):
    return bt.explore(BUSY)


@pytest.fixture
def shell(explorer):
    return ExplorerWidget(explorer)


def test_the_market_with_the_most_decisions_is_shown_first(bt):
    explorer = bt.explore()

    own = bt.scores.filter(pl.col("fixture_id") == explorer.fixture_id)
    assert own.height == bt.scores.group_by("fixture_id").len()["len"].max()
    assert explorer.frame.height == own.group_by("market_key").len()["len"].max()


def test_the_query_shows_the_same_again(bt, explorer):
    explorer.seek(7, explorer.market.span_ms)

    again = eval(explorer.query, {"bt": bt})

    assert again.view.lines.equals(explorer.view.lines)
    assert again.query == explorer.query


def test_what_is_not_there_is_refused_by_name(bt, explorer):
    with pytest.raises(UnknownFixtureError, match="fixture 1 is not in pack 'starter'"):
        bt.explore(1)
    with pytest.raises(UnknownMarketError, match=f"fixture {BUSY} has no market 'nope'"):
        bt.explore(BUSY, "nope")
    with pytest.raises(EvidenceError, match="no decision at seq 0"):
        explorer.record(0)
    with pytest.raises(EvidenceError, match="no decision at seq 9999"):
        explorer.record(9999)


def test_a_fixture_that_was_not_replayed_is_not_there():
    bt = cl.backtest("starter", fixtures=[90000000])

    assert bt.explore().fixtures["fixture_id"].to_list() == [90000000]
    with pytest.raises(UnknownFixtureError):
        bt.explore(90000001)


def test_a_record_is_the_one_of_the_run(bt, explorer):
    seq = explorer.frame["seq"][0]

    assert explorer.record(seq) == bt.run.decision(seq)


def test_a_run_without_decisions_is_explored_all_the_same():
    explorer = cl.backtest("starter", "baseline", params={"markets": ["NONE"]}).explore()

    assert explorer.frame.is_empty()
    assert explorer.view.lines.height
    assert "0 decisions" in explorer._repr_html_()


def test_waits_are_counted_and_not_drawn():
    explorer = cl.backtest("starter", "llm").explore()

    assert explorer.frame.is_empty()
    assert "; 1 WAIT in the fixture" in explorer.line


def test_it_shows_itself_without_a_widget(explorer, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)

    bundle = explorer._repr_mimebundle_()

    assert set(bundle) == {"text/plain", "text/html"}
    assert "<svg" in bundle["text/html"]
    assert not re.search(r"https?://|<script|url\((?!#)", bundle["text/html"])


def test_without_matplotlib_the_table_stays(explorer, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    shown = explorer._repr_html_()

    assert "<svg" not in shown
    assert "pip install matplotlib" in shown
    assert "<table" in shown


def test_a_notebook_holds_widget_and_picture_and_no_library(explorer):
    bundle = explorer._repr_mimebundle_()

    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.widget.model_id
    assert len(str(bundle)) < 200_000


def test_a_cell_shows_the_still_picture_and_then_the_widget(explorer, monkeypatch):
    shown = []
    monkeypatch.setattr(IPython.display, "publish_display_data", shown.append)

    explorer._ipython_display_()

    view = {"text/plain", "application/vnd.jupyter.widget-view+json"}
    assert [set(output) for output in shown] == [{"text/plain", "text/html"}, view]
    assert '<div class="clvlab-still">' in shown[0]["text/html"]
    assert "clvlab-live" in explorer.widget._dom_classes


@pytest.mark.parametrize("start_ms", [0, 253_402_300_800_000, 2**53 - 10_000_000])
def test_a_market_at_the_ends_of_time_is_drawn(tmp_path, start_ms):
    pack = written(tmp_path, start_ms, "a", "A", messages=2)

    explorer = cl.backtest(pack).explore()

    assert "<svg" in explorer._repr_html_()
    assert explorer.widget


def test_names_are_text_in_the_widget_and_in_the_picture(tmp_path):
    nasty = '<img src=x onerror="alert(1)">$x_1$'
    explorer = cl.backtest(written(tmp_path, 1_767_225_600_000, nasty, nasty, messages=5)).explore()

    shell = ExplorerWidget(explorer)
    shell.following.click()

    assert explorer.frame.height == 1
    drawn = [
        text for trace in shell.figure.data for text in (trace.name or "", *(trace.text if trace.text is not None else ()))
    ]
    assert "<img" not in "".join([*drawn, shell.record.value, shell.summary.value, shell.legend.value, explorer._repr_html_()])


def test_a_market_of_one_message_and_a_fixture_without_any_are_shown(tmp_path):
    pack = written(tmp_path, 1_767_225_600_000, "a", "A", messages=1, silent=2)

    one, none = cl.backtest(pack).explore(), cl.backtest(pack, fixtures=[2]).explore()

    assert (one.view.messages, none.view.messages) == (1, 0)
    assert none.markets.is_empty()
    assert all(ExplorerWidget(explorer).box and "<svg" in explorer._repr_html_() for explorer in (one, none))


def written(folder, start_ms, side, name, *, messages, silent=None):
    """A pack of a fixture with one market, and of one that is silent."""
    ticks = [
        row for seq in range(messages) for row in message(seq, 0, {side: (6000, 1700), "z": (4000, 2400)}, market_key=side)
    ]
    frame = pl.DataFrame(ticks, schema=TICKS, orient="row").with_columns(ts_ms=pl.col("tick_seq") * 100_000 + start_ms)
    fixtures = tuple(Fixture(fixture_id=number, names=(name, "B"), kickoff_ts_ms=None) for number in (1, silent) if number)
    write_pack(frame, PackManifest(pack_id="one", provenance="synthetic-test", fixtures=fixtures), folder / "one")
    return cl.open_pack(folder / "one")


class TestWidget:
    def test_the_slider_hides_the_future(self, explorer, shell):
        shell.slider.value = 10

        assert explorer.view.position == 10
        drawn = {trace.name for trace in shell.figure.data if trace.name and trace.x is not None and len(trace.x)}
        assert drawn & set(MarkOutcome) <= {MarkOutcome.OPEN.value}
        assert "close (kickoff)" not in drawn
        assert "10 of" in shell.summary.value

    def test_a_line_of_code_moves_what_is_on_the_screen(self, shell, explorer):
        explorer.show(90000000, position=3)

        assert (shell.fixture.value, shell.market.value) == (90000000, explorer.market.market_key)
        assert shell.slider.value == 3
        assert explorer.position == 3
        assert shell.summary.value.count(f"3 of {explorer.view.messages}") == 1

    def test_a_click_opens_the_record(self, shell):
        marks = next(trace for trace in shell.figure.data if trace.mode == "markers" and trace.customdata)

        shell._on_click(marks, replace_points([0]), None)

        assert f"Decision {marks.customdata[0]}" in shell.record.value
        assert len(shell.figure.data[-1].x) == 1

    def test_the_ring_stays_around_the_chosen_decision_as_the_replay_moves(self, shell, explorer):
        shell.following.click()
        shell.slider.value = explorer.view.messages - 1

        assert list(shell.figure.data[-1].x) == explorer.frame["ts_ms"].head(1).to_list()

    def test_next_and_previous_walk_through_the_decisions_in_a_circle(self, shell, explorer):
        seqs = explorer.frame["seq"].to_list()

        walked = []
        for _ in range(len(seqs) + 1):
            shell.following.click()
            walked.append(shell.seq)
        shell.previous.click()

        assert walked == [*seqs, seqs[0]]
        assert shell.seq == seqs[-1]

    def test_a_record_that_the_replay_has_not_come_to_is_put_away(self, shell):
        shell.following.click()
        shell.slider.value = 0

        assert "Decision" not in shell.record.value
        assert "Pick a mark" in shell.record.value

    def test_verify_shows_seven_verdicts(self, shell):
        shell.verify.click()

        marks = shell.verdict.value.partition('<ul class="marks">')[2].partition("</ul>")[0]
        assert marks.count("<li") == 7
        assert "The seal is intact" in shell.verdict.value
        assert shell.verify.disabled is False

    def test_another_market_has_its_own_sides(self, shell, explorer):
        other = next(key for key in explorer.markets["market_key"] if key != explorer.market.market_key)

        shell.market.value = other

        assert explorer.market.market_key == other
        assert {trace.name for trace in shell.figure.data} >= {explorer.view.side(side) for side in explorer.view.sides}

    def test_another_fixture_brings_its_markets(self, shell, explorer):
        shell.fixture.value = 90000000

        assert explorer.fixture_id == 90000000
        assert [key for _, key in shell.market.options] == explorer.markets["market_key"].to_list()

    @pytest.mark.parametrize("asked", ["90000003", "VALLEY  jan"])
    def test_a_search_narrows_the_fixtures_and_chooses_the_first(self, shell, asked):
        shell.search.value = asked

        words = asked.lower().split()
        assert all(word in label.lower() for label, _ in shell.fixture.options for word in words)
        assert shell.explorer.fixture_id == shell.fixture.value
        assert shell.explorer.fixture_id == 90000003 or asked != "90000003"

    def test_a_search_that_finds_the_chosen_fixture_keeps_it(self, shell):
        shell.search.value = "9000"

        assert shell.explorer.fixture_id == BUSY

    def test_a_search_that_finds_nothing_says_so_and_keeps_the_chosen_one(self, shell):
        shell.search.value = "<b>nobody"

        assert "No fixture matches &#39;&lt;b&gt;nobody&#39;" in shell.summary.value
        assert [number for _, number in shell.fixture.options] == [BUSY]

    def test_keys_move_the_replay_and_go_through_decisions(self, shell, explorer):
        for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft"):
            shell.press(key)
        moved = explorer.view.position
        shell.press("End")
        shell.press("n")

        assert moved == 1
        assert explorer.position is None
        assert shell.seq == explorer.frame["seq"][0]

    def test_play_begins_again_at_the_end_and_pauses(self, shell, explorer):
        shell.press(" ")
        begun = (shell.play.playing, explorer.view.position)
        shell.press(" ")

        assert begun == (True, 0)
        assert not shell.play.playing

    def test_the_speed_stays_within_its_bounds(self, shell):
        for _ in range(9):
            shell.press("+")
        fastest = shell.play.interval
        for _ in range(9):
            shell.press("-")

        assert (fastest, shell.play.interval) == (100, 1600)

    def test_the_axis_of_prices_knows_nothing_of_what_comes(self, shell, explorer):
        whole = explorer.market.view()
        reached = []
        for position in range(1, explorer.view.messages, 7):
            shell.slider.value = position
            seen = explorer.view.lines["prob_bps"].drop_nulls() / 100
            low, high = shell.figure.layout.yaxis.range
            reached.append((low, high))
            assert low <= seen.min() - 1
            assert seen.max() + 1 <= high
            assert low > seen.min() - 7
            assert high < seen.max() + 7

        assert all(later[0] <= sooner[0] and sooner[1] <= later[1] for sooner, later in pairwise(reached))
        assert reached[0] != reach(whole)

    def test_a_zoom_is_drawn_in_detail_and_undone(self, shell, explorer):
        low, high = explorer.market.span_ms

        shell.figure.layout.xaxis.range = ["2026-01-01 00:00", "2026-01-02 12:00:00.5"]
        zoomed = explorer.span_ms
        shell.figure.layout.xaxis.range = [low, high]

        assert zoomed == (1767225600000, 1767355200500)
        assert explorer.span_ms is None

    def test_the_legend_states_the_last_price_that_the_replay_has_come_to(self, shell, explorer):
        shell.slider.value = 1

        first = {side: prob_bps for side, _, prob_bps in explorer.view.lines.iter_rows()}
        assert all(
            f"{explorer.view.side(side)} {prob_bps / 100:.2f} %" in shell.legend.value for side, prob_bps in first.items()
        )
        assert "close (" not in shell.legend.value

    def test_only_decisions_answer_to_the_pointer(self, shell):
        assert {trace.hoverinfo for trace in shell.figure.data if trace.mode == "lines"} == {"skip"}

    def test_names_are_text_to_plotly(self, explorer):
        view = replace(explorer.view, sides=('<a href="x">y</a>',))

        assert "<a" not in traces(view)[2]["name"]


def replace_points(indices):
    class Points:
        point_inds = indices

    return Points()


class TestNames:
    """People read names; raw keys are in the details of a record and in ``.query``."""

    KEYS = re.compile(r"PARTICIPANT|\|\||\bpart[12]\b")

    def test_a_card_names_teams_and_markets(self, bt):
        for market in (
            "1X2_PARTICIPANT_RESULT||",
            "OVERUNDER_PARTICIPANT_GOALS||line=2.5",
            "ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5",
        ):
            explorer = bt.explore(BUSY)
            if market in explorer.markets["market_key"]:
                explorer.show(BUSY, market)

            assert not self.KEYS.search(repr(explorer))
            assert not self.KEYS.search(explorer._repr_html_())
        assert "Linden Valley" in bt.explore(BUSY)._repr_html_()

    def test_the_widget_names_teams_and_markets(self, shell, explorer):
        shell.following.click()

        told = [shell.legend.value, shell.summary.value, *(str(trace.name) + str(trace.text) for trace in shell.figure.data)]
        assert not self.KEYS.search("".join(told))
        assert not self.KEYS.search("".join(label for label, _ in (*shell.market.options, *shell.fixture.options)))
        record, details, raw = shell.record.value.partition("<summary>Raw keys</summary>")
        assert details
        assert not self.KEYS.search(record)
        assert "Bet on Linden Valley, Match result" in record
        assert explorer.market.market_key in raw

    def test_a_record_hides_the_code_of_its_reason_until_the_close(self, shell):
        shell.following.click()
        shell.slider.value = shell.slider.max - 1

        assert "<td>scored</td>" not in shell.record.value
        assert "<td>not known yet</td>" in shell.record.value

    def test_sides_that_would_have_one_name_keep_their_keys(self, explorer):
        view = replace(explorer.view, sides=("part1", "home"))

        assert [view.side(side) for side in view.sides] == ["part1", "home"]
