"""Catalogues of fixtures that an adversary of blind seats holds: every pack that can be made of the data at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.arena.packs import bundled_catalog
from clvlab.packs.synthetic import Recipe, synthetic
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source

SHOWN = 300
RECIPE = Recipe(seed=7, fixtures=1_000, messages=440)
SOURCES = {
    "betfair": ["betfair-stream"],
    "polymarket": ["polymarket"],
    "txline": ["txline"],
    "football-data": ["football-data"],
    "betfair-csv": ["other/BBL14_All_Markets.csv.gz"],
}
SOURCES |= {f"the-odds-api/{name}": [f"the-odds-api/{name}_ticks.parquet"] for name in ("worldcup", "mlb", "kbo")}

Ints = npt.NDArray[np.int64]
_FEATURES = ("price", "odds", "gap", "market", "suspended")


@dataclass(frozen=True)
class Catalogue:
    """The first messages of fixtures as the views of a seat state them; a row is a fixture, a column one of ``SHOWN`` messages.

    Attributes
    ----------
    price, odds
        Largest probability of a message in bps and smallest odds x 1000, whose sides an alias does not hide; that of the same
        market before where it has none, and 0 before the first.
    gap
        Milliseconds since the message before.
    market
        Number of the market in order of first appearance.
    suspended
        1 for a message without a price.
    ticks
        Messages of each fixture.
    """

    price: Ints
    odds: Ints
    gap: Ints
    market: Ints
    suspended: Ints
    ticks: Ints

    @classmethod
    def of(cls, ticks: pl.DataFrame) -> Catalogue:
        """Make a catalogue of rows of ``TICKS``."""
        at = ["fixture_id", "tick_seq"]
        views = ticks.group_by([*at, "ts_ms", "market_key", "suspended"]).agg(
            price=pl.col("prob_bps").max(), odds=pl.col("odds_milli").min()
        )
        order = views.sort(["fixture_id", "ts_ms", "tick_seq"]).with_columns(n=pl.int_range(pl.len()).over("fixture_id"))
        shown = order.filter(pl.col("n") < SHOWN).with_columns(
            gap=pl.col("ts_ms").diff().over("fixture_id").fill_null(0),
            price=pl.col("price").forward_fill().over("fixture_id", "market_key").fill_null(0),
            odds=pl.col("odds").forward_fill().over("fixture_id", "market_key").fill_null(0),
            first=pl.col("n").min().over("fixture_id", "market_key"),
        )
        shown = shown.with_columns(market=pl.col("first").rank("dense").over("fixture_id"))
        counts = order.group_by("fixture_id", maintain_order=True).len()
        row = shown["fixture_id"].rank("dense").to_numpy().astype(np.int64) - 1
        column = shown["n"].to_numpy()
        made = []
        for name in _FEATURES:
            values = np.full((counts.height, SHOWN), -1, dtype=np.int64)
            values[row, column] = shown[name].cast(pl.Int64).to_numpy()
            made.append(values)
        return cls(*made, counts.sort("fixture_id")["len"].to_numpy().astype(np.int64))

    @property
    def fixtures(self) -> int:
        return len(self.ticks)

    def longer_than(self, shown: int) -> Catalogue:
        """Return the fixtures that have so many messages: whoever saw them knows that the others are not it."""
        return self.at(np.flatnonzero(self.ticks >= shown))

    def at(self, rows: Ints) -> Catalogue:
        return Catalogue(*(getattr(self, name)[rows] for name in (*_FEATURES, "ticks")))


def together(catalogues: list[Catalogue]) -> Catalogue:
    return Catalogue(*(np.concatenate([getattr(one, name) for one in catalogues]) for name in (*_FEATURES, "ticks")))


def catalogues(data: Path, scratch: Path) -> Iterator[tuple[str, Catalogue]]:
    """Yield the synthetic catalogue, the packs that come with the project, and one of each source below ``data``.

    A source without its files, or without a price, is left out.
    """
    yield "synthetic", Catalogue.of(synthetic(RECIPE).ticks)
    for pack_id in ("starter", "season"):
        yield pack_id, Catalogue.of(bundled_catalog().open(pack_id).tape().ticks().collect())
    for name, files in SOURCES.items():
        paths, folder = [data / file for file in files], scratch / name.replace("/", "-")
        if all(path.exists() for path in paths):
            source = name.partition("/")[0]
            import_source(source, paths, folder, import_options())
            yield name, Catalogue.of(verify_pack(folder).tape().ticks().collect())
