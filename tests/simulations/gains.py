"""``python -m tests.simulations.gains``: what packs are worth to an adversary in blind seats, over the same rule without packs.

He has a published pack of 1,000 fixtures with its closes, five tokens, and all that his earlier seats saw. At message ``SHOWN``
of a seat the rule backs the favourite. If he is sure which fixture it is, he backs the side that gains most there instead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import polars as pl
from scipy.stats import t as student

from clvlab.arena.application import Application
from clvlab.arena.caps import Caps
from clvlab.arena.seats.requests import SeatAction, SeatRequest
from clvlab.engine.agent import Identity
from clvlab.log.seats import Blind
from clvlab.packs.catalog import Catalog, entry_of
from clvlab.packs.reader import Pack
from clvlab.packs.synthetic import Recipe, build
from clvlab.packs.verification import verify_pack
from clvlab.runs.execute import execute
from clvlab.runs.spec import backtest_spec
from tests.factories import FixedAgent, make_decisions
from tests.simulations.catalogues import Catalogue, together
from tests.simulations.recognition import METHODS as ALL_METHODS
from tests.simulations.recognition import Floats

SHOWN = 30
CONTROLS = 5  # seats of those that need fewer, as their gain is large: one in so many
TOKENS = [f"did:key:scout{number}" for number in range(5)]
SURE, BOLD = 0.999, 0.0
METHODS = {name: score for name, score in ALL_METHODS.items() if name != "warped prices"}  # slow, and no better

Closes = dict[int, list[float]]
"""CLV in bps of each side of message ``SHOWN``, the favourite first, by fixture; absent where it is suspended or not scored."""


@dataclass(frozen=True)
class Played:
    """Seats up to message ``SHOWN``: their views, and the fixtures that were dealt to them."""

    views: Catalogue
    fixture_ids: list[int]


@dataclass(frozen=True, slots=True)
class Gain:
    """CLV of the adversary minus that of the rule, per seat in bps: mean, and its one-sided 95 % upper bound.

    ``acted`` is the share of seats in which he was sure, ``right`` the share of these in which he had the fixture.
    """

    mean_bps: float
    upper_bps: float
    acted: float
    right: float


def publish(folder: Path, name: str, recipe: Recipe) -> Pack:
    build(recipe, folder / name)
    return verify_pack(folder / name)


def catalog_of(folder: Path, packs: Iterable[Pack]) -> Catalog:
    (folder / "catalog.json").write_bytes(orjson.dumps({pack.pack_id: entry_of(pack) for pack in packs}))
    return Catalog(folder)


def closes_of(pack: Pack) -> Closes:
    """Return what each side of message ``SHOWN`` gains, as the engine scores an agent that backs all of them."""
    messages = pack.tape().ticks().collect().sort("fixture_id", "ts_ms", "tick_seq", "side")
    numbered = messages.with_columns(n=pl.struct("ts_ms", "tick_seq").rank("dense").over("fixture_id"))
    places = numbered.filter((pl.col("n") == SHOWN) & ~pl.col("suspended"))
    names = ["fixture_id", "tick_seq", "market_key", "side"]
    decisions = make_decisions(*places.select(names).iter_rows(named=True))
    scores = execute(backtest_spec(pack, FixedAgent(Identity("a", "all", "1", {}), decisions))).scores
    scored = scores.filter("valid").sort("fixture_id", -pl.col("entry_prob_bps"), "side")
    return dict(scored.group_by("fixture_id").agg(pl.col("clv_bps").cast(float)).iter_rows())


def played(application: Application, pack_id: str, blind: Blind, seats: int) -> Played:
    """Take seats with all tokens in turn, and answer each up to message ``SHOWN``, where the favourite is backed."""
    rows, fixture_ids = [], []
    for number in range(seats):
        owner = TOKENS[number % len(TOKENS)]
        start = application.seats.take(owner, SeatRequest(agent_id="scout", pack_id=pack_id, blind=blind))
        view = start["next"]["view"]
        for tick in range(1, SHOWN + 1):
            rows += [(number, tick, view["time_ms"], view["market"], *side, view["suspended"]) for side in view["sides"]]
            favourite = max(view["sides"], key=lambda side: (side[1] is not None, side[1]))
            said = {"action": "BACK", "side": favourite[0]} if tick == SHOWN else {}
            following = application.seats.act(owner, start["seat_id"], SeatAction(tick=tick, **said))["next"]
            view = following["view"] if following else view
        fixture_ids += application.seats._of(owner, start["seat_id"]).row["fixture_ids"]
    names = ["fixture_id", "tick_seq", "ts_ms", "market_key", "side", "prob_bps", "odds_milli", "suspended"]
    return Played(Catalogue.of(pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)), fixture_ids)


def likeness_between(published: Catalogue) -> dict[str, Floats]:
    """Return, for each method and fixture, the largest likeness to another fixture: what a coincidence reaches."""
    found = {}
    for name, score in METHODS.items():
        likeness = score(published, published, SHOWN)
        np.fill_diagonal(likeness, -np.inf)
        found[name] = likeness.max(axis=1)
    return found


def gain(
    seats: Played,
    closes: Closes,
    published: Catalogue,
    published_ids: list[int],
    known: Closes,
    between: dict[str, Floats],
    sure: float,
) -> Gain:
    """Return what the adversary gains who is sure where no more than ``1 - sure`` of other fixtures are as alike."""
    memory = together([published, seats.views])
    own = np.arange(len(seats.fixture_ids))
    later = np.arange(memory.fixtures)[None, :] >= (published.fixtures + own)[:, None]  # what he has not seen yet
    ids = np.array([*published_ids, *seats.fixture_ids])
    futures = [*(known.get(one) for one in published_ids), *(closes.get(one) for one in seats.fixture_ids)]
    guess = np.full(len(own), -1)
    for name, score in METHODS.items():
        likeness = np.where(later, -np.inf, score(seats.views, memory, SHOWN))
        is_sure = (guess < 0) & (likeness.max(axis=1) > np.quantile(between[name], sure))
        guess[is_sure] = likeness.argmax(axis=1)[is_sure]
    differences = np.zeros(len(own))
    for seat in np.flatnonzero(guess >= 0):
        there, here = futures[guess[seat]], closes.get(seats.fixture_ids[seat])
        if there is not None and here is not None and len(there) == len(here):
            differences[seat] = here[int(np.argmax(there))] - here[0]
    acted = guess >= 0
    is_published = guess < published.fixtures
    right = acted & (ids[guess] == np.array(seats.fixture_ids)) & (~is_published | (known is closes))
    error = differences.std(ddof=1) / np.sqrt(len(own))
    mean = float(differences.mean())
    upper = mean + float(student.ppf(0.95, len(own) - 1)) * float(error)
    return Gain(mean, upper, float(acted.mean()), float(right.sum() / max(acted.sum(), 1)))


def gains(scratch: Path, fixtures: int, seats: int, messages: int = 200) -> dict[str, Gain]:
    """Return the gain in held-back seats, and in two where it must be large."""
    packs, vaults = scratch / "packs", scratch / "vaults"
    vaults.mkdir()
    published = publish(packs, "published", Recipe(7, fixtures, messages))
    vault = publish(vaults, "vault", Recipe(11, fixtures, messages))
    catalogue, ids = Catalogue.of(published.tape().ticks().collect()), list(published.fixture_ids)
    known, closes, between = closes_of(published), closes_of(vault), likeness_between(catalogue)
    caps, found = Caps(seats=seats, names=seats), {}

    def judge(application: Application, pack_id: str, blind: Blind, own: Closes, count: int) -> dict[str, Gain]:
        taken = played(application, pack_id, blind, count)
        application.close()
        return {
            "sure": gain(taken, own, catalogue, ids, known, between, SURE),
            "bold": gain(taken, own, catalogue, ids, known, between, BOLD),
        }

    only = catalog_of(packs, [published])
    holding = Application(catalog=only, caps=caps)
    holding.seats.held.hold_back(vault.folder)
    for name, one in judge(holding, "vault", Blind.HELD_BACK, closes, seats).items():
        found[f"held-back, {name}"] = one
    found["aliased, over the published pack"] = judge(
        Application(catalog=only, caps=caps), "published", Blind.ALIASED, known, seats // CONTROLS
    )["sure"]
    both = catalog_of(vaults, [vault])
    found["aliased, over a pack that it lacks"] = judge(
        Application(catalog=both, caps=caps), "vault", Blind.ALIASED, closes, seats
    )["sure"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate the gain of an adversary in blind seats.")
    parser.add_argument("--fixtures", type=int, default=1_000)
    parser.add_argument("--seats", type=int, default=1_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = gains(Path(scratch), chosen.fixtures, chosen.seats)
    sys.stdout.write("| seats | acted on | right of these | mean gain | 95 % upper bound |\n| --- | --- | --- | --- | --- |\n")
    for name, one in found.items():
        figures = f"{100 * one.acted:.1f} % | {100 * one.right:.0f} % | {one.mean_bps:+.2f} bps | {one.upper_bps:+.2f} bps"
        sys.stdout.write(f"| {name} | {figures} |\n")


if __name__ == "__main__":
    main()
