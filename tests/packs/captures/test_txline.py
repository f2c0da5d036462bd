import gzip
import random

import orjson
import pytest

from clvlab.law.message import tape_of
from clvlab.packs.captures.records import CaptureRecord, Header
from clvlab.packs.captures.replaying import Tracker
from clvlab.packs.captures.txline import TxLineReader
from clvlab.packs.files import fixture_digests
from clvlab.packs.importers.importing import import_source
from clvlab.packs.reader import load_pack

MESSAGE = {
    "FixtureId": 7, "MessageId": "a", "Ts": 1_700_000_000_000, "Bookmaker": "TXLineStablePriceDemargined", "BookmakerId": 10021,
    "SuperOddsType": "OVERUNDER", "GameState": None, "InRunning": False, "MarketParameters": "line=1.5",
    "MarketPeriod": "half=1", "PriceNames": ["under", "over"], "Prices": [1545, 2833], "Pct": ["64.725", "35.298"],
}  # fmt: skip


def text(**changes):
    return orjson.dumps({key: value for key, value in (MESSAGE | changes).items() if value is not ...})


def captured(lines):
    """The digests of what a capture of these messages becomes."""
    tracker = Tracker(Header("txline", "genuine-txline", "c", 1, None), TxLineReader())
    messages = [placed for line in lines for placed in tracker.take(CaptureRecord(1, line))]
    assert not tracker.unreadable
    assert not tracker.arrival.counts
    return fixture_digests(tape_of(messages))


def imported(path, folder):
    import_source("txline", [path], folder)
    return {fixture.fixture_id: fixture.digest for fixture in load_pack(folder).manifest.fixtures}


def test_a_message_is_the_state_of_its_market_with_sides_in_byte_order():
    reader = TxLineReader()

    (state,) = reader.take(text(), 5)

    assert state == (
        7, "OVERUNDER|half=1|line=1.5", 1_700_000_000_000, False, ("over", "under"), (3530, 6473), (2833, 1545),
    )  # fmt: skip
    assert list(reader.fixtures) == [7]


@pytest.mark.parametrize("change", [{"Pct": ["NA", "NA"]}, {"Prices": [], "Pct": []}])
def test_a_message_without_percents_suspends(change):
    (state,) = TxLineReader().take(text(**change), 5)

    assert state.suspended


@pytest.mark.parametrize(
    "wrong",
    [
        text(), b"no json", b"[]", b"7", text(MessageId="b")[:40],
        text(MessageId="b", Pct=...), text(MessageId="b", Prices=None),
        text(MessageId="b", Pct=["x", "y"]), text(MessageId="b", PriceNames=["over", "\n"]),
        text(MessageId="b", MarketPeriod="x" * 300), text(MessageId="b", Bookmaker="other"),
    ],
)  # fmt: skip
def test_what_can_t_be_read_or_was_read_before_is_refused_and_changes_nothing(wrong):
    reader = TxLineReader()
    reader.take(text(), 5)

    with pytest.raises(ValueError, match=r"\S"):
        reader.take(wrong, 6)

    (state,) = reader.take(text(MessageId="b"), 7)
    assert state.prob_bps == (3530, 6473)
    assert reader.forget(()) == {(7, "OVERUNDER|half=1|line=1.5")}
    assert reader.forget(()) == set()


def test_a_capture_and_a_file_of_the_same_messages_give_the_same_digests(tmp_path):
    lines = [
        text(
            FixtureId=7 + number % 2, MessageId=str(number), Ts=1_700_000_000_000 + number // 3, InRunning=number > 90,
            MarketParameters=f"line={number % 4}", Pct=["NA", "NA"] if number % 7 == 0 else [f"{number}.5", f"{99 - number}.5"],
        )
        for number in range(1, 99)
    ]  # fmt: skip
    path = tmp_path / "odds_7.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")

    assert captured(lines) == imported(path, tmp_path / "p")


@pytest.mark.parametrize("seed", range(20))
def test_a_message_that_comes_again_leaves_no_second_tick_however_much_later(seed):
    chance, once, again = random.Random(seed), [], []
    told = [
        CaptureRecord(
            number,
            text(MessageId=str(number), Ts=1_700_000_000_000 + chance.randrange(60), MarketParameters=chance.choice("ab")),
        )
        for number in range(60)
    ]
    cuts = [
        CaptureRecord(0, cut={"cause": "cut", "markets": [], "resumable": False}),
        CaptureRecord(0, resumed={"replayed": False}),
    ]
    for number, record in enumerate(told):
        between = cuts if chance.random() < 0.1 else []
        once += [*between, record]
        again += [*between, record, *chance.choices(told[: number + 1], k=3)]

    def ticks(records):
        tracker = Tracker(Header("txline", "genuine-txline", "c", 1, None), TxLineReader())
        return [placed for record in records for placed in tracker.take(record)]

    assert ticks(again) == ticks(once)


def test_ids_of_the_newest_time_of_each_market_alone_are_kept():
    reader = TxLineReader()
    for number in range(1_000):
        reader.take(text(MessageId=str(number), Ts=1_700_000_000_000 + number // 2), 5)

    assert [len(ids) for _, ids in reader._seen.values()] == [2]


def test_reasons_for_which_nothing_was_read_do_not_fill_the_memory():
    tracker = Tracker(Header("txline", "genuine-txline", "c", 1, None), TxLineReader())
    for number in range(1_000):
        tracker.take(CaptureRecord(1, text(MessageId=str(number), Bookmaker=str(number))))

    assert len(tracker.unreadable) == 101
    assert tracker.unreadable["other reasons"] == 900
    assert tracker.unreadable.total() == 1_000


@pytest.mark.realdata
def test_a_capture_of_real_messages_gives_the_digests_of_their_file(realdata, tmp_path):
    paths = sorted((realdata / "txline").glob("odds_*.jsonl.gz"))
    assert paths

    for number, path in enumerate(paths):
        lines = gzip.decompress(path.read_bytes()).splitlines()
        assert captured(lines) == imported(path, tmp_path / f"p{number}")
