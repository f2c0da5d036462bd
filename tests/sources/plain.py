"""Plain arithmetic that duels hold importers to: no code of theirs, and no frame."""

from fractions import Fraction

import polars as pl


def shared_out(weights):
    """Share 10000 in proportion: what is left over goes to the largest remainders, ties by the bytes of the side."""
    total = sum(weights.values())
    exact = {side: Fraction(weight) * 10_000 / total for side, weight in weights.items()}
    shares = {side: share.numerator // share.denominator for side, share in exact.items()}
    left = 10_000 - sum(shares.values())
    for side in sorted(exact, key=lambda side: (shares[side] - exact[side], side.encode()))[:left]:
        shares[side] += 1
    return shares


def odds_of(price):
    """Decimal odds x 1000 of a price, halves up; none at 0 and 1."""
    if not 0 < price < 1:
        return None
    return int(1000 / Fraction(price) + Fraction(1, 2))


def state_of(quotes, sides):
    """Return probabilities and odds of bid and ask by side, as fractions; nothing where one is missing, crossed or wide."""
    if any(quotes.get(side) is None or not 0 < quotes[side][1] - quotes[side][0] <= Fraction(1, 10) for side in sides):
        return dict.fromkeys(sides), dict.fromkeys(sides)
    shares = shared_out({side: sum(quotes[side]) for side in sides})
    return shares, {side: odds_of(quotes[side][1]) for side in sides}


def states_by_time(pack, key=None):
    """Return what a pack's ticks say: time, market, and probability and odds by side."""
    ticks = pack.tape().ticks().collect().sort("fixture_id", "tick_seq", "side")
    if key is not None:
        ticks = ticks.filter(pl.col("market_key") == key)
    found = {}
    for row in ticks.iter_rows(named=True):
        at = found.setdefault((row["fixture_id"], row["ts_ms"], row["market_key"]), ({}, {}))
        at[0][row["side"]], at[1][row["side"]] = row["prob_bps"], row["odds_milli"]
    return found
