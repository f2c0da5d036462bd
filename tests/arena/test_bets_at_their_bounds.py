"""Bets a moment before a tick, and of more than a run can stake."""

import pytest

import clvlab as cl
from clvlab.errors import SourceError
from tests.booked import write_booked

HEADER = "time,home,away,market,side,price,stake"


@pytest.fixture
def pack(tmp_path):
    write_booked(tmp_path / "booked", seed=3)  # a tick every six minutes
    return cl.open_pack(tmp_path / "booked")


def bets(tmp_path, *rows):
    path = tmp_path / "bets.csv"
    path.write_text("\n".join([HEADER, *(f"{time},Home 1,Away 1,1X2||,part1,2.5,{stake}" for time, stake in rows)]) + "\n")
    return path


def test_a_bet_less_than_a_millisecond_before_a_tick_goes_to_the_one_before(pack, tmp_path):
    times = ("1970-01-01T00:05:59.9996Z", "1970-01-01T00:05:59.9999999Z", "1970-01-01T00:06:00Z")

    found = cl.grade_bets(bets(tmp_path, *((time, 10) for time in times)), pack)

    assert found.bets["tick_seq"].to_list() == [0, 0, 1]


def test_stakes_that_sum_to_more_than_evidence_can_hold_are_refused_by_row(pack, tmp_path):
    huge = ("1970-01-01T00:06:00Z", "90071992547409.91")
    assert cl.grade_bets(bets(tmp_path, huge), pack).bets["stake_cents"].to_list() == [2**53 - 1]

    with pytest.raises(
        SourceError, match=r"row 2: stakes on 'part1' at tick 1 of fixture 1 sum to 18,014,398,509,481,982 cents"
    ):
        cl.grade_bets(bets(tmp_path, huge, huge), pack)
