"""Sources joined, in a notebook: a pack with the report of what was matched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from clvlab.lab.results.pack import Pack
from clvlab.law.markets import UnreadKey, unread_keys
from clvlab.law.schema import Schema
from clvlab.packs import reader
from clvlab.packs.derived.derivation import DerivedPack
from clvlab.packs.matching.fixtures import Matched

# One row per pair that was taken, per group that was refused, and per fixture that nothing in the other source is like.
MATCHING: Schema = {
    "source": pl.String,
    "outcome": pl.String,
    "fixture_ids": pl.List(pl.Int64),
    "other_fixture_ids": pl.List(pl.Int64),
    "names": pl.String,
    "other_names": pl.String,
    "turned": pl.Boolean,
    "alike": pl.Float64,
    "kickoff_gap_s": pl.Int64,
    "price_gap_bps": pl.Int64,
    "reason": pl.String,
}


class Joined(Pack):
    """Sources joined by ``clvlab.join_sources()``.

    Attributes
    ----------
    matching
        One row per pair that was taken, per group of fixtures that was refused with its reason, and per fixture alone.
    """

    source: DerivedPack

    def __init__(
        self, pack: DerivedPack, shut: Callable[[reader.Pack], reader.Pack] | None, matched: Sequence[Matched]
    ) -> None:
        super().__init__(pack, shut)
        self.matching = _matching(pack, matched)

    @cached_property
    def unread(self) -> list[UnreadKey]:
        """Markets of the sources whose keys have no reading, so that none of another source is taken for the same."""
        parents = self.source.derivation.parents
        return unread_keys(sorted({key for parent in parents for key in parent.tape().series["market_key"].unique()}))

    def __repr__(self) -> str:
        taken, refused = (self.matching.filter(outcome=outcome).height for outcome in ("taken", "refused"))
        return f"{super().__repr__()}; {taken:,} matched, {refused:,} refused: .matching"


def _matching(pack: DerivedPack, matched: Sequence[Matched]) -> pl.DataFrame:
    names = [{one.fixture_id: " - ".join(one.names) for one in parent.manifest.fixtures} for parent in pack.derivation.parents]
    others = zip(pack.derivation.parents[1:], names[1:], matched, strict=True)
    rows = [row for parent, theirs, found in others for row in _rows(parent.pack_id, names[0], theirs, found)]
    return pl.DataFrame(rows, schema=MATCHING, orient="row")


def _rows(source: str, ours: dict[int, str], theirs: dict[int, str], found: Matched) -> Iterator[tuple[Any, ...]]:
    for pair in found.pairs:
        named = ours[pair.first], theirs[pair.second]
        measured = pair.turned, pair.alike, pair.kickoff_gap_s, pair.price_gap_bps
        yield source, "taken", [pair.first], [pair.second], *named, *measured, None
    for one in found.refused:
        named = "; ".join(ours[number] for number in one.first), "; ".join(theirs[number] for number in one.second)
        yield source, "refused", list(one.first), list(one.second), *named, None, None, None, None, one.reason
    for number in found.first_alone:
        yield source, "alone", [number], [], ours[number], "", None, None, None, None, "nothing in the other source is like it"
    for number in found.second_alone:
        yield (
            source,
            "alone",
            [],
            [number],
            "",
            theirs[number],
            None,
            None,
            None,
            None,
            "nothing in the first source is like it",
        )
