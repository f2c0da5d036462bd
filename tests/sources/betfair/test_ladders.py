"""Books of fuzzed streams, against one that looks through all offers after every message, with what it refuses."""

import random

import numpy as np
import pytest

from clvlab.odds.consensus import PROB_UNIT
from clvlab.sources.betfair.messages import MarketBook
from tests.length import length
from tests.sources.betfair.test_messages import definition

_PRICES = (1.01, 1.5, 1.9, 1.95, 2, 2.0, 2.02, 2.1, 3.5, 1000)
_BAD = (
    {"id": 9, "atb": [[1.9, 5]]}, {"id": 1, "hc": 0.5, "atb": [[1.9, 5]]}, {"id": 1, "atb": [[0.9, 5]]},
    {"id": 1, "atl": [[1.9, -5]]}, {"id": 1, "atb": [["1.9", 5]]}, {"id": 1, "atb": [[1.9]]}, {"id": 1, "atb": [[1.9, 5, 5]]},
    {"id": 1, "atb": [[True, 5]]}, {"id": 1, "batb": [[0, 1.9]]}, {"id": 1, "batb": [[0.5, 1.9, 5]]}, {"id": 1, "atb": [7]},
    {"id": 1, "atb": None}, {"id": 1, "atb": ["ab"]}, {"id": 1, "ltp": 0.5}, {"id": 1, "ltp": "2"}, {"atb": [[1.9, 5]]}, [1],
    {"id": 1, "atb": [[1.9, "5"]]}, {"id": 1, "atl": [[1001, 5]]},
)  # fmt: skip


class PlainBook:
    """Offers by runner and side, and the best of them found anew each time."""

    def __init__(self):
        self.full, self.levels, self.last, self.status, self.state = {}, {}, {}, {}, (False, False)

    def apply(self, change):
        if "marketDefinition" in change:
            defined = change["marketDefinition"]
            for runner in defined["runners"]:
                self.status[str(runner["id"])] = runner["status"]
            self.state = (defined["status"] == "OPEN", defined["inPlay"])
        if change.get("img"):
            self.full, self.levels, self.last = {}, {}, {}
        for delta in change.get("rc", ()):
            key = str(delta["id"])
            for side in "bl":
                names = [name for name in (f"at{side}", f"bat{side}", f"bdat{side}") if name in delta]
                if names:
                    self.offers(key, side, names[0], delta[names[0]])
            self.last[key] = delta.get("ltp") or self.last.get(key)

    def offers(self, key, side, name, deltas):
        full, levels = self.full.setdefault((key, side), {}), self.levels.setdefault((key, side), {})
        if name == f"at{side}":
            levels.clear()
            full.update(dict(deltas))
        elif levels or not any(full.values()):
            levels.update({level: price if size else None for level, price, size in deltas})
            full.clear()
            full.update({price: 1 for price in levels.values() if price})
            for level in [level for level, price in levels.items() if price is None]:
                del levels[level]

    def best(self, key, side):
        offered = [price for price, size in self.full.get((key, side), {}).items() if size]
        return None if not offered else max(offered) if side == "b" else min(offered)

    def prices(self, key):
        back, lay, last = self.best(key, "b"), self.best(key, "l"), self.last.get(key)
        prob = None if last is None else 1 / last
        if back and lay and 1 / back - 1 / lay <= 0.1:
            prob = (1 / back + 1 / lay) / 2
        return (
            round(prob * PROB_UNIT) if prob is not None and 0 < prob < 1 else -1,
            -1 if back is None else round(back * 1000),
            -1 if lay is None else round(lay / (lay - 1) * 1000),
        )

    def states(self):
        return [self.prices(key) for key in self.status], [status == "ACTIVE" for status in self.status.values()], self.state


def made_up(dice, runners):
    """A change of a market: an image, a definition, and deltas of full, best or virtual ladders."""
    change = {"id": "1.1"}
    if dice.random() < 0.1:
        status = dice.choice(["OPEN", "OPEN", "SUSPENDED", "CLOSED"])
        runners += [len(runners) + 1] * (dice.random() < 0.2)
        change["marketDefinition"] = definition(status, in_play=dice.random() < 0.3)
        listed = [{"id": n, "status": dice.choice(["ACTIVE", "ACTIVE", "REMOVED", "WINNER"])} for n in runners]
        change["marketDefinition"]["runners"] = listed
    if dice.random() < 0.05:
        change["img"] = True
    change["rc"] = [delta(dice, dice.choice(runners)) for _ in range(dice.randrange(4))]
    return change


def delta(dice, runner):
    found = {"id": runner}
    for side in "bl":
        kind = dice.choice(["at", "at", "at", "bat", "bdat", None])
        if kind == "at":
            found[f"at{side}"] = [[dice.choice(_PRICES), dice.choice([0, 0, 5, 7.5])] for _ in range(dice.randrange(4))]
        elif kind:
            found[f"{kind}{side}"] = [
                [dice.randrange(3), dice.choice(_PRICES), dice.choice([0, 5])] for _ in range(dice.randrange(4))
            ]
            if dice.random() < 0.2:
                found[f"bdat{side}"] = [[0, dice.choice(_PRICES), 5]]
    if dice.random() < 0.3:
        found["ltp"] = dice.choice([None, 0, *_PRICES])
    return found


@pytest.mark.parametrize("seed", range(length(20, 300)))
def test_books_are_as_one_that_looks_through_all_offers_every_time(seed):
    dice = random.Random(seed)
    book, plain, runners = MarketBook("1.1"), PlainBook(), [1, 2]
    opening = {"id": "1.1", "marketDefinition": definition()}
    for change in [opening, *(made_up(dice, runners) for _ in range(200))]:
        if dice.random() < 0.2:
            broken = change | {"rc": [*change.get("rc", ()), dice.choice(_BAD)]}
            with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
                book.apply(broken, 1)

        book.apply(change, 1)
        plain.apply(change)

        prices, active, state = plain.states()
        assert list(zip(*(column.tolist() for column in book.now.prices), strict=True)) == prices
        assert np.frombuffer(book.now.active, np.bool_).tolist() == active
        assert (bool(book.now.open[0]), bool(book.now.in_play[0])) == state
        assert [column.tolist() for column in book.states.prices] == [column.tolist() for column in book.now.prices]
