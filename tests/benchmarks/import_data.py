"""Made-up sources to import: an exchange stream and changes of bookmakers' prices, from a seed."""

from __future__ import annotations

import bz2
import json
import random
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

__all__ = ["three_way_odds", "write_changes", "write_deep_stream", "write_stream"]

_START_MS = 1_767_355_200_000
_RUNNERS = 10
_LADDER = [round(1.5 + 0.02 * n, 2) for n in range(25)]
_BOOKS = 10
_ROWS_PER_EVENT = 1_300


def write_stream(path: Path, messages: int, seed: int) -> None:
    """Write a market of ten runners whose ladders change by one to three offers a message; it closes in play."""
    dice = random.Random(seed)

    def definition(status: str, *, in_play: bool) -> dict[str, object]:
        return {
            "status": status, "inPlay": in_play, "marketTime": "2026-01-02T12:30:00.000Z", "eventId": "9",
            "eventTypeId": "2",
            "marketType": "MATCH_ODDS", "numberOfWinners": 1, "bettingType": "ODDS", "betDelay": 0,
            "bspMarket": False,
            "turnInPlayEnabled": True, "persistenceEnabled": True, "marketBaseRate": 5, "bspReconciled": False,
            "complete": True,
            "crossMatching": True, "runnersVoidable": False, "numberOfActiveRunners": _RUNNERS, "regulators": ["MR_INT"],
            "discountAllowed": True, "timezone": "GMT", "openDate": "2026-01-02T12:30:00.000Z", "version": 1,
            "suspendTime": "2026-01-02T12:30:00.000Z",
            "runners": [{"id": number, "status": "ACTIVE", "sortPriority": number} for number in range(1, _RUNNERS + 1)],
        }  # fmt: skip

    def runner(number: int, n: int) -> dict[str, object]:
        back = [[price, dice.choice([0, 10.5, 220.25])] for price in dice.sample(_LADDER[:12], n)]
        lay = [[price, dice.choice([0, 12.5, 180.75])] for price in dice.sample(_LADDER[13:], n)]
        return {"id": number, "atb": back, "atl": lay, "ltp": dice.choice(_LADDER)}

    opening = [
        {"id": n, "atb": [[p, 10] for p in _LADDER[:12]], "atl": [[p, 10] for p in _LADDER[13:]], "ltp": _LADDER[12]}
        for n in range(1, _RUNNERS + 1)
    ]
    with bz2.open(path, "wt") as file:
        for at in range(messages):
            change: dict[str, object] = {"id": "1.200000009"}
            if at in (0, messages * 3 // 4, messages - 1):
                closed = at == messages - 1
                change["marketDefinition"] = definition("CLOSED" if closed else "OPEN", in_play=at > 0)
            some = [runner(dice.randint(1, _RUNNERS), dice.randint(1, 3)) for _ in range(dice.randint(1, 3))]
            change["rc"] = some if at else opening
            message = {"op": "mcm", "clk": str(at), "pt": _START_MS + 500 * at, "mc": [change | ({} if at else {"img": True})]}
            file.write(json.dumps(message, separators=(",", ":")) + "\n")


_DEPTH = 40
_AT = (0.67, 0.11, 0.05, 0.04, 0.02, 0.02, 0.01, 0.01, 0.01, 0.01, 0.05)  # where real ladders change, by level; beyond last


def write_deep_stream(path: Path, messages: int, seed: int) -> None:
    """Write a market of three runners with deep ladders: one changes a message, as in a real stream of a tennis match.

    A fifth of the changes move the best offer, which is taken or bettered; the others are new sizes, two in three at the best.
    """
    dice = random.Random(seed)
    prices = [round(1.5 + 0.01 * n, 2) for n in range(500)]
    ladders: dict[tuple[int, str], list[int]] = {}
    for runner in (1, 2, 3):
        middle = dice.randrange(150, 350)
        ladders[runner, "atb"] = [middle - n for n in range(_DEPTH)]
        ladders[runner, "atl"] = [middle + 1 + n for n in range(_DEPTH)]

    def size() -> float:
        return round(dice.lognormvariate(4, 1.5) + 2, 2)

    def delta() -> dict[str, object]:
        runner, way = dice.randint(1, 3), dice.choices(("atb", "atl"), (0.38, 0.62))[0]
        own, other = ladders[runner, way], ladders[runner, "atl" if way == "atb" else "atb"]
        if dice.random() < 0.19:
            better = own[0] + (1 if way == "atb" else -1)
            if better == other[0] or dice.random() < 0.5:
                return {"id": runner, way: [[prices[own.pop(0)], 0]]} if len(own) > 15 else {"id": runner}
            own.insert(0, better)
            return {"id": runner, way: [[prices[better], size()]]}
        level = dice.choices(range(len(_AT)), _AT)[0]
        level = dice.randrange(level, len(own)) if level == len(_AT) - 1 else level
        return {"id": runner, way: [[prices[own[level]], size()]]}

    opening = [
        {"id": runner, way: [[prices[at], size()] for at in own]} for (runner, way), own in ladders.items()
    ]  # fmt: skip
    opened = {
        "status": "OPEN", "inPlay": False, "marketTime": "2026-01-02T12:30:00.000Z", "eventId": "8", "eventTypeId": "2",
        "marketType": "MATCH_ODDS", "numberOfWinners": 1, "bettingType": "ODDS",
        "runners": [{"id": number, "status": "ACTIVE"} for number in (1, 2, 3)],
    }  # fmt: skip
    with bz2.open(path, "wt") as file:
        for at in range(messages):
            change: dict[str, object] = {"id": "1.200000008", "rc": [delta()] if at else opening}
            if at == 0:
                change |= {"marketDefinition": opened, "img": True}
            message = {"op": "mcm", "clk": str(at), "pt": _START_MS + 500 * at, "mc": [change]}
            file.write(json.dumps(message, separators=(",", ":")) + "\n")


def write_changes(folder: Path, rows: int, seed: int) -> Path:
    """Write ``made_ticks.parquet`` and its fixtures: ten books, two-way and total markets, a price now and then."""
    dice = np.random.default_rng(seed)
    events = max(1, rows // _ROWS_PER_EVENT)
    event, book = dice.integers(0, events, rows), dice.integers(0, _BOOKS, rows)
    total, home = dice.random(rows) < 0.5, dice.random(rows) < 0.5
    start = datetime(2026, 1, 2)  # noqa: DTZ001 - as the source has them
    minutes = np.sort(dice.integers(0, 3_000, rows))
    at = pl.Series([start], dtype=pl.Datetime("ms")).new_from_index(0, rows) + pl.Series(minutes * 60_000).cast(
        pl.Duration("ms")
    )
    names = np.where(total, np.where(home, "Over", "Under"), np.where(home, "Ash", "Elm"))
    pl.DataFrame(
        {
            "event_id": np.char.add("e", event.astype(str)),
            "commence_time": pl.Series([start + timedelta(days=2)], dtype=pl.Datetime("ms")).new_from_index(0, rows),
            "bookmaker": np.char.add("b", book.astype(str)),
            "market": np.where(total, "totals", "h2h"),
            "outcome": names,
            "point": np.where(total, 8.5, np.nan),
            "market_last_update": at,
            "snapshot_commit_time": at,
            "price_decimal": dice.uniform(1.7, 2.1, rows).round(2),
        }
    ).with_columns(pl.col("point").fill_nan(None)).unique(
        ["event_id", "bookmaker", "market", "outcome", "snapshot_commit_time"], keep="first", maintain_order=True
    ).write_parquet(folder / "made_ticks.parquet")
    lines = [f"e{number},made,2026-01-04T00:00:00Z,Ash,Elm" for number in range(events)]
    (folder / "made_fixtures.csv").write_text(
        "event_id,sport_key,commence_time,home_team,away_team\n" + "\n".join(lines) + "\n"
    )
    return folder / "made_ticks.parquet"


def three_way_odds(rows: int) -> np.ndarray:
    """Draw odds of three outcomes with a margin, none of them below 2 % or above 96 %."""
    dice = np.random.default_rng(3)
    prob = 0.94 * dice.dirichlet([3.0, 2.0, 2.5], rows) + 0.02
    return 1 / (prob * dice.uniform(1.005, 1.03, (rows, 1)))
