"""Importers: from a provider's own messages to ticks. One module a source, found by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from clvlab.packs.importers import (
    betfair,
    betfair_files,
    betfair_runners,
    football_data,
    kalshi,
    oddsharvester,
    oddsportal,
    pmxt,
    polymarket,
    table,
    the_odds_api,
    trades,
    txline,
)
from clvlab.packs.importers.source import Normalised, Options

__all__ = ["IMPORTERS", "NORMALISERS", "Normaliser"]

_Finder = Callable[[Sequence[Path]], Mapping[str, Path]]
Normaliser = Callable[[Mapping[str, Path], Options, Path], Normalised]

# source -> (find its files below the given paths, normalise them with a folder for scratch files)
IMPORTERS: Mapping[str, tuple[_Finder, Normaliser]] = MappingProxyType(
    {
        "betfair": (betfair_files.find, betfair.normalise),
        "betfair-csv": (betfair_runners.find, betfair_runners.normalise),
        "csv": (table.find_csv, table.normalise),
        "football-data": (football_data.find, football_data.normalise),
        "kalshi": (kalshi.find, kalshi.normalise),
        "oddsharvester": (oddsharvester.find, oddsharvester.normalise),
        "oddsportal": (oddsportal.find, oddsportal.normalise),
        "parquet": (table.find_parquet, table.normalise),
        "pmxt": (pmxt.find, pmxt.normalise),
        "polymarket": (polymarket.find, polymarket.normalise),
        "the-odds-api": (the_odds_api.find, the_odds_api.normalise),
        "trades": (trades.find, trades.normalise),
        "txline": (txline.find, txline.normalise),
    }
)

# By the name and version under which a pack records its normaliser: those whose packs keep the raw messages.
NORMALISERS: Mapping[str, Normaliser] = MappingProxyType(
    {polymarket.NORMALISER: polymarket.normalise, txline.NORMALISER: txline.normalise}
)
