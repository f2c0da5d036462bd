import polars as pl
import pytest

from clvlab.agents.proposals import MAX_ENTRIES, MAX_TEXT_BYTES, Entry, entries_sha256
from clvlab.agents.registry import template
from clvlab.arena.packs import open_pack
from clvlab.engine.run import run
from clvlab.errors import AgentError
from clvlab.law.closing import Window
from clvlab.law.schema import SAFE_INTEGER
from clvlab.law.tape import Binding, Tape
from clvlab.proof.verify import verify
from tests.factories import MARKET, make_agent, make_decisions, make_tape, message, performed

QUOTES = {"draw": 3000, "part1": 4000, "part2": 3000}
MESSAGES = [
    message(0, 0, QUOTES),
    message(1, 60, {"over": 5000, "under": 5000}, market_key="OU"),
    message(2, 120, QUOTES | {"part1": 4100, "draw": 2900}),
    message(5, 180, QUOTES),
    message(3, 0, QUOTES, fixture_id=2),
]
BACK = {"fixture_id": 1, "tick_seq": 2, "action": "BACK", "market_key": MARKET, "side": "part1"}
WAIT = {"fixture_id": 1, "tick_seq": 2, "action": "WAIT"}


def bound(tape):
    """The same tape as a pack's, which is whole."""
    binding = Binding("pack", tape.binding.fixture_ids, "sha256:" + "0" * 64)
    return Tape(binding, tape.rows, tape.series, tape.fixtures, tape.closing_policy)


@pytest.fixture
def tape():
    return bound(make_tape(MESSAGES))


def decided(tape, *entries, **params):
    return template("llm", {"transcript": entries} | params).decide(tape)


def test_without_a_transcript_it_abstains_once_a_fixture_at_the_first_tick(tape):
    waits = decided(tape)

    assert waits.select("fixture_id", "tick_seq", "action", "market_key", "stake").rows() == [
        (1, 0, "WAIT", None, None),
        (2, 3, "WAIT", None, None),
    ]


def test_it_repeats_what_was_recorded_and_abstains_where_nothing_was(tape):
    said = {"stake": 7, "limit_odds_milli": 1900, "reason": "é", "confidence": 0.55, "claimed_edge_bps": -12}

    frame = decided(tape, BACK | said, WAIT | {"tick_seq": 5, "reason": "unsure"})

    assert frame.drop("agent_id").rows() == [
        (1, 5, "WAIT", None, None, None, None, "unsure", None, None),
        (1, 2, "BACK", MARKET, "part1", 7, 1900, "é", 0.55, -12),
        (2, 3, "WAIT", None, None, None, None, "no recorded proposal for this fixture", None, None),
    ]


def test_the_stake_of_an_entry_without_one_is_the_templates(tape):
    assert decided(tape, BACK, stake=9)["stake"].to_list() == [9, None]


def test_proposals_outside_the_markets_are_left_out(tape):
    assert decided(tape, BACK, BACK | {"market_key": "OU", "side": "over"}, markets=["OU"])["market_key"].to_list() == [
        "OU",
        None,
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fixture_id": 9}, "entry 1: fixture 9 is not on the tape"),
        ({"tick_seq": 3}, "entry 1: fixture 1 has no tick 3"),
        ({"tick_seq": 6}, "entry 1: fixture 1 has no tick 6"),
        ({"market_key": "1X2"}, "entry 1: fixture 1 has no market '1X2'"),
        ({"market_key": "OU"}, "entry 1: market 'OU' of fixture 1 has no side 'part1'"),
        ({"side": "Draw"}, f"entry 1: market '{MARKET}' of fixture 1 has no side 'Draw'".replace("|", r"\|")),
        (
            {"tick_seq": 0, "market_key": "OU", "side": "over"},
            "entry 1: market 'OU' of fixture 1 is not quoted until after tick 0",
        ),
    ],
)
def test_a_transcript_about_something_that_is_not_on_the_tape_is_refused(tape, wrong, message):
    with pytest.raises(AgentError, match=message):
        decided(tape, WAIT, BACK | wrong)


def test_a_wait_at_a_tick_that_is_not_on_the_tape_is_refused(tape):
    with pytest.raises(AgentError, match="fixture 2 has no tick 2"):
        decided(tape, WAIT | {"fixture_id": 2})


def test_on_a_tape_that_may_grow_later_entries_wait_and_gaps_are_refused():
    growing = make_tape(MESSAGES[:2])

    assert decided(growing, BACK, BACK | {"tick_seq": 1}).filter(pl.col("action") == "BACK")["tick_seq"].to_list() == [1]
    with pytest.raises(AgentError, match="has no tick 3"):
        decided(make_tape(MESSAGES), BACK | {"tick_seq": 3})


def test_a_transcript_has_one_digest_however_its_numbers_are_written():
    texts = [Entry(**BACK, confidence=confidence) for confidence in (0.5, "0.5", "0.50")]

    assert len({entries_sha256([entry]) for entry in texts}) == 1
    assert entries_sha256(texts[:1]) != entries_sha256([Entry(**BACK, confidence=0.6)])


def test_a_transcript_must_have_the_digest_that_is_asked_for():
    digest = entries_sha256([Entry(**BACK)])

    assert template("llm", {"transcript": [BACK], "transcript_sha256": digest}).config.transcript_sha256 == digest
    with pytest.raises(AgentError, match=f"parameter transcript_sha256 .* the transcript's digest is {digest}"):
        template("llm", {"transcript": [BACK], "transcript_sha256": "sha256:" + "0" * 64})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"claimed_edge_bps": 10**18}, r"transcript\.0\.claimed_edge_bps = 1000000000000000000: .* 9007199254740991"),
        ({"claimed_edge_bps": -(10**18)}, r"transcript\.0\.claimed_edge_bps"),
        ({"claimed_edge_bps": 1.0}, r"transcript\.0\.claimed_edge_bps"),
        ({"reason": "é" * 1000 + "x"}, r"transcript\.0\.reason .* has 2001 bytes, the limit is 2000"),
        ({"reason": "\ud800"}, r"transcript\.0\.reason"),
        ({"market_key": "m" * 201}, r"transcript\.0\.market_key .* has 201 bytes, the limit is 200"),
        ({"side": "m" * 201}, r"transcript\.0\.side .* has 201 bytes, the limit is 200"),
        ({"side": None}, "a BACK needs a market_key and a side"),
        ({"action": "WAIT"}, "a WAIT has no market_key"),
        ({"action": "LAY"}, r"transcript\.0\.action"),
        ({"stake": 0}, r"transcript\.0\.stake"),
        ({"stake": SAFE_INTEGER + 1}, r"transcript\.0\.stake"),
        ({"limit_odds_milli": -1}, r"transcript\.0\.limit_odds_milli"),
        ({"limit_odds_milli": 2**31}, r"transcript\.0\.limit_odds_milli"),
        ({"tick_seq": -1}, r"transcript\.0\.tick_seq"),
        ({"tick_seq": 2**31}, r"transcript\.0\.tick_seq"),
        ({"fixture_id": SAFE_INTEGER + 1}, r"transcript\.0\.fixture_id"),
        ({"fixture_id": -SAFE_INTEGER - 1}, r"transcript\.0\.fixture_id"),
        ({"fixture_id": "1"}, r"transcript\.0\.fixture_id"),
        ({"confidence": "high"}, r"transcript\.0\.confidence = 'high'"),
        ({"confidence": "1e5"}, r"transcript\.0\.confidence = '1e5'"),
        ({"confidence": True}, r"transcript\.0\.confidence"),
        ({"confidence": 10**400}, r"transcript\.0\.confidence .* must fit in 64 bits"),
        ({"agent_id": "x"}, r"transcript\.0\.agent_id"),
    ],
)
def test_an_entry_that_cannot_be_sealed_is_refused_by_name(wrong, message):
    with pytest.raises(AgentError, match=message):
        template("llm", {"transcript": [BACK | wrong]})


@pytest.mark.parametrize(
    "right",
    [
        {"claimed_edge_bps": SAFE_INTEGER},
        {"claimed_edge_bps": -SAFE_INTEGER},
        {"reason": "é" * 1000},
        {"market_key": "m" * 200, "side": "s" * 200},
        {"stake": 1},
        {"stake": SAFE_INTEGER},
        {"limit_odds_milli": 0},
        {"limit_odds_milli": 2**31 - 1},
        {"tick_seq": 0},
        {"tick_seq": 2**31 - 1},
        {"fixture_id": SAFE_INTEGER},
        {"fixture_id": -SAFE_INTEGER},
    ],
)
def test_an_entry_at_a_bound_is_taken(right):
    assert template("llm", {"transcript": [BACK | right]}).config.transcript[0].model_dump().items() >= right.items()


def test_a_transcript_is_bounded_in_entries_and_text():
    waits = [WAIT | {"tick_seq": seq} for seq in range(MAX_ENTRIES + 1)]
    talk = [wait | {"reason": "x" * 2000} for wait in waits[: MAX_TEXT_BYTES // 2000]]

    assert len(template("llm", {"transcript": waits[:-1]}).config.transcript) == MAX_ENTRIES
    assert template("llm", {"transcript": talk}).config.transcript
    with pytest.raises(AgentError, match="at most 10000 items"):
        template("llm", {"transcript": waits})
    with pytest.raises(AgentError, match="have 4000001 bytes in all, the limit is 4000000"):
        template("llm", {"transcript": [*talk, waits[-1] | {"reason": "x"}]})


@pytest.mark.parametrize("twice", [BACK, WAIT])
def test_two_entries_about_the_same_are_refused(twice):
    with pytest.raises(AgentError, match="entry 1 repeats"):
        template("llm", {"transcript": [twice, twice]})


@pytest.mark.parametrize(
    ("confidence", "sealed", "ppm", "raw"),
    [
        (0.1, "0.1", 100_000, None),
        (1, "1", 1_000_000, None),
        (-0.0, "-0", 0, None),
        (7.5, "7.5", None, "7.5"),
        (-1e-7, "-0.0000001", None, "-0.0000001"),
        (float("nan"), "nan", None, "nan"),
        (float("-inf"), "-inf", None, "-inf"),
        (5e-324, "0." + "0" * 323 + "5", 0, None),
    ],
)
def test_any_number_survives_the_seal_as_an_untrusted_confidence(tape, confidence, sealed, ppm, raw):
    result = run(tape, [template("llm", {"transcript": [BACK | {"confidence": confidence}]})], Window())

    verified = verify(result.sealed)
    back = result.evidence.decisions.filter(pl.col("action") == "BACK").row(0, named=True)
    assert verified.passed
    assert verified.started["agents"][0]["config"]["transcript"][0]["confidence"] == sealed
    assert (back["confidence_ppm"], back["confidence_raw"]) == (ppm, raw)


def test_the_sealed_configuration_runs_again_to_the_same_bytes(tape):
    first = run(tape, [template("llm", {"transcript": [BACK | {"confidence": 0.3, "reason": '"é"\n'}]})], Window()).sealed

    config = verify(first).started["agents"][0]["config"]

    assert run(tape, [template("llm", config)], Window()).sealed == first


def test_a_bad_transcript_stops_its_agent_and_not_the_run(tape):
    others = make_agent(make_decisions({}), agent_id="other")

    result = run(tape, [template("llm", {"transcript": [BACK | {"tick_seq": 4}]}), others], Window())

    assert result.scores["agent_id"].to_list() == ["other"]
    assert b'"error":"AgentError"' in result.sealed.events


def test_a_backtest_of_an_abstaining_agent_seals_one_wait_a_fixture():
    test = performed(open_pack("starter"), "llm")

    assert test.report["reasons"] == {"wait_unscored": 12}
    assert test.report["metrics"]["action_count"] == 0
    assert test.verification.passed
