"""The feed of the benchmarks as every tool of the field takes it: a pack, a file of rows, and a Betfair stream.

All three say the same of every message. So that they can, the sides of a message add up to 10000, play begins a millisecond
after the last message before it (a stream's books of one time are one), no market is suspended at the close (packs made of
the stream would take its last open price, which the scripts do not), and every message changes its market (an import leaves
out the others).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.law.tape import Tape
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import PackManifest
from clvlab.packs.writer import PackWriter
from tests.benchmarks.data import FEED, PACK, ROWS_PER_FIXTURE, feed, fixtures

__all__ = ["KINDS", "STREAM", "main", "write_data"]

STREAM = "stream"
KINDS = {
    "1X2_PARTICIPANT_RESULT||": "MATCH_ODDS",
    "ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5": "HANDICAP",
    "OVERUNDER_PARTICIPANT_GOALS||line=2.5": "OVER_UNDER_25",
    "OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5": "FIRST_HALF_GOALS_15",
}
"""Market types of the stream, by market key."""
_FIXTURES_AT_ONCE = 50
_HALF_SPREAD = 0.002  # of probability, about the mid that the feed says
_FIRST_MARKET = 200_000_000


def write_data(folder: Path, ticks: int, seed: int, *, with_stream: bool) -> int:
    """Write about so many ticks as a pack, as a file of rows in order of arrival, and as a stream; return their number."""
    (folder / STREAM).mkdir(parents=True)
    total = max(1, ticks // ROWS_PER_FIXTURE)
    declared = fixtures(range(total))
    rows, parts = 0, []
    with PackWriter(folder / PACK, declared) as writer:
        for first in range(0, total, _FIXTURES_AT_ONCE):
            count = min(_FIXTURES_AT_ONCE, total - first)
            made = adapted(feed(min(ticks, count * ROWS_PER_FIXTURE), seed + first, first)[0])
            parts.append(folder / f"part-{first:06}.parquet")
            made.with_columns(pl.col("market_key", "side").cast(pl.Categorical)).write_parquet(parts[-1])
            own = writer.kickoffs.filter(pl.col("fixture_id").is_in(made["fixture_id"].unique().implode()))
            writer.add(Tape.from_ticks(made, own))
            if with_stream:
                _write_stream(folder / STREAM, made)
            rows += made.height
        writer.finish(PackManifest(pack_id=PACK, provenance="synthetic-benchmark", fixtures=declared))
    Catalog(folder).admit(PACK)
    pl.scan_parquet(parts).sink_parquet(folder / FEED, compression="zstd", compression_level=3, row_group_size=262_144)
    for part in parts:
        part.unlink()
    return rows


def adapted(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows as a stream can say them."""
    message, series = ["fixture_id", "tick_seq"], ["fixture_id", "market_key", "side"]
    at_close = pl.col("suspended") & (pl.col("ts_ms") == pl.col("ts_ms").filter(~pl.col("in_running")).max().over("fixture_id"))
    at_close &= ~pl.col("in_running")
    price = pl.col("prob_bps", "odds_milli")
    first_side = pl.col("side") == pl.col("side").min().over(message)
    state = pl.struct("prob_bps", "in_running")
    return (
        rows.with_columns(pl.when(at_close).then(price.forward_fill().over(series)).otherwise(price))
        .with_columns(suspended=pl.col("prob_bps").is_null(), ts_ms=pl.col("ts_ms") + pl.col("in_running"))
        .with_columns(short=10_000 - pl.col("prob_bps").sum().over(message))
        .with_columns(prob_bps=pl.col("prob_bps") + pl.when(first_side).then("short").otherwise(0).cast(pl.Int32))
        .with_columns(changes=state.ne_missing(state.shift().over(series)))
        .filter(pl.col("changes").any().over(message))
        .drop("short", "changes")
        .with_columns(tick_seq=(pl.col("tick_seq").rank("dense").over("fixture_id") - 1).cast(rows.schema["tick_seq"]))
    )


def _write_stream(folder: Path, rows: pl.DataFrame) -> None:
    """Write a file for each market of the fixtures, as Betfair's historical data has them."""
    for number, ((fixture_id, key), market) in enumerate(rows.group_by("fixture_id", "market_key", maintain_order=True)):
        name = f"1.{_FIRST_MARKET + int(fixture_id) * len(KINDS) + number % len(KINDS)}"
        with (folder / name).open("w") as file:
            file.writelines(json.dumps(message, separators=(",", ":")) + "\n" for message in _messages(name, str(key), market))


def _messages(market_id: str, key: str, rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a message for each state of a market, and its settlement."""
    sides = rows["side"].unique().sort().to_list()
    definition = _definition(rows, KINDS[key], len(sides))
    said: tuple[str, bool] | None = None
    offers: dict[int, tuple[float, float]] = {}
    by_message = rows.sort("tick_seq", "side")
    probs = by_message["prob_bps"].to_list()
    heads = by_message.gather_every(len(sides)).select("ts_ms", "in_running", "suspended").iter_rows()
    time = 0
    for n, (time, in_play, suspended) in enumerate(heads):
        change: dict[str, Any] = {"id": market_id}
        state = ("SUSPENDED" if suspended else "OPEN", in_play)
        if state != said:
            change["marketDefinition"] = definition | {"status": state[0], "inPlay": in_play}
            said = state
        if not suspended:
            now = probs[n * len(sides) : (n + 1) * len(sides)]
            change["rc"] = [_offers(side, prob / 10_000, offers) for side, prob in enumerate(now)]
        yield {"op": "mcm", "clk": str(n), "pt": time, "mc": [change | ({} if n else {"img": True})]}
    closed = definition | {"status": "CLOSED", "inPlay": True}
    yield {"op": "mcm", "clk": "end", "pt": time + 1000, "mc": [{"id": market_id, "marketDefinition": closed}]}


def _offers(side: int, prob: float, offers: dict[int, tuple[float, float]]) -> dict[str, Any]:
    """Return the change of a runner's best offers to those about a probability; an offer without size is gone."""
    now = (1 / (prob + _HALF_SPREAD), 1 / (prob - _HALF_SPREAD))
    old, offers[side] = offers.get(side, now), now
    back, lay = ([*([[before, 0]] if before != after else []), [after, 20]] for before, after in zip(old, now, strict=True))
    return {"id": side + 1, "atb": back, "atl": lay}


def _definition(rows: pl.DataFrame, kind: str, runners: int) -> dict[str, Any]:
    kickoff = datetime.fromtimestamp(rows.filter("in_running")["ts_ms"][0] / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return {
        "eventId": str(rows["fixture_id"][0]), "eventTypeId": "1", "eventName": "Home v Away", "marketType": kind,
        "bettingType": "ODDS", "numberOfWinners": 1, "marketTime": kickoff, "openDate": kickoff, "suspendTime": kickoff,
        "betDelay": 0, "bspMarket": False, "turnInPlayEnabled": True, "persistenceEnabled": True, "marketBaseRate": 5,
        "bspReconciled": False, "complete": True, "crossMatching": True, "runnersVoidable": False, "version": 1,
        "numberOfActiveRunners": runners, "regulators": ["MR_INT"], "discountAllowed": True, "timezone": "GMT",
        "runners": [{"id": n + 1, "status": "ACTIVE", "sortPriority": n + 1} for n in range(runners)],
    }  # fmt: skip


def main(folder: Path, ticks: int, seed: int, with_stream: str) -> dict[str, Any]:
    return {"ticks": write_data(folder, ticks, seed, with_stream=with_stream == "True")}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
