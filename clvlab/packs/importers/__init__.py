"""Importers: from a provider's own messages to ticks. One module a source, found by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from clvlab.packs.importers import polymarket, txline
from clvlab.packs.importers.source import Normalised

__all__ = ["IMPORTERS", "NORMALISERS"]


class _Normaliser(Protocol):
    def __call__(self, files: Mapping[str, Path], *, lenient: bool = False) -> Normalised: ...


_Finder = Callable[[Sequence[Path]], Mapping[str, Path]]

# source -> (find its files below the given paths, normalise them)
IMPORTERS: Mapping[str, tuple[_Finder, _Normaliser]] = MappingProxyType(
    {"polymarket": (polymarket.find, polymarket.normalise), "txline": (txline.find, txline.normalise)}
)

# By the name and version under which a pack records its normaliser.
NORMALISERS: Mapping[str, _Normaliser] = MappingProxyType(
    {polymarket.NORMALISER: polymarket.normalise, txline.NORMALISER: txline.normalise}
)
