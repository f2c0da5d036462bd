"""The same messages, once as a history file and once as a capture: a file and a socket give the same states.

Some formats have no counterpart on the other side, so nothing of them can disagree: price histories of Polymarket, candlesticks
and trades, changes of The Odds API as Parquet, football-data, what scrapers take, and tables.
"""

import bz2
import gzip
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import orjson
import polars as pl
import pytest

from clvlab.law.schema import FIXTURES, TICKS
from clvlab.law.tape import Tape
from clvlab.odds.formats import OddsFormat
from clvlab.packs.files import fixture_digests
from clvlab.packs.ladders import LADDERS
from clvlab.packs.lookup import open_pack
from clvlab.sources.capture.records import Header, message_line
from clvlab.sources.capture.replay import messages_of
from clvlab.sources.devfeeds.betfair import made_up_markets
from clvlab.sources.devfeeds.kalshi import KalshiServer
from clvlab.sources.devfeeds.polymarket import PolymarketServer
from clvlab.sources.devfeeds.sockets import Peer
from clvlab.sources.devfeeds.txline import txline_message
from clvlab.sources.importer import import_options
from clvlab.sources.providers import IMPORTERS, SOURCES
from clvlab.sources.the_odds_api.messages import TheOddsApiReader
from tests.length import few, length
from tests.plain_ladders import half_up, states_of
from tests.samples import pmxt
from tests.sources.betfair.test_messages import SCRIPTS
from tests.sources.txline.test_messages import text

T = 1_700_000_000_000
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEEDS = range(length(2, 10))
LABELS = ("margin", "consensus", "closing_source", "closing_policy")
KEY = "1X2_PARTICIPANT_RESULT||"


def captured(feed, messages, folder, **options):
    """What a capture of these messages becomes, each of which came at its own time."""
    folder.mkdir()
    lines = [message_line(message, T, None) for message in messages]
    segment = folder / "000001.jsonl"
    segment.write_bytes(Header(feed, "synthetic-devfeed", "c", 1, None).line() + b"".join(lines))
    (folder / "scratch").mkdir()
    return SOURCES[feed].normalise({segment.name: segment}, import_options(**options), folder / "scratch")


def imported(source, files, folder, **options):
    """What an import makes of the content of files, by their names."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    find, normalise = IMPORTERS[source]
    (folder / "scratch").mkdir()
    return normalise(find([folder / name for name in files]), import_options(**options), folder / "scratch")


def check_same(ours, theirs):
    """Compare what two ways of reading say: labels, fixtures, ladders, and the digests of their ticks, which are returned."""
    assert [getattr(ours, label) for label in LABELS] == [getattr(theirs, label) for label in LABELS]
    assert ours.fixtures == theirs.fixtures
    rows = [(fixture.fixture_id, fixture.kickoff_ts_ms) for fixture in ours.fixtures]
    kickoffs = pl.DataFrame(rows, schema=FIXTURES, orient="row")
    one, other = ours.whole, theirs.whole
    digests = [fixture_digests(Tape.from_ticks(each.ticks, kickoffs)) for each in (one, other)]
    assert digests[0] == digests[1]
    assert digests[0]
    assert (one.ladders is None and other.ladders is None) or one.ladders.equals(other.ladders)
    return one.ticks


def check_betfair(lines, tmp_path):
    theirs = imported("betfair", {"1.1": b"".join(line + b"\n" for line in lines)}, tmp_path / "file", ladders=True)
    ours = captured("betfair", lines, tmp_path / "capture", ladders=True)
    assert ours.kickoff == theirs.kickoff
    return check_same(ours, theirs)


@pytest.mark.usefixtures("every_message")
@pytest.mark.parametrize("name", SCRIPTS)
def test_betfair_s_stream(name, tmp_path):
    check_betfair([orjson.dumps(message) for message in SCRIPTS[name]], tmp_path)


@pytest.mark.usefixtures("every_message")
@pytest.mark.parametrize("seed", SEEDS)
def test_made_up_markets_of_betfair(seed, tmp_path):
    ours = check_betfair([orjson.dumps(message) for message in made_up_markets(seed, messages=500)], tmp_path)

    assert ours["in_running"].any()
    assert ours["suspended"].any()


@few(2)
@pytest.mark.usefixtures("every_message")
@pytest.mark.realdata
@pytest.mark.parametrize("name", ["1.197931750", "1.197931751", "1.200806927", "BASIC-1.132153978"])
def test_real_streams_of_betfair(name, realdata, tmp_path):
    check_betfair(bz2.decompress((realdata / "betfair-stream" / f"{name}.bz2").read_bytes()).splitlines(), tmp_path)


def check_txline(lines, tmp_path):
    theirs = imported("txline", {"odds_7.jsonl": b"\n".join(lines) + b"\n"}, tmp_path / "file")
    check_same(captured("txline", lines, tmp_path / "capture"), theirs)


def test_messages_of_txline_as_its_stand_in_writes_them(tmp_path):
    pack = open_pack("starter")
    messages = messages_of(pack, pack.fixture_ids[:3])

    check_txline([txline_message(message, f"m{n}") for n, message in enumerate(messages)], tmp_path)


def test_messages_of_txline_of_one_time_and_without_prices(tmp_path):
    percents = [["NA", "NA"] if number % 7 == 0 else [f"{number}.5", f"{99 - number}.5"] for number in range(99)]
    lines = [
        text(
            FixtureId=7 + number % 2, MessageId=str(number), Ts=1_700_000_000_000 + number // 3, InRunning=number > 90,
            MarketParameters=f"line={number % 4}", Pct=percents[number],
        )
        for number in range(1, 99)
    ]  # fmt: skip
    check_txline(lines, tmp_path)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["odds_18209181", "odds_18218149", "inrunning_18209181"])
def test_real_messages_of_txline(name, realdata, tmp_path):
    check_txline(gzip.decompress((realdata / "txline" / f"{name}.jsonl.gz").read_bytes()).splitlines(), tmp_path)


def check_odds_api(event, form, tmp_path):
    """Compare the prices of every market of an event; the file is as of its newest update, a market as of its own."""
    theirs = imported("the-odds-api", {"event.json": orjson.dumps(event)}, tmp_path, odds_format=form.value)
    states = TheOddsApiReader(odds_format=form).take(orjson.dumps([event]), T)
    ours = {
        (state.fixture_id, state.market_key, side): (prob, odds)
        for state in states
        for side, prob, odds in zip(state.sides, state.prob_bps, state.odds_milli, strict=True)
    }
    columns = theirs.ticks.select("fixture_id", "market_key", "side", "prob_bps", "odds_milli")
    assert {(fixture, key, side): (prob, odds) for fixture, key, side, prob, odds in columns.iter_rows()} == ours
    return ours


def made_up_event(seed):
    dice = np.random.default_rng(seed)

    def outcomes(names, point=None):
        prices = 1 / dice.dirichlet(np.full(len(names), 20)) / 1.05
        priced = [{"name": name, "price": round(float(price), 2)} for name, price in zip(names, prices, strict=True)]
        return [outcome | ({} if point is None else {"point": point}) for outcome in priced]

    def updated(minutes):
        return datetime.fromtimestamp(T / 1000 + 60 * minutes, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    books = []
    for number in range(6):
        at = updated(int(dice.integers(0, 90)))  # some are stale next to the newest
        markets = [
            {"key": "h2h", "last_update": at, "outcomes": outcomes(["Home", "Away", "Draw"])},
            {"key": "totals", "last_update": at, "outcomes": outcomes(["Over", "Under"], point=2.5 + number % 2)},
        ]
        books.append({"key": f"book{number}", "last_update": at, "markets": markets[: 1 + number % 3]})
    return {
        "id": "e1", "sport_key": "soccer", "commence_time": updated(300), "home_team": "Home", "away_team": "Away",
        "bookmakers": books,
    }  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_made_up_events_of_the_odds_api(seed, tmp_path):
    states = check_odds_api(made_up_event(seed), OddsFormat.DECIMAL, tmp_path / "file")

    assert {key for _, key, _ in states} == {"h2h||", "totals||point=2.5", "totals||point=3.5"}


@pytest.mark.realdata
def test_real_events_of_the_odds_api(realdata, tmp_path):
    paths = sorted((realdata / "the-odds-api" / "raw-sample").glob("*.json.gz"))[::8]
    events = [event for path in paths for event in orjson.loads(gzip.decompress(path.read_bytes())) if event["bookmakers"]]

    prices = [check_odds_api(event, OddsFormat.AMERICAN, tmp_path / str(n)) for n, event in enumerate(events)]

    assert sum(prob is not None for states in prices for prob, _ in states.values()) > 50


def check_kalshi(ladders, tmp_path):
    """Compare the order books of tickers as a file, and as snapshots: each is a market of yes and no."""
    markets = {f"{ticker}||": {"yes": ticker} for ticker in ladders}
    fixture = {"id": "E", "names": ["Rain"], "kickoff": "2026-03-02T00:00:00Z", "markets": markets}
    dumped = {ticker: {f"_{side}": bids for side, bids in ladder.items()} for ticker, ladder in ladders.items()}
    name = f"books_{NOON:%Y-%m-%dT%H%M%SZ}.json"
    theirs = imported("kalshi", {name: orjson.dumps(dumped)}, tmp_path / "file", mapping={"fixtures": [fixture]})
    messages = []
    for seq, (ticker, ladder) in enumerate(ladders.items(), 1):
        own = {"ticker": ticker, "event_ticker": "E", "title": "Rain?", "occurrence_datetime": "2026-03-02T00:00:00Z"}
        book = {"market_ticker": ticker, "ts_ms": round(NOON.timestamp() * 1000), **ladder}
        messages += [{"market": own}, {"type": "orderbook_snapshot", "sid": 1, "seq": seq, "msg": book}]
    whole = captured("kalshi", map(orjson.dumps, messages), tmp_path / "capture", ladders=True).whole
    known = {key.removesuffix("||") for key in whole.ticks["market_key"].unique()}  # others were never priced
    check_kalshi_ladders({ticker: bids for ticker, bids in ladders.items() if ticker in known}, whole.ladders)
    ours = whole.ticks
    columns = [name for name in TICKS if name not in ("fixture_id", "tick_seq")]
    priced = theirs.ticks.filter(~pl.col("suspended"))  # a book without a price leaves a live market as it was, suspended
    assert priced.select(columns).sort(columns).equals(ours.select(columns).sort(columns))
    return ours


def check_kalshi_ladders(ladders, found):
    """Compare ladders with the resting bids for the contrary, in cents and shares."""
    expected = {}
    for ticker, bids in ladders.items():
        for side, contrary in (("yes", "no"), ("no", "yes")):
            asks = sorted((100 - price, Fraction(str(size))) for price, size in bids[contrary])
            levels = [(half_up(Fraction(100_000, price)), half_up(size * price)) for price, size in asks if 0 < price < 100]
            expected |= {(f"{ticker}||", side): [offer for offer in levels if offer[1]][:10]} if levels else {}
    (state,) = states_of(found).values() if found.height else ({},)
    assert state == {key: levels for key, levels in expected.items() if levels}


@pytest.mark.parametrize("seed", SEEDS)
def test_made_up_books_of_kalshi(seed, tmp_path):
    with KalshiServer.synthetic(matches=2, messages=0, seed=seed) as server:
        shares = server._truth.levels
        peer = Peer(None, sids=dict.fromkeys(shares, 1), seqs={1: 0})
        books = [orjson.loads(server.snapshot(peer, share, server._truth))["msg"] for share in shares]

    ours = check_kalshi({one["market_ticker"]: {side: one[side] for side in ("yes", "no")} for one in books}, tmp_path)

    assert ours.height == 2 * len(shares)


@pytest.mark.realdata
def test_real_books_of_kalshi(realdata, tmp_path):
    listed = orjson.loads(gzip.decompress((realdata / "other" / "kalshi_orderbook.json.gz").read_bytes()))
    books = [(ticker, ladder) for one in listed for ticker, ladder in one.items()]
    ladders = {ticker: {side: ladder[f"_{side}"] or [] for side in ("yes", "no")} for ticker, ladder in books}

    assert check_kalshi(ladders, tmp_path).height > 10


def row_of(text):
    """The row of PMXT's files that says what a message of the market channel says."""
    message = orjson.loads(text)
    at = datetime.fromtimestamp(int(message["timestamp"]) / 1000, UTC)
    if message["event_type"] == "book":
        sides = [orjson.dumps(message[name]).decode() for name in ("bids", "asks")]
        return (at, "0xmarket", "book_snapshot", message["asset_id"], *sides, None, None, None)
    (change,) = message["price_changes"]
    numbers = float(change["price"]), float(change["size"])
    return (at, "0xmarket", "price_change", change["asset_id"], None, None, *numbers, change["side"])


@pytest.mark.parametrize("seed", SEEDS)
def test_made_up_books_of_polymarket(seed, tmp_path):
    start_ms = round(NOON.timestamp() * 1000)
    with PolymarketServer.synthetic(matches=1, messages=400, seed=seed, start_ms=start_ms, closes=True) as server:
        (event,) = server.events
        texts = [server.snapshot(None, share, server._truth) for share in server._truth.levels]
        texts += [server.text(None, change, 0) for change in server._script.changes]
    markets = {KEY: {"part1": "11", "draw": "12", "part2": "13"}}
    fixture = {"id": event["slug"], "names": ["A", "B"], "kickoff": event["startTime"], "markets": markets}
    rows = pl.DataFrame([row_of(text) for text in texts], schema=pmxt.SCHEMA, orient="row")
    hour = tmp_path / "hour.parquet"
    rows.write_parquet(hour)
    files = {pmxt.named(NOON, 12): hour.read_bytes()}

    theirs = imported("pmxt", files, tmp_path / "file", mapping={"fixtures": [fixture]}, ladders=True).whole
    messages = [orjson.dumps([event]), *(text.encode() for text in texts)]
    ours = captured("polymarket", messages, tmp_path / "capture", ladders=True).whole

    named = [name for name in LADDERS if name != "fixture_id"]
    assert ours.ladders.height > 300
    assert theirs.ladders.select(named).equals(ours.ladders.select(named))
    theirs, ours = theirs.ticks, ours.ticks
    columns = ["ts_ms", "market_key", "side", "prob_bps", "odds_milli", "suspended"]
    assert ours.height > 300
    assert ours["suspended"].any()
    assert theirs.select(columns).sort(columns).equals(ours.select(columns).sort(columns))
