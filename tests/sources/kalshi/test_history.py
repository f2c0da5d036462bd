import gzip
import json
import random
import shutil
from fractions import Fraction

import polars as pl
import pytest

from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from clvlab.sources.source import fixture_id_of
from tests.length import length
from tests.samples import kalshi
from tests.samples.walks import mapping, matches
from tests.sources.plain import state_of, states_by_time

MATCH = "1X2_PARTICIPANT_RESULT||"
KICKOFF_S = 1_772_377_200
ONE = {
    "fixtures": [
        {"id": "rain", "names": ["Rain"], "kickoff": KICKOFF_S, "markets": {"RAIN||": {"yes": "KX-RAIN"}}},
    ]
}


def candle(end_s, bid, ask, ending=""):
    return {"end_period_ts": end_s, "yes_bid": {f"close{ending}": bid}, "yes_ask": {f"close{ending}": ask}}


def trade(price, created, taker="yes", **more):
    return {"ticker": "KX-RAIN", "created_time": created, "taker_side": taker, "yes_price": price, **more}


def imported(tmp_path, *answers, assets=ONE, lenient=False, **options):
    folder = tmp_path / "answers"
    folder.mkdir(exist_ok=True, parents=True)
    for number, answer in enumerate(answers):
        (folder / f"{number}.json").write_text(json.dumps(answer))
    return import_source("kalshi", [folder], tmp_path / "p", import_options(mapping=assets, lenient=lenient, **options)).quality


def ticks(tmp_path):
    return verify_pack(tmp_path / "p").tape().ticks().collect()


@pytest.mark.parametrize(
    ("bid", "ask", "ending"),
    [(40, 42, ""), ("0.4000", "0.4200", ""), ("0.4000", "0.4200", "_dollars"), (0.4, 0.42, "")],
)
def test_a_candlestick_is_a_quote_as_its_period_ends_in_cents_or_dollars(tmp_path, bid, ask, ending):
    imported(tmp_path, {"ticker": "KX-RAIN", "candlesticks": [candle(KICKOFF_S - 60, bid, ask, ending)]})

    assert ticks(tmp_path).select("ts_ms", "market_key", "side", "prob_bps", "odds_milli").rows() == [
        ((KICKOFF_S - 60) * 1000, "RAIN||", "no", 5900, 1667),
        ((KICKOFF_S - 60) * 1000, "RAIN||", "yes", 4100, 2381),
    ]


@pytest.mark.parametrize("price", [1.0, 101, "2.5", None, True, "x", "NaN", -1])
def test_a_price_that_is_none_or_may_be_two_is_refused(tmp_path, price):
    with pytest.raises(SourceError, match=r"0\.json:1: trade of KX-RAIN"):
        imported(tmp_path, {"trades": [trade(price, "2026-03-01T14:00:00Z")]})


def test_a_side_without_a_bid_or_an_offer_suspends_its_market(tmp_path):
    imported(tmp_path, {"ticker": "KX-RAIN", "candlesticks": [candle(KICKOFF_S - 60, None, 42)]})

    assert ticks(tmp_path)["suspended"].all()


def test_a_market_whose_last_candlestick_is_far_from_the_kickoff_serves_to_enter_only(tmp_path):
    hourly = [candle(KICKOFF_S - hours * 3600, 40, 42) for hours in (3, 2, 1, 0)]

    quality = imported(tmp_path, {"ticker": "KX-RAIN", "candlesticks": hourly})

    (note,) = quality.notes
    assert "serve to enter, not to close: no quote in the last 15 minutes before kickoff" in note
    assert f"  {note}: 1" in quality.remarks


def test_trades_say_that_they_serve_to_enter_only_and_price_only_the_side_that_was_taken(tmp_path):
    quality = imported(
        tmp_path,
        {"trades": [trade(44, "2026-03-01T14:00:00.000600Z", "no"), trade(40, "2026-03-01T14:00:00.000100Z", "yes")]},
    )

    rows = ticks(tmp_path).select("ts_ms", "side", "prob_bps", "odds_milli").rows()
    assert rows[-2:] == [(1_772_373_600_001, "no", 5600, 1786), (1_772_373_600_001, "yes", 4400, None)]
    assert "markets that serve to enter, not to close: a trade is no standing quote" in quality.notes


def test_trades_of_markets_with_candlesticks_are_left_out_and_repeated_ones_dropped(tmp_path):
    same = trade(44, "2026-03-01T14:00:00Z", trade_id="a")
    candles = {"ticker": "KX-RAIN", "candlesticks": [candle(KICKOFF_S - 60, 40, 42)]}

    report = imported(tmp_path, {"trades": [same]}, candles)
    shutil.rmtree(tmp_path / "p")
    (tmp_path / "answers" / "1.json").unlink()
    alone = imported(tmp_path, {"trades": [same, same]})

    assert report.notes["trades of markets with quotes are left out"] == 1
    assert (alone.ticks, alone.notes["trades that repeat another were dropped"]) == (1, 1)


def test_two_quotes_of_one_time_are_one_if_they_agree_and_refused_otherwise(tmp_path):
    one, other = candle(KICKOFF_S - 60, 40, 42), candle(KICKOFF_S - 60, 41, 43)

    with pytest.raises(SourceError, match=r"KX-RAIN is quoted .* at"):
        imported(tmp_path, {"ticker": "KX-RAIN", "candlesticks": [one, other]})
    quality = imported(tmp_path, {"ticker": "KX-RAIN", "candlesticks": [one, one, other]}, lenient=True)

    assert (quality.ticks, quality.refused_rows, quality.notes["quotes that repeat another were dropped"]) == (1, 1, 1)
    assert ticks(tmp_path)["prob_bps"].to_list() == [5900, 4100]


def test_a_ticker_that_is_not_mapped_is_refused_with_the_lines_to_add_and_these_lines_can_be_read(tmp_path):
    market = {"ticker": "KX-FOO", "event_ticker": "KX", "title": "Ash vs Elm Winner?"}
    answers = [{"markets": [market]}, {"ticker": "KX-FOO", "candlesticks": [candle(KICKOFF_S - 60, 40, 42)] * 2}]

    with pytest.raises(SourceError, match="side of which market 'KX-FOO' is: kalshi needs a YAML file") as refused:
        imported(tmp_path, *answers)
    lines = str(refused.value).partition("\n")[2].partition("\nor with")[0]
    (tmp_path / "mine.yml").write_text(lines.replace("YYYY-MM-DDTHH:MM:SSZ", "2026-03-01T15:00:00Z"))
    imported(tmp_path, *answers, assets=tmp_path / "mine.yml")

    (fixture,) = verify_pack(tmp_path / "p").manifest.fixtures
    assert (fixture.source_id, fixture.names, fixture.kickoff_ts_ms) == ("KX", ("Ash", "Elm"), KICKOFF_S * 1000)
    assert ticks(tmp_path)["market_key"].unique().to_list() == ["KX-FOO||"]


CANDLES = [candle(KICKOFF_S - 120, 30, 32), candle(KICKOFF_S - 60, 40, 42) | {"price": {"close": None}, "volume": 0}]
FLAT = [
    {"end_period_ts": KICKOFF_S - 120, "yes_bid": 30, "yes_ask": 32},
    {"end_period_ts": KICKOFF_S - 60, "yes_bid": 40, "yes_ask": 42},
]
CLOSES = [
    {"end_period_ts": one["end_period_ts"], "yes_bid_close": one["yes_bid"], "yes_ask_close": one["yes_ask"]} for one in FLAT
]
DUMPS = {
    "the answer": {"ticker": "KX-RAIN", "candlesticks": CANDLES},
    "that of several markets": {"markets": [{"market_ticker": "KX-RAIN", "candlesticks": CANDLES}]},
    "that of an event": {"market_tickers": ["KX-RAIN", "KX-SNOW"], "market_candlesticks": [CANDLES, []], "adjusted_end_ts": 1},
    "by ticker": {"KX-RAIN": CANDLES, "KX-SNOW": []},
    "answers by ticker": {"KX-RAIN": {"candlesticks": CANDLES}},
    "a list that names the ticker": [one | {"ticker": "KX-RAIN"} for one in CANDLES],
    "under another key": {"market_ticker": "KX-RAIN", "period": 60, "data": CANDLES},
    "a list": CANDLES,
    "prices alone": FLAT,
    "closes alone": CLOSES,
}


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("dump", DUMPS)
def test_candlesticks_are_recognised_however_they_were_dumped(tmp_path, dump, lines):
    document = DUMPS[dump]
    some = document if isinstance(document, list) else [document]
    (tmp_path / "candles_KX-RAIN_1m.json").write_text(
        "".join(json.dumps(one) + "\n" for one in some) if lines else json.dumps(document, indent=1)
    )

    report = import_source(None, [tmp_path / "candles_KX-RAIN_1m.json"], tmp_path / "p", import_options(mapping=ONE))

    assert report.recognised.source == "kalshi"
    assert ticks(tmp_path).filter(pl.col("side") == "yes").select("ts_ms", "prob_bps").rows() == [
        ((KICKOFF_S - 120) * 1000, 3100),
        ((KICKOFF_S - 60) * 1000, 4100),
    ]


def test_candlesticks_that_name_no_ticker_are_of_that_which_the_file_is_named_by(tmp_path):
    (tmp_path / "KX-HAIL.json").write_text(json.dumps(CANDLES))

    with pytest.raises(SourceError, match="does not say which side of which market 'KX-HAIL' is"):
        import_source(None, [tmp_path / "KX-HAIL.json"], tmp_path / "p", import_options(mapping=ONE))


@pytest.mark.parametrize(
    "wrong", [{"yes_bid": None, "yes_ask": "x"}, {"end_period_ts": "soon"}, {"yes_bid": {}}, {"yes_bid": [1]}]
)
def test_a_candlestick_that_cant_be_read_is_counted_and_the_others_are_read(tmp_path, wrong):
    quality = imported(tmp_path, {"KX-RAIN": [CANDLES[0], CANDLES[1] | wrong]}, lenient=True)

    assert (quality.ticks, [(row.reason, row.count) for row in quality.refused]) == (1, [("a candlestick can't be read", 1)])


def test_candlesticks_and_tickers_of_other_numbers_are_refused(tmp_path):
    with pytest.raises(SourceError, match="it names no ticker"):
        imported(tmp_path, {"market_tickers": ["KX-RAIN", "KX-SNOW"], "market_candlesticks": [CANDLES]})


def test_tickers_that_are_not_mapped_are_left_out_only_where_the_mapping_says_so(tmp_path):
    known = {"ticker": "KX-RAIN", "candlesticks": [candle(KICKOFF_S - 60, 40, 42)]}
    other = {"ticker": "KX-FOO", "candlesticks": [candle(KICKOFF_S, 1, 2)] * 3}

    with pytest.raises(SourceError, match="does not say which side of which market 'KX-FOO' is"):
        imported(tmp_path, known, other, lenient=True)
    quality = imported(tmp_path, known, other, assets=ONE | {"others": "leave-out"})

    assert sum(count for reason, count in quality.notes.items() if "mapp" in reason) == 3


def test_results_come_from_the_markets_that_are_described(tmp_path):
    described = {"ticker": "KX-RAIN", "event_ticker": "KX", "title": "Rain?", "result": "no"}

    imported(tmp_path, {"markets": [described]}, {"ticker": "KX-RAIN", "candlesticks": [candle(KICKOFF_S - 60, 40, 42)]})

    results = verify_pack(tmp_path / "p").results
    assert results.select("side", "result").rows() == [("no", "won"), ("yes", "lost")]
    with pytest.raises(SourceError, match="settled 'yes' here and otherwise elsewhere"):
        imported(tmp_path / "other", {"markets": [described, described | {"result": "yes"}]})


BAD_MAPPINGS = {
    "the kickoff of 'rain' in the mapping: '2026-03-01T15:00' has no time zone": ("kickoff", "2026-03-01T15:00"),
    "'when' is no key; it has: id, names": ("when", 1),
    "needs at least two sides": ("markets", {"RAIN||": {"part1": "KX-RAIN"}}),
    "are the same share": ("markets", {"RAIN||": {"a": "KX-RAIN", "b": "KX-RAIN"}}),
    "names 'KX-RAIN' in 'A||' and in 'B||'": ("markets", {"A||": {"yes": "KX-RAIN"}, "B||": {"yes": "KX-RAIN"}}),
    "which no pack can hold": ("markets", {"A\n||": {"yes": "KX-RAIN"}}),
    "fixtures.0.markets": ("markets", {"RAIN||": ["KX-RAIN"]}),
}


@pytest.mark.parametrize("reason", BAD_MAPPINGS)
def test_a_mapping_that_cant_be_meant_is_refused(tmp_path, reason):
    key, value = BAD_MAPPINGS[reason]
    assets = {"fixtures": [ONE["fixtures"][0] | {key: value}]}

    with pytest.raises(SourceError, match=reason):
        imported(tmp_path, {"ticker": "KX-RAIN", "candlesticks": [candle(KICKOFF_S - 60, 40, 42)]}, assets=assets)


def test_both_sides_of_a_match_may_be_one_ticker_and_a_fixture_cant_stand_twice(tmp_path):
    (fixture,) = ONE["fixtures"]
    both = fixture | {"markets": {"WINNER||": {"part1": "KX-RAIN", "part2": {"no": "KX-RAIN"}}}}

    imported(tmp_path, {"ticker": "KX-RAIN", "candlesticks": [candle(KICKOFF_S - 60, 40, 42)]}, assets={"fixtures": [both]})

    assert ticks(tmp_path).select("side", "prob_bps").rows() == [("part1", 4100), ("part2", 5900)]
    with pytest.raises(SourceError, match="lists the fixture 'rain' twice"):
        imported(tmp_path / "other", {"markets": []}, assets={"fixtures": [fixture, fixture]})


@pytest.mark.parametrize("nothing", [[45, 0], [40, 0], [250, "0.00"], ["none", 0]])
def test_a_level_of_an_order_book_at_which_nothing_rests_is_not_read(tmp_path, nothing):
    read = []
    for number, levels in enumerate(([[40, 1]], [[40, 1], nothing])):
        (tmp_path / str(number)).mkdir()
        book = tmp_path / str(number) / "kalshi_2026-02-25T200000Z.json"
        book.write_text(json.dumps({"KX-RAIN": {"_yes": levels, "_no": [[58, 1]]}}))
        import_source("kalshi", [book], tmp_path / f"p{number}", import_options(mapping=ONE, lenient=False))
        read.append(verify_pack(tmp_path / f"p{number}").tape().ticks().collect())

    assert read[0].equals(read[1])


@pytest.mark.realdata
def test_the_real_order_books_need_a_time_in_their_files_name(realdata, tmp_path):
    source = realdata / "other" / "kalshi_orderbook.json.gz"
    named = tmp_path / "kalshi_2024-07-14T120000Z.json.gz"
    shutil.copy(source, named)
    tickers = [ticker for book in json.loads(gzip.decompress(source.read_bytes())) for ticker in book]
    fixture = ONE["fixtures"][0] | {"kickoff": "2024-07-20T00:00:00Z"}
    assets = {"fixtures": [fixture | {"markets": {f"{ticker}||": {"yes": ticker} for ticker in tickers}}]}

    with pytest.raises(SourceError, match="it carries no time: name the file by it"):
        import_source("kalshi", [source], tmp_path / "p", import_options(mapping=assets))
    quality = import_source("kalshi", [named], tmp_path / "p", import_options(mapping=assets)).quality

    assert (quality.messages, quality.markets, quality.ticks) == (100, 100, 100)
    first = ticks(tmp_path).filter(pl.col("market_key") == "APRPOTUS-24JUL19-T40.8||")
    assert first.select("side", "prob_bps").rows() == [("no", 9050), ("yes", 950)]  # 7 bid, 100 - 88 asked


def plain_states(folder, some):
    """Make the states of the matches' markets, candle by candle."""
    quotes = {}
    for file in folder.glob("candlesticks-*.json"):
        answer = json.loads(file.read_text())
        for candle in answer["candlesticks"]:
            prices = [next(reversed(candle[name].values())) for name in ("yes_bid", "yes_ask")]  # all four are alike
            in_dollars = [Fraction(price, 100) if isinstance(price, int) else Fraction(price) for price in prices]
            quotes.setdefault(candle["end_period_ts"], {})[answer["ticker"]] = tuple(in_dollars)
    found = {}
    for match in some:
        named = dict(zip(("part1", "draw", "part2"), match.shares, strict=True))
        for end_s, by_ticker in quotes.items():
            own = {side: by_ticker[ticker] for side, ticker in named.items() if ticker in by_ticker}
            if own:
                found[fixture_id_of(match.id), end_s * 1000, MATCH] = state_of(own, sorted(named))
    return found


@pytest.mark.parametrize("seed", range(length(4, 60)))
def test_candlesticks_agree_with_a_plain_loop_whatever_their_order_version_repeats_and_gaps(tmp_path, seed):
    dice = random.Random(seed)
    folder = tmp_path / "answers"
    folder.mkdir()
    unit = dice.choice(["cents", "dollars"])
    kalshi.write(folder, seed, unit, historical=dice.random() < 0.5, minutes=30)
    for file in folder.glob("candlesticks-*.json"):
        answer = json.loads(file.read_text())
        kept = [one for one in answer["candlesticks"] if dice.random() > 0.1]
        some = kept + dice.sample(kept, 5)
        dice.shuffle(some)
        for one in dice.sample(some, 3):  # wide, crossed, or without a bid
            wrong = dice.choice([(5, 60), (40, 40), (0, 3)])
            same = [other for other in some if other["end_period_ts"] == one["end_period_ts"]]
            for other, (name, cents) in ((o, p) for o in same for p in zip(("yes_bid", "yes_ask"), wrong, strict=True)):
                for part in other[name]:
                    other[name][part] = cents if unit == "cents" else f"{cents / 100:.4f}"
        file.write_text(json.dumps(answer | {"candlesticks": some}))
    (folder / "trades.json").unlink()
    (tmp_path / "assets.yml").write_text(mapping(matches()))

    options = import_options(mapping=tmp_path / "assets.yml")
    import_source("kalshi", [folder], tmp_path / "p", options)

    assert states_by_time(verify_pack(tmp_path / "p")) == plain_states(folder, matches())
