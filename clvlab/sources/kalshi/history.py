"""Answers of Kalshi's REST interface about the past: markets, candlesticks, trades, and order books with a time in their name.

A candlestick has the best bid and ask at its period's end, which is a quote of that time. A trade is not a quote: a market of
trades alone can serve to enter, not to close. Prices are cents or dollars by version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

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
    reading = _HistoryReader(assets, options, account, ShareSpill(assets, scratch))
    for name, path in sorted(files.items()):
        reading.file(name, path)
        options.progress(f"{name}: {account.messages:,} quotes and trades so far")
    assets.check()
    results = pl.DataFrame(
        [(*key, result, None) for key, result in sorted(reading.results.items())], schema=RESULTS, orient="row"
    )
    return SourceData(
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
class _HistoryReader:
    assets: AssetMap
    options: Options
    account: ImportStats
    spill: ShareSpill
    results: dict[tuple[int, str, str], str] = field(default_factory=dict)

    def file(self, name: str, path: Path) -> None:
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
        for nth, (kind, ticker, content) in enumerate(parts, 1):
            at = line if line > 1 else nth
            try:
                self._part(name, at, kind, ticker, content)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.account.refuse(name, at, f"{kind} of {ticker}: {reason_of(error)}", f"a {kind} can't be read")

    def _part(self, name: str, line: int, kind: str, ticker: str, content: Mapping[str, Any]) -> None:
        if kind == "cutoff":
            self.account.note("answers about what is historical")
            return
        if ticker is None and kind == "candlestick":
            ticker = self._named_in(name)
        if not isinstance(ticker, str):
            raise ValueError("it names no ticker")
        if kind == "market":
            event = str(content.get("event_ticker", ticker))
            self.assets.describe(ticker, event, title_names(str(content.get("title", ""))))
        share = None if kind == "market" else listed_share(name, line, kind, ticker, content)
        market = self.assets.markets.get(ticker) if kind == "market" else self.assets.find(ticker, self.account)
        if market is None:
            self.account.note("markets described that are not mapped", int(kind == "market"))
            return
        self.account.messages += 1
        if share is None:
            self._settle(name, line, ticker, market, content)
        else:
            self.spill.add(share._replace(event=str(market.fixture_id)), market, self.options.chunk_rows)

    def _named_in(self, name: str) -> str:
        """Return the ticker in a file's name: one that is mapped, else the name without its endings."""
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
