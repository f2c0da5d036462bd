import polars as pl
import pytest

from clvlab.agents.proposals import Bet, bets_sha256
from clvlab.agents.registry import template
from clvlab.engine.run import run
from clvlab.errors import AgentError
from clvlab.law.closing import Window
from clvlab.law.schema import DECISIONS
from clvlab.law.tape import Binding, Tape
from tests.factories import MARKET, make_tape, message

TICKS = [
    message(0, 0, {"a": 5000, "b": 5000}),
    message(1, 60, {"over": 4000, "under": 6000}, market_key="TOTALS||"),
    message(2, 4000, {"a": 5200, "b": 4800}),
]


def tape(*, whole=True):
    made = make_tape(TICKS)
    binding = Binding("pack", made.binding.fixture_ids, "sha256:0" if whole else None)
    return Tape(binding, made.rows, made.series, made.fixtures)


def bet(**more):
    return {"fixture_id": 1, "tick_seq": 0, "market_key": MARKET, "side": "a", "stake": 250} | more


def decide(*bets, whole=True, **params):
    return template("bets", {"transcript": list(bets), **params}).decide(tape(whole=whole))


def test_bets_are_backed_as_they_were_placed():
    decided = decide(bet(), bet(side="b", stake=None), bet(tick_seq=1, market_key="TOTALS||", side="over"), stake=7)

    assert decided.schema == pl.Schema(DECISIONS)
    assert decided.select("tick_seq", "action", "market_key", "side", "stake").rows() == [
        (0, "BACK", MARKET, "a", 250), (0, "BACK", MARKET, "b", 7), (1, "BACK", "TOTALS||", "over", 250),
    ]  # fmt: skip
    assert decided["reason"].null_count() == decided["confidence"].null_count() == 3


def test_nothing_is_said_of_what_was_not_bet_on():
    assert decide().is_empty()
    assert decide(bet(), markets=["TOTALS"]).is_empty()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (bet(fixture_id=2), "fixture 2 is not on the tape"),
        (bet(tick_seq=3), "has no tick 3"),
        (bet(market_key="m"), "no market 'm'"),
        (bet(side="c"), "no side 'c'"),
        (bet(market_key="TOTALS||", side="over"), "not quoted until after tick 0"),
    ],
)
def test_a_bet_on_what_the_tape_lacks_is_refused_and_never_lost(wrong, said):
    with pytest.raises(AgentError, match=f"^bets: transcript entry 1: .*{said}"):
        decide(bet(side="b"), wrong)


def test_on_a_tape_that_may_still_grow_later_bets_wait():
    assert decide(bet(), bet(tick_seq=9), whole=False)["tick_seq"].to_list() == [0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([bet(), bet(stake=1)], "bet 1 repeats .* add up their stakes"),
        ([bet(stake=0)], "greater than or equal to 1"),
        ([bet(side="")], "at least 1 character"),
        ([bet(side=None)], "must be a text"),
        ([bet(price=2.0)], "transcript.0.price"),
        ([bet(market_key="m" * 201)], "has 201 bytes"),
    ],
)
def test_a_transcript_that_can_t_be_sealed_is_refused(wrong, said):
    with pytest.raises(AgentError, match=said):
        template("bets", {"transcript": wrong})


def test_a_transcript_that_was_altered_is_refused():
    digest = bets_sha256([Bet(**bet())])

    assert template("bets", {"transcript": [bet()], "transcript_sha256": digest}).config.transcript[0].side == "a"
    with pytest.raises(AgentError, match="the transcript's digest is sha256:"):
        template("bets", {"transcript": [bet(stake=251)], "transcript_sha256": digest})


def test_the_transcript_stands_in_the_first_line_of_the_evidence():
    sealed = run(tape(), [template("bets", {"transcript": [bet()]})], Window()).sealed

    first = sealed.events.partition(b"\n")[0]
    assert b'"strategy":"bets"' in first
    assert b'"stake":250,"tick_seq":0' in first
    assert b'"causality":"transcript"' in first
