"""Decisions on lines that were not quoted at the close: which get a price, and what they leave as it was."""

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError, UnknownAgentError
from clvlab.law.closing import Window
from clvlab.law.schema import BOOKS, TICKS
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.writer import write_pack
from clvlab.report.moved_lines import MOVED_LINES, mean_rows, moved_means, priced_lines
from clvlab.statistics.moved_lines import VERSION
from tests.factories import make_run, make_tape, message

AH, OU, RESULT = "ASIANHANDICAP_PARTICIPANT_GOALS", "OVERUNDER_PARTICIPANT_GOALS", "1X2_PARTICIPANT_RESULT||"
NOTHING = {"part1": None, "part2": None}
OPENING = [
    message(0, 0, {"part1": 5000, "part2": 5000}, market_key=f"{AH}||line=-1"),
    message(1, 0, {"part1": 6400, "draw": 2200, "part2": 1400}, market_key=RESULT),
    message(2, 0, {"over": 5500, "under": 4500}, market_key=f"{OU}||line=2.5"),
]
MOVED = [
    message(3, 6000, NOTHING, market_key=f"{AH}||line=-1"),
    message(4, 6000, {"part1": 4700, "part2": 5300}, market_key=f"{AH}||line=-1.5"),
]
BACKS = [
    {"market_key": f"{AH}||line=-1", "side": "part1"},
    {"market_key": f"{AH}||line=-1", "side": "part2"},
    {"market_key": RESULT, "side": "part1", "tick_seq": 1},
]


def moved(messages, *decisions, window=None, **tape):
    made = make_tape(messages, {1: 7200}, **tape)
    result = make_run(made, *decisions, window=window)
    asked = []

    def tape_of(fixture_ids):
        asked.append(fixture_ids)
        return made

    found = priced_lines(result.scores, result.evidence.decisions, tape_of, window or Window())
    return found, result.scores, asked


def test_a_bet_on_minus_one_is_priced_by_a_close_of_minus_one_and_a_half():
    found, scores, asked = moved([*OPENING, *MOVED], *BACKS)

    assert found.schema == pl.Schema(MOVED_LINES)
    assert asked == [[1]]
    assert found["reason"].to_list() == ["closing_suspended"] * 2
    assert found["moved_rule"].to_list() == [f"fitted goals, {VERSION}"] * 2
    home, away = found.rows(named=True)
    assert 5300 < home["moved_close_prob_bps"] < 6300  # likelier than to win by two, less than to win at all
    assert home["moved_close_prob_bps"] + away["moved_close_prob_bps"] == 10_000
    assert home["moved_clv_bps"] == home["moved_close_prob_bps"] - 5000 == -away["moved_clv_bps"]
    assert scores["clv_bps"].to_list() == [None, None, 0]  # the law's scores know nothing of it


@pytest.mark.parametrize("key", ["alternate_spreads||point=-1", "spreads||point=-1.0"])
def test_the_same_line_under_another_key_is_taken_as_it_is(key):
    other = [message(5, 6500, {"part1": 5433, "part2": 4567}, market_key=key)]

    found, _, _ = moved([*OPENING, *MOVED, *other], *BACKS)

    assert found["moved_clv_bps"].to_list() == [433, -433]
    assert set(found["moved_rule"]) == {f"alternate {key}, {VERSION}"}
    assert found["moved_error_bps"].to_list() == [None, None]


def test_a_close_that_is_stale_moved_too_and_another_that_is_stale_says_nothing():
    fresh = message(3, 6500, {"part1": 4700, "part2": 5300}, market_key=f"{AH}||line=-1.5")
    old = message(3, 60, {"part1": 4700, "part2": 5300}, market_key=f"{AH}||line=-1.5")

    taken, _, _ = moved([*OPENING, fresh], BACKS[0], max_close_age_s=1200)
    without, scores, _ = moved([*OPENING, old], BACKS[0], max_close_age_s=1200)

    assert taken["reason"].to_list() == ["closing_stale"]
    assert scores["reason"].to_list() == ["closing_stale"]
    assert without.is_empty()


@pytest.mark.parametrize(
    ("messages", "decision"),
    [
        pytest.param([*OPENING, MOVED[0]], BACKS[0], id="all handicaps are suspended: nothing moved"),
        pytest.param([*OPENING, MOVED[0], message(4, 6000, {"part1": 47, "part2": 9953}, market_key=f"{AH}|half=1|line=-1.5")],
                     BACKS[0], id="another period"),
        pytest.param([*OPENING, message(3, 6000, {"part1": None, "draw": None, "part2": None}, market_key=RESULT), MOVED[1]],
                     BACKS[2] | {"tick_seq": 2}, id="no line"),
        pytest.param([message(0, 7190, {"part1": 5000, "part2": 5000}, market_key=f"{AH}||line=-1"),
                      message(1, 7195, NOTHING, market_key=f"{AH}||line=-1"),
                      message(2, 7196, {"part1": 4700, "part2": 5300}, market_key=f"{AH}||line=-1.5")],
                     BACKS[0], id="within the horizon"),
        pytest.param([*OPENING, *MOVED], BACKS[0] | {"tick_seq": 3}, id="entered while suspended"),
    ],
)  # fmt: skip
def test_what_did_not_move_has_no_price(messages, decision):
    found, scores, _ = moved(messages, decision)

    assert found.is_empty()
    assert scores["clv_bps"].to_list() == [None]


def test_where_all_is_scored_the_tape_is_not_read():
    found, _, asked = moved(OPENING, *BACKS)

    assert found.is_empty()
    assert asked == []
    assert mean_rows(found, 0.95) == []


def test_a_message_in_play_prices_nothing():
    late = message(5, 7300, {"part1": 9000, "part2": 1000}, market_key="spreads||point=-1", in_running=True)

    with_it, without = (moved([*OPENING, *MOVED, *more], *BACKS)[0] for more in ([late], []))

    assert with_it.select("moved_close_prob_bps", "moved_rule").equals(without.select("moved_close_prob_bps", "moved_rule"))


@pytest.fixture(scope="module")
def backtest():
    return cl.backtest("season", "cumulative-drift")


def test_a_result_shows_them_beside_its_mean_and_not_in_it(backtest):
    found, sheet = backtest.moved_lines(), backtest.tear_sheet(resamples=20, draws=2)
    reasons = dict(backtest.report["reasons"])

    assert 0 < found.mean.n == found.frame.height <= reasons["closing_suspended"]
    assert not set(found.frame["seq"]) & set(sheet.scored["seq"])
    assert sheet.clv.n + sheet.left_out == reasons["scored"]
    assert sheet.moved_lines.equals(found.frame)
    assert repr(found).startswith(f"Lines that moved: {found.mean.n} decisions in {found.mean.n_clusters} fixtures, mean ")
    assert "not part of the mean CLV" in found._repr_html_()
    assert "Lines that moved" in sheet._repr_html_()
    means = moved_means(found.frame, 0.95)
    assert means["rule"].to_list() == ["all", "alternate", "fitted"]
    assert means["n"][0] == means["n"][1:].sum() == found.mean.n


def test_a_sheet_of_some_decisions_shows_theirs(backtest):
    frame = backtest.moved_lines().frame
    fixture = frame["fixture_id"][0]

    own = backtest.tear_sheet(resamples=20, draws=2).only(fixtures=[fixture]).moved_lines

    assert own.equals(frame.filter(pl.col("fixture_id") == fixture))


@cl.strategy
def of_the_opening(ticks):
    return ticks.filter(pl.col("tick_seq") == 0, pl.col("side") == "part1")


def test_a_run_that_a_book_closes_prices_lines_by_that_book_too(tmp_path):
    own = pl.DataFrame([row for rows in [*OPENING, *MOVED] for row in rows], schema=TICKS, orient="row")
    others = own.with_columns(prob_bps=pl.when(pl.col("prob_bps").is_not_null()).then(10_000 // pl.len().over("tick_seq")))
    books = own.select(*(name for name in BOOKS if name != "book"), book=pl.lit("ash")).select(*BOOKS)
    about = PackManifest(pack_id="lines", provenance="unknown", fixtures=(Fixture(fixture_id=1, kickoff_ts_ms=7_200_000),))
    write_pack(own, about, tmp_path / "consensus" / "lines")
    write_pack(others, about, tmp_path / "book" / "lines", books=books)

    consensus = cl.backtest(tmp_path / "consensus" / "lines", of_the_opening).moved_lines().frame
    book = cl.backtest(tmp_path / "book" / "lines", of_the_opening, close="ash").moved_lines().frame

    assert consensus.height == 1
    assert book.equals(consensus)


def test_nothing_is_shown_where_nothing_moved():
    none = cl.backtest("starter", "cumulative-drift", window=cl.Window(market_allowlist=("1X2",)))

    assert none.moved_lines().frame.is_empty()
    assert repr(none.moved_lines()) == "Lines that moved: no decision on one"
    assert "No decision" in none.moved_lines()._repr_html_()
    assert "Lines that moved" not in none.tear_sheet(resamples=20, draws=2)._repr_html_()


def test_an_agent_or_a_level_that_there_is_not_is_refused(backtest):
    with pytest.raises(UnknownAgentError, match="no agent 'x'"):
        backtest.moved_lines("x")
    with pytest.raises(StatisticsError, match="level"):
        backtest.moved_lines(level=1.5)
