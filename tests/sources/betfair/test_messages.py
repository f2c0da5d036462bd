import random

import orjson
import polars as pl
import pytest

from clvlab.law.message import ticks_of
from clvlab.sources.betfair.messages import SOURCE, BetfairReader
from clvlab.sources.capture.records import CaptureRecord, Header, cut_line, message_line, resumed_line
from clvlab.sources.capture.source import Tracker
from clvlab.sources.source import Options

T = 1_650_000_000_000
PLANNED = 1_650_002_400_000


def definition(status="OPEN", *, in_play=False, runners=(1, 2), **other):
    return {
        "status": status, "inPlay": in_play, "marketTime": "2022-04-15T06:00:00.000Z", "eventId": "9", "eventTypeId": "2",
        "marketType": "MATCH_ODDS", "numberOfWinners": 1, "bettingType": "ODDS",
        "runners": [{"id": number, "status": "ACTIVE", "sortPriority": number} for number in runners],
    } | other  # fmt: skip


def offers(runner, back, lay):
    return {"id": runner, "atb": [[back, 10]], "atl": [[lay, 10]]}


def change(market="1.1", define=None, rc=(), **other):
    return {"id": market} | ({} if define is None else {"marketDefinition": define}) | ({"rc": list(rc)} if rc else {}) | other


def message(second, *changes):
    return {"op": "mcm", "clk": None, "pt": T + second * 1000, "mc": list(changes)}


BOTH = (offers(1, 1.9, 2.1), offers(2, 1.9, 2.1))
OPENING = message(0, change(define=definition(), rc=BOTH, img=True))


def header(**other):
    return Header("betfair", "synthetic-devfeed", "c", 1, None, **other)


def captured(tmp_path, *messages, live=False):
    """What the capture of these messages becomes; a record stands for itself."""
    lines = [each if isinstance(each, bytes) else message_line(orjson.dumps(each), T, None) for each in messages]
    (tmp_path / "000001.jsonl").write_bytes(header(live=live).line() + b"".join(lines))
    (tmp_path / "scratch").mkdir()
    return SOURCE.normalise({"000001.jsonl": tmp_path / "000001.jsonl"}, Options(), tmp_path / "scratch")


def states(result):
    return result.ticks.with_columns((pl.col("ts_ms") - T) // 1000).sort("tick_seq", "market_key", "side")


SCRIPTS = {
    "several states of one time": [
        OPENING,
        message(1, change(rc=[offers(1, 1.91, 2.0)])),
        message(1, change(rc=[offers(1, 1.92, 2.0)])),
        message(2, change(rc=[offers(2, 1.92, 2.0)])),
    ],
    "markets of one time in another order than their keys": [
        message(0, change("1.2", definition(marketType="OVER_UNDER_25"), BOTH), change("1.1", definition(), BOTH)),
        message(1, change("1.2", rc=[offers(1, 1.91, 2.0)])),
        message(1, change("1.1", rc=[offers(1, 1.91, 2.0)])),
    ],
    "two markets of one kind": [message(0, change("1.1", definition(), BOTH), change("1.2", definition(), BOTH))],
    "two markets of one kind in two messages of one time": [
        message(0, change("1.1", definition(), BOTH)),
        message(0, change("1.2", definition(), BOTH)),
    ],
    "several winners": [
        message(0, change(define=definition(numberOfWinners=2), rc=BOTH)),
        message(5, change(rc=[offers(1, 1.5, 1.6)])),
    ],
    "a runner that came in with the first ticks": [
        OPENING,
        message(0, change(define=definition(runners=(1, 2, 3)), rc=[offers(3, 4.0, 4.2)])),
        message(1, change(rc=[offers(3, 4.1, 4.2)])),
    ],
    "play and settlement": [
        OPENING,
        message(60, change(define=definition("SUSPENDED"))),
        message(61, change(define=definition(in_play=True))),
        message(90, change(define=definition("CLOSED", in_play=True))),
    ],
    "races of one meeting": [
        message(0, *(
            change(f"1.{n}", definition(eventTypeId="7", marketTime=f"2022-04-15T0{n}:00:00.000Z"), BOTH) for n in (8, 7)
        )),
        message(1, change("1.7", rc=[offers(1, 1.91, 2.0)])),
    ],
    "a betting type that is not read": [
        OPENING,
        message(1, change("1.2", definition(bettingType="LINE"), BOTH), change(rc=[offers(1, 1.5, 1.6)])),
    ],
}  # fmt: skip


def test_a_second_market_of_a_kind_that_comes_late_has_its_id_in_its_key_and_is_counted(tmp_path):
    result = captured(tmp_path, OPENING, message(1, change("1.2", definition(), BOTH)))

    assert set(result.ticks["market_key"]) == {"MATCH_ODDS||", "MATCH_ODDS||market=1.2"}
    assert result.account.notes["markets whose kind came up again in their event"] == 1


def test_a_market_that_a_runner_came_into_late_is_suspended_while_that_one_runs(tmp_path):
    gone = definition(runners=(1, 2, 3))
    gone["runners"][2]["status"] = "REMOVED"
    result = captured(
        tmp_path, OPENING, message(1, change(define=definition(runners=(1, 2, 3)))), message(2, change(define=gone))
    )

    found = states(result)
    assert found.filter(side="1").select("ts_ms", "suspended").rows() == [(0, False), (1, True), (2, False)]
    assert set(found["side"]) == {"1", "2"}
    assert result.account.notes["states of markets that a runner came into late"] == 2


def test_for_a_run_every_message_counts_as_it_comes_and_the_kickoff_is_the_one_announced_last(tmp_path):
    moved = definition(marketTime="2022-04-15T07:00:00.000Z")
    reader = BetfairReader(live=True)

    first = reader.take(orjson.dumps(OPENING), T)
    again = reader.take(orjson.dumps(message(0, change(rc=[offers(1, 1.95, 2.1)]))), T)
    reader.take(orjson.dumps(message(1, change(define=moved))), T)

    assert [state.odds_milli for state in (*first, *again)] == [(1900, 1900), (1950, 1900)]
    (fixture,) = reader.fixtures.values()
    assert (fixture.kickoff_ts_ms, fixture.scheduled_ts_ms, fixture.source_id) == (PLANNED + 3_600_000, None, "9")
    assert not reader.finish()
    assert captured(tmp_path, OPENING, message(1, change(define=moved)), live=True).kickoff == "scheduled"


def test_after_a_cut_no_delta_is_applied_before_the_image_and_what_was_held_back_comes_before_the_suspension():
    tracker = Tracker(header(), BetfairReader(live=False))

    def take(each):
        return tracker.take(CaptureRecord(T, orjson.dumps(each)))

    assert not take(OPENING)
    cut = tracker.take(CaptureRecord(T, cut={"cause": "cut"}))
    assert [(each.ts_ms, each.suspended) for each in cut] == [(T, False), (T, True)]
    assert not take(message(1, change(rc=[offers(1, 1.95, 2.1)])))
    tracker.take(CaptureRecord(T, resumed={"replayed": False}))
    assert not take(message(2, change(rc=[offers(1, 1.95, 2.1)])))
    assert tracker.unreadable == {"a change of a market whose image did not come since messages were missed": 2}
    assert not take(message(3, change(define=definition(), rc=[offers(1, 1.5, 1.6), offers(2, 2.5, 2.6)], img=True)))
    (last,) = tracker.finish()
    assert (last.tick_seq, last.ts_ms, last.odds_milli) == (2, T + 3000, (1500, 2500))
    assert len(tracker.ledger()) == 1


def test_a_cut_whose_messages_come_again_suspends_nothing():
    tracker = Tracker(header(live=True), BetfairReader(live=True))
    records = [
        CaptureRecord(T, orjson.dumps(OPENING)),
        CaptureRecord(T, cut={"cause": "cut", "resumable": True}),
        CaptureRecord(T, resumed={"replayed": True}),
        CaptureRecord(T, orjson.dumps(message(1, change(rc=[offers(1, 1.95, 2.1)])))),
    ]

    found = [each for record in records for each in tracker.take(record)]

    assert [each.suspended for each in found] == [False, False]
    assert ticks_of(found)["tick_seq"].to_list() == [0, 0, 1, 1]


def test_a_time_before_the_last_is_read_and_the_tape_says_that_it_came_late(tmp_path):
    other = change("1.2", definition(marketType="OTHER", eventId="9"), BOTH)
    result = captured(tmp_path, message(5, change(define=definition(), rc=BOTH)), message(3, other))

    assert states(result)["ts_ms"].to_list() == [5, 5, 5, 5]
    assert result.account.notes["messages without a tick or time of their own: late"] == 1


BAD = {
    "no market change message": {"op": "status", "pt": T},
    "is no market id": message(1, change("x")),
    "changes before it is defined": message(1, change("1.9", rc=BOTH)),
    "KeyError: '77'": message(1, change(rc=[offers(1, 1.5, 1.6)]), change(rc=[offers(77, 1.9, 2.0)])),
    "no number": message(1, change(rc=[{"id": 1, "atb": [[[], 0]]}])),
    "pt is no time": message(1, change()) | {"pt": 10**18},
    "NoneType": message(1, change(rc=[None])),
}


@pytest.mark.parametrize("reason", BAD)
@pytest.mark.parametrize("live", [False, True])
def test_a_message_that_cant_be_read_is_refused_and_changes_nothing(live, reason):
    reader = BetfairReader(live=live)
    reader.take(orjson.dumps(OPENING), T)

    with pytest.raises(ValueError, match=reason):
        reader.take(orjson.dumps(BAD[reason]), T)

    found = [*reader.take(orjson.dumps(message(9, change(rc=[offers(2, 1.95, 2.1)]))), T), *reader.finish()]
    assert found[-1].odds_milli == (1900, 1950)


def spoilt(message, chance):
    """The message with one of its values replaced, or left out."""
    message = orjson.loads(orjson.dumps(message))
    places, waiting = [], [message]
    while waiting:
        each = waiting.pop()
        inner = list(each.items()) if isinstance(each, dict) else list(enumerate(each))
        places += [(each, key) for key, _ in inner]
        waiting += [value for _, value in inner if isinstance(value, dict | list)]
    holder, key = chance.choice(places)
    holder[key] = chance.choice([None, 0, -1, 1.5, "x", [], {}, [[1, 2]], [[[], 0]], True, 10**18, "1.9"])
    return message


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_wrong_with_a_refused_message_nothing_of_it_is_taken(live, seed):
    chance = random.Random(seed)
    of = {market: definition(marketType=f"KIND_{market}") for market in ("1.1", "1.2")}
    script = [message(0, *(change(market, define, BOTH, img=True) for market, define in of.items()))] + [
        message(
            n,
            *(change(market, rc=[offers(chance.choice((1, 2)), 1.9 - n / 1000, 2.1)]) for market in of),
            change("1.1", of["1.1"]),
        )
        for n in range(1, 200)
    ]
    every, sound = BetfairReader(live=live), BetfairReader(live=live)
    found, expected, refused = [], [], 0

    for each in script:
        text = orjson.dumps(spoilt(each, chance) if each is not script[0] and chance.random() < 0.4 else each)
        try:
            found += every.take(text, T)
        except ValueError:
            refused += 1
            continue
        expected += sound.take(text, T)

    assert [*found, *every.finish()] == [*expected, *sound.finish()]
    assert every.fixtures == sound.fixtures
    assert 20 < refused < 100


def test_two_changes_of_one_market_in_one_message_are_one_state():
    reader = BetfairReader(live=True)

    found = reader.take(orjson.dumps(message(0, change(define=definition()), change(rc=BOTH))), T)

    assert [state.odds_milli for state in found] == [(1900, 1900)]


def test_a_capture_is_read_with_its_gaps(tmp_path):
    result = captured(
        tmp_path,
        OPENING,
        cut_line(T, "cut", (), resumable=True),
        resumed_line(T + 1, replayed=True),
        message(1, change(rc=[offers(1, 1.95, 2.1)])),
        cut_line(T + 2, "silence", (), resumable=False),
    )

    assert [(gap.cause, gap.replayed) for gap in result.capture.gaps] == [("cut", True), ("silence", None)]
    assert states(result).filter(side="1")["suspended"].to_list() == [False, False, True]
