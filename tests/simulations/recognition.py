"""``python -m tests.simulations.recognition``: how soon an adversary names the fixture of an aliased seat by its views.

He holds every pack, and sees the first messages of a seat, never its secret. Each method looks at one thing that a view states;
so each row says what would remain to him if all else were hidden.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from tests.simulations.catalogues import Catalogue, Ints, catalogues, together

Floats = npt.NDArray[np.float64]
Score = Callable[[Catalogue, Catalogue, int], Floats]
"""Likeness of each seat (a row) and each fixture (a column), after so many messages."""

PRECISION = 0.99
_POINTS, _BAND, _MARKETS = 40, 6, 3


def _share_equal(seats: Ints, known: Ints) -> Floats:
    return np.stack([(known == seat).mean(axis=1) for seat in seats])


def _correlation(seats: Floats, known: Floats) -> Floats:
    def unit(rows: Floats) -> Floats:
        centred = rows - rows.mean(axis=1, keepdims=True)
        norm = np.linalg.norm(centred, axis=1, keepdims=True)
        return np.asarray(centred / np.where(norm > 0, norm, np.inf))

    return np.round(unit(seats) @ unit(known).T, 9)


def _ranks(values: Ints) -> Floats:
    return np.asarray(rankdata(values, axis=1))


def _moves(catalogue: Catalogue, shown: int) -> Ints:
    """Return the sign of each message's move of its market: 1, 0 or -1, and 0 at its first message."""
    price, market = catalogue.price[:, :shown], catalogue.market[:, :shown]
    moves = np.zeros_like(price)
    for number in range(1, int(market.max()) + 1):
        rows, columns = np.nonzero(market == number)
        follows = rows[1:] == rows[:-1]
        later = rows[1:][follows], columns[1:][follows]
        moves[later] = np.sign(price[later] - price[rows[:-1][follows], columns[:-1][follows]])
    return moves


def _log_gaps(catalogue: Catalogue, shown: int) -> Floats:
    return np.log1p(np.maximum(catalogue.gap[:, 1:shown], 0).astype(float))


def _path(catalogue: Catalogue, shown: int) -> Floats:
    """Return the ranks, from 0 to 1, of the prices of each fixture's first markets, at as many points for each market."""
    ranks, market = _ranks(catalogue.price[:, :shown]) / shown, catalogue.market[:, :shown]
    paths = np.full((catalogue.fixtures, _POINTS, _MARKETS), -1.0)
    for row in range(catalogue.fixtures):
        for number in range(_MARKETS):
            own = ranks[row, market[row] == number + 1]
            if len(own):
                paths[row, :, number] = own[np.linspace(0, len(own) - 1, _POINTS).round().astype(int)]
    return paths


def _warped(seats: Catalogue, known: Catalogue, shown: int) -> Floats:
    """Return the negative cost of warping paths of prices onto each other, with a band and an open end."""
    theirs = _path(known, shown)
    found = np.empty((seats.fixtures, known.fixtures))
    for number, path in enumerate(_path(seats, shown)):
        before = np.full((_POINTS + 1, known.fixtures), np.inf)
        before[0] = 0.0
        for row, value in enumerate(path):
            cost = np.full_like(before, np.inf)
            for column in range(max(0, row - _BAND), min(_POINTS, row + _BAND + 1)):
                cheapest = np.minimum(np.minimum(before[column], before[column + 1]), cost[column])
                cost[column + 1] = cheapest + np.abs(theirs[:, column] - value).sum(axis=1)
            before = cost
        found[number] = -before.min(axis=0)
    return np.round(found, 9)


METHODS: dict[str, Score] = {
    "probabilities": lambda seats, known, shown: _share_equal(seats.price[:, :shown], known.price[:, :shown]),
    "odds": lambda seats, known, shown: _share_equal(seats.odds[:, :shown], known.odds[:, :shown]),
    "ranks of prices": lambda seats, known, shown: _correlation(_ranks(seats.price[:, :shown]), _ranks(known.price[:, :shown])),
    "signs of moves": lambda seats, known, shown: _share_equal(_moves(seats, shown), _moves(known, shown)),
    "warped prices": _warped,
    "gaps of time": lambda seats, known, shown: _share_equal(seats.gap[:, :shown], known.gap[:, :shown]),
    "gaps, scaled": lambda seats, known, shown: _correlation(_log_gaps(seats, shown), _log_gaps(known, shown)),
    "order of markets": lambda seats, known, shown: _share_equal(seats.market[:, :shown], known.market[:, :shown]),
    "suspensions": lambda seats, known, shown: _share_equal(seats.suspended[:, :shown], known.suspended[:, :shown]),
}


@dataclass(frozen=True, slots=True)
class Named:
    """Shares of seats: named correctly at the best guess; named correctly and wrongly when the adversary says he is sure.

    He says so where the best fixture is ahead of the next by a margin, at which ``PRECISION`` of other seats were right.
    """

    best: float
    sure: float
    sure_and_wrong: float

    @property
    def precision(self) -> float:
        said = self.sure + self.sure_and_wrong
        return self.sure / said if said else 1.0


def named(likeness: Floats, truth: Ints) -> Named:
    """Judge a matrix of likeness, of which ``truth`` has the column of each row's own fixture."""
    rows = np.arange(len(truth))
    top = likeness.max(axis=1)
    ties = (likeness == top[:, None]).sum(axis=1)
    is_right = likeness[rows, truth] == top
    second = np.sort(likeness, axis=1)[:, -2] if likeness.shape[1] > 1 else np.full(len(truth), -np.inf)
    ahead, alone = top - second, is_right & (ties == 1)
    margin = _margin(ahead[::2], alone[::2])
    says = (ahead > margin)[1::2]
    return Named(float((is_right / ties).mean()), float((says & alone[1::2]).mean()), float((says & ~alone[1::2]).mean()))


def _margin(ahead: Floats, is_right: npt.NDArray[np.bool_]) -> float:
    """Return the smallest margin above which enough of these seats are named correctly."""
    order = np.argsort(-ahead)
    right = np.cumsum(is_right[order]) / np.arange(1, len(order) + 1)
    ends = np.append(ahead[order][1:] < ahead[order][:-1], True)  # equal margins stand or fall together
    enough = np.flatnonzero((right >= PRECISION) & ends)
    if not len(enough):
        return np.inf
    last = int(enough[-1])
    return float(ahead[order][last + 1]) if last + 1 < len(order) else 0.0


def recognised(
    known: Catalogue, shown: int, methods: Iterable[str], seats: int, hide: Callable[[Catalogue], Catalogue] = lambda seen: seen
) -> dict[str, Named]:
    """Return how each method names seats that are dealt from a catalogue; ``hide`` makes their views of the fixtures."""
    known = known.longer_than(shown)
    truth = np.random.default_rng(shown).permutation(known.fixtures)[:seats]
    views = hide(known.at(truth))
    return {name: named(METHODS[name](views, known, shown), truth) for name in methods}


# Views of an experiment: what if prices were mapped, times scaled, and messages dropped?


def mapped(grid_bps: int, seed: int = 1) -> Callable[[Catalogue], Catalogue]:
    """Return views whose prices go through an increasing map of each seat's own, in steps of ``grid_bps``."""

    def hide(seen: Catalogue) -> Catalogue:
        rng = np.random.default_rng(seed)
        knots = np.sort(rng.uniform(0, 10_000, (2, seen.fixtures, 6)), axis=2)
        ends = np.zeros((2, seen.fixtures, 1)), np.full((2, seen.fixtures, 1), 10_000.0)
        given, made = np.concatenate([ends[0], knots, ends[1]], axis=2)
        price = np.stack([np.interp(*one) for one in zip(seen.price.astype(float), given, made, strict=True)])
        return replace(seen, price=(np.rint(price / grid_bps) * grid_bps).astype(np.int64))

    return hide


def scaled(round_ms: int, seed: int = 1) -> Callable[[Catalogue], Catalogue]:
    """Return views whose times since the first message are multiplied by a factor of each seat, and rounded."""

    def hide(seen: Catalogue) -> Catalogue:
        factor = np.random.default_rng(seed).lognormal(0, 0.5, (seen.fixtures, 1))
        times = np.rint(np.cumsum(seen.gap, axis=1) * factor / round_ms) * round_ms
        return replace(seen, gap=np.diff(times, axis=1, prepend=0).astype(np.int64))

    return hide


def thinned(share: float, grid_bps: int, seed: int = 1) -> Callable[[Catalogue], Catalogue]:
    """Return views with mapped prices that lack a share of the messages, so that they are no longer counted alike."""

    def hide(seen: Catalogue) -> Catalogue:
        views = mapped(grid_bps, seed)(seen)
        kept = np.random.default_rng(seed).random(seen.price.shape) >= share
        order = np.argsort(~kept, axis=1, kind="stable")
        return replace(views, **{name: np.take_along_axis(getattr(views, name), order, axis=1) for name in ("price", "market")})

    return hide


# Tables.


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def table(known: Catalogue, seats: int, after: Sequence[int] = (30, 100, 300)) -> str:
    """Return, of each method: the share named at the best guess, when sure, and how often that was right."""
    found = {shown: recognised(known, shown, METHODS, seats) for shown in after}
    head = ["by", *(f"{shown} ticks, {known.longer_than(shown).fixtures:,} fixtures" for shown in after)]

    def cell(one: Named) -> str:
        return f"{_percent(one.best)}; sure {_percent(one.sure)}, right {_percent(one.precision)}"

    return _rows(head, [[name, *(cell(found[shown][name]) for shown in after)] for name in METHODS])


def by_catalogue(parts: dict[str, Catalogue], everything: Catalogue, seats: int) -> str:
    """Return, of the fixtures of each source, the share named among all: by probabilities after few and many messages."""
    methods = ["probabilities", "ranks of prices", "gaps of time"]
    rows, start = [], 0
    for name, part in parts.items():
        own = np.arange(start, start + part.fixtures)
        start += part.fixtures
        cells = []
        for shown in (2, 10, 30):
            chosen = own[everything.ticks[own] >= shown][:seats]
            if not len(chosen):
                cells.append("all shorter")
                continue
            truth = np.searchsorted(np.flatnonzero(everything.ticks >= shown), chosen)
            known = everything.longer_than(shown)
            shares = (named(METHODS[method](everything.at(chosen), known, shown), truth).best for method in methods)
            cells.append(" / ".join(map(_percent, shares)))
        rows.append([name, f"{part.fixtures:,}", *cells])
    return _rows(["source", "fixtures", *(f"after {shown}: {' / '.join(methods)}" for shown in (2, 10, 30))], rows)


def curves(known: Catalogue, seats: int, shown: int = 100) -> str:
    """Return how recognition falls with coarser mapped prices and coarser scaled times."""
    price_methods = ["probabilities", "ranks of prices", "signs of moves", "warped prices"]
    rows = []
    for grid in (1, 30, 100, 300, 500, 1_000, 2_000):
        found = recognised(known, shown, price_methods, seats, mapped(grid))
        rows.append([f"prices mapped, steps of {grid:,} bps", *(_percent(found[name].best) for name in price_methods), ""])
    for grid in (1, 300):
        found = recognised(known, shown, price_methods, seats, thinned(0.2, grid))
        what = f"and one message in five dropped, steps of {grid:,} bps"
        rows.append([what, *(_percent(found[name].best) for name in price_methods), ""])
    for round_s in (0.001, 1, 60, 600, 3_600, 6 * 3_600):
        found = recognised(known, shown, ["gaps, scaled"], seats, scaled(round(1000 * round_s)))
        rows.append([f"times scaled, steps of {round_s:,} s", "", "", "", "", _percent(found["gaps, scaled"].best)])
    return _rows(["view", *price_methods, "gaps, scaled"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Name the fixtures of aliased seats by their views.")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared" / "data", help="real odds")
    parser.add_argument("--seats", type=int, default=60)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        parts = dict(catalogues(chosen.data, Path(scratch)))
    everything = together(list(parts.values()))
    for one in (
        table(everything, chosen.seats),
        by_catalogue(parts, everything, chosen.seats),
        curves(everything, chosen.seats // 2),
    ):
        sys.stdout.write(one + "\n\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
