"""Ladders read and kept plainly: dictionaries and fractions, line by line, to hold those of packs against."""

from fractions import Fraction

LEVELS = 10


def half_up(number):
    return int(number + Fraction(1, 2))


class PlainStream:
    """The offers of a market of Betfair's stream: every kind is kept, and the fullest that came since the image counts."""

    def __init__(self):
        self.definition, self.offers = None, {}

    def apply(self, change):
        self.definition = self.definition or change.get("marketDefinition")
        if change.get("img"):
            self.offers = {}
        for delta in change.get("rc", ()):
            for name, deltas in delta.items():
                if name in ("atb", "atl"):
                    kept = self.offers.setdefault((str(delta["id"]), name), {})
                    kept.update({price: (price, size) for price, size in deltas})
                elif name in ("batb", "batl", "bdatb", "bdatl"):
                    kept = self.offers.setdefault((str(delta["id"]), name), {})
                    kept.update({level: (price, size) for level, price, size in deltas})

    def by_runner(self):
        return self.definition["numberOfWinners"] != 1

    def ladders(self):
        """Return side -> its levels (odds x 1000, stake in cents); sides of runners that are markets have two names."""
        found = {}
        for runner in {runner for runner, _ in self.offers}:
            if self.by_runner():
                found[runner, "yes"] = self.levels(runner, "b")
                found[runner, "no"] = self.levels(runner, "l")
            else:
                found[runner] = self.levels(runner, "b")
        return {side: levels for side, levels in found.items() if levels}

    def levels(self, runner, way):
        names = [name for name in (f"at{way}", f"bat{way}", f"bdat{way}") if (runner, name) in self.offers]
        if not names:
            return []
        stakes, best_first = {}, {}
        for _, (price, size) in sorted(self.offers[runner, names[0]].items(), reverse=True):
            if size:
                best_first[price] = size
        for price, size in best_first.items():
            cents = half_up(Fraction(str(size)) * 100)
            if way == "l":
                odds, cents = round(price / (price - 1) * 1000), half_up(cents * (Fraction(str(price)) - 1))
            else:
                odds = round(price * 1000)
            if cents:
                stakes[odds] = stakes.get(odds, 0) + cents
        return sorted(stakes.items(), reverse=True)[:LEVELS]


def states_of(ladders):
    """Return time -> (market_key, side) -> levels, after each time at which a level of ``LADDERS`` changes."""
    now, found = {}, {}
    for row in sorted(ladders.iter_rows(named=True), key=lambda row: row["ts_ms"]):
        levels = now.setdefault((row["market_key"], row["side"]), {})
        levels[row["level"]] = None if row["odds_milli"] is None else (row["odds_milli"], row["stake_cents"])
        found[row["ts_ms"]] = None
        found[row["ts_ms"]] = {
            side: [own[level] for level in sorted(own) if own[level]] for side, own in now.items() if any(own.values())
        }
    return found


def states_at(states, times):
    """Return the states that hold at rising times."""
    changes, last, found = iter(sorted(states.items())), {}, {}
    coming = next(changes, None)
    for ts_ms in times:
        while coming is not None and coming[0] <= ts_ms:
            last, coming = coming[1], next(changes, None)
        found[ts_ms] = last
    return found
