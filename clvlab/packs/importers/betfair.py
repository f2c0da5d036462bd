"""Betfair historical stream files: every state of a market's book, from the first message to the settlement.

A runner's probability is the mid of its best back and lay prices, normalised over the active runners. A market with another
number of winners than one has no such sum: there each runner is a market of its own, ``yes`` or ``no``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.errors import SourceError
from clvlab.law.schema import TICKS, ClosingPolicy
from clvlab.odds.consensus import PROB_UNIT, basis_points
from clvlab.packs.importers.betfair_book import Column, MarketBook, States
from clvlab.packs.importers.betfair_files import MarketFile, market_files
from clvlab.packs.importers.books import QuoteSpill, batches, number_messages
from clvlab.packs.importers.source import Account, Normalised, Options, fixture_ids_of
from clvlab.packs.importers.times import of_iso
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.packs.results import RESULTS, Settled

NORMALISER = "betfair/1"
_RACING = {"7", "4339"}  # an event is a meeting there, and a race one of its start times
_SETTLED = {"WINNER": Settled.WON, "PLACED": Settled.WON, "LOSER": Settled.LOST, "REMOVED": Settled.VOID}
_Column = tuple[str, str, Column, Column, npt.NDArray[np.bool_]]  # market, side, basis points, odds, suspended
_LONG = {name: dtype for name, dtype in TICKS.items() if name not in ("fixture_id", "tick_seq")} | {"event": pl.String}


@dataclass(frozen=True, slots=True)
class _Market:
    """What is kept of a market once its ticks were written away."""

    file: str
    market_id: str
    event: str
    kind: str
    name: str | None
    first_ms: int
    off_ms: int | None
    suspended_ms: int | None
    planned_ms: int  # as first announced
    settled: tuple[tuple[str, str, str, str | None], ...]  # parameters, side, result, runner
    grew: bool


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
    """Read markets file by file, and write them down fixture by fixture; the kickoff is the actual off."""
    account = Account(options.lenient)
    spill = QuoteSpill(scratch)
    known: dict[str, _Market] = {}
    for file in market_files(files, options, account):
        try:
            for _ in file.read(options.chunk_rows):
                _spill_states(file, known, spill, account)
        except SourceError as error:
            spill.drop()
            account.refuse_file(file.name, error)
        else:
            spill.keep()
            _learn(file, known, account)
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
        parts=_parts(spill, ids, keys, frozenset(market.market_id for market in known.values() if market.grew), options),
        fixtures=tuple(_fixtures(known, ids, account)),
        account=account,
        provenance="imported-betfair",
        normaliser=NORMALISER,
        margin="multiplicative",
        consensus="mid of best back and lay, or last traded; price is the best back",
        closing_source="venue",
        closing_policy=ClosingPolicy.LAST_OPEN,
        kickoff=KickoffKind.ACTUAL,
        results=pl.DataFrame(results, schema=RESULTS, orient="row") if results else None,
    )


def _spill_states(file: MarketFile, known: Mapping[str, _Market], spill: QuoteSpill, account: Account) -> None:
    """Write the newest states of a file's markets away."""
    for book in file.books.values():
        states = book.take()
        if states.ts_ms and _readable(book) and book.market_id not in known:
            spill.add(_ticks(book, states, account), sure=False)


def _readable(book: MarketBook) -> bool:
    return book.first.get("bettingType") in (None, "ODDS")


def _learn(file: MarketFile, known: dict[str, _Market], account: Account) -> None:
    """Take the facts of the markets of a file that was read to its end."""
    for book in file.books.values():
        if book.market_id in known:
            first = known[book.market_id].file
            account.refuse(file.name, 1, f"market {book.market_id} was read from {first}", "a market is in two files")
        elif not _readable(book):
            kind = book.first["bettingType"]
            account.refuse(file.name, 1, f"bettingType {kind!r} is not read", "a betting type is not read")
        else:
            known[book.market_id] = _market(file.name, book)
            account.note("markets with a runner removed", int(book.removed))


def _event(book: MarketBook) -> str:
    event, racing = str(book.first["eventId"]), str(book.first["eventTypeId"]) in _RACING
    return f"{event}@{book.first['marketTime']}" if racing else event


def _by_runner(book: MarketBook) -> bool:
    return int(book.first.get("numberOfWinners", 1)) != 1


def _market(name: str, book: MarketBook) -> _Market:
    definition = book.definition
    settled: list[tuple[str, str, str, str | None]] = []
    for key, runner in book.runners.items():
        result = _SETTLED.get(runner.status)
        if result is None or definition["status"] != "CLOSED":
            continue
        opposite = {Settled.WON: Settled.LOST, Settled.LOST: Settled.WON}.get(result, Settled.VOID)
        sides = (
            [(f"selection={key}", "yes", result), (f"selection={key}", "no", opposite)]
            if _by_runner(book)
            else [("", key, result)]
        )
        settled += [(parameters, side, of.value, runner.name) for parameters, side, of in sides]
    return _Market(
        file=name,
        market_id=book.market_id,
        event=_event(book),
        kind=str(definition.get("marketType") or "UNKNOWN"),
        name=definition.get("eventName"),
        first_ms=book.first_ms,
        off_ms=book.off_ms,
        suspended_ms=book.suspended_ms,
        planned_ms=of_iso(book.first["marketTime"]),
        settled=tuple(settled),
        grew=book.grew and not _by_runner(book),
    )


def _ticks(book: MarketBook, states: States, account: Account) -> pl.DataFrame:
    """Return the ticks of one market, still without number; ``market_key`` holds its id and what comes after its key."""
    sides = sorted(book.runners, key=str.encode)
    order = [book.runners[side].number for side in sides]
    prob, odds, no_odds = (matrix[:, order] for matrix in states.matrices())
    open_ = np.frombuffer(states.open, np.bool_)
    running = np.frombuffer(states.active, np.bool_).reshape(len(open_), -1)[:, order]
    if _by_runner(book):
        return _long(book, states, _runner_markets(book, sides, prob, (no_odds, odds), running & open_[:, None]))
    priced = open_ & ((prob > 0) | ~running).all(axis=1) & (running.sum(axis=1) > 1)
    account.note("open books that lack a runner's price are suspended", int((open_ & ~priced).sum()))
    raw = np.where(running, prob, 0)
    _count_overround(raw[priced].sum(axis=1), account)
    bps = np.full(prob.shape, -1, dtype=np.int64)
    bps[priced] = np.where(running[priced], basis_points(raw[priced]), -1)
    odds = np.where(priced[:, None] & running, odds, -1)
    return _long(book, states, [(f"{book.market_id}", side, bps[:, n], odds[:, n], ~priced) for n, side in enumerate(sides)])


def _runner_markets(
    book: MarketBook, sides: list[str], prob: Column, odds: tuple[Column, Column], running: npt.NDArray[np.bool_]
) -> list[_Column]:
    columns = []
    for n, side in enumerate(sides):
        priced = running[:, n] & (prob[:, n] > 0)
        both = np.stack([PROB_UNIT - prob[:, n], prob[:, n]], axis=1)
        bps = np.full(both.shape, -1, dtype=np.int64)
        bps[priced] = basis_points(both[priced])
        for k, name in enumerate(("no", "yes")):
            key = f"{book.market_id}|selection={side}"
            columns.append((key, name, bps[:, k], np.where(priced, odds[k][:, n], -1), ~priced))
    return columns


def _count_overround(totals: Column, account: Account) -> None:
    tens, times = np.unique(np.rint((totals / PROB_UNIT - 1.0) * 1000).astype(np.int64) * 10, return_counts=True)
    account.overround_bps.update(dict(zip(tens.tolist(), times.tolist(), strict=True)))


def _long(book: MarketBook, states: States, columns: list[_Column]) -> pl.DataFrame:
    """Put the sides under each other; prices of -1 stand for no price."""
    shared = {
        "ts_ms": pl.Series(np.frombuffer(states.ts_ms, np.int64)),
        "in_running": pl.Series(np.frombuffer(states.in_play, np.bool_)),
    }
    frames = [
        pl.DataFrame(shared | {"prob_bps": bps, "odds_milli": odds, "suspended": suspended}).with_columns(
            market_key=pl.lit(key), side=pl.lit(side)
        )
        for key, side, bps, odds, suspended in columns
    ]
    price = pl.col("prob_bps", "odds_milli")
    return (
        pl.concat(frames)
        .with_columns(pl.when(price >= 0).then(price).cast(pl.Int32), event=pl.lit(_event(book)))
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
        yield Fixture(
            fixture_id=ids[event],
            names=(name,) if name else (),
            source_id=event,
            kickoff_ts_ms=kickoff,
            scheduled_ts_ms=min(of[event], key=lambda market: (market.first_ms, market.market_id)).planned_ms,
        )


def _parts(
    spill: QuoteSpill, ids: Mapping[str, int], keys: Mapping[str, str], grown: Set[str], options: Options
) -> Iterator[pl.DataFrame]:
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        yield number_messages(_named(_completed(spill.rows(batch), grown), ids, keys))


def _named(rows: pl.DataFrame, ids: Mapping[str, int], keys: Mapping[str, str]) -> pl.DataFrame:
    """Return ``TICKS``, still without number, with the fixtures and markets that the events and market ids stand for."""
    found = rows["market_key"].unique().to_list()
    named = [_with(keys[key.partition("|")[0]], key.partition("|")[2]) for key in found]
    return rows.with_columns(
        fixture_id=pl.col("event").replace_strict(dict(ids), return_dtype=pl.Int64),
        tick_seq=pl.lit(0, pl.Int32),
        market_key=pl.col("market_key").replace_strict(found, named, return_dtype=pl.String),
    ).select(*TICKS)


def _completed(rows: pl.DataFrame, grown: Set[str]) -> pl.DataFrame:
    """Return messages that were written away before a runner came in a row for it, without a price."""
    short = rows.filter(pl.col("market_key").is_in(list(grown)))
    if short.is_empty():
        return rows
    message = ["market_key", "ts_ms", "in_running", "suspended", "event"]
    whole = short.select(message).unique().join(short.select("market_key", "side").unique(), on="market_key")
    lacking = whole.join(short, on=["market_key", "ts_ms", "side"], how="anti")
    return pl.concat([rows, lacking.with_columns(prob_bps=None, odds_milli=None).cast(rows.schema).select(rows.columns)])
