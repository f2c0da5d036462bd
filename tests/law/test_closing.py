from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from clvlab.errors import EvidenceError, SchemaError, WindowError
from clvlab.law.closing import Window, fixture_closes, market_closes, read_window, sealed_window
from clvlab.law.schema import ClosingPolicy
from tests.factories import make_tape, message

QUOTES = {"part1": 6000, "part2": 4000}
SUSPENDED = {"part1": None, "part2": None}
FIXED = {"end_rule": "fixed_duration"}


def closes_of(tape, window=Window()):  # noqa: B008
    return {row[0]: row[1:] for row in fixture_closes(tape, window).iter_rows()}


def closing_seq(tape, window=Window()):  # noqa: B008
    markets = tape.series.select("fixture_id", "market_key").unique()
    row = market_closes(tape, markets, fixture_closes(tape, window))["close_row"][0]
    return None if row is None else tape.rows["tick_seq"][row]


def test_first_in_running_tick_closes_and_later_flips_are_ignored():
    tape = make_tape(
        message(seq, 10 * seq, QUOTES, in_running=playing) for seq, playing in enumerate([False, False, True, False, True])
    )

    assert closes_of(tape) == {1: (2, 20_000, "in_running")}


def test_a_tick_that_does_not_say_whether_it_is_in_running_is_not():
    tape = make_tape(message(seq, 10 * seq, QUOTES, in_running=flag) for seq, flag in enumerate([None, False, True, None]))

    assert closes_of(tape) == {1: (2, 20_000, "in_running")}


def test_in_running_tick_outranks_the_kickoff():
    tape = make_tape([message(0, 0, QUOTES), message(1, 10, QUOTES), message(2, 20, QUOTES, in_running=True)], {1: 5})

    assert closes_of(tape) == {1: (2, 20_000, "in_running")}


@pytest.mark.parametrize(
    ("kickoff_s", "end_seq"),
    [(10, 1), (10.001, 2), (9.999, 1), (0, 0), (1000, 3)],
    ids=["at a tick", "just after a tick", "just before a tick", "before all ticks", "after all ticks"],
)
def test_kickoff_closes_at_the_first_tick_not_before_it(kickoff_s, end_seq):
    tape = make_tape([message(0, 0, QUOTES), message(1, 10, QUOTES), message(2, 20, QUOTES)], {1: kickoff_s})

    assert closes_of(tape) == {1: (end_seq, round(kickoff_s * 1000), "kickoff")}


@pytest.mark.parametrize("other", [[], [message(4, 70, QUOTES, market_key="OU||")]], ids=["one market", "two markets"])
@pytest.mark.parametrize(("kickoff_s", "end_seq"), [(15, 1), (40, 1), (50, 1), (55, 3), (60, 3)])
def test_the_first_tick_at_or_after_the_kickoff_ends_the_window_even_if_time_falls_later(kickoff_s, end_seq, other):
    tape = make_tape([*(message(seq, ts_s, QUOTES) for seq, ts_s in enumerate([10, 50, 20, 60])), *other], {1: kickoff_s})

    assert closes_of(tape) == {1: (end_seq, kickoff_s * 1000, "kickoff")}


def test_the_first_tick_after_the_duration_ends_the_window_even_if_time_falls_later():
    tape = make_tape(message(seq, ts_s, QUOTES) for seq, ts_s in enumerate([10, 50, 20, 60]))

    assert closes_of(tape, Window(**FIXED, duration_s=30)) == {1: (1, 40_000, "duration")}


def test_kickoff_before_1970_is_refused():
    with pytest.raises(SchemaError, match="before 1970: -1000 ms"):
        make_tape([message(0, 0, QUOTES)], {1: -1})


def test_without_play_or_kickoff_the_tape_ends_the_window():
    tape = make_tape([message(0, 0, QUOTES), message(7, 20, QUOTES)])

    assert closes_of(tape) == {1: (8, 20_000, "tape_end")}


@pytest.mark.parametrize(("duration_s", "end_seq", "close_s"), [(9, 1, 9), (10, 2, 10), (15, 2, 15), (20, 3, 20), (500, 3, 20)])
def test_fixed_duration_keeps_ticks_up_to_its_end_inclusive(duration_s, end_seq, close_s):
    tape = make_tape([message(0, 0, QUOTES), message(1, 10, QUOTES), message(2, 20, QUOTES)])

    assert closes_of(tape, Window(duration_s=duration_s, **FIXED)) == {1: (end_seq, close_s * 1000, "duration")}


def test_manual_stop_runs_to_the_last_tick_through_play():
    tape = make_tape([message(0, 0, QUOTES), message(1, 10, QUOTES, in_running=True)], {1: 5})

    assert closes_of(tape, Window(end_rule="manual_stop")) == {1: (2, 10_000, "stop")}


def test_every_fixture_closes_on_its_own_and_one_without_ticks_not_at_all():
    tape = make_tape([message(0, 0, QUOTES, fixture_id=2), message(0, 3, QUOTES, fixture_id=1, in_running=True)], {2: 1, 3: 1})

    assert closes_of(tape) == {1: (0, 3000, "in_running"), 2: (1, 1000, "kickoff")}


def test_ticks_of_equal_time_are_told_apart_by_sequence():
    tape = make_tape([message(0, 5, QUOTES), message(1, 5, QUOTES, in_running=True), message(2, 5, QUOTES)])

    assert closing_seq(tape) == 0


@pytest.mark.parametrize(
    ("policy", "open_s", "expected"),
    [
        (ClosingPolicy.LAST_STATE, 100, 1),
        (ClosingPolicy.LAST_OPEN, 100, 0),
        (ClosingPolicy.LAST_OPEN, 99.999, 1),
    ],
    ids=["suspended counts", "exactly 300 s old", "a millisecond too old"],
)
def test_last_open_looks_behind_a_suspension_for_300_seconds(policy, open_s, expected):
    tape = make_tape(
        [message(0, open_s, QUOTES), message(1, 390, SUSPENDED), message(2, 395, QUOTES, market_key="other|")],
        {1: 400},
        closing_policy=policy,
    )

    assert closing_seq(tape) == expected


def test_last_open_does_not_borrow_from_another_market():
    tape = make_tape(
        [message(0, 0, QUOTES, market_key="a|"), message(1, 1, SUSPENDED, market_key="b|")],
        closing_policy=ClosingPolicy.LAST_OPEN,
    )
    markets = tape.series.filter(market_key="b|").select("fixture_id", "market_key").unique()

    closes = market_closes(tape, markets, fixture_closes(tape, Window()))

    assert tape.rows["suspended"][closes["close_row"][0]]


def test_market_without_a_message_in_the_window_has_no_close():
    tape = make_tape([message(0, 0, QUOTES, in_running=True)])

    assert closing_seq(tape) is None


def test_market_that_is_not_on_the_tape_has_no_close():
    tape = make_tape([message(0, 0, QUOTES)])
    asked = tape.series.select("fixture_id").unique().with_columns(market_key=pl.lit("nowhere|"))

    closes = market_closes(tape, asked, fixture_closes(tape, Window()))

    assert closes["close_row"].to_list() == [None]


def test_the_key_of_a_tape_that_was_read_in_pieces_is_searched_without_a_copy():
    whole = make_tape([message(0, 0, QUOTES), message(1, 10, QUOTES)])
    tape = replace(whole, rows=pl.concat([whole.rows[:1], whole.rows[1:]], rechunk=False))

    assert np.shares_memory(tape.key.to_numpy(), tape.key.to_numpy())


def test_empty_tape_closes_nothing():
    assert closes_of(make_tape([])) == {}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"window_id": ""}, "window_id"),
        ({"window_id": "x" * 201}, "window_id"),
        ({"window_id": "é" * 101}, "window_id"),
        ({"end_rule": "at_noon"}, "at_noon"),
        ({"end_rule": "fixed_duration"}, "needs a duration_s"),
        ({"end_rule": "fixed_duration", "duration_s": 0}, "positive"),
        ({"end_rule": "fixed_duration", "duration_s": -1}, "positive"),
        ({"end_rule": "fixed_duration", "duration_s": 2**53}, "at most"),
        ({"end_rule": "pre_match", "duration_s": 60}, "fixed_duration only"),
        ({"end_rule": "manual_stop", "duration_s": 60}, "fixed_duration only"),
        ({"min_clv_horizon_s": -1}, "negative"),
        ({"min_clv_horizon_s": "60"}, "whole number of seconds, not '60'"),
        ({"end_rule": "fixed_duration", "duration_s": 1.5}, "whole number of seconds, not 1.5"),
        ({"market_allowlist": {"OU"}}, "tuple of prefixes"),
        ({"market_allowlist": "OU"}, "tuple of prefixes"),
        ({"market_allowlist": ("OU", 1)}, "tuple of prefixes"),
    ],
)
def test_window_out_of_range_is_refused_by_name(fields, text):
    with pytest.raises(WindowError, match=text):
        Window(**fields)


@pytest.mark.parametrize("max_close_age_s", [None, 300])
@pytest.mark.parametrize(
    "window", [Window(), Window("hour", duration_s=3600, market_allowlist=("1X2", "é"), **FIXED), Window(close_source="sharp")]
)
def test_a_sealed_window_is_read_back_as_it_was(window, max_close_age_s):
    sealed = sealed_window(window, ClosingPolicy.LAST_OPEN, max_close_age_s)

    assert read_window(sealed) == (window, ClosingPolicy.LAST_OPEN, max_close_age_s)


@pytest.mark.parametrize(
    ("stated", "error"),
    [
        ({"min_clv_horizon_s": True}, WindowError),
        ({"min_clv_horizon_s": 60.0}, WindowError),
        ({"max_close_age_s": True}, WindowError),
        ({"max_close_age_s": 0}, WindowError),
        ({"max_close_age_s": None}, EvidenceError),
        ({"close_source": None}, EvidenceError),
        ({"closing_policy": "first_state"}, ValueError),
        ({"market_allowlist": "1X2"}, EvidenceError),
        ({"market_allowlist": {"1X2": 1}}, EvidenceError),
        ({"extra": 1}, EvidenceError),
    ],
    ids=str,
)
def test_what_no_window_is_sealed_as_is_refused(stated, error):
    sealed = sealed_window(Window(), ClosingPolicy.LAST_STATE, None)

    with pytest.raises(error):
        read_window({**sealed, **stated})


@pytest.mark.parametrize("name", [*sealed_window(Window(), ClosingPolicy.LAST_STATE, None)])
def test_a_sealed_window_lacks_nothing(name):
    sealed = dict(sealed_window(Window(), ClosingPolicy.LAST_STATE, None))
    del sealed[name]

    with pytest.raises(KeyError, match=name):
        read_window(sealed)
