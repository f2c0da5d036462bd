"""Answers of Kalshi's REST interface about the past: markets, candlesticks, trades, and order books timed by their file name.

A candlestick has the best bid and ask at the end of its period, which form a quote at that time. A trade is only a price paid,
so a market that has only trades can be entered, but has no close. Prices are in cents or dollars, by version of the interface.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.base.progress import each
from clvlab.errors import SourceError
from clvlab.packs.rows import RESULTS, Payout
from clvlab.sources.archives import json_documents
from clvlab.sources.kalshi.messages import listed_share, parts_of, title_names
from clvlab.sources.shares import (
    AssetMap,
    AssetMarket,
    ShareSpill,
    asset_map,
)
from clvlab.sources.source import ImportStats, Options, SourceData, files_below, reason_of

NORMALISER = "kalshi/1"
ENDINGS = (".json", ".json.gz", ".jsonl", ".jsonl.gz")
_ENDING = re.compile(r"\.jsonl?(\.gz)?$")


def find(paths: Sequence[Path]) -> dict[str, Path]:
    return files_below(paths, ENDINGS)


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    """Read answers in any order; their quotes are sorted by time."""
    account = ImportStats(options.lenient)
    assets = asset_map("kalshi", options)
    reader = _HistoryReader(assets, options, account, ShareSpill(assets, scratch))
    for name, path in each("reading files", sorted(files.items()), len(files)):
        reader.read_file(name, path)
        options.progress(f"{name}: {account.messages:,} quotes and trades so far")
    assets.check()
    results = pl.DataFrame(
        [(*key, result, None) for key, result in sorted(reader.results.items())], schema=RESULTS, orient="row"
    )
    return SourceData(
        parts=reader.spill.parts(options, account),
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
class _HistoryReader:
    assets: AssetMap
    options: Options
    account: ImportStats
    spill: ShareSpill
    results: dict[tuple[int, str, str], str] = field(default_factory=dict)

    def read_file(self, name: str, path: Path) -> None:
        try:
            for line, document in json_documents(name, path, self.account):
                for number, answer in enumerate(document, line) if isinstance(document, list) else [(line, document)]:
                    self._read_answer(name, number, answer)
        except SourceError as error:
            self.account.refuse_file(name, error)

    def _read_answer(self, name: str, line: int, answer: Any) -> None:
        parts = parts_of(answer)
        if parts is None:
            text = f"not an answer of Kalshi about markets, candlesticks or trades: {str(answer)[:80]}"
            self.account.refuse(name, line, text, "not an answer of Kalshi")
            return
        for nth, (kind, ticker, content) in enumerate(parts, 1):
            at = line if line > 1 else nth
            try:
                self._read_part(name, at, kind, ticker, content)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.account.refuse(name, at, f"{kind} of {ticker}: {reason_of(error)}", f"a {kind} can't be read")

    def _read_part(self, name: str, line: int, kind: str, ticker: str, content: Mapping[str, Any]) -> None:
        if kind == "cutoff":
            self.account.note("answers about the historical cutoff")
            return
        if ticker is None and kind == "candlestick":
            ticker = self._ticker_in(name)
        if not isinstance(ticker, str):
            raise ValueError("it names no ticker")
        if kind == "market":
            event = str(content.get("event_ticker", ticker))
            self.assets.describe(ticker, event, title_names(str(content.get("title", ""))))
        share = None if kind == "market" else listed_share(name, line, kind, ticker, content)
        market = self.assets.markets.get(ticker) if kind == "market" else self.assets.find(ticker, self.account)
        if market is None:
            self.account.note("described markets that are not mapped", int(kind == "market"))
            return
        self.account.messages += 1
        if share is None:
            self._settle(name, line, ticker, market, content)
        else:
            self.spill.add(share._replace(event=str(market.fixture_id)), market, self.options.chunk_rows)

    def _ticker_in(self, name: str) -> str:
        """Return the ticker in a file's name: a mapped ticker if the name has one, else the name without its endings."""
        own = _ENDING.sub("", name.rpartition("/")[2])
        return max((ticker for ticker in self.assets.markets if ticker in own), key=len, default=own)

    def _settle(self, name: str, line: int, ticker: str, market: AssetMarket, content: Mapping[str, Any]) -> None:
        self.account.note("markets described")
        result = content.get("result")
        if result not in ("yes", "no"):
            self.account.note("markets without a result of yes or no")
            return
        for side, opposite in market.sides_of(ticker):
            settled = Payout.WON if (result == "yes") != opposite else Payout.LOST
            known = self.results.setdefault((market.fixture_id, market.key, side), settled.value)
            if known != settled:
                text = f"{ticker} is settled {result!r} here and otherwise elsewhere"
                self.account.refuse(name, line, text, "a result changes")
