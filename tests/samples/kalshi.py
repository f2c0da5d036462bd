"""Answers of Kalshi for what is past: markets, candlesticks of a minute, and trades of a market that has no candlesticks."""

import json
import random
from datetime import UTC, datetime

from tests.samples.walks import mapping, matches, walk

CORNERS = "KXCORNERS-26MAR01ASHELM"
MINUTES = 90


def written(cents, unit, *, historical):
    """Write a price of a candlestick: key ending and value, as versions differ."""
    if unit == "cents":
        return "", cents
    return ("" if historical else "_dollars"), f"{cents / 100:.4f}"


def candles(dice, share, match, unit, minutes, *, historical=True):
    """Return candlesticks that end at every minute up to ten minutes behind the kickoff."""
    start = match.kickoff_s - (minutes - 10) * 60
    found = []
    for minute, (bid, ask) in enumerate(walk(dice, share, minutes)):
        said = {"end_period_ts": start + minute * 60, "volume": dice.randint(0, 50), "open_interest": 900}
        for name, cents in (("yes_bid", bid), ("yes_ask", ask)):
            ending, price = written(cents, unit, historical=historical)
            said[name] = {f"{part}{ending}": price for part in ("open", "low", "high", "close")}
        found.append(said)
    return found


def trade(dice, ticker, at_s, unit, number):
    """Return a trade."""
    cents = dice.randint(35, 65)
    moment = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{dice.randrange(10**6):06}Z"
    said = {"trade_id": f"trade-{number}", "ticker": ticker, "count": 10, "created_time": moment}
    said |= {"yes_price": cents, "no_price": 100 - cents} if unit == "cents" else {"yes_price_dollars": f"{cents / 100:.4f}"}
    return said | {"taker_side": dice.choice(["yes", "no"])}


def write(folder, seed=1, unit="dollars", *, historical=True, minutes=MINUTES):
    """Write answers, and the mapping that their tickers need."""
    dice = random.Random(seed)
    some = matches()
    listed = [
        {"ticker": ticker, "event_ticker": ticker.rpartition("-")[0], "title": f"{match.names[0]} vs {match.names[1]} Winner?",
         "status": "finalized", "result": "yes" if share == 0 else "no"}
        for match in some for share, ticker in enumerate(match.shares)
    ]  # fmt: skip
    answers = {"markets.json": {"markets": listed, "cursor": ""}, "cutoff.json": {"market_settled_ts": some[-1].kickoff_text}}
    for match in some:
        for share, ticker in enumerate(match.shares):
            own = candles(dice, share, match, unit, minutes, historical=historical)
            answers[f"candlesticks-{ticker}.json"] = {"ticker": ticker, "candlesticks": own}
    times = sorted(some[0].kickoff_s - dice.randint(1, 5000) for _ in range(40))
    trades = [trade(dice, CORNERS, at_s, unit, number) for number, at_s in enumerate(times)]
    answers["trades.json"] = {"trades": trades[::-1], "cursor": ""}
    for name, answer in answers.items():
        (folder / name).write_text(json.dumps(answer), encoding="utf-8")
    (folder.parent / f"{folder.name}.yml").write_text(mapping(some, [(some[0].id, "CORNERS||line=9.5", CORNERS)]))
