import math
import time

import pytest

from clvlab.errors import FeedError
from clvlab.law.message import tape_of
from clvlab.packs.files import fixture_digests
from clvlab.packs.lookup import open_pack
from clvlab.sources.capture.feed import FeedMessage, Resumption, Stop
from clvlab.sources.capture.records import CaptureRecord, Header
from clvlab.sources.capture.replay import ReplayFeed, ReplayReader
from clvlab.sources.capture.source import Tracker


@pytest.fixture(scope="module")
def starter():
    return open_pack("starter")


def read(items, *, live):
    tracker = Tracker(Header("replay", "synthetic-replay", "c", 1, None, live=live), ReplayReader())
    return tracker, [
        placed
        for item in items
        if isinstance(item, FeedMessage)
        for placed in tracker.take(CaptureRecord(item.received_ts_ms, item.text, item.mark))
    ]


@pytest.mark.parametrize("live", [True, False])
def test_a_replay_gives_the_ticks_of_the_pack_back(starter, live):
    feed = ReplayFeed(pack=starter, speed=math.inf)

    tracker, messages = read(feed.listen(Stop()), live=live)

    assert fixture_digests(tape_of(messages)) == {one.fixture_id: one.digest for one in starter.manifest.fixtures}
    assert tracker.arrival.counts == {}
    kickoffs = {one.fixture_id: one.kickoff_ts_ms for one in starter.manifest.fixtures}
    assert {number: one.kickoff_ts_ms for number, one in tracker.fixtures.items()} == kickoffs
    assert {one.fixture_id: one.kickoff_ts_ms for one in feed.fixtures()} == kickoffs
    assert (feed.provenance, feed.health.connected) == ("synthetic-replay", False)


def test_a_mark_goes_on_where_it_stands_with_the_same_times(starter):
    whole = list(ReplayFeed(pack=starter, speed=math.inf).listen(Stop()))
    shifted = ReplayFeed(pack=starter, speed=math.inf, shift=True)
    first = [item for item, _ in zip(shifted.listen(Stop()), range(1000), strict=False)]

    rest = list(ReplayFeed(pack=starter, speed=math.inf).listen(Stop(), after=first[-1].mark))

    assert isinstance(rest[0], Resumption)
    assert rest[0].replayed
    ahead = first[0].provider_ts_ms - whole[0].provider_ts_ms
    assert [item.provider_ts_ms - ahead for item in first + rest[1:]] == [item.provider_ts_ms for item in whole]


def test_shifted_times_begin_now_and_go_on_at_the_speed(starter):
    fixture = starter.fixture_ids[0]
    feed = ReplayFeed(pack=starter, speed=36_000, shift=True)
    stop, began = Stop(), time.time()
    items = []
    for item in feed.listen(stop, (fixture,)):
        items.append(item)
        if time.time() > began + 0.5 and items[-1].provider_ts_ms > items[0].provider_ts_ms:
            stop.set()

    assert abs(feed.fixtures()[0].kickoff_ts_ms - began * 1000) < 10 * 86_400_000
    passed = (items[-1].provider_ts_ms - items[0].provider_ts_ms) / 1000
    assert 0 < passed / 36_000 < 1.5
    assert {state.fixture_id for state in read(items, live=True)[1]} == {fixture}


def test_what_can_t_be_played_is_refused_by_name(starter):
    with pytest.raises(FeedError, match="no fixture 99"):
        list(ReplayFeed(pack=starter).listen(Stop(), (99,)))
    with pytest.raises(FeedError, match="CLVLAB_REPLAY_SPEED"):
        ReplayFeed(pack=starter, speed=0)
    with pytest.raises(FeedError, match="no mark of a replay"):
        list(ReplayFeed(pack=starter).listen(Stop(), after="x"))
