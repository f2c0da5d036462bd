"""A grader of bets as plain loops over dicts, and random bets whose truth it knows: for duels with the one that is shipped."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

__all__ = ["Odds", "Truth", "graded", "random_bets", "written"]

ZONE = "Europe/London"
RESULT, TOTAL = "1X2_PARTICIPANT_RESULT||", "OVERUNDER_PARTICIPANT_GOALS||line=2.5"
SIDES = {"part1": ["part1", "home", "1", "H", "TEAM"], "part2": ["part2", "Away", "2", "TEAM"], "draw": ["draw", "X", "Tie"],
         "over": ["over", "O", "Over 2.5"], "under": ["under", "Under 2.5", "u"]}  # fmt: skip
MARKETS = {
    RESULT: [RESULT, "1X2", "Match Odds", "match result"],
    TOTAL: [TOTAL, "Over/Under 2.5", "totals 2.5", "Total goals 2.5"],
}
HORIZON_MS = 60_000


@dataclass
class Odds:
    """A pack as lists of dicts: ticks and fixtures."""

    ticks: dict[int, list[dict[str, Any]]]
    names: dict[int, tuple[str, str]]
    kickoffs: dict[int, int]

    @classmethod
    def of(cls, pack: Any) -> Odds:
        ticks: dict[int, list[dict[str, Any]]] = {}
        for row in pack.tape().ticks().collect().iter_rows(named=True):
            ticks.setdefault(row["fixture_id"], []).append(row)
        fixtures = pack.manifest.fixtures
        return cls(
            ticks, {one.fixture_id: one.names for one in fixtures}, {one.fixture_id: one.kickoff_ts_ms for one in fixtures}
        )

    def end(self, fixture: int) -> tuple[int, int, bool]:
        """First tick that is outside, when the fixture closes, and whether play or its kickoff ended it."""
        for row in self.ticks[fixture]:
            if row["in_running"]:
                return row["tick_seq"], row["ts_ms"], True
        kickoff, last = self.kickoffs[fixture], self.ticks[fixture][-1]
        if kickoff is None:
            return last["tick_seq"] + 1, last["ts_ms"], False
        late = [row["tick_seq"] for row in self.ticks[fixture] if row["ts_ms"] >= kickoff]
        return (late[0] if late else last["tick_seq"] + 1), kickoff, True

    def state(self, fixture: int, market: str, tick: int) -> dict[str, dict[str, Any]] | None:
        """Rows of a market's last message up to a tick, by side."""
        found: dict[str, dict[str, Any]] = {}
        for row in self.ticks[fixture]:
            if row["market_key"] == market and row["tick_seq"] <= tick:
                found[row["side"]] = row
        return found or None


@dataclass
class Truth:
    """What a row means: null where it says nothing that can be read."""

    fixture: int | None
    market: str | None
    side: str | None
    ts_ms: int | None
    milli: int | None
    cents: int | None
    told_price: bool = True
    why: str | None = None
    same_as: int | None = None


def graded(truths: list[Truth], odds: Odds) -> tuple[list[dict[str, Any]], dict[tuple[Any, ...], int]]:
    """Grade rows one by one; returns what is to be said of each, and the stakes of all decisions."""
    said, stakes = [], {}
    for truth in truths:
        row: dict[str, Any] = {"unmatched": truth.why or _why(truth, odds), "flags": []}
        if truth.same_as is not None:
            row["flags"].append("duplicate")
        if row["unmatched"] is None:
            key = (truth.fixture, _tick(truth, odds), truth.market, truth.side)
            stakes[key] = stakes.get(key, 0) + truth.cents
            row |= {"key": key} | _law(truth, key, odds)
            if truth.milli is not None and row["quote"] is not None and truth.milli > row["quote"]:
                row["flags"].append("price_not_offered")
        if truth.told_price and truth.milli is None:
            row["flags"].append("price_unreadable")
        said.append(row)
    return said, stakes


def _why(truth: Truth, odds: Odds) -> str | None:
    first = min(row["ts_ms"] for row in odds.ticks[truth.fixture] if row["market_key"] == truth.market)
    if truth.ts_ms < first:
        return "before_first_tick"
    _, close_ms, hard = odds.end(truth.fixture)
    return "after_close" if truth.ts_ms > close_ms or (hard and truth.ts_ms == close_ms) else None


def _tick(truth: Truth, odds: Odds) -> int:
    return max(row["tick_seq"] for row in odds.ticks[truth.fixture] if row["ts_ms"] <= truth.ts_ms)


def _law(truth: Truth, key: tuple[Any, ...], odds: Odds) -> dict[str, Any]:
    end, close_ms, _ = odds.end(truth.fixture)
    entry = odds.state(truth.fixture, truth.market, key[1])[truth.side]
    close = odds.state(truth.fixture, truth.market, end - 1)[truth.side]
    at_ms = next(row["ts_ms"] for row in odds.ticks[truth.fixture] if row["tick_seq"] == key[1])
    quote = entry["odds_milli"]
    if entry["suspended"]:
        return {"reason": "entry_suspended", "clv": None, "edge": None, "own": None, "quote": quote}
    if close["suspended"]:
        return {"reason": "closing_suspended", "clv": None, "edge": None, "own": None, "quote": quote}
    if close_ms - at_ms < HORIZON_MS:
        return {"reason": "pending_horizon", "clv": None, "edge": None, "own": None, "quote": quote}
    after = close["prob_bps"]
    own = None if truth.milli is None else _edge(after, truth.milli)
    return {"reason": "scored", "clv": after - entry["prob_bps"], "edge": _edge(after, quote), "own": own, "quote": quote}


def _edge(prob_bps: int, odds_milli: int) -> int:
    """Probability times odds less one, in basis points, half up."""
    tenths = prob_bps * odds_milli
    whole, rest = divmod(tenths, 1000)
    return whole + (1 if rest >= 500 else 0) - 10_000


def random_bets(odds: Odds, number: int, draw: random.Random) -> list[Truth]:
    """Draw bets: most of them sound, every kind of fault among them."""
    truths: list[Truth] = []
    while len(truths) < number:
        fixture = draw.choice(list(odds.ticks))
        market = draw.choice(list(MARKETS))
        side = draw.choice(sorted({row["side"] for row in odds.ticks[fixture] if row["market_key"] == market}))
        own = [row["ts_ms"] for row in odds.ticks[fixture]]
        ts_ms = draw.choice([draw.choice(own), draw.choice(own) + draw.choice([-1000, 1000]), draw.randint(own[0], own[-1])])
        ts_ms -= ts_ms % 1000 if draw.random() < 0.5 else 0
        truth = Truth(fixture, market, side, ts_ms, draw.randint(1010, 9000), draw.randint(1, 500_000))
        fault = draw.choice(
            [None] * 16 + ["early", "late", "fixture", "teams", "market", "side", "time", "stake", "price", "again", "both"]
        )
        if fault == "early":
            truth.ts_ms = own[0] - draw.choice([1, 1000, 10**9])
        elif fault == "late":
            truth.ts_ms = odds.end(fixture)[1] + draw.choice([0, 1000, 10**8])
        elif fault == "price":
            truth.milli = None
            truth.told_price = draw.random() < 0.5
        elif fault in ("again", "both") and truths:
            earlier = draw.choice([one for one in truths if one.why is None] or [None])
            if earlier is None:
                continue
            sides = [
                side
                for side in SIDES
                if any(row["side"] == side and row["market_key"] == earlier.market for row in odds.ticks[earlier.fixture])
            ]
            truth = Truth(**vars(earlier))
            truth.same_as = None
            truth.side = earlier.side if fault == "again" else draw.choice(sides)
            truth.cents = draw.randint(1, 10_000)
        elif fault in ("fixture", "market", "side", "time", "stake"):
            truth.why = {"time": "time_unreadable", "stake": "stake_unreadable"}.get(fault, f"{fault}_unknown")
        elif fault == "teams":
            truth.why = "teams_swapped"
        truths.append(truth)
    return truths


def written(truths: list[Truth], odds: Odds, draw: random.Random) -> list[dict[str, str]]:
    """Write bets as people do; some rows are written twice, which adds to the truths."""
    rows = [_row(truth, odds, draw) for truth in truths]
    for number in draw.sample(range(len(rows)), len(rows) // 20):
        rows.append(dict(rows[number]))
        again = Truth(**vars(truths[number]))
        truths.append(again)
    first: dict[tuple[str, ...], int] = {}
    for number, (row, truth) in enumerate(zip(rows, truths, strict=True)):
        before = first.setdefault(tuple(row.values()), number)
        truth.same_as = before + 1 if before != number else None
    return rows


def _row(truth: Truth, odds: Odds, draw: random.Random) -> dict[str, str]:
    home, away = odds.names[truth.fixture]
    names = draw.choice([f"{home} - {away}", f"{home.upper()} v {away}", f"{home} vs. {away.lower()}", f"{away} @ {home}",
                         f"{home.replace('a', 'á')} – {away}"])  # fmt: skip
    fixture = draw.choice([str(truth.fixture), names])
    side = draw.choice(SIDES[truth.side])
    side = {"part1": home, "part2": away}[truth.side].swapcase() if side == "TEAM" else side
    market = draw.choice(MARKETS[truth.market])
    time, stake = _time(truth.ts_ms, draw), _stake(truth.cents, draw)
    if truth.why == "fixture_unknown":
        fixture = draw.choice(["12345", f"{home} - Nobody", "a word", ""])
    elif truth.why == "teams_swapped":
        fixture = f"{away} - {home}"
    elif truth.why == "market_unknown":
        market = draw.choice(["corners", "Over/Under 7.5", "Asian Handicap", "ASIANHANDICAP_PARTICIPANT_GOALS||line=99", ""])
    elif truth.why == "side_unknown":
        side = draw.choice(["banana", "yes", "Over 3.5" if truth.market == TOTAL else "over", ""])
        market = truth.market
    elif truth.why == "time_unreadable":
        time = draw.choice(["2026-01-02", "yesterday", "", "02/01/2026 10:00", "2026-13-01T00:00Z"])
    elif truth.why == "stake_unreadable":
        stake = draw.choice(["", "ten", "-5", "0", "0.001", "1,2,3", "£"])
    book, price = draw.choice(["Ash", "Elm", ""]), _price(truth, draw)
    return {
        "Placed At": time,
        "Event": fixture,
        "Market": market,
        "Selection": side,
        "Odds": price,
        "Stake": stake,
        "Bookmaker": book,
    }


def _time(ts_ms: int, draw: random.Random) -> str:
    moment = datetime.fromtimestamp(ts_ms / 1000, UTC)
    if ts_ms % 1000 == 0 and draw.random() < 0.5:
        local = moment.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None)
        return draw.choice([local.isoformat(), local.isoformat(" "), str(ts_ms // 1000), str(ts_ms)])
    if ts_ms % 1000 == 0:
        return moment.astimezone(ZoneInfo("America/New_York")).isoformat()
    return draw.choice([moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"), str(ts_ms)])


def _stake(cents: int, draw: random.Random) -> str:
    whole, rest = divmod(cents, 100)
    plain, english = f"{whole}.{rest:02}", f"{whole:,}.{rest:02}"
    german = english.translate(str.maketrans(",.", ".,"))
    return draw.choice([plain, english, german, f"£{english}", f"£ {plain}", f"{german} GBP", f"GBP {plain}"])


def _price(truth: Truth, draw: random.Random) -> str:
    """Write a price; an American one is rounded, and the truth with it."""
    if truth.milli is None:
        return draw.choice(["void", "n/a", "0.5", "1"]) if truth.told_price else ""
    if draw.random() < 0.3:
        odds = truth.milli / 1000
        american = round((odds - 1) * 100) if odds >= 2 else round(-100 / (odds - 1))
        truth.milli = round((1 + american / 100 if american > 0 else 1 - 100 / american) * 1000)
        return f"{american:+}"
    plain = f"{truth.milli / 1000:.3f}"
    if plain.endswith("0"):
        return draw.choice([plain, plain[:-1].replace(".", ","), f"@{plain}"])
    return plain
