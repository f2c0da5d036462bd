import pytest

from clvlab.sources.capture.replay import ReplayReader
from clvlab.sources.providers import CAPTURES, SOURCES


@pytest.mark.parametrize("wrong", [b"no json", b"[]", b"{}", b'{"fixture_id": 1, "market_key": "m"}'])
def test_what_is_no_tick_is_refused(wrong):
    with pytest.raises(ValueError, match="no tick of a replay"):
        ReplayReader().take(wrong, 1)


def test_sources_are_known_by_feed_and_by_normaliser():
    assert {"replay", "the-odds-api", "txline"} <= SOURCES.keys()
    assert CAPTURES["the-odds-api-capture/1"] is SOURCES["the-odds-api"]
