"""A message with a false time leaves the times of all others as they are, live and read again."""

import random
from datetime import UTC, datetime

import orjson
import pytest

from clvlab.errors import FeedError, SourceError
from clvlab.law.message import ticks_of
from clvlab.law.tape import Tape
from clvlab.packs.files import fixture_digests
from clvlab.packs.verification import verify_pack
from clvlab.sources.capture.feed import FeedMessage
from clvlab.sources.capture.peer import provenance_of
from clvlab.sources.capture.recorder import Segments
from clvlab.sources.capture.records import CaptureRecord, Header, read_header
from clvlab.sources.capture.source import Tracker
from clvlab.sources.clock import ProviderClock
from clvlab.sources.importer import pack_capture
from clvlab.sources.providers import SOURCES
from tests.length import few
from tests.sources.capture.test_lies import KALSHI, POLYMARKET, betfair, txline

NOW = 1_782_417_600_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
AHEAD = {"15 minutes": 15 * MINUTE, "a day": DAY, "10 years": 3653 * DAY}
STEP = 1_000


def price(number, ts_ms, fixture_id=7):
    pct = 40 + number % 5
    return txline(FixtureId=fixture_id, MessageId=f"m{number}", Ts=ts_ms, Pct=[f"{pct}.000", f"{100 - pct}.000"])


def received(text, at_ms):
    return FeedMessage(text, at_ms)


def header(feed="txline", *, live=False, fixture_ids=(), skew_s=60):
    return Header(feed, f"genuine-{feed}", "cap", 1, None, fixture_ids, live, skew_s)


def packed(folder, items, head):
    segments = Segments(folder.with_suffix(".capture"), head, None)
    segments.write(items)
    segments.close()
    pack_capture(segments.paths(), folder)
    return verify_pack(folder)


def times(items, head):
    """The tape's times by fixture, as they come."""
    tracker = Tracker(head, SOURCES[head.feed].reader(live=head.live))
    messages = [message for item in items for message in tracker.take(CaptureRecord(item.received_ts_ms, item.text))]
    return [(message.fixture_id, message.ts_ms) for message in messages], tracker


def truth(count=60, ahead_ms=0):
    return [received(price(number, NOW + number * STEP + ahead_ms), NOW + number * STEP + 50) for number in range(count)]


@pytest.mark.parametrize("by_ms", [*AHEAD.values(), -3653 * DAY], ids=[*AHEAD, "10 years behind"])
@pytest.mark.parametrize("place", [0, 30])
def test_one_false_time_leaves_the_tape_as_it_were_without(tmp_path, by_ms, place):
    items = truth()
    at_ms = items[place].received_ts_ms
    false = received(price(999, at_ms + by_ms), at_ms)

    sound, lied = (
        packed(tmp_path / "a", items, header()),
        packed(tmp_path / "b", [*items[:place], false, *items[place:]], header()),
    )

    assert [one.digest for one in lied.manifest.fixtures] == [one.digest for one in sound.manifest.fixtures]
    assert lied.is_genuine
    assert (lied.manifest.reading.rule, lied.manifest.reading.skew_s, lied.manifest.reading.refused) == (2, 60, 1)
    assert [(gap.cause, gap.from_ts_ms) for gap in lied.manifest.capture.gaps] == [("time", at_ms)]


def test_a_capture_that_names_no_rule_is_read_as_before(tmp_path):
    items = truth()
    items.insert(30, received(price(999, NOW + DAY), NOW + 30_000))

    pack = packed(tmp_path / "a", items, header(skew_s=None))

    assert pack.manifest.reading is None
    assert "reading" not in pack.manifest.content
    assert pack.is_genuine
    assert b"skew" not in header(skew_s=None).line()
    assert times(items, header(skew_s=None))[0][-1][1] == NOW + DAY


@pytest.mark.parametrize("live", [False, True])
def test_no_fixtures_time_moves_anothers(live):
    items = [received(price(1, NOW + 50_000, 7), NOW), received(price(2, NOW + 10, 8), NOW + 10)]

    assert times(items, header(live=live))[0] == [(7, NOW + 50_000), (8, NOW + 10)]


def test_a_clock_of_ours_that_is_put_back_makes_no_time_false():
    items = [received(price(number, NOW + number), NOW + number - (HOUR if number > 20 else 0)) for number in range(40)]

    found, tracker = times(items, header())

    assert (len(found), tracker.clock.refused) == (40, 0)


@pytest.mark.parametrize("messages", [1, 20])
@pytest.mark.parametrize("by_ms", [2 * HOUR, DAY])
def test_a_clock_of_ours_that_was_ahead_for_a_while_lets_no_false_time_stand_after_it(by_ms, messages):
    items = [received(price(n, NOW + n * STEP), NOW + n * STEP + (by_ms if 10 <= n < 10 + messages else 0)) for n in range(60)]
    false = [
        received(price(100 + n, item.received_ts_ms + by_ms // 2), item.received_ts_ms) for n, item in enumerate(items[40:])
    ]

    found, tracker = times([*items[:40], *(item for pair in zip(items[40:], false, strict=True) for item in pair)], header())

    assert tracker.clock.refused == len(false)
    assert [ts_ms for _, ts_ms in found] == [NOW + n * STEP for n in range(60)]


@pytest.mark.parametrize("feed", sorted(set(SOURCES) - {"replay"}))
def test_only_what_this_machine_plays_may_say_any_time(feed):
    source = SOURCES[feed]
    of_providers = [f"genuine-{feed}", f"imported-{feed}", f"synthetic-{feed}", "synthetic-", "synthetic-devfeed-2", ""]

    assert [source.skew_s(provenance, 60) for provenance in of_providers] == [60] * len(of_providers)
    assert source.skew_s("synthetic-devfeed", 60) is None


@pytest.mark.parametrize(
    "host", ["stream-api.betfair.com", "txline.txodds.com", "localhost.example", "relay.example", "10.0.0.7"]
)
@pytest.mark.parametrize("feed", sorted(set(SOURCES) - {"replay"}))
def test_no_other_host_is_called_this_machine(feed, host):
    assert SOURCES[feed].skew_s(provenance_of(feed, host), 60) == 60


def test_what_may_say_any_time_is_packed_as_nobodys_odds(tmp_path):
    played = Header("txline", "synthetic-devfeed", "cap", 1, None)

    assert packed(tmp_path / "a", truth(), played).provenance == "synthetic-devfeed"
    with pytest.raises(FeedError, match="synthetic-devfeed"):
        Segments(tmp_path / "a.capture", header(skew_s=None), None)


def test_a_book_that_came_while_a_clock_of_ours_was_ahead_is_of_when_it_is_traded_again():
    texts = [*KALSHI, *(of_kalshi(n, NOW + n * STEP, None) for n in range(len(KALSHI), 9))]
    items = [received(text, NOW + n * STEP + DAY * (n == 2)) for n, text in enumerate(texts)]

    found, tracker = times(items, header("kalshi"))

    assert ([ts_ms - NOW for _, ts_ms in found], tracker.clock.refused) == ([3 * STEP, 6 * STEP, 7 * STEP, 8 * STEP], 0)


def test_a_message_without_a_time_that_stands_moves_no_bound():
    clock = ProviderClock(60)
    clock.arrive(NOW + DAY)
    clock.arrive(NOW)

    assert not clock.holds(NOW + 2 * MINUTE)


def test_the_drift_of_a_providers_clock_is_measured_and_reported(tmp_path):
    pack = packed(tmp_path / "a", truth(60, ahead_ms=5 * MINUTE), header())

    assert (pack.manifest.reading.offset_ms, pack.manifest.reading.refused) == (5 * MINUTE - 50, 5)
    assert pack.is_genuine


def test_a_provider_that_drifts_further_and_further_is_followed():
    items = [received(price(n, NOW + n * STEP + n * 1_500), NOW + n * STEP) for n in range(200)]

    assert times(items, header())[1].clock.refused == 0


@pytest.mark.parametrize(
    "rule",
    [
        {"reading_rule": 2}, {"skew_s": 60}, {"reading_rule": 3, "skew_s": 60}, {"reading_rule": 2, "skew_s": 0},
        {"reading_rule": 2, "skew_s": 3_601}, {"reading_rule": 2, "skew_s": True}, {"reading_rule": 2, "skew_s": "60"},
        {"reading_rule": 2.0, "skew_s": 60}, {"reading_rule": 2, "skew_s": None},
    ],
)  # fmt: skip
def test_a_rule_of_reading_that_is_none_is_refused(rule):
    line = orjson.dumps(orjson.loads(header(skew_s=None).line()) | rule)

    with pytest.raises(SourceError, match="rule of reading"):
        read_header(line, "000001.jsonl:1")


def test_segments_of_one_capture_have_one_rule(tmp_path):
    segments = Segments(tmp_path / "c", header(), None)
    segments.write(truth(3))
    segments.close()
    taken_up = Segments(tmp_path / "c", header(skew_s=None), None)

    assert taken_up.header.skew_s == 60
    taken_up.release()


def odds_api(number, ts_ms, false_ms=None):
    def book(key, at_ms):
        outcomes = [{"name": "A", "price": 1.8 + number % 7 / 20}, {"name": "B", "price": 2.0}]
        return {"key": key, "last_update": iso(at_ms), "markets": [{"key": "h2h", "outcomes": outcomes}]}

    books = [book(f"b{n}", false_ms if n == 1 and false_ms else ts_ms) for n in range(4)]
    event = {"id": "e", "sport_key": "s", "home_team": "A", "away_team": "B", "commence_time": iso(NOW + DAY)}
    return orjson.dumps([event | {"bookmakers": books}])


def iso(ts_ms):
    return datetime.fromtimestamp(ts_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamped(text, **changes):
    message = orjson.loads(text)
    return orjson.dumps(message | changes)


def of_betfair(number, ts_ms, false_ms):
    return stamped(betfair(back=2.0 + number % 9 / 50, lay=2.3), pt=false_ms or ts_ms)


def of_polymarket(number, ts_ms, false_ms):
    if number < 4:
        return stamped(POLYMARKET[number], timestamp=str(ts_ms)) if number else POLYMARKET[0]
    price, asset = f"0.3{number % 4}", ("11", "12", "13")[number % 3]
    change = {"asset_id": asset, "side": "BUY", "price": price, "size": str(number % 2)}
    return orjson.dumps({"event_type": "price_change", "timestamp": str(false_ms or ts_ms), "price_changes": [change]})


def of_kalshi(number, ts_ms, false_ms):
    if number < len(KALSHI):
        return KALSHI[number]
    tickers = [own["ticker"] for own in orjson.loads(KALSHI[0])["event"]["markets"]]
    change = {"market_ticker": tickers[number % len(tickers)], "price": 25 + number % 9, "delta": 5, "side": "yes"}
    return orjson.dumps({"type": "orderbook_delta", "sid": 1, "seq": number, "msg": change | {"ts_ms": false_ms or ts_ms}})


FEEDS = {
    "txline": lambda number, ts_ms, false_ms: price(number, false_ms or ts_ms),
    "the-odds-api": odds_api, "betfair": of_betfair, "polymarket": of_polymarket, "kalshi": of_kalshi,
}  # fmt: skip


def conversation(feed, seed, *, jumping=False):
    """Return messages of which some say false times, to a clock of ours that may jump and be put right or back."""
    chance, own = random.Random(seed), random.Random(1_000 + seed)
    items, at_ms = [], NOW
    for number in range(150):
        at_ms += chance.randrange(1, 4_000)
        far = chance.choice([*AHEAD.values(), 2 * MINUTE, -3653 * DAY]) + chance.randrange(60_000)
        false_ms = at_ms + far if number > 10 and chance.random() < 0.1 else None
        wrong_ms = own.choice([HOUR, DAY, -HOUR]) if jumping and own.random() < 0.1 else 0
        items.append(
            FeedMessage(FEEDS[feed](number, at_ms - chance.randrange(900), false_ms), at_ms + wrong_ms, mark=str(number))
        )
    return items


@few(15)
@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("jumping", [False, True])
def test_live_equals_its_replay_whatever_the_times(tmp_path, feed, seed, live, jumping):
    items, head = conversation(feed, seed, jumping=jumping), header(feed, live=live)
    segments = Segments(tmp_path / "c", head, None)
    segments.write(items[:70])
    segments.release()
    segments = Segments(tmp_path / "c", head, None)
    tracker = Tracker(segments.header, SOURCES[feed].reader(live=live))
    messages = [message for record in segments.past() for message in tracker.take(record)]
    messages += [message for record in segments.write(items[70:]) for message in tracker.take(record)]
    messages += tracker.finish()
    segments.close()

    pack_capture(segments.paths(), tmp_path / "pack")

    pack = verify_pack(tmp_path / "pack")
    assert pack.is_genuine
    assert tracker.clock.refused == pack.manifest.reading.refused > 5
    tape = pack.tape()
    assert fixture_digests(Tape.from_ticks(ticks_of(messages), tape.fixtures)) == fixture_digests(tape)
    assert max(message.ts_ms for message in messages) <= max(item.received_ts_ms for item in items) + MINUTE
    assert min(message.ts_ms for message in messages) >= NOW - MINUTE
