"""One message of a provider that lies leaves no tick, and the rest of the capture stands."""

import orjson
import pytest

from clvlab.packs.verification import verify_pack
from clvlab.sources.capture.feed import FeedMessage
from clvlab.sources.capture.recorder import Segments
from clvlab.sources.capture.records import Header
from clvlab.sources.devfeeds import kalshi, polymarket
from clvlab.sources.importer import pack_capture

NOW = 1_700_000_000_000
NEVER = "0001-01-01T00:00:00+23:59"  # a day before there are dates in UTC


def txline(**changes):
    return orjson.dumps({
        "FixtureId": 7, "MessageId": str(changes), "Ts": NOW, "Bookmaker": "TXLineStablePriceDemargined",
        "SuperOddsType": "OVERUNDER", "InRunning": False, "MarketParameters": "line=1", "MarketPeriod": None,
        "PriceNames": ["over", "under"], "Prices": [2833, 1545], "Pct": ["40.000", "60.000"],
    } | changes)  # fmt: skip


def odds_api(**changes):
    outcomes = [{"name": "A", "price": 1.9}, {"name": "B", "price": 2.0}]
    books = [
        {"key": f"b{n}", "last_update": "2025-12-31T00:00:00Z", "markets": [{"key": "h2h", "outcomes": outcomes}]}
        for n in range(3)
    ]
    event = {"id": "e", "sport_key": "soccer_epl", "home_team": "A", "away_team": "B", "bookmakers": books}
    return orjson.dumps([event | {"commence_time": "2026-01-01T00:00:00Z"} | changes])


def betfair(back=2.0, lay=2.1, runners=(1, 2), market="1.1", **changes):
    definition = {
        "status": "OPEN", "inPlay": False, "marketTime": "2026-01-01T00:00:00Z", "eventId": "5", "eventTypeId": "1",
        "marketType": "MATCH_ODDS", "runners": [{"id": runner, "status": "ACTIVE"} for runner in runners],
    }  # fmt: skip
    offers = [{"id": runner, "atb": [[back, 5]], "atl": [[lay, 5]]} for runner in runners]
    change = {"id": market, "img": True, "marketDefinition": definition | changes, "rc": offers}
    return orjson.dumps({"op": "mcm", "pt": NOW + len(changes), "mc": [change]})


def books(event, sid=1):
    head, offers = {"type": "orderbook_snapshot", "sid": sid}, {"yes": [[30, 5]], "no": [[65, 5]]}
    bodies = [head | {"seq": n, "msg": {"market_ticker": own["ticker"]} | offers} for n, own in enumerate(event["markets"], 1)]
    return [orjson.dumps({"event": event}), *map(orjson.dumps, bodies)]


def of_kalshi(number, **changes):
    event = kalshi.match_event(number)
    event["markets"][0] |= changes
    return event


def shares(event, *assets):
    body = {"event_type": "book", "timestamp": str(NOW), "bids": [{"price": "0.33", "size": "1"}]}
    asks = [{"price": "0.34", "size": "1"}]
    return [orjson.dumps([event]), *(orjson.dumps(body | {"asset_id": asset, "asks": asks}) for asset in assets)]


def of_polymarket(number, outcome="No", **changes):
    event = polymarket.match_event(number) | changes
    event["markets"][0] |= {"outcomes": orjson.dumps(["Yes", outcome]).decode()}
    return event


KALSHI, POLYMARKET = books(of_kalshi(1)), shares(of_polymarket(1), "11", "12", "13")
LIES = {
    "a time after all times": ("txline", [txline()], [txline(Ts=2**53 - 1)]),
    "a start before all times": ("the-odds-api", [odds_api()], [odds_api(commence_time=NEVER)]),
    "an off before all times": ("betfair", [betfair()], [betfair(marketTime=NEVER)]),
    "odds below all odds": ("betfair", [betfair()], [betfair(back=1.0001, lay=1.01, name="x")]),
    "odds above all odds": ("betfair", [betfair(numberOfWinners=2)], [betfair(lay=1.0000001, numberOfWinners=2, name="x")]),
    "a market of one side": ("betfair", [betfair()], [betfair(runners=(1,), market="1.2", marketType="OTHER")]),
    "a market with too long a name": ("betfair", [betfair()], [betfair(market="1.2", marketType="X" * 300)]),
    "an occurrence before all times": ("kalshi", KALSHI, books(of_kalshi(2, occurrence_datetime=NEVER), 2)),
    "a ticker with a control character": ("kalshi", KALSHI, books(of_kalshi(2, ticker="M\x07", yes_sub_title="?"), 2)),
    "a kickoff before all times": ("polymarket", POLYMARKET, shares(of_polymarket(2, startTime=NEVER), "21")),
    "a side with too long a name": ("polymarket", POLYMARKET, shares(of_polymarket(2, "Z" * 300), "21", "210")),
}


@pytest.mark.parametrize(("feed", "truth", "lies"), LIES.values(), ids=LIES.keys())
def test_a_lie_leaves_no_tick_and_the_rest_becomes_a_pack(tmp_path, feed, truth, lies):
    def packed(name, texts):
        segments = Segments(tmp_path / f"{name}.capture", Header(feed, "synthetic-devfeed", "cap", 1, None), None)
        segments.write([FeedMessage(text, NOW + number) for number, text in enumerate(texts)])
        segments.close()
        pack_capture(segments.paths(), tmp_path / name)
        return verify_pack(tmp_path / name)

    plain, lied = packed("told", truth), packed("lied", [*truth, *lies])

    assert {one.fixture_id: one.digest for one in lied.manifest.fixtures} == {
        one.fixture_id: one.digest for one in plain.manifest.fixtures
    }
