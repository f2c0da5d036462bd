import numpy as np
import polars as pl
import pytest

from clvlab.law.closing import Window
from clvlab.report.explorer.view import LINES, MARKS, MarkOutcome, market, suspensions, thin
from tests.factories import MARKET, make_decisions, make_run, make_tape, message

SIDES = ("draw", "part1", "part2")


def three(draw, part1, part2):
    return dict(zip(SIDES, (draw, part1, part2), strict=True))


def prepared(tape, *decisions, market_key=MARKET, window=None):
    result = make_run(tape, *decisions, window=window)
    made = pl.concat([result.scores, result.evidence.decisions.select("ts_ms", "action")], how="horizontal")
    return market(tape, window or Window(), market_key, made)


@pytest.fixture
def tape():
    return make_tape(
        [
            message(0, 0, three(3000, 4000, 3000)),
            message(1, 100, three(None, None, None)),
            message(2, 200, three(3000, 4500, 2500)),
            message(3, 300, {"over": 5000, "under": 5000}, market_key="OU|"),
            message(4, 400, three(2500, 5000, 2500)),
        ],
        {1: 1000},
    )


def test_lines_hold_every_message_and_carry_the_last_state_to_the_end():
    view = prepared(
        make_tape([message(0, 0, three(3000, 4000, 3000)), message(1, 60, {"over": 5000, "under": 5000}, market_key="OU|")])
    ).view()

    assert view.lines.filter(pl.col("side") == "part1").rows() == [("part1", 0, 4000), ("part1", 60_000, 4000)]
    assert view.lines.schema == LINES


def test_a_suspension_is_a_gap_in_the_lines_and_a_shaded_time(tape):
    view = prepared(tape).view()

    assert view.lines.filter(pl.col("side") == "draw")["prob_bps"].to_list() == [3000, 3000, None, 3000, 2500]
    assert view.lines.filter(pl.col("side") == "draw")["ts_ms"].to_list() == [0, 100_000, 100_000, 200_000, 400_000]
    assert view.suspensions.rows() == [(100_000, 200_000)]


def test_the_replay_hides_later_messages_later_decisions_and_the_verdict_on_earlier_ones(tape):
    own = prepared(tape, {"tick_seq": 0}, {"tick_seq": 4})

    early, late = own.view(1), own.view()

    assert early.lines["ts_ms"].max() == 0
    assert early.close is None
    assert early.decided.select("seq", "outcome", "clv_bps", "reason").rows() == [(1, MarkOutcome.OPEN, None, None)]
    assert late.close.prob_bps == {"draw": 2500, "part1": 5000, "part2": 2500}
    assert late.decided.select("seq", "outcome", "clv_bps").rows() == [
        (1, MarkOutcome.BEAT, 1000),
        (2, MarkOutcome.UNMOVED, 0),
    ]


def test_a_replay_past_the_close_knows_it():
    tape = make_tape(
        [
            message(0, 0, three(3000, 4000, 3000)),
            message(1, 200, three(3000, 4500, 2500)),
            message(2, 300, three(1000, 8000, 1000)),
        ],
        {1: 150},
    )

    own = prepared(tape, {"tick_seq": 0})

    assert [own.view(position).close is None for position in (1, 2)] == [True, False]
    assert own.view(2).close.prob_bps["part1"] == 4000


def test_before_the_first_message_nothing_is_shown(tape):
    view = prepared(tape, {"tick_seq": 0}).view(0)

    assert (view.lines.height, view.marks.height, view.suspensions.height, view.close) == (0, 0, 0, None)
    assert view.marks.schema == MARKS


@pytest.mark.parametrize(("position", "shown"), [(-3, 0), (2, 2), (99, 4), (None, 4)])
def test_the_position_stays_within_the_messages(tape, position, shown):
    view = prepared(tape).view(position)

    assert (view.position, view.messages) == (shown, 4)


def test_outcomes_follow_the_sign_of_the_clv_and_the_law(tape):
    decided = [{"side": side} for side in SIDES] + [{"tick_seq": 1}]

    view = prepared(tape, *decided, window=Window(min_clv_horizon_s=0)).view()

    outcomes = dict(view.decided.select("seq", "outcome").iter_rows())
    assert outcomes == {1: MarkOutcome.BEHIND, 2: MarkOutcome.BEAT, 3: MarkOutcome.BEHIND, 4: MarkOutcome.INVALID}


def test_a_market_of_decisions_only_has_marks_and_no_line(tape):
    view = prepared(tape, {"market_key": "NONE|", "side": "yes"}, market_key="NONE|").view()

    assert (view.sides, view.lines.height, view.messages) == ((), 0, 0)
    assert view.decided.select("outcome", "prob_bps").rows() == [(MarkOutcome.INVALID, 0)]


def test_a_market_suspended_throughout_has_gaps_and_no_closing_price():
    tape = make_tape([message(seq, 100 * seq, three(None, None, None)) for seq in range(3)], {1: 1000})

    view = prepared(tape, {}).view()

    assert view.lines["prob_bps"].null_count() == view.lines.height
    assert view.suspensions.rows() == [(0, 200_000)]
    assert set(view.close.prob_bps.values()) == {None}


def test_waits_are_no_marks(tape):
    view = prepared(tape, {"action": "WAIT", "market_key": None, "side": None, "stake": None}).view()

    assert view.decided.is_empty()


class TestThinning:
    def test_few_rows_stay_as_they_are(self):
        rows = pl.DataFrame({"side": ["a"] * 3, "ts_ms": [0, 1, 2], "prob_bps": [1, 2, 3]})

        assert thin(rows, (0, 2), 10).equals(rows)

    def test_many_rows_keep_their_extremes_and_ends(self):
        n, width = 20_000, 100
        values = np.random.default_rng(5).integers(1000, 2000, n)
        values[7777], values[12_345] = 9999, 1
        rows = pl.DataFrame({"side": ["a"] * n, "ts_ms": np.arange(n), "prob_bps": values})

        kept = thin(rows, (0, n - 1), width)

        assert kept.height <= 4 * (width + 1)
        assert {9999, 1} <= set(kept["prob_bps"])
        assert kept[[0, -1]].equals(rows[[0, -1]])
        assert kept["ts_ms"].is_sorted()

    def test_every_pixel_keeps_its_lowest_and_highest(self):
        n, width = 5000, 50
        rows = pl.DataFrame({"side": ["a"] * n, "ts_ms": np.arange(n), "prob_bps": np.random.default_rng(1).permutation(n)})
        extremes = (pl.col("prob_bps").min().alias("low"), pl.col("prob_bps").max().alias("high"))
        pixel = (pl.col("ts_ms") * width // (n - 1)).alias("pixel")

        kept = thin(rows, (0, n - 1), width)

        assert kept.group_by(pixel).agg(extremes).sort("pixel").equals(rows.group_by(pixel).agg(extremes).sort("pixel"))

    def test_suspensions_that_no_pixel_parts_are_one(self):
        past = pl.DataFrame({"ts_ms": [0, 10, 11, 500, 900], "suspended": [True, False, True, False, True]})

        shaded = suspensions(past, 1000, (0, 1000), 100)

        assert shaded.rows() == [(0, 500), (900, 1000)]

    def test_a_zoom_shows_what_the_whole_picture_has_no_room_for(self):
        n = 40_000
        tape = make_tape(
            [message(seq, seq, {"a": 4000 + seq % 1000, "b": 6000 - seq % 1000}, market_key="M") for seq in range(n)]
        )
        own = market(
            tape,
            Window(),
            "M",
            make_run(tape, {"market_key": "M", "side": "a"}).scores.with_columns(
                ts_ms=pl.lit(0, pl.Int64), action=pl.lit("BACK")
            ),
        )

        whole, zoomed = own.view(), own.view(span_ms=(10_000_000, 10_400_000))

        assert whole.lines.height < 2 * n / 4
        inside = zoomed.lines.filter(pl.col("ts_ms").is_between(10_000_000, 10_400_000))
        assert inside.height == 2 * 401

    def test_marks_that_cover_each_other_are_counted_on_one(self):
        tape = make_tape([message(seq, seq, {"a": 5000, "b": 5000}, market_key="M") for seq in range(2000)])
        own = prepared(
            tape,
            *({"tick_seq": seq, "market_key": "M", "side": "a"} for seq in range(2000)),
            market_key="M",
            window=Window(min_clv_horizon_s=0),
        )

        view = own.view()

        assert view.marks.height < 200
        assert view.marks["n"].sum() == view.decided.height == 2000
        assert make_decisions({}).height == 1
