import random

import orjson
import pytest

from clvlab.sources.capture.records import CaptureRecord, Header
from clvlab.sources.capture.source import Tracker
from clvlab.sources.txline.messages import TxLineReader

MESSAGE = {
    "FixtureId": 7, "MessageId": "a", "Ts": 1_700_000_000_000, "Bookmaker": "TXLineStablePriceDemargined", "BookmakerId": 10021,
    "SuperOddsType": "OVERUNDER", "GameState": None, "InRunning": False, "MarketParameters": "line=1.5",
    "MarketPeriod": "half=1", "PriceNames": ["under", "over"], "Prices": [1545, 2833], "Pct": ["64.725", "35.298"],
}  # fmt: skip


def text(**changes):
    return orjson.dumps({key: value for key, value in (MESSAGE | changes).items() if value is not ...})


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


@pytest.mark.parametrize("seed", range(20))
def test_a_message_that_comes_again_leaves_no_second_tick_however_much_later(seed):
    chance, once, again = random.Random(seed), [], []
    records = [
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
    for number, record in enumerate(records):
        between = cuts if chance.random() < 0.1 else []
        once += [*between, record]
        again += [*between, record, *chance.choices(records[: number + 1], k=3)]

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
