"""Which ticker or asset is which side of which market of which fixture: a mapping says it, since no source of shares does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from clvlab.base.names import among
from clvlab.base.times import time_ms, zone_of
from clvlab.errors import SourceError
from clvlab.packs.importers.source import ImportStats, Options, fixture_ids_of
from clvlab.packs.invariants import is_name
from clvlab.packs.manifest import Fixture, KickoffKind

_LISTED = 10
_YES, _NO = "yes", "no"
LEAVE_OUT = "leave-out"


class _Mapped(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class _MappedFixture(_Mapped):
    """A fixture: an id of one's own, its names with the home team first, its kickoff, and the sides of its markets."""

    id: str | int
    names: tuple[str, ...]
    kickoff: str | int | datetime
    markets: dict[str, dict[str, str]] = Field(min_length=1)

    @field_validator("markets", mode="before")
    @classmethod
    def _sides(cls, markets: Any) -> Any:
        """Read sides: YAML reads ``yes`` and ``no`` as true and false, and the number of an asset as a number."""
        if not isinstance(markets, Mapping):
            return markets
        return {
            key: {_word(side): _asset(asset) for side, asset in sides.items()} if isinstance(sides, Mapping) else sides
            for key, sides in markets.items()
        }


class _Mapping(_Mapped):
    """The fixtures, what their kickoffs are, and what becomes of assets that it does not name."""

    fixtures: tuple[_MappedFixture, ...] = ()
    kickoff_kind: KickoffKind = KickoffKind.SCHEDULED
    others: str | None = None
    columns: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> _Mapping:
        if self.others not in (None, LEAVE_OUT):
            raise ValueError(f"others is {LEAVE_OUT!r} or nothing, not {self.others!r:.80}")
        return self


def _word(name: Any) -> str:
    return {True: _YES, False: _NO}[name] if isinstance(name, bool) else str(name)


def _asset(said: Any) -> Any:
    """Return an asset, with a mark before it where the side is its ``no``."""
    if isinstance(said, Mapping) and len(said) == 1 and _word(next(iter(said))) in (_YES, _NO):
        ((which, asset),) = said.items()
        return f"{_word(which)}:{asset}"
    return f"{_YES}:{said}" if isinstance(said, str | int) and not isinstance(said, bool) else said


@dataclass(frozen=True, slots=True)
class AssetMarket:
    """A market whose sides are shares.

    Attributes
    ----------
    sides
        Side -> asset, in byte order.
    opposite
        The sides that win where their asset loses.
    """

    fixture_id: int
    key: str
    sides: Mapping[str, str]
    opposite: frozenset[str] = frozenset()

    @property
    def assets(self) -> frozenset[str]:
        return frozenset(self.sides.values())

    def sides_of(self, asset: str) -> tuple[tuple[str, bool], ...]:
        """Return the sides that an asset is, and whether each is the opposite of it."""
        return tuple((side, side in self.opposite) for side, own in self.sides.items() if own == asset)


@dataclass(slots=True)
class AssetMap:
    """The markets of all assets that a mapping names, and those that it does not.

    Attributes
    ----------
    markets
        By asset.
    columns
        Meaning -> column, of a source that is a table.
    """

    source: str
    fixtures: tuple[Fixture, ...]
    markets: Mapping[str, AssetMarket]
    kickoff: KickoffKind | None
    leaves_out: bool
    columns: Mapping[str, str]
    _unknown: Counter[str] = field(default_factory=Counter)
    _described: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def describe(self, asset: str, event: str, names: tuple[str, ...]) -> None:
        """Take note of what a source says of an asset, for the lines that a mapping may lack."""
        self._described.setdefault(asset, (event, names))

    def find(self, asset: str, account: ImportStats, count: int = 1) -> AssetMarket | None:
        """Return the market of an asset; of one that the mapping lacks take note, and return null."""
        market = self.markets.get(asset)
        if market is None:
            self._unknown[asset] += count
            if self.leaves_out:
                account.note(f"rows of assets that the mapping leaves out by `others: {LEAVE_OUT}`", count)
        return market

    def check(self) -> None:
        """Refuse assets that the mapping lacks, with the lines to add.

        Raises
        ------
        SourceError
            There are some, unless the mapping leaves them out: a market without one of its sides is no market.
        """
        if not self._unknown or self.leaves_out:
            return
        first = self._in_order()[0]
        lines = "\n".join(self._lines())
        raise SourceError(
            f"the mapping does not say which side of which market {first!r:.120} is"
            f"{f', nor {len(self._unknown) - 1:,} others' if len(self._unknown) > 1 else ''}: {self.source} needs a YAML file "
            f"of fixtures, as --mapping assets.yml, with the names and kickoffs that you know filled in\n{lines}\n"
            f"or with the line `others: {LEAVE_OUT}`, which leaves out what it does not name"
        )

    def _in_order(self) -> list[str]:
        """Return unknown assets, those first of which the source says something."""
        return sorted(self._unknown, key=lambda asset: (asset not in self._described, asset))

    def _lines(self) -> list[str]:
        by_event: dict[str, list[str]] = {}
        for asset in self._in_order():
            by_event.setdefault(self._described.get(asset, (asset, ()))[0], []).append(asset)
        lines = ["fixtures:"]
        for event, assets in list(by_event.items())[:_LISTED]:
            names = self._described.get(assets[0], ("", ()))[1] or ("HOME", "AWAY")
            lines += [
                f"  - id: {json.dumps(event)}",
                f"    names: [{', '.join(json.dumps(name) for name in names)}]",
                "    kickoff: YYYY-MM-DDTHH:MM:SSZ",
                "    markets:",
                *(f"      {json.dumps(asset + '||')}: {{yes: {json.dumps(asset)}}}" for asset in assets),
            ]
        more = len(by_event) - _LISTED
        return [*lines, f"  # and {more:,} more"] if more > 0 else lines


def asset_map(source: str, options: Options) -> AssetMap:
    """Check a mapping of assets; without one there are no assets, and the first is refused with the lines to write.

    Raises
    ------
    SourceError
        It is none, a kickoff has no zone, or an asset or a fixture stands in it twice.
    """
    given = dict(options.mapping or {})
    if "fixtures" not in given and given.keys() & {"sides", "market"}:
        raise SourceError(f"{source} takes a mapping of fixtures, not of a table's columns: {', '.join(map(repr, given))}")
    try:
        mapping = _Mapping.model_validate(given)
    except ValidationError as error:
        raise SourceError(f"no mapping of assets: {_said(error)}") from error
    ids = fixture_ids_of(str(one.id) for one in mapping.fixtures)
    if len(ids) != len(mapping.fixtures):
        twice = next(name for name, count in Counter(str(one.id) for one in mapping.fixtures).items() if count > 1)
        raise SourceError(f"the mapping lists the fixture {twice!r:.120} twice")
    markets: dict[str, AssetMarket] = {}
    fixtures = []
    for one in mapping.fixtures:
        fixture_id = ids[str(one.id)]
        fixtures.append(
            Fixture(fixture_id=fixture_id, names=one.names, source_id=str(one.id), kickoff_ts_ms=_kickoff(one, options))
        )
        for key, sides in one.markets.items():
            market = _market(fixture_id, key, sides)
            for asset in market.assets:
                if asset in markets:
                    raise SourceError(f"the mapping names {asset!r:.120} in {markets[asset].key!r} and in {key!r}")
                markets[asset] = market
    kickoff = KickoffKind.ACTUAL if mapping.kickoff_kind is KickoffKind.ACTUAL else None
    ordered = tuple(sorted(fixtures, key=lambda fixture: fixture.fixture_id))
    return AssetMap(source, ordered, markets, kickoff, mapping.others == LEAVE_OUT, mapping.columns)


def _said(error: ValidationError) -> str:
    wrong = error.errors()[0]
    if wrong["type"] == "extra_forbidden":
        place, name = wrong["loc"][:-1], str(wrong["loc"][-1])
        return f"{name!r} is no key{among(name, _MappedFixture.model_fields if place else _Mapping.model_fields)}"
    where = ".".join(str(part) for part in wrong["loc"])
    return f"{where}: {wrong['msg'].removeprefix('Value error, ')}" if where else wrong["msg"].removeprefix("Value error, ")


def _kickoff(one: _MappedFixture, options: Options) -> int:
    text = one.kickoff.isoformat() if isinstance(one.kickoff, datetime) else one.kickoff
    try:
        return time_ms(text, zone_of(options.time_zone))
    except ValueError as error:
        raise SourceError(f"the kickoff of {str(one.id)!r:.120} in the mapping: {error}") from error


def _market(fixture_id: int, key: str, said: Mapping[str, str]) -> AssetMarket:
    """Make a market; one of a single asset that is its ``yes`` has the other side of the same asset besides."""
    marked = dict(said)
    if list(marked) == [_YES]:
        marked[_NO] = f"{_NO}:{marked[_YES].partition(':')[2]}"
    split = {side: (asset.partition(":")[2], asset.startswith(f"{_NO}:")) for side, asset in marked.items()}
    wrong = next((name for name in (key, *split) if not is_name(name)), None)
    if wrong is not None:
        raise SourceError(f"the mapping names a market or side {wrong!r:.80}, which no pack can hold")
    if len(split) < 2:
        raise SourceError(f"the market {key!r} of the mapping needs at least two sides, or the side `yes` alone")
    if len(set(split.values())) != len(split):
        raise SourceError(f"two sides of {key!r} in the mapping are the same share; the other side of one is {{no: ASSET}}")
    ordered = sorted(split.items(), key=lambda item: item[0].encode())
    return AssetMarket(
        fixture_id,
        key,
        {side: asset for side, (asset, _) in ordered},
        frozenset(side for side, (_, is_no) in ordered if is_no),
    )


def markets_of(assets: AssetMap) -> Iterable[AssetMarket]:
    """Return every market once, by fixture and key."""
    once = {(market.fixture_id, market.key): market for market in assets.markets.values()}
    return [once[key] for key in sorted(once)]
