"""The feeds whose captures become packs: how each one's messages are read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from clvlab.packs.captures import betfair, kalshi, polymarket, replay, the_odds_api, txline
from clvlab.packs.captures.normalising import Source

SOURCES: Mapping[str, Source] = MappingProxyType(
    {module.SOURCE.feed: module.SOURCE for module in (betfair, kalshi, polymarket, replay, the_odds_api, txline)}
)
CAPTURES: Mapping[str, Source] = MappingProxyType({source.normaliser: source for source in SOURCES.values()})
"""By the name under which a pack records its normaliser."""
