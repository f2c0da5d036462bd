import pytest

from clvlab.agents.template import Kelly
from tests.factories import make_decisions, make_tape, message


@pytest.fixture
def tape():
    return make_tape(
        [
            message(0, 0, {"draw": (3000, 3300), "part1": (4000, 2600), "part2": 3000}),
            message(1, 60, {"draw": (2500, 1001), "part1": (5000, 2500), "part2": (2500, None)}),
        ]
    )


def sized(tape, kelly, **decision):
    return kelly.sized(tape, make_decisions(decision))["stake"].item()


@pytest.mark.parametrize(
    ("decision", "stake"),
    [
        ({}, 250),  # (0.4 x 2.6 - 1) / 1.6 = 0.025
        ({"tick_seq": 1}, 1666),  # (0.5 x 2.5 - 1) / 1.5 = 0.16666
        ({"side": "draw"}, 0),  # 0.3 x 3.3 < 1
        ({"side": "draw", "tick_seq": 1}, 0),
        ({"side": "part2"}, 0),  # no quote
        ({"side": "nobody"}, 0),
        ({"market_key": None, "side": None}, 0),
        ({"action": "WAIT", "market_key": None, "side": None, "stake": None}, None),
    ],
)
def test_stakes_are_the_kelly_fraction_rounded_down(tape, decision, stake):
    assert sized(tape, Kelly(10_000, 10_000), **decision) == stake


def test_a_quarter_of_kelly_is_a_quarter_of_the_stake(tape):
    assert sized(tape, Kelly(2_500, 1_000_000)) == 6250


def test_the_largest_bankroll_does_not_overflow(tape):
    assert sized(tape, Kelly(10_000, 2**53 - 1), tick_seq=1) == (2**53 - 1) // 6


def test_decisions_keep_their_order(tape):
    decisions = make_decisions({"tick_seq": 1}, {}, {"side": "draw"})

    again = Kelly(10_000, 10_000).sized(tape, decisions)

    assert again["stake"].to_list() == [1666, 250, 0]
    assert again.drop("stake").equals(decisions.drop("stake"))
