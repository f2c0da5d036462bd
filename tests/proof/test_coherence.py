"""Evidence whose lines contradict each other: every hash is right, and neither verifier reads it."""

import json

import pytest
from hypothesis import given, settings

from clvlab.engine.run import run
from clvlab.errors import EvidenceError
from clvlab.law.closing import Window
from clvlab.law.positions import positions
from clvlab.law.schema import ClosingPolicy
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical
from clvlab.proof.evidence import read_evidence
from tests.engine.test_replay_properties import settings_of_a_run, tape_of
from tests.factories import MARKET, FailingAgent, make_agent, make_decisions, make_tape, message
from tests.length import length

OTHER = "OU|line=2.5"
TAPE = [
    message(0, 0, {"part1": (4000, 2500), "part2": (6000, 1600)}),
    message(1, 60, {"over": 5000, "under": 5000}, market_key=OTHER),
    message(2, 120, {"part1": 4500, "part2": 5500}),
    message(3, 180, {"part1": None, "part2": None}),
    message(4, 240, {"part1": 4700, "part2": 5300}),
    message(5, 700, {"part1": 9000, "part2": 1000}, in_running=True),
]
DECIDED = make_decisions(
    {},
    {"tick_seq": 0, "side": "part2"},
    {"tick_seq": 1, "side": "over", "market_key": OTHER},
    {"tick_seq": 1},
    {"tick_seq": 2, "action": "WAIT", "market_key": None, "side": None},
    {"tick_seq": 3},
    {"tick_seq": 4},
    {"tick_seq": 4, "market_key": "absent|"},
)
SEQS = {name: seq for seq, name in enumerate(["part1", "part2", "old", "over", "wait", "suspended", "open", "absent"], 1)}


def lines_of(policy=ClosingPolicy.LAST_STATE, window=None, tape=TAPE, decided=DECIDED, kickoff_s=None):
    tape = make_tape(tape, {1: kickoff_s}, policy)
    sealed = run(tape, [make_agent(decided), FailingAgent()], window or Window()).sealed
    return [json.loads(line) for line in sealed.events.splitlines()]


def read(lines):
    """Number and count lines again, and read them by package and file, which must agree; gives what is wrong, or null."""
    kinds = [line["kind"] for line in lines]
    lines[-1]["payload"] = {
        "agent_errors": kinds.count("AGENT_ERROR"),
        "decisions": kinds.count("DECISION"),
        "market_closes": kinds.count("MARKET_CLOSE"),
    }
    text = b"".join(canonical(line | {"seq": seq}) + b"\n" for seq, line in enumerate(lines))
    alone = clv_verify.fault(clv_verify.read_evidence, text)
    try:
        read_evidence(text)
    except EvidenceError as error:
        assert alone
        return str(error)
    assert alone is None
    return None


def decision(lines, name):
    return lines[SEQS[name]]["payload"]


def state(lines, name):
    return decision(lines, name)["market_state"]


def close(lines, market=MARKET):
    return next(
        line["payload"] for line in lines if line["payload"].get("market_key") == market and "end_seq" in line["payload"]
    )


def moved(payload, delta_ms):
    """Move a decision in time; its state is as old as it then is."""
    payload["ts_ms"] += delta_ms
    if payload["market_state"]:
        payload["market_state"]["age_ms"] += delta_ms


@pytest.mark.parametrize("policy", ClosingPolicy)
@pytest.mark.parametrize(
    ("window", "kickoff_s"),
    [
        (Window(), None),
        (Window(end_rule="fixed_duration", duration_s=240), None),
        (Window(end_rule="manual_stop"), None),
        (Window(), 239),
    ],
    ids=["in running", "duration", "stop", "also a kickoff"],
)
def test_what_a_tape_gives_is_read(policy, window, kickoff_s):
    assert read(lines_of(policy, window, kickoff_s=kickoff_s)) is None
    assert read(lines_of(policy, window, TAPE[:-1], kickoff_s=kickoff_s)) is None


@pytest.mark.long
@given(settings_of_a_run())
@settings(max_examples=length(20, 60))
def test_what_any_tape_gives_is_read_by_both(setting):
    game, window, decided = setting

    sealed = run(tape_of(game), [make_agent(decided), make_agent(decided, "b"), FailingAgent()], window).sealed

    assert read_evidence(sealed.events).count == sealed.events.count(b"\n")
    assert clv_verify.fault(clv_verify.read_evidence, sealed.events) is None


def two_times_at_a_tick(lines):
    moved(decision(lines, "part2"), 1)


def two_times_at_a_tick_with_a_wait(lines):
    decision(lines, "wait").update(tick_seq=1, ts_ms=60_001)


def decision_at_another_time_than_its_message(lines):
    moved(decision(lines, "open"), 1)
    moved(decision(lines, "absent"), 1)


def time_that_falls(lines):
    """The tick after the suspension is earlier than the suspension."""
    for name in ("open", "absent"):
        moved(decision(lines, name), -61_000)
    own = state(lines, "open")
    own["ts_ms"], own["age_ms"] = own["ts_ms"] - 61_000, 0
    close(lines)["closing"]["ts_ms"] -= 61_000
    lines[SEQS["suspended"] : SEQS["absent"] + 1] = [*lines[SEQS["open"] : SEQS["absent"] + 1], lines[SEQS["suspended"]]]


def tick_of_two_markets(lines):
    state(lines, "over").update(tick_seq=0, ts_ms=0, age_ms=60_000)
    close(lines, OTHER)["closing"].update(tick_seq=0, ts_ms=0)


def another_price_in_one_entry(lines):
    state(lines, "part2")["sides"][0]["prob_bps"] = 4001


def other_odds_in_one_entry(lines):
    state(lines, "part2")["sides"][1]["odds_milli"] = 1601


def another_price_in_the_close(lines):
    close(lines)["closing"]["sides"][0]["prob_bps"] = 9000


def suspension_in_the_close(lines):
    close(lines)["closing"].update(suspended=True)
    for side in close(lines)["closing"]["sides"]:
        side["prob_bps"] = None


def close_older_than_an_entry(lines):
    close(lines)["closing"] = {key: value for key, value in state(lines, "part1").items() if key != "age_ms"}


def close_withheld(lines):
    close(lines)["closing"] = None


def entry_older_than_one_before(lines):
    first = state(lines, "part1")
    state(lines, "open").update(first, age_ms=240_000)


def entry_withheld(lines):
    decision(lines, "open")["market_state"] = None


def other_sides(lines):
    for side, name in zip(state(lines, "part1")["sides"], ("home", "part2"), strict=True):
        side["side"] = name


def one_side_more(lines):
    close(lines)["closing"]["sides"].append({"odds_milli": None, "prob_bps": 1, "side": "z"})


def one_side_alone(lines):
    for held in (state(lines, "over"), close(lines, OTHER)["closing"]):
        del held["sides"][0]


def open_without_a_price(lines):
    for held in (state(lines, "over"), close(lines, OTHER)["closing"]):
        for side in held["sides"]:
            side["prob_bps"] = None


def failure_twice(lines):
    at = next(at for at, line in enumerate(lines) if line["kind"] == "AGENT_ERROR")
    lines.insert(at, json.loads(json.dumps(lines[at])))


def failure_of_an_agent_that_decided(lines):
    at = next(at for at, line in enumerate(lines) if line["kind"] == "AGENT_ERROR")
    lines[at]["payload"]["agent_id"] = "a"


def failure_of_all(lines):
    lines[1:] = [line for line in lines[1:] if line["kind"] in ("AGENT_ERROR", "RUN_SEALED")]
    failed = json.loads(json.dumps(lines[1]))
    failed["payload"]["agent_id"] = "a"
    lines.insert(1, failed)


def window_that_ends_at_another_time(lines):
    for market in (MARKET, OTHER, "absent|"):
        close(lines, market)["close_ts_ms"] -= 1
    moved(decision(lines, "open"), 0)
    lines.insert(SEQS["absent"] + 1, json.loads(json.dumps(lines[SEQS["wait"]])))
    lines[SEQS["absent"] + 1]["payload"].update(tick_seq=5, ts_ms=700_000)


def tick_below_zero(lines):
    for held in (state(lines, "over"), close(lines, OTHER)["closing"]):
        held["tick_seq"] = -1


def tick_of_32_bits(lines):
    for market in (MARKET, OTHER, "absent|"):
        close(lines, market)["end_seq"] = 2**31 + 1


def decisions_in_another_order(lines):
    one, two = SEQS["part1"], SEQS["part2"]
    lines[one], lines[two] = lines[two], lines[one]


def decision_twice(lines):
    lines.insert(SEQS["part2"], json.loads(json.dumps(lines[SEQS["part2"]])))


def decision_without_a_time(lines):
    decision(lines, "wait")["ts_ms"] = None


def policy_of_another_form(lines):
    lines[0]["payload"]["policy"]["venue_allowlist"] = {"paper": 1}


def _first_close(lines):
    return next(at for at, line in enumerate(lines) if line["kind"] == "MARKET_CLOSE")


def close_twice(lines):
    lines.insert(_first_close(lines), json.loads(json.dumps(lines[_first_close(lines)])))


def close_twice_apart(lines):
    lines.insert(_first_close(lines) + 2, json.loads(json.dumps(lines[_first_close(lines)])))


def close_of_a_market_that_nobody_backs(lines):
    lines.insert(_first_close(lines), json.loads(json.dumps(lines[_first_close(lines)])))
    lines[_first_close(lines)]["payload"]["market_key"] = "!"


def closes_in_another_order(lines):
    at = _first_close(lines)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]


def close_left_out(lines):
    del lines[_first_close(lines)]


def markets_of_a_fixture_that_close_apart(lines):
    close(lines, "absent|")["end_seq"] -= 1


CONTRADICTIONS = [
    close_twice, close_twice_apart, close_of_a_market_that_nobody_backs, closes_in_another_order, close_left_out,
    markets_of_a_fixture_that_close_apart,
    decisions_in_another_order, decision_twice, decision_without_a_time, policy_of_another_form,
    two_times_at_a_tick, two_times_at_a_tick_with_a_wait, decision_at_another_time_than_its_message, time_that_falls,
    tick_of_two_markets, another_price_in_one_entry, other_odds_in_one_entry, another_price_in_the_close,
    suspension_in_the_close, close_older_than_an_entry, close_withheld, entry_older_than_one_before, entry_withheld,
    other_sides, one_side_more, one_side_alone, open_without_a_price, failure_twice,
    failure_of_an_agent_that_decided, failure_of_all, window_that_ends_at_another_time, tick_below_zero, tick_of_32_bits,
]  # fmt: skip


@pytest.mark.parametrize("change", CONTRADICTIONS, ids=lambda change: change.__name__)
@pytest.mark.parametrize("policy", ClosingPolicy)
def test_lines_that_contradict_each_other_are_read_by_neither(policy, change):
    lines = lines_of(policy)

    change(lines)

    assert read(lines)


@pytest.mark.parametrize("change", [{"decisions": 9}, {"agent_errors": 0}, {"market_closes": True}, {"market_closes": 2}])
def test_counts_that_are_not_those_of_the_lines_are_read_by_neither(change):
    lines = lines_of()
    lines[-1]["payload"] |= change
    text = b"".join(canonical(line) + b"\n" for line in lines)

    assert clv_verify.fault(clv_verify.read_evidence, text)
    with pytest.raises(EvidenceError, match="count"):
        read_evidence(text)


@pytest.mark.parametrize(
    ("side", "message"),
    [({"prob_bps": 10_001}, "out of range"), ({"odds_milli": 1000}, "out of range"), ({"side": "under"}, "unique")],
)
def test_prices_that_no_market_has_are_never_scored(side, message):
    lines = lines_of()
    for held in (state(lines, "over"), close(lines, OTHER)["closing"]):
        held["sides"][0] |= side
    text = b"".join(canonical(line) + b"\n" for line in lines)

    assert clv_verify.fault(clv_verify.read_evidence, text)
    evidence = read_evidence(text)
    with pytest.raises(EvidenceError, match=message):
        positions(*evidence.events.lines)


SUSPENDED = [*TAPE[:4], message(4, 240, {"over": 5100, "under": 4900}, market_key=OTHER), TAPE[5]]


@pytest.mark.parametrize(("policy", "wrong"), [(ClosingPolicy.LAST_STATE, True), (ClosingPolicy.LAST_OPEN, False)])
@pytest.mark.parametrize("last_ts_s", [400, 700])
def test_open_message_behind_a_suspension_closes_a_market_if_the_policy_says_so_and_it_is_young(policy, wrong, last_ts_s):
    """The last open message is of 120 s: 280 s before the close it counts under ``last_open``, 580 s before it does not."""
    tape = [*SUSPENDED[:-1], message(5, last_ts_s, {"part1": 9000, "part2": 1000}, in_running=True)]
    decided = make_decisions({}, {"tick_seq": 2}, {"tick_seq": 3})
    as_it_was = lines_of(policy, tape=tape, decided=decided)
    assert read(as_it_was) is None
    open_ = {key: value for key, value in as_it_was[2]["payload"]["market_state"].items() if key != "age_ms"}
    suspended = {key: value for key, value in as_it_was[3]["payload"]["market_state"].items() if key != "age_ms"}

    for closing, broken in ((open_, wrong or last_ts_s == 700), (suspended, not wrong and last_ts_s == 400)):
        lines = json.loads(json.dumps(as_it_was))
        close(lines)["closing"] = closing
        assert bool(read(lines)) == broken, closing


@pytest.mark.parametrize(
    ("window", "kickoff_s", "change"),
    [
        (Window(end_rule="manual_stop"), None, {"close_ts_ms": -1}),
        (Window(end_rule="manual_stop"), None, {"end_seq": -1}),
        (Window(end_rule="fixed_duration", duration_s=200), None, {"close_ts_ms": 60_000}),
        (Window(end_rule="fixed_duration", duration_s=200), None, {"end_seq": 1}),
        (Window(end_rule="fixed_duration", duration_s=200), None, {"end_seq": -1}),
        (Window(end_rule="fixed_duration", duration_s=10_000), None, {"close_ts_ms": 10**7}),
        (Window(), 200, {"close_ts_ms": 40_001}),
        (Window(), 200, {"close_ts_ms": -20_001}),
        (Window(), 200, {"end_seq": 1}),
    ],
    ids=range(9),
)
def test_window_that_ends_where_no_time_says_is_read_by_neither(window, kickoff_s, change):
    lines = lines_of(window=window, tape=TAPE[:-1], kickoff_s=kickoff_s)
    assert read(lines) is None

    for line in lines:
        if line["kind"] == "MARKET_CLOSE":
            for name, delta in change.items():
                line["payload"][name] += delta

    assert read(lines)
