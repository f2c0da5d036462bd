"""Betfair historical stream files: every state of a market's book, from the first message to the settlement.

A runner's probability is the mid of its best back and lay prices, normalised over the active runners. A market with another
number of winners than one has no such sum: there each runner is a market of its own, ``yes`` or ``no``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.law.schema import TICKS, ClosingPolicy
from clvlab.odds.consensus import PROB_UNIT, basis_points
from clvlab.packs.importers.betfair_book import MarketBook
from clvlab.packs.importers.betfair_files import find, markets
from clvlab.packs.importers.books import QuoteSpill, batches, numbered
from clvlab.packs.importers.source import Account, Normalised, Options, fixture_ids_of
from clvlab.packs.importers.times import of_iso
from clvlab.packs.manifest import Fixture
from clvlab.packs.results import RESULTS, Settled

__all__ = ["NORMALISER", "find", "normalise"]

NORMALISER = "betfair/1"
_RACING = {"7", "4339"}  # an event is a meeting there, and a race one of its start times
_SETTLED = {"WINNER": Settled.WON, "PLACED": Settled.WON, "LOSER": Settled.LOST, "REMOVED": Settled.VOID}
_LONG = {name: dtype for name, dtype in TICKS.items() if name not in ("fixture_id", "tick_seq")} | {"event": pl.String}


@dataclass(frozen=True, slots=True)
class _Market:
    """What is kept of a market once its ticks were written away."""

    file: str
    market_id: str
    event: str
    kind: str
    name: str | None
    off_ms: int | None
    suspended_ms: int | None
    planned_ms: int
    settled: tuple[tuple[str, str, str, str | None], ...]  # parameters, side, result, runner


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
    """Read markets file by file, and write them down fixture by fixture; the kickoff is the actual off."""
    account = Account(options.lenient)
    spill = QuoteSpill(scratch)
    known: dict[str, _Market] = {}
    for name, book in markets(files, options, account):
        if book.market_id in known:
            first = known[book.market_id].file
            account.refuse(name, 1, f"market {book.market_id} was read from {first}", "a market is in two files")
        elif book.definition.get("bettingType", "ODDS") != "ODDS":
            account.refuse(name, 1, f"bettingType {book.definition['bettingType']!r} is not read", "a betting type is not read")
        else:
            market = _market(name, book)
            spill.add(_states(book, market, account))
            known[book.market_id] = market
    ids = fixture_ids_of(market.event for market in known.values())
    kinds = Counter((market.event, market.kind) for market in known.values())
    keys = {
        market.market_id: market.kind + "||" + (f"market={market.market_id}" if kinds[market.event, market.kind] > 1 else "")
        for market in known.values()
    }
    results = [
        (ids[market.event], _with(keys[market.market_id], parameters), side, result, detail)
        for market in known.values()
        for parameters, side, result, detail in market.settled
    ]
    return Normalised(
        parts=_parts(spill, ids, keys, options),
        fixtures=tuple(_fixtures(known, ids, account)),
        account=account,
        provenance="imported-betfair",
        normaliser=NORMALISER,
        margin="multiplicative",
        consensus="mid of best back and lay, or last traded; price is the best back",
        closing_source="venue",
        closing_policy=ClosingPolicy.LAST_OPEN,
        results=pl.DataFrame(results, schema=RESULTS, orient="row") if results else None,
    )


def _market(name: str, book: MarketBook) -> _Market:
    definition = book.definition
    event = str(definition["eventId"])
    if str(definition["eventTypeId"]) in _RACING:
        event += f"@{book.first_time}"
    by_runner = int(definition.get("numberOfWinners", 1)) != 1
    settled: list[tuple[str, str, str, str | None]] = []
    for key, runner in book.runners.items():
        result = _SETTLED.get(runner.status)
        if result is None or definition["status"] != "CLOSED":
            continue
        opposite = {Settled.WON: Settled.LOST, Settled.LOST: Settled.WON}.get(result, Settled.VOID)
        sides = (
            [(f"selection={key}", "yes", result), (f"selection={key}", "no", opposite)] if by_runner else [("", key, result)]
        )
        settled += [(parameters, side, of.value, runner.name) for parameters, side, of in sides]
    return _Market(
        file=name,
        market_id=book.market_id,
        event=event,
        kind=str(definition.get("marketType") or "UNKNOWN"),
        name=definition.get("eventName"),
        off_ms=book.off_ms,
        suspended_ms=book.suspended_ms,
        planned_ms=of_iso(definition["marketTime"]),
        settled=tuple(settled),
    )


def _states(book: MarketBook, market: _Market, account: Account) -> pl.DataFrame:
    """Give the ticks of one market, still without number; ``market_key`` holds its id and what comes after its key."""
    sides = sorted(book.runners, key=str.encode)
    order = [list(book.runners).index(side) for side in sides]
    prob, odds, no_odds, active = (
        _matrix(rows, order) for rows in (book.prob, book.odds_milli, book.no_odds_milli, book.active)
    )
    open_ = np.array(book.open, dtype=np.bool_)
    running = active > 0
    if (~running & open_[:, None]).any():
        account.note("markets with a runner removed", 1)
    if int(book.definition.get("numberOfWinners", 1)) != 1:
        return _by_runner(book, market, sides, prob, odds, no_odds, running & open_[:, None])
    priced = open_ & ((prob > 0) | ~running).all(axis=1) & (running.sum(axis=1) > 1)
    account.note("open books that lack a runner's price are suspended", int((open_ & ~priced).sum()))
    raw = np.where(running, prob, 0)
    _count_overround(raw[priced].sum(axis=1), account)
    bps = np.full(prob.shape, -1, dtype=np.int64)
    bps[priced] = np.where(running[priced], basis_points(raw[priced]), -1)
    odds = np.where(priced[:, None] & running, odds, -1)
    return _long(book, market, [(f"{market.market_id}", side, bps[:, n], odds[:, n], ~priced) for n, side in enumerate(sides)])


def _by_runner(
    book: MarketBook,
    market: _Market,
    sides: list[str],
    prob: npt.NDArray[np.int64],
    odds: npt.NDArray[np.int64],
    no_odds: npt.NDArray[np.int64],
    running: npt.NDArray[np.bool_],
) -> pl.DataFrame:
    columns = []
    for n, side in enumerate(sides):
        priced = running[:, n] & (prob[:, n] > 0)
        both = np.stack([PROB_UNIT - prob[:, n], prob[:, n]], axis=1)
        bps = np.full(both.shape, -1, dtype=np.int64)
        bps[priced] = basis_points(both[priced])
        key = f"{market.market_id}|selection={side}"
        for k, (name, price) in enumerate((("no", no_odds[:, n]), ("yes", odds[:, n]))):
            columns.append((key, name, bps[:, k], np.where(priced, price, -1), ~priced))
    return _long(book, market, columns)


def _matrix(rows: Sequence[Sequence[int]], order: list[int]) -> npt.NDArray[np.int64]:
    """Make a matrix of rows that grew when a runner was added; what a row lacks at its end is -1, and no runner."""
    matrix = np.full((len(rows), len(order)), -1, dtype=np.int64)
    for n, row in enumerate(rows):
        matrix[n, : len(row)] = list(row)
    return matrix[:, order]


def _count_overround(totals: npt.NDArray[np.int64], account: Account) -> None:
    tens, times = np.unique(np.rint((totals / PROB_UNIT - 1.0) * 1000).astype(np.int64) * 10, return_counts=True)
    account.overround_bps.update(dict(zip(tens.tolist(), times.tolist(), strict=True)))


_Column = tuple[str, str, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]


def _long(book: MarketBook, market: _Market, columns: list[_Column]) -> pl.DataFrame:
    """Put the sides under each other; prices of -1 are none. The last message of one time stands for that time's state."""
    n = len(book.ts_ms)
    frames = [
        pl.DataFrame(
            {"ts_ms": book.ts_ms, "in_running": book.in_play, "prob_bps": bps, "odds_milli": odds, "suspended": suspended}
        ).with_columns(market_key=pl.lit(key), side=pl.lit(side), at=pl.int_range(n))
        for key, side, bps, odds, suspended in columns
    ]
    price = pl.col("prob_bps", "odds_milli")
    return (
        pl.concat(frames)
        .with_columns(pl.when(price >= 0).then(price).cast(pl.Int32), event=pl.lit(market.event))
        .unique(["market_key", "side", "ts_ms"], keep="last", maintain_order=True)
        .select(*_LONG)
    )


def _with(key: str, parameters: str) -> str:
    return key + ("|" if parameters and not key.endswith("||") else "") + parameters


def _fixtures(known: Mapping[str, _Market], ids: Mapping[str, int], account: Account) -> Iterator[Fixture]:
    of: dict[str, list[_Market]] = {}
    for market in known.values():
        of.setdefault(market.event, []).append(market)
    for event in sorted(of, key=lambda event: ids[event]):
        offs = [market.off_ms for market in of[event] if market.off_ms is not None]
        ends = [market.suspended_ms for market in of[event] if market.suspended_ms is not None]
        if not offs and not ends:
            account.note("fixtures whose off is not in the files close at the planned time")
        kickoff = min(offs) if offs else max(ends, default=max(market.planned_ms for market in of[event]))
        name = next((market.name for market in of[event] if market.name), None)
        yield Fixture(fixture_id=ids[event], names=(name,) if name else (), source_id=event, kickoff_ts_ms=kickoff)


def _parts(spill: QuoteSpill, ids: Mapping[str, int], keys: Mapping[str, str], options: Options) -> Iterator[pl.DataFrame]:
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        rows = spill.scan().filter(pl.col("event").is_in(batch)).collect(engine="streaming")
        found = rows["market_key"].unique().to_list()
        named = [_with(keys[key.partition("|")[0]], key.partition("|")[2]) for key in found]
        number = pl.col("event").replace_strict(dict(ids), return_dtype=pl.Int64)
        yield numbered(
            rows.with_columns(
                fixture_id=number,
                tick_seq=pl.lit(0, pl.Int32),
                market_key=pl.col("market_key").replace_strict(found, named, return_dtype=pl.String),
            ).select(*TICKS)
        )
