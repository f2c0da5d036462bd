"""Answers of Kalshi's REST interface for what is past: markets, candlesticks, trades; order books with a time in their name.

A candlestick has the best bid and ask as its period ended, which is a quote of that time. A trade is no standing quote: a
market of which there are trades only can serve to enter, not to close. Prices are cents or dollars by version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.base.times import micros_of_iso, of_iso, of_unix, time_in_name
from clvlab.errors import SourceError
from clvlab.packs.exchange import WHOLE, Quote, millionths, names_of, number
from clvlab.packs.importers.archives import json_documents
from clvlab.packs.importers.assets import AssetMap, AssetMarket, asset_map
from clvlab.packs.importers.shares import ListedShare, ShareSpill, Trade, price_millionths, quote_share, taker, trade_price
from clvlab.packs.importers.source import ImportStats, Normalised, Options, files_below, reason_of
from clvlab.packs.rows import RESULTS, Payout

NORMALISER = "kalshi/1"
ENDINGS = (".json", ".json.gz", ".jsonl", ".jsonl.gz")
_CUTOFF = "market_settled_ts"
_QUOTED = ("yes_bid", "yes_ask")
_ENDING = re.compile(r"\.jsonl?(\.gz)?$")


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return ``*.json``, ``*.jsonl``, also ``.gz``."""
    return files_below(paths, ENDINGS)


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
    """Read answers in any order; what they quote is put in order of time."""
    account = ImportStats(options.lenient)
    assets = asset_map("kalshi", options)
    reading = _KalshiReading(assets, options, account, ShareSpill(assets, scratch))
    for name, path in sorted(files.items()):
        reading.file(name, path)
        options.progress(f"{name}: {account.messages:,} quotes and trades so far")
    assets.check()
    results = pl.DataFrame(
        [(*key, result, None) for key, result in sorted(reading.results.items())], schema=RESULTS, orient="row"
    )
    return Normalised(
        parts=reading.spill.parts(options, account),
        fixtures=assets.fixtures,
        account=account,
        provenance="imported-kalshi",
        normaliser=NORMALISER,
        margin="multiplicative",
        consensus="single-venue",
        closing_source="venue",
        kickoff=assets.kickoff,
        results=results if results.height else None,
    )


@dataclass(slots=True)
class _KalshiReading:
    """Reads answers, and keeps what they say."""

    assets: AssetMap
    options: Options
    account: ImportStats
    spill: ShareSpill
    results: dict[tuple[int, str, str], str] = field(default_factory=dict)

    def file(self, name: str, path: Path) -> None:
        """Take the answers of a file."""
        try:
            for line, document in json_documents(name, path, self.account):
                for number, answer in enumerate(document, line) if isinstance(document, list) else [(line, document)]:
                    self._answer(name, number, answer)
        except SourceError as error:
            self.account.refuse_file(name, error)

    def _answer(self, name: str, line: int, answer: Any) -> None:
        parts = parts_of(answer)
        if parts is None:
            text = f"no answer of Kalshi about markets, candlesticks or trades: {str(answer)[:80]}"
            self.account.refuse(name, line, text, "no answer of Kalshi")
            return
        for nth, (kind, ticker, said) in enumerate(parts, 1):
            at = line if line > 1 else nth
            try:
                self._part(name, at, kind, ticker, said)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.account.refuse(name, at, f"{kind} of {ticker}: {reason_of(error)}", f"a {kind} can't be read")

    def _part(self, name: str, line: int, kind: str, ticker: str, said: Mapping[str, Any]) -> None:
        if kind == "cutoff":
            self.account.note("answers about what is historical")
            return
        if ticker is None and kind == "candlestick":
            ticker = self._named_in(name)
        if not isinstance(ticker, str):
            raise ValueError("it names no ticker")
        if kind == "market":
            event = str(said.get("event_ticker", ticker))
            self.assets.describe(ticker, event, names_of(str(said.get("title", "")).removesuffix(" Winner?")))
        share = None if kind == "market" else _share(name, line, kind, ticker, said)
        market = self.assets.markets.get(ticker) if kind == "market" else self.assets.find(ticker, self.account)
        if market is None:
            self.account.note("markets described that are not mapped", int(kind == "market"))
            return
        self.account.messages += 1
        if share is None:
            self._settle(name, line, ticker, market, said)
        else:
            self.spill.add(share._replace(event=str(market.fixture_id)), market, self.options.chunk_rows)

    def _named_in(self, name: str) -> str:
        """Return the ticker that a file's name holds: one that is mapped, else the name without its endings."""
        own = _ENDING.sub("", name.rpartition("/")[2])
        return max((ticker for ticker in self.assets.markets if ticker in own), key=len, default=own)

    def _settle(self, name: str, line: int, ticker: str, market: AssetMarket, said: Mapping[str, Any]) -> None:
        self.account.note("markets described")
        result = said.get("result")
        if result not in ("yes", "no"):
            self.account.note("markets without a result of yes or no")
            return
        for side, opposite in market.sides_of(ticker):
            settled = Payout.WON if (result == "yes") != opposite else Payout.LOST
            known = self.results.setdefault((market.fixture_id, market.key, side), settled.value)
            if known != settled:
                text = f"{ticker} is settled {result!r} here and otherwise elsewhere"
                self.account.refuse(name, line, text, "a result changes")


def parts_of(answer: Any) -> list[tuple[str, Any, Any]] | None:
    """Return kind, ticker and content of what an answer holds; null if it is none of Kalshi's."""
    if not isinstance(answer, dict):
        return None
    ticker = answer.get("ticker", answer.get("market_ticker"))
    if is_candlestick(answer):
        return [("candlestick", ticker, answer)]
    candles = answer.get("market_candlesticks", answer.get("candlesticks"))
    tickers = answer.get("market_tickers")
    if isinstance(candles, list) and isinstance(tickers, list):
        same = len(tickers) == len(candles)
        return _candlesticks(zip(tickers, candles, strict=True)) if same else [("candlestick", tickers, candles)]
    if isinstance(candles, list):
        return _candlesticks([(ticker, candles)])
    if isinstance(answer.get("markets"), list):
        return [part for market in answer["markets"] for part in _market_parts(market)]
    if isinstance(answer.get("market"), dict):
        return _market_parts(answer["market"])
    if isinstance(answer.get("trades"), list):
        return [("trade", _ticker(trade), trade) for trade in answer["trades"]]
    if "taker_side" in answer:
        return [("trade", ticker, answer)]
    if _CUTOFF in answer:
        return [("cutoff", None, answer)]
    dumped = {name: said.get("candlesticks") if isinstance(said, dict) else said for name, said in answer.items()}
    if any(_are_candlesticks(said) for said in dumped.values()) and all(isinstance(said, list) for said in dumped.values()):
        return _candlesticks(dumped.items())
    own = [said for name, said in answer.items() if _are_candlesticks(said)]
    if len(own) == 1:
        return _candlesticks([(ticker, own[0])])
    books = {name: said for name, said in answer.items() if is_order_book(said)}
    return [("order book", name, said) for name, said in books.items()] if books and len(books) == len(answer) else None


def is_candlestick(said: Any) -> bool:
    """Whether it is what a ticker was bid and offered at in a period."""
    return isinstance(said, dict) and "end_period_ts" in said and any({name, f"{name}_close"} & said.keys() for name in _QUOTED)


def _are_candlesticks(said: Any) -> bool:
    return isinstance(said, list) and bool(said) and is_candlestick(said[0])


def _candlesticks(of: Iterable[tuple[Any, Any]]) -> list[tuple[str, Any, Any]]:
    return [("candlestick", ticker, candle) for ticker, said in of for candle in (said if isinstance(said, list) else [said])]


def _market_parts(market: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(market, dict) and isinstance(market.get("candlesticks"), list):
        return [("candlestick", _ticker(market), candle) for candle in market["candlesticks"]]
    return [("market", _ticker(market), market)]


def _ticker(said: Any) -> Any:
    return said.get("ticker", said.get("market_ticker")) if isinstance(said, dict) else None


def is_order_book(said: Any) -> bool:
    """Whether it is a book of resting bids for yes and for no."""
    return isinstance(said, dict) and {"_yes", "_no"} <= said.keys()


def _share(name: str, line: int, kind: str, ticker: str, said: Mapping[str, Any]) -> ListedShare:
    """Read a candlestick, an order book or a trade.

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
    """
    if kind == "trade":
        in_dollars = said.get("yes_price_dollars") is not None
        price = trade_price(said["yes_price_dollars" if in_dollars else "yes_price"], in_dollars=in_dollars)
        created = said["created_time"]
        ts_ms = of_iso(created) if isinstance(created, str) else of_unix(created)
        micros = micros_of_iso(created) if isinstance(created, str) else ts_ms * 1000
        trade_id = None if said.get("trade_id") is None else str(said["trade_id"])
        trade = Trade(ts_ms, micros, price, taker(said["taker_side"]), trade_id)
        return trade.share(ticker, name, line)
    if kind == "candlestick":
        end = said["end_period_ts"]
        if type(end) is not int:
            raise ValueError(f"end_period_ts {end!r:.80} is no time in seconds")
        bid, ask = _close(said, "yes_bid", 0), _close(said, "yes_ask", WHOLE)
        return quote_share(ticker, of_unix(end), Quote(bid, ask), name, line)
    at_ms = time_in_name(name)
    if at_ms is None:
        raise ValueError("it carries no time: name the file by it, as kalshi_2026-06-25T200000Z.json")
    bid, no_bid = _best(said["_yes"]), _best(said["_no"])
    return quote_share(ticker, at_ms, Quote(bid, WHOLE - no_bid), name, line)


def _close(candle: Mapping[str, Any], name: str, nothing: int) -> int:
    """Return the price at the end of a period, or what it is where nobody offered one; dumps may have it alone."""
    said = candle[name] if name in candle else {"close": candle[f"{name}_close"]}
    if not isinstance(said, dict):
        said = {"close": said}
    in_dollars = "close_dollars" in said
    price = said["close_dollars" if in_dollars else "close"]
    return nothing if price is None else millionths(price) if in_dollars else price_millionths(price)


def _best(levels: Sequence[Sequence[Any]] | None) -> int:
    return max((price_millionths(price) for price, size in levels or () if number(size) > 0), default=0)
