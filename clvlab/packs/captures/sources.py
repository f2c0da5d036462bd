"""The feeds whose captures become packs: how each one's messages are read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from clvlab.packs.captures.kalshi import KALSHI
from clvlab.packs.captures.normalising import Source
from clvlab.packs.captures.polymarket import POLYMARKET

_SOURCES: tuple[Source, ...] = (KALSHI, POLYMARKET)
SOURCES: Mapping[str, Source] = MappingProxyType({source.feed: source for source in _SOURCES})
CAPTURES: Mapping[str, Source] = MappingProxyType({source.normaliser: source for source in SOURCES.values()})
"""By the name under which a pack records its normaliser."""
