"""``python -m tests.simulations.lines``: the error of the rule for moved lines, simulated and on real odds.

Real odds are those of ``../shared/data``, where they are there.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import clvlab as cl
from clvlab.arena.packs import open_pack
from clvlab.law.closing import Window, fixture_closes
from clvlab.law.markets import MarketKind
from clvlab.packs.reader import Pack
from clvlab.report.moved_lines import closing_quotes
from clvlab.statistics.moved_lines import FIRST_ROLES, LineQuote, leave_one_out

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "moved-lines.md"
REALDATA = Path(__file__).parents[3] / "shared" / "data"
HEAD = "lines hidden | lines | mean error | mean absolute | root mean square | 95 % within | nearest line as it is"
_SOURCES = (
    ("World Cup 2026", "the-odds-api", ("the-odds-api/worldcup_ticks.parquet",)),
    ("MLB", "the-odds-api", ("the-odds-api/mlb_ticks.parquet",)),
    ("KBO", "the-odds-api", ("the-odds-api/kbo_ticks.parquet",)),
    ("Premier League", "football-data", tuple(f"football-data/E0_{season}.csv.gz" for season in (2122, 2223, 2324, 2425))),
    ("TxLINE", "txline", ("txline/odds_18209181.jsonl.gz", "txline/odds_18218149.jsonl.gz")),
)
Errors = dict[str, list[tuple[float, float]]]


def fair(first: np.ndarray, second: np.ndarray, kind: MarketKind, quarters: int) -> float:
    """Price a line without a margin by counting: what is won of the stakes that are not returned."""
    number = 4 * (first - second) + quarters if kind is MarketKind.HANDICAP else 4 * (first + second) - quarters
    halves = [number - 1, number + 1] if quarters % 2 else [number]
    won, lost = (float(np.mean([np.mean(sign * half > 0) for half in halves])) for sign in (1, -1))
    return won / (won + lost)


def simulated(rng: np.random.Generator, *, points: bool, shared: float = 0.0, goals: int = 200_000) -> list[LineQuote]:
    """Lines of one fixture, priced exactly from many results: goals with some in common, or overdispersed runs."""
    means = rng.uniform(3, 6, 2) if points else rng.uniform(0.6, 2.4, 2)
    if points:
        first, second = (rng.negative_binomial(mean / 1.2, 1 / 2.2, goals) for mean in means)
        more = first == second  # extra innings: nobody draws
        first = first + more * (rng.random(goals) < means[0] / means.sum())
        second = second + (first == second)
    else:
        both = rng.poisson(shared, goals)
        first, second = (rng.poisson(mean, goals) + both for mean in means)
    lines = [(MarketKind.HANDICAP, quarters) for quarters in ((0, -6, 6) if points else range(-6, 7))]
    middle = round(2 * float(np.mean(first + second)))
    lines += [(MarketKind.TOTAL, 2 * half) for half in range(max(middle - 2, 1), middle + 3)]
    priced = [(kind, quarters, fair(first, second, kind, quarters)) for kind, quarters in lines]
    return [LineQuote(*one, f"{one[0]} {one[1]}") for one in priced if 0.03 < one[2] < 0.97]


def errors_of(quotes: Iterable[list[LineQuote]], *, goals: bool) -> Errors:
    """Return, by kind, the error of each line that is hidden, and that of the line beside it taken as it is; in bps."""
    found: Errors = defaultdict(list)
    for listed in quotes:
        for kind in FIRST_ROLES:
            for line, prob in leave_one_out(kind, listed, goals=goals):
                others = [one for one in listed if one.kind is kind and one.quarters != line.quarters and not one.is_derived]
                near = min(others, key=lambda one: (abs(one.quarters - line.quarters), one.quarters))
                found[kind].append((1e4 * (prob - line.prob), 1e4 * (near.prob - line.prob)))
    return found


def real(folder: Path, only: str = "") -> Iterator[tuple[str, Errors]]:
    """Return, by source or of one alone, the errors at the closes of real odds."""
    with TemporaryDirectory() as scratch:
        for name, source, files in _SOURCES:
            if only not in ("", name):
                continue
            place = Path(scratch) / source / name.replace(" ", "-")
            cl.import_odds(source, [folder / file for file in files], place, lenient=True)
            yield name, real_errors(open_pack(place))


def real_errors(pack: Pack) -> Errors:
    """Return the errors at the closes of a pack."""
    found: Errors = defaultdict(list)
    tape = pack.tape(None)
    for quotes, goals in closing_quotes(tape, fixture_closes(tape, Window())).values():
        for kind, errors in [*errors_of([quotes], goals=goals).items(), ("handicap that a result is", _as_results(quotes))]:
            found[kind] += errors
    return {kind: errors for kind, errors in found.items() if errors}


def _as_results(quotes: list[LineQuote]) -> list[tuple[float, float]]:
    """Return how far handicaps are from the result that is the same bet; in bps."""
    own = {one.quarters: one.prob for one in quotes if one.kind is MarketKind.HANDICAP and not one.is_derived}
    results = [one for one in quotes if one.is_derived and one.quarters in own]
    return [(1e4 * (one.prob - own[one.quarters]), np.nan) for one in results]


def rows(name: str, found: Errors) -> Iterator[str]:
    """Return a line of the table for each kind of line."""
    for kind, errors in sorted(found.items()):
        off, near = np.array(errors).T
        figures = (
            f"{off.mean():+.0f}", f"{np.abs(off).mean():.0f}", f"{np.sqrt((off**2).mean()):.0f}",
            f"{np.quantile(np.abs(off), 0.95):.0f}", "none" if np.isnan(near).any() else f"{np.abs(near).mean():.0f}",
        )  # fmt: skip
        yield " | ".join([f"{name}, {kind}", f"{len(off)}", *figures])


def table(fixtures: int, seed: int = 1) -> str:
    """Return the errors where the truth is known, in bps."""
    lines = [HEAD]
    for name, truth in (
        ("independent goals", {"points": False}),
        ("goals with 0.15 of both in common", {"points": False, "shared": 0.15}),
        ("runs", {"points": True}),
    ):
        rng = np.random.default_rng(seed)
        quotes = [simulated(rng, **truth) for _ in range(fixtures)]
        lines += rows(name, errors_of(quotes, goals=not truth["points"]))
    return "\n".join(lines)


def main() -> None:
    sys.stdout.write(table(100) + "\n")
    if REALDATA.is_dir():
        for name, found in real(REALDATA):
            sys.stdout.write("".join(f"{line}\n" for line in rows(name, found)))


if __name__ == "__main__":
    main()
