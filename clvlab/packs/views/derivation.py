"""The derivation of a pack: a rule and the content hashes of its parents, which determine its own hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import polars as pl

from clvlab.law.tape import Binding, Tape
from clvlab.packs.folder import PackFiles
from clvlab.packs.manifest import Grade, PackManifest, grade_of
from clvlab.packs.reader import Pack
from clvlab.packs.views.rule import MARKS, Rule
from clvlab.proof.canonical import canonical, sha256

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.packs.quality import Quality

VIEW_SCHEMA = "clvlab-view/1"
_NAME_LENGTH = 150  # of a parent's name; the rest is cut


class DerivationKind(StrEnum):
    WHERE = "where"
    CONCAT = "concat"
    JOIN = "join"


@dataclass(frozen=True)
class Derivation:
    """A rule and the packs that it is applied to; ``rule`` is canonical JSON, ``parents`` are in the order of the rule."""

    kind: DerivationKind
    rule: Mapping[str, Any]
    parents: tuple[Pack, ...]

    @cached_property
    def content_hash(self) -> str:
        """``sha256:<hex>`` of the rule and the parents' content hashes; see ``docs/reference/pack-format.md``."""
        parents = [parent.content_hash for parent in self.parents]
        return sha256(canonical({"schema": VIEW_SCHEMA, "kind": self.kind.value, "rule": self.rule, "parents": parents}))

    @property
    def pack_id(self) -> str:
        """A name that follows from the hash, so that equal rules give equal runs."""
        mark = f"{self.kind.value}-{self.content_hash[7:15]}"
        first = self.parents[0]
        if self.kind is DerivationKind.CONCAT:
            return mark
        root = first.pack_id.rpartition(f".{DerivationKind.WHERE.value}-")[0] if isinstance(first, DerivedPack) else ""
        return f"{(root or first.pack_id)[:_NAME_LENGTH]}.{mark}"


@dataclass(frozen=True)
class DerivedPack(Pack):
    """A pack that is read through others and usable wherever a pack is.

    Fixtures keep the digests of their original packs: a fixture that a plan holds out there is held out here.
    """

    derivation: Derivation = field(kw_only=True, repr=False)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted({one for parent in self.derivation.parents for one in parent.sources}))

    @property
    def rows(self) -> str:
        return f"at most {super().rows}" if _chooses_markets(self) else super().rows

    def origins(self) -> Iterable[tuple[int, Pack, int]]:
        own, parents = set(self.fixture_ids), self.derivation.parents
        if self.derivation.kind is not DerivationKind.JOIN:
            return (one for parent in parents for one in parent.origins() if one[0] in own)
        named = [{second: first for first, second, _ in pairs} for pairs in self.derivation.rule["pairs"]]
        others = zip(named, parents[1:], strict=True)
        other_origins = ((names[one[0]], *one[1:]) for names, pack in others for one in pack.origins() if one[0] in names)
        return chain(parents[0].origins(), other_origins)

    @cached_property
    def is_genuine(self) -> bool:
        """Whether every parent is genuine and no message was changed."""
        changed = not MARKS.isdisjoint(self.derivation.rule)
        return not changed and all(parent.is_genuine for parent in self.derivation.parents)

    @property
    def verified_grade(self) -> Grade:
        earned = MARKS.isdisjoint(self.derivation.rule)
        return grade_of(is_genuine=earned and all(one.verified_grade is not Grade.NOT_SHOWN for one in self.derivation.parents))

    @cached_property
    def results(self) -> pl.DataFrame | None:
        own = set(self.fixture_ids) - set(dict(self.held_out))
        parents = self.derivation.parents[:1] if self.derivation.kind is DerivationKind.JOIN else self.derivation.parents
        found = [frame for parent in parents if (frame := parent.results) is not None]
        if not found:
            return None
        settled = pl.concat(found).unique().sort("fixture_id", "market_key", "side")
        return settled.filter(pl.col("fixture_id").is_in(list(own)), begins_with(self.derivation.rule.get("markets")))

    @cached_property
    def quality(self) -> Quality | None:
        """``None``, because a derived pack is not imported."""
        return None


def _chooses_markets(pack: Pack) -> bool:
    """Whether some rows of its fixtures are left out; only reading the ticks shows how many."""
    if not isinstance(pack, DerivedPack):
        return False
    return "markets" in pack.derivation.rule or any(map(_chooses_markets, pack.derivation.parents))


def begins_with(prefixes: Sequence[str] | None) -> pl.Expr:
    """Select rows whose ``market_key`` begins with one of the prefixes; all rows without prefixes."""
    if prefixes is None:
        return pl.lit(value=True)
    return pl.any_horizontal([pl.col("market_key").str.starts_with(prefix) for prefix in prefixes])


def derived(derivation: Derivation, manifest: PackManifest, files: PackFiles) -> DerivedPack:
    """Return the pack of a derivation; name and fields about files of ``manifest`` are set here."""
    own = {
        "pack_id": derivation.pack_id,
        "raw": (),
        "results": None,
        "sources": None,
        "recipe": None,
        "ticks_sha256": None,
        "results_sha256": None,
        "quality_sha256": None,
        "books_sha256": None,
        "ladders_sha256": None,
    }
    present = {fixture.fixture_id for fixture in manifest.fixtures}
    parents = derivation.parents[:1] if derivation.kind is DerivationKind.JOIN else derivation.parents
    held = {number: plan for parent in parents for number, plan in parent.held_out if number in present}
    return DerivedPack(
        files,
        manifest.model_copy(update=own),
        derivation.content_hash,
        tuple(sorted(held.items())),
        derivation=derivation,
    )


def stand_alone(rows: pl.DataFrame, series: pl.DataFrame) -> Tape:
    fixtures = series.select("fixture_id", kickoff_ts_ms=pl.lit(None, pl.Int64)).unique(maintain_order=True)
    return Tape(Binding(None, tuple(fixtures["fixture_id"]), None), rows, series, fixtures)


def derived_words(pack: DerivedPack) -> str:
    own = pack.derivation
    names = [_words(parent) for parent in own.parents]
    if own.kind is DerivationKind.WHERE:
        return f"view of {names[0]}: {Rule.of_payload(own.rule).words}"
    if own.kind is DerivationKind.JOIN:
        return f"{names[0]}, with {' and '.join(names[1:])} as books"
    return f"{' and '.join(names)} as one"


def _words(pack: Pack) -> str:
    return f"({derived_words(pack)})" if isinstance(pack, DerivedPack) else repr(pack.pack_id)
