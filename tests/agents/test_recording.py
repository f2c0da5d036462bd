import json
from threading import Event

import polars as pl
import pytest

from clvlab.agents.endpoint import ChatEndpoint
from clvlab.agents.recording import Transcript, checkpoints, prompt_at, record
from clvlab.agents.registry import template
from clvlab.arena.packs import open_pack
from clvlab.engine.run import run
from clvlab.errors import AgentError
from clvlab.law.closing import Window
from clvlab.proof.canonical import sha256
from clvlab.proof.verify import verify
from tests.agents.loopback import completion, serving
from tests.factories import MARKET, make_tape, message
from tests.waiting import PATIENCE_S

QUOTES = {"draw": (3000, 3300), "part1": (4000, 2500), "part2": (3000, 3300)}
GOOD = {"action": "BACK", "market_key": MARKET, "side": "part1", "reason": "rising", "confidence": 0.6, "claimed_edge_bps": 40}


def steady(n=10, *, fixture_id=1, kickoff=10):
    return [message(seq, seq * 60, QUOTES, fixture_id=fixture_id, in_running=seq >= kickoff) for seq in range(n)]


def said(answer, at=((1, 4),), tape=None):
    """The one entry and answer that come of what a model says."""
    transcript = record(tape or make_tape(steady()), lambda _: answer, at)
    (entry,), (kept,) = transcript.entries, transcript.answers
    return entry, kept


def test_checkpoints_are_every_so_many_messages_before_play():
    tape = make_tape([*steady(10, kickoff=8), *steady(5, fixture_id=2)])

    assert checkpoints(tape, 3) == [(1, 2), (1, 5), (2, 2)]
    with pytest.raises(AgentError, match="at least 1 message"):
        checkpoints(tape, 0)


def test_a_prompt_never_holds_what_comes_later():
    secret = [
        message(6, 400, {"draw": (1717, 17170), "part1": (2929, 29290), "part2": (5354, 53530)}),
        message(7, 423_456, {"LATESIDE": 4747, "OTHER": 5253}, market_key="LATEMARKET"),
    ]
    tape = make_tape([*steady(6), *secret, *steady(9, fixture_id=777)], {1: 987_654})
    prompts = []

    record(tape, lambda prompt: prompts.append(prompt) or "{}", [(1, seq) for seq in range(8)])

    marks = ["1717", "17170", "2929", "29290", "5354", "53530", "LATE", "OTHER", "4747", "987654", "777", "423456"]
    assert [[mark for mark in marks if mark in prompt] for prompt in prompts[:6]] == [[]] * 6
    assert all(mark in prompts[6] for mark in marks[:6])  # and would have been seen, had they been shown
    assert "LATEMARKET" not in prompts[6]
    assert "LATEMARKET" in prompts[7]


def test_a_prompt_is_the_same_whatever_follows():
    whole = open_pack("starter").tape()
    at = checkpoints(whole, 70)
    ticks = whole.ticks().collect()

    for fixture_id, seq in at[:6]:
        past = ticks.filter(pl.col("fixture_id") == fixture_id, pl.col("tick_seq") <= seq)
        fixture = whole.fixtures.filter(pl.col("fixture_id") == fixture_id).with_columns(kickoff_ts_ms=pl.lit(None, pl.Int64))
        assert prompt_at(type(whole).from_ticks(past, fixture), fixture_id, seq) == prompt_at(whole, fixture_id, seq)


def test_a_prompt_shows_states_ages_and_what_went_before():
    later = QUOTES | {"part1": (4100, 2400), "part2": (2900, 3400)}
    tape = make_tape([*steady(3), message(3, 200, later), message(4, 250, {"over": None, "under": None}, market_key="OU")])

    shown = json.loads(prompt_at(tape, 1, 4).splitlines()[-1])

    first, second = shown["markets"]
    assert (shown["since_first_message_s"], shown["in_play"]) == (250, False)
    assert (first["market_key"], first["age_s"], first["suspended"]) == (MARKET, 50, False)
    assert first["sides"][1] == {"side": "part1", "prob_bps": 4100, "odds_milli": 2400, "earlier": [4000, 4000, 4000]}
    assert (second["market_key"], second["age_s"], second["suspended"]) == ("OU", 0, True)


def test_a_proposal_becomes_an_entry_with_the_digest_of_its_prompt():
    tape = make_tape(steady())

    entry, kept = said(json.dumps(GOOD | {"stake": 20, "thoughts": "ignored", "fixture_id": 99}), tape=tape)

    assert (entry.fixture_id, entry.tick_seq, entry.action, entry.side, entry.stake) == (1, 4, "BACK", "part1", 20)
    assert (entry.reason, entry.confidence, entry.claimed_edge_bps) == ("rising", "0.6", 40)
    assert kept.prompt_sha256 == sha256(prompt_at(tape, 1, 4).encode())
    assert kept.error is None
    assert "ignored" in kept.text


def test_a_fenced_proposal_and_a_wait_are_read():
    assert said(f"```json\n{json.dumps(GOOD)}\n```")[0].action == "BACK"
    entry, kept = said(json.dumps(GOOD | {"action": "WAIT", "stake": 5}))
    assert (entry.action, entry.market_key, entry.stake, entry.reason, kept.error) == ("WAIT", None, None, "rising", None)


@pytest.mark.parametrize("confidence", ["NaN", "7.5", "-Infinity", "1e999"])
def test_a_confidence_that_is_no_probability_is_kept(confidence):
    entry, kept = said(json.dumps(GOOD).replace("0.6", confidence))

    assert kept.error is None
    assert entry.confidence == {"NaN": "nan", "7.5": "7.5", "-Infinity": "-inf", "1e999": "inf"}[confidence]


@pytest.mark.parametrize(
    ("answer", "error", "detail"),
    [
        ("I can't help with gambling.", "bad_json", "I can't help"),
        ("", "bad_json", "no JSON"),
        ("[" * 100_000, "bad_json", "no JSON"),
        ("[1]", "bad_json", "not list"),
        ("{}", "bad_answer", "not None"),
        (json.dumps(GOOD | {"action": "SELL"}), "bad_answer", "SELL"),
        (json.dumps(GOOD | {"market_key": "1X2"}), "unknown_market", "no market '1X2'"),
        (json.dumps(GOOD | {"market_key": None}), "unknown_market", "None"),
        (json.dumps(GOOD | {"market_key": ["x"]}), "unknown_market", "x"),
        (json.dumps(GOOD | {"side": "home"}), "unknown_side", "no side 'home'"),
        (json.dumps(GOOD | {"side": {"a": 1}}), "unknown_side", "no side"),
        (json.dumps(GOOD | {"reason": "x" * 2001}), "bad_answer", "the limit is 2000"),
        (json.dumps(GOOD | {"reason": "\ud800"}), "bad_answer", "reason"),
        (json.dumps(GOOD | {"claimed_edge_bps": 10**18}), "bad_answer", "claimed_edge_bps = 1000000000000000000"),
        (json.dumps(GOOD | {"confidence": "high"}), "bad_answer", "confidence"),
        (json.dumps(GOOD | {"stake": -5}), "bad_answer", "stake"),
        (None, "bad_answer", "not NoneType"),
        (b"{}", "bad_answer", "not bytes"),
    ],
)
def test_an_answer_that_is_no_proposal_becomes_an_error_and_a_wait(answer, error, detail):
    entry, kept = said(answer)

    assert (entry.action, entry.reason) == ("WAIT", f"no proposal: {error}")
    assert kept.error == error
    assert detail in kept.detail
    assert len(kept.detail) <= 500


@pytest.mark.parametrize(
    ("raised", "error"),
    [(TimeoutError("slow"), "timeout"), (OSError("gone"), "ask_failed"), (ZeroDivisionError("\ud800"), "ask_failed")],
)
def test_a_call_that_fails_becomes_an_error_and_a_wait(raised, error):
    def ask(_):
        raise raised

    transcript = record(make_tape(steady()), ask, [(1, 2), (1, 5)])

    assert [entry.action for entry in transcript.entries] == ["WAIT", "WAIT"]
    assert [answer.error for answer in transcript.errors] == [error, error]


def test_a_recording_over_http_survives_whatever_the_server_does(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    over = Event()

    def slow(_):
        over.wait(PATIENCE_S)
        return completion(json.dumps(GOOD))

    replies = [
        lambda _: completion(json.dumps(GOOD)),
        slow,
        lambda _: (500, b"overloaded"),
        lambda _: (200, b"<html>"),
        lambda _: completion("I think part1 looks good!"),
        lambda _: completion(json.dumps(GOOD | {"market_key": "FIRST_GOAL||"})),
        lambda _: completion(json.dumps(GOOD | {"side": "home"})),
        lambda _: completion(None, message={"refusal": "I can't assist with gambling."}),
        lambda _: completion(json.dumps({"action": "WAIT", "reason": "quiet"})),
    ]
    left = iter(replies)
    tape = make_tape([*steady(), *steady(2, fixture_id=2)])

    with serving(lambda prompt: next(left)(prompt)) as server:
        ask = ChatEndpoint(server.base_url, "m-1", api_key="secret", timeout_s=5.0)
        transcript = record(tape, ask, [(1, seq) for seq in range(len(replies))])
        over.set()

    assert [answer.error for answer in transcript.answers] == [
        None, "timeout", "http_error", "bad_json", "bad_json", "unknown_market", "unknown_side", "refused", None,
    ]  # fmt: skip
    assert [entry.action for entry in transcript.entries] == ["BACK"] + ["WAIT"] * 8
    assert transcript.model == "m-1"
    path = transcript.write(tmp_path / "recorded.json")
    assert b"secret" not in path.read_bytes()

    result = run(tape, [template("llm", Transcript.read(path).params)], Window())
    assert verify(result.sealed).passed
    assert result.scores["reason"].value_counts().sort("count")["count"].to_list() == [1, 9]


def test_a_recording_of_a_pack_names_it_and_is_asked_in_order():
    tape = open_pack("starter").tape()
    transcript = record(tape, lambda _: json.dumps({"action": "WAIT"}), reversed(checkpoints(tape, 150)), model="nobody")

    assert (transcript.model, transcript.content_hash) == ("nobody", tape.binding.content_hash)
    assert [(entry.fixture_id, entry.tick_seq) for entry in transcript.entries] == checkpoints(tape, 150)


def test_misuse_is_refused_before_anyone_is_asked():
    tape = make_tape(steady())
    asked = []

    with pytest.raises(AgentError, match=r"not on the tape, the first is \(1, 99\)"):
        record(tape, asked.append, [(1, 2), (1, 99)])
    with pytest.raises(AgentError, match="at most 10000 entries, not 10001"):
        record(tape, asked.append, [(1, seq) for seq in range(10_001)])
    with pytest.raises(AgentError, match="ask must be a function"):
        record(tape, "http://127.0.0.1")
    with pytest.raises(AgentError, match="nothing is known at tick -1 of fixture 1"):
        prompt_at(tape, 1, -1)
    with pytest.raises(AgentError, match="nothing is known"):
        prompt_at(tape, 5, 1)
    assert asked == []


def test_an_empty_tape_gives_an_empty_transcript():
    transcript = record(make_tape([]), lambda _: "{}")

    assert (transcript.entries, transcript.answers) == ((), ())
