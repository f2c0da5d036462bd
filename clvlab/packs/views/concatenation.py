"""Several packs as one: all their fixtures, with their own ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from clvlab.errors import UnsupportedError, ViewError
from clvlab.law.schema import BOOK_ROWS, SERIES
from clvlab.law.tape import ROWS, series_table
from clvlab.packs.books import STREAM
from clvlab.packs.manifest import Capture, Fixture, KickoffKind
from clvlab.packs.reader import Pack
from clvlab.packs.views.derivation import Derivation, DerivationKind, DerivedPack, derived
from clvlab.packs.views.rule import MARKS

_Ticks = tuple[pl.DataFrame, pl.DataFrame]
_Label = str | int | None
_RANKS = ("synthetic", "imported", "genuine")  # of provenance, ascending: a concatenation has the lowest of its packs


def concatenated(packs: Sequence[Pack]) -> Pack:
    """Return several packs as one; order and repetition of the names change nothing.

    Raises
    ------
    ViewError
        There is no pack, the closing rules or margin methods differ, or one fixture id has different ticks or kickoffs in two
        packs.
    """
    parents = _parts(packs)
    if not parents:
        raise ViewError("name the packs that are to be one, as concat([a, b])")
    if len(parents) == 1:
        return parents[0]
    _check_alike(parents)
    homes, fixtures = _homes(parents)
    first = parents[0].manifest
    manifest = first.model_copy(
        update={
            "fixtures": fixtures,
            "provenance": _provenance({pack.provenance for pack in parents}),
            "consensus": "; ".join(sorted({pack.manifest.consensus for pack in parents})),
            "normaliser": first.normaliser if len({pack.manifest.normaliser for pack in parents}) == 1 else None,
            "capture": _capture([pack.manifest.capture for pack in parents]),
            "books": tuple(sorted({book for pack in parents for book in pack.books})) or None,
            "ladders": max((pack.manifest.ladders or 0 for pack in parents), default=0) or None,
            "margin_fallbacks": sum(pack.manifest.margin_fallbacks or 0 for pack in parents) or None,
        }
    )
    return derived(Derivation(DerivationKind.CONCAT, {}, parents), manifest, ConcatFiles(parents, homes))


def _parts(packs: Iterable[Pack]) -> tuple[Pack, ...]:
    """Return the packs in order of their hashes, each once; a concatenation counts as its parts."""
    found: dict[str, Pack] = {}
    for pack in packs:
        several = isinstance(pack, DerivedPack) and pack.derivation.kind is DerivationKind.CONCAT
        for part in pack.derivation.parents if isinstance(pack, DerivedPack) and several else (pack,):
            known = found.get(part.content_hash, part)
            found[part.content_hash] = known.held(dict(pack.held_out) | dict(part.held_out))
    return tuple(pack for _, pack in sorted(found.items()))


def _check_alike(parents: Sequence[Pack]) -> None:
    """Refuse packs over which a mean would mix two definitions."""
    labels = [(pack.pack_id, _labels(pack)) for pack in parents]
    for name in labels[0][1]:
        found: dict[_Label, str] = {}
        for pack_id, own in labels:
            found.setdefault(own[name], pack_id)
        if len(found) > 1:
            values = ", ".join(f"{value!r} in {pack_id!r}" for value, pack_id in found.items())
            raise ViewError(f"these packs can't be one, their {name} differs: {values}; backtests([...]) takes them apart")


def _labels(pack: Pack) -> Mapping[str, _Label]:
    own = pack.manifest
    return {
        "closing_policy": own.closing_policy.value,
        "max_close_age_s": own.max_close_age_s,
        "closing_source": own.closing_source,
        "margin": own.margin,
        "kickoff": (own.kickoff or KickoffKind.SCHEDULED).value,
    }


def _homes(parents: Sequence[Pack]) -> tuple[dict[int, int], tuple[Fixture, ...]]:
    homes: dict[int, int] = {}
    known: dict[int, Fixture] = {}
    for number, pack in enumerate(parents):
        for fixture in pack.manifest.fixtures:
            twin = known.setdefault(fixture.fixture_id, fixture)
            if twin != fixture:
                other = parents[homes[fixture.fixture_id]].pack_id
                names = sorted(name for name in Fixture.model_fields if getattr(twin, name) != getattr(fixture, name))
                raise ViewError(
                    f"fixture {fixture.fixture_id} is in {other!r} and in {pack.pack_id!r} with another {', '.join(names)}: "
                    "leave it out of one, as .where(fixtures=[...])"
                )
            if fixture.fixture_id in homes and _is_changed(pack, parents[homes[fixture.fixture_id]]):
                raise ViewError(
                    f"fixture {fixture.fixture_id} is in two views, {parents[homes[fixture.fixture_id]].pack_id!r} and "
                    f"{pack.pack_id!r}, which may read it otherwise: leave it out of one"
                )
            homes.setdefault(fixture.fixture_id, number)
    return homes, tuple(known[fixture_id] for fixture_id in sorted(known))


def _is_changed(*packs: Pack) -> bool:
    """Whether a pack selects markets or messages; digests of fixtures do not cover such a selection."""
    return any(_changes(pack) for pack in packs)


def _changes(pack: Pack) -> bool:
    if not isinstance(pack, DerivedPack):
        return False
    own = pack.derivation
    chosen = own.kind is DerivationKind.JOIN or not own.rule.keys().isdisjoint({"markets", *MARKS})
    return chosen or any(map(_changes, own.parents))


def _provenance(labels: set[str]) -> str:
    kinds = {label.partition("-")[0] for label in labels}
    if len(labels) == 1:
        return next(iter(labels))
    return next((f"{kind}-several" for kind in _RANKS if kind in kinds and kinds <= set(_RANKS)), "unknown")


def _capture(captures: Sequence[Capture | None]) -> Capture | None:
    """Return captures as one; a pack that was not captured has no gaps to state."""
    known = [capture for capture in captures if capture is not None]
    if len(known) < len(captures):
        return None
    return Capture(
        method="; ".join(sorted({one.method for one in known})),
        tool="; ".join(sorted({one.tool for one in known})),
        started_ts_ms=min(one.started_ts_ms for one in known),
        ended_ts_ms=max(one.ended_ts_ms for one in known),
        gaps=tuple(sorted((gap for one in known for gap in one.gaps), key=lambda gap: (gap.from_ts_ms, gap.to_ts_ms))),
    )


@dataclass(frozen=True)
class ConcatFiles:
    parents: tuple[Pack, ...]
    homes: dict[int, int] = field(repr=False)

    @property
    def verification(self) -> str:
        return "; ".join(sorted({pack.verification for pack in self.parents if pack.verification}))

    @property
    def folder(self) -> Path:
        raise UnsupportedError(f"{len(self.parents)} packs as one have no folder of their own: name one of them")

    def content(self, name: str, expected: str, what: str) -> bytes:  # noqa: ARG002  a part of how files are read
        raise UnsupportedError(f"{what} is no file: it is of several packs")

    def ticks(self, fixtures: Sequence[Fixture] | None) -> _Ticks:
        return _together([pack.files.ticks(own) for pack, own in self._parts(fixtures)])

    def books(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        found = [pack.files.books(own) for pack, own in self._parts(fixtures) if pack.books]
        return pl.concat([pl.LazyFrame(schema=BOOK_ROWS), *found]).sort(*STREAM, "tick_seq")

    def ladders(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        from clvlab.packs.ladders import LADDER_KEY, LADDERS

        found = [pack.files.ladders(own) for pack, own in self._parts(fixtures) if pack.has_ladders]
        return pl.concat([pl.LazyFrame(schema=LADDERS), *found]).sort(LADDER_KEY)

    def _parts(self, fixtures: Sequence[Fixture] | None) -> Iterator[tuple[Pack, list[Fixture] | None]]:
        """Yield the packs with the fixtures that are read from each; ``None`` means all."""
        ids = set(self.homes) if fixtures is None else {fixture.fixture_id for fixture in fixtures}
        for number, pack in enumerate(self.parents):
            known = pack.manifest.fixtures
            own = [one for one in known if one.fixture_id in ids and self.homes[one.fixture_id] == number]
            if own:
                yield pack, None if len(own) == len(known) else own


def _together(found: Sequence[_Ticks]) -> _Ticks:
    counts = [series.height for _, series in found]
    before = [sum(counts[:number]) for number in range(len(counts))]
    rows = pl.concat(
        [pl.DataFrame(schema=ROWS)]
        + [own.with_columns(pl.col("series") + pl.lit(start, pl.UInt32)) for (own, _), start in zip(found, before, strict=True)]
    )
    series = pl.concat([pl.DataFrame(schema=SERIES), *(own for _, own in found)]).with_row_index("number")
    ordered = series.sort("fixture_id", maintain_order=True)
    if not ordered["number"].equals(series["number"]):
        place = ordered.select("number", place=pl.int_range(pl.len(), dtype=pl.UInt32)).sort("number")["place"]
        rows = rows.with_columns(series=place.gather(rows["series"])).sort("series", maintain_order=True)
    starts = ordered.select("fixture_id", "market_key", "side", start=pl.col("rows").cum_sum() - pl.col("rows"))
    return rows, series_table(starts, rows.height)
