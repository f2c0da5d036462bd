"""Several sources as one: ticks and closes of the first, and prices of the others for the same fixtures as books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.errors import ViewError
from clvlab.law.markets import Market, Role
from clvlab.law.schema import BOOK_ROWS
from clvlab.law.tape import Tape
from clvlab.packs.books import STREAM
from clvlab.packs.manifest import Fixture
from clvlab.packs.matching.fixtures import ListedFixture, MatchResult
from clvlab.packs.matching.markets import MATCHING_VERSION, MATCHING_VERSIONS, market_of
from clvlab.packs.matching.matching import gaps_of, matched
from clvlab.packs.matching.names import NO_ALIASES, TeamAliases, folded
from clvlab.packs.matching.prices import Series
from clvlab.packs.reader import Pack
from clvlab.packs.views.derivation import Derivation, DerivationKind, DerivedPack, derived

# Prices of another source for the same fixtures become a book next to the ticks of the first.


_WHOLE_BPS = 10_000
_TOLERANCE_BPS = 50

_STATE = ("prob_bps", "odds_milli")


@dataclass(frozen=True, slots=True)
class Joint:
    """A side of a market of the first source, and its counterpart in the other one."""

    fixture_id: int
    market_key: str
    side: str
    other_fixture_id: int
    other_market_key: str
    other_side: str


def joints(fixture_id: int, ours: Sequence[Market], other_id: int, theirs: Sequence[Market]) -> list[Joint]:
    """Return the common sides of two sources' fixtures; ``theirs`` are already reversed where the teams are.

    Preferred are a market with the same roles to several yes/no markets, then one of the same name to others, then main lines.
    """
    found = []
    for market in ours:
        alike = [one for one in theirs if one.about == market.about]
        alike.sort(key=lambda one: (one.key != market.key, one.alternate, one.key))
        whole = next((one for one in alike if one.no is None and one.roles == market.roles), None)
        yes_no = [one for one in alike if one.no]
        for side, role in market.sides:
            pair = _side(role, [whole]) if whole else _side(role, yes_no) or _against(market, role, yes_no)
            if pair is not None and market.no is None:
                found.append(Joint(fixture_id, market.key, side, other_id, *pair))
    return found


def _side(role: Role, markets: Sequence[Market]) -> tuple[str, str] | None:
    return next(((one.key, side) for one in markets for side, known in one.sides if known is role), None)


def _against(market: Market, role: Role, markets: Sequence[Market]) -> tuple[str, str] | None:
    """Return the side "no" of the opposite outcome in a yes/no market."""
    if market.roles != {Role.HOME, Role.AWAY}:
        return None
    (other,) = market.roles - {role}
    return next(((one.key, one.no) for one in markets if one.no and one.roles == {other}), None)


def books_of(first: Tape, second: Tape, joined: Sequence[Joint], book: str) -> tuple[pl.DataFrame, int]:
    """Return the second source as ``BOOK_ROWS`` of the first, and the number of states after the last tick.

    A state gets the number of its fixture's first tick, in the first source, at or after its time. Of several states with one
    number the last counts. An unknown side has no price. Where all sides are priced and come from separate markets, they are
    normalised to the whole.
    """
    if not joined:
        return pl.DataFrame(schema=BOOK_ROWS), 0
    links = pl.DataFrame([(*_key(one),) for one in joined], schema=_LINKS, orient="row")
    quotes = (
        second.ticks()
        .rename({"fixture_id": "other_fixture_id", "market_key": "other_market_key", "side": "other_side"})
        .select("other_fixture_id", "other_market_key", "other_side", *_STATE, heard="tick_seq", said_ms="ts_ms")
        .join(links.lazy(), on=["other_fixture_id", "other_market_key", "other_side"])
        .sort("said_ms")
    )
    ticks = first.messages.unique(["fixture_id", "ts_ms"], keep="first", maintain_order=True).sort("ts_ms")
    own = ticks.lazy().select("fixture_id", "tick_seq", said_ms="ts_ms")
    placed = quotes.join_asof(own, on="said_ms", by="fixture_id", strategy="forward", check_sortedness=False).collect()
    late = int(placed["tick_seq"].is_null().sum())
    events = (
        placed.filter(pl.col("tick_seq").is_not_null())
        .sort("fixture_id", "market_key", "side", "tick_seq", "said_ms", "heard")
        .unique(["fixture_id", "market_key", "side", "tick_seq"], keep="last", maintain_order=True)
    )
    return _whole(_carried(events, first), book), late


_LINKS = {
    "fixture_id": pl.Int64, "market_key": pl.String, "side": pl.String,
    "other_fixture_id": pl.Int64, "other_market_key": pl.String, "other_side": pl.String,
}  # fmt: skip


def _key(one: Joint) -> tuple[int, str, str, int, str, str]:
    return one.fixture_id, one.market_key, one.side, one.other_fixture_id, one.other_market_key, one.other_side


def _carried(events: pl.DataFrame, first: Tape) -> pl.DataFrame:
    """Return all sides of a market at each tick that updates one of them, the others carried forward."""
    market = ["fixture_id", "market_key"]
    sides = first.series.select(*market, "side")
    at = events.select(*market, "tick_seq").unique().join(sides, on=market)
    heard = events.with_row_index("event").select(*market, "side", "tick_seq", "event")
    rows = at.join(heard, on=[*market, "side", "tick_seq"], how="left").sort(*market, "side", "tick_seq")
    event = rows.select(pl.col("event").forward_fill().over(*market, "side")).to_series()
    return rows.drop("event").with_columns(events[name].gather(event) for name in _STATE)


def _whole(rows: pl.DataFrame, book: str) -> pl.DataFrame:
    message = ["fixture_id", "market_key", "tick_seq"]
    prob = pl.col("prob_bps").cast(pl.Int64)
    total, priced = prob.sum().over(message), prob.count().over(message)
    apart = (priced == pl.len().over(message)) & ((total - _WHOLE_BPS).abs() > _TOLERANCE_BPS) & (total > 0)
    return (
        rows.with_columns(
            book=pl.lit(book),
            suspended=priced == 0,
            prob_bps=pl.when(apart).then((prob * (2 * _WHOLE_BPS) + total) // (2 * total)).otherwise(prob).cast(pl.Int32),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in BOOK_ROWS.items())
        .sort(*STREAM, "tick_seq")
    )


_Ticks = tuple[pl.DataFrame, pl.DataFrame]
Pairs = tuple[tuple[int, int, bool], ...]


def join_of(
    packs: Sequence[Pack], version: str = MATCHING_VERSION, aliases: TeamAliases = NO_ALIASES
) -> tuple[DerivedPack, tuple[MatchResult, ...]]:
    """Return joined sources, and the match results of each source after the first, by the matching rules of a version.

    The rule stores only the aliases of teams that connect two names of the sources.

    Raises
    ------
    ViewError
        There are fewer than two sources, one is named twice, or one shares no fixture with the first.
    HeldOutError
        A plan holds out fixtures of a source: matching would read their prices.
    """
    if len({pack.content_hash for pack in packs}) < max(2, len(packs)):
        raise ViewError("name two sources or more, each once, as join_sources([first, second])")
    tapes = [pack.tape() for pack in packs]
    lists = [listed(pack, tape, version) for pack, tape in zip(packs, tapes, strict=True)]
    names = {folded(name) for source in lists for one in source for name in one.names}
    own = sorted(met for team in aliases.teams if len(met := sorted(names.intersection(team))) > 1)
    named = _aliases(own)
    found = tuple(_matched(lists[0], other, tapes[0], tape, named) for other, tape in zip(lists[1:], tapes[1:], strict=True))
    for pack, one in zip(packs[1:], found, strict=True):
        if not one.pairs:
            reasons = "; ".join(sorted({refused.reason for refused in one.refused})[:3])
            raise ViewError(f"no fixture of {packs[0].pack_id!r} is one of {pack.pack_id!r}{': ' * bool(reasons)}{reasons}")
    rule = {
        "books": list(_names(packs[1:])),
        "matching": version,
        "pairs": [[[pair.first, pair.second, int(pair.swapped)] for pair in one.pairs] for one in found],
        **({"aliases": own} if own else {}),
    }
    return joined_by(packs, rule), found


def joined_by(packs: Sequence[Pack], rule: Mapping[str, Any]) -> DerivedPack:
    """Return sources joined by a rule that states the pairs; they are not matched again."""
    pairs = _pairs(packs, rule)
    derivation = Derivation(DerivationKind.JOIN, dict(rule), tuple(packs))
    clash = sorted(set(packs[0].books) & set(rule["books"]))
    if clash:
        raise ViewError(f"{packs[0].pack_id!r} has a book {clash[0]!r} already, which can't be another source as well")
    manifest = packs[0].manifest.model_copy(update={"books": tuple(sorted({*packs[0].books, *rule["books"]}))})
    return derived(derivation, manifest, JoinFiles(tuple(packs), tuple(rule["books"]), pairs, rule["matching"]))


def otherwise_matched(pack: Pack) -> str:
    """Match the sources of a join again, and name the parts of its rule that come out differently; empty if none do."""
    if not isinstance(pack, DerivedPack):
        return ""
    own = pack.derivation
    difference = next(filter(None, map(otherwise_matched, own.parents)), "")
    if difference or own.kind is not DerivationKind.JOIN:
        return difference
    try:
        again = join_of(own.parents, own.rule["matching"], _aliases(own.rule.get("aliases", [])))[0]
    except ViewError as error:
        return str(error)
    return "" if again.content_hash == pack.content_hash else _difference(own.rule, again.derivation.rule)


def _difference(stated: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    for name, *sources in zip(stated["books"], stated["pairs"], found["pairs"], strict=True):
        ours, theirs = ({tuple(pair) for pair in pairs} for pairs in sources)
        if differ := sorted(ours ^ theirs):
            first, second, swapped = differ[0]
            pair = f"fixture {first} and {second} of {name!r}{' turned round' * bool(swapped)}"
            return f"its view pairs {pair}, matching does not" if differ[0] in ours else f"its view does not pair {pair}"
    return f"its view says {dict(stated)!r:.200}, matching {dict(found)!r:.200}"


def _pairs(packs: Sequence[Pack], rule: Mapping[str, Any]) -> tuple[Pairs, ...]:
    stated = rule.get("pairs"), rule.get("books")
    whole = rule.keys() - {"aliases"} == {"books", "matching", "pairs"} and rule["matching"] in MATCHING_VERSIONS
    whole = whole and ("aliases" not in rule or _are_aliases(rule["aliases"]))
    if not whole or not all(isinstance(one, list) and len(one) == len(packs) - 1 for one in stated):
        raise ViewError(f"no rule by which sources are joined: {dict(rule)!r:.200}")
    known = [{fixture.fixture_id for fixture in pack.manifest.fixtures} for pack in packs]
    found = []
    for number, pairs in enumerate(rule["pairs"], start=1):
        fits = all(
            isinstance(pair, list) and len(pair) == 3 and pair[0] in known[0] and pair[1] in known[number] and pair[2] in (0, 1)
            for pair in pairs
        )
        firsts, seconds = [pair[0] for pair in pairs if fits], [pair[1] for pair in pairs if fits]
        if not fits or any(a >= b for a, b in pairwise(firsts)) or len(set(seconds)) < len(seconds):
            raise ViewError(f"the pairs with {packs[number].pack_id!r} are not those of a join")
        found.append(tuple((first, second, bool(swapped)) for first, second, swapped in pairs))
    names = rule["books"]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ViewError(f"the books of a join have names of their own, not {names!r:.200}")
    return tuple(found)


def _are_aliases(stated: Any) -> bool:
    teams = stated if isinstance(stated, list) and stated else [None]
    return all(isinstance(team, list) and len(team) > 1 and all(isinstance(name, str) for name in team) for team in teams)


def _aliases(stated: Sequence[Sequence[str]]) -> TeamAliases:
    return TeamAliases(tuple(map(tuple, stated)))


def _names(packs: Sequence[Pack]) -> tuple[str, ...]:
    """Return the name of each source as a book: its provider, or the pack id where two share a provider."""
    providers = [pack.provenance.partition("-")[2] or pack.pack_id for pack in packs]
    unique = len(set(providers)) == len(providers)
    return tuple(providers) if unique else tuple(pack.pack_id for pack in packs)


def listed(pack: Pack, tape: Tape, version: str = MATCHING_VERSION) -> list[ListedFixture]:
    sides: dict[int, dict[str, list[str]]] = {}
    for fixture_id, market_key, side in tape.series.select("fixture_id", "market_key", "side").iter_rows():
        sides.setdefault(fixture_id, {}).setdefault(market_key, []).append(side)
    return [
        ListedFixture(
            one.fixture_id, one.names, one.kickoff_ts_ms, markets_of(sides.get(one.fixture_id, {}), one.names, version)
        )
        for one in pack.manifest.fixtures
    ]


def markets_of(sides: Mapping[str, Sequence[str]], names: Sequence[str], version: str = MATCHING_VERSION) -> tuple[Market, ...]:
    found = (market_of(key, own, names, version) for key, own in sorted(sides.items()))
    return tuple(market for market in found if market is not None)


def _matched(
    first: Sequence[ListedFixture], second: Sequence[ListedFixture], ours: Tape, theirs: Tape, aliases: TeamAliases
) -> MatchResult:
    one, other = ({own.fixture_id: own for own in source} for source in (first, second))
    return matched(first, second, gaps_of(one, other, _Prices(ours), _Prices(theirs)), aliases)


class _Prices:
    """Probabilities of fixtures by market and side, read from a tape on request; the last ones are kept."""

    def __init__(self, tape: Tape) -> None:
        self._rows = tape.rows.select("ts_ms", "prob_bps")
        names = tape.series.select("fixture_id", "market_key", "side", "start", "rows")
        self._series = {int(str(key)): part.rows() for (key,), part in names.group_by("fixture_id", maintain_order=True)}
        self._last: tuple[int, Series] = (-1, {})

    def __call__(self, fixture_id: int) -> Series:
        if self._last[0] != fixture_id:
            self._last = fixture_id, self._read(fixture_id)
        return self._last[1]

    def _read(self, fixture_id: int) -> Series:
        found: Series = {}
        for _, market_key, side, start, size in self._series.get(fixture_id, ()):
            own = [(at, prob) for at, prob in self._rows.slice(start, size).iter_rows() if prob is not None]
            found[market_key, side] = [at for at, _ in own], [prob for _, prob in own]
        return found


@dataclass(frozen=True)
class JoinFiles:
    """The files of joined sources: those of the first one, and the others as books."""

    parents: tuple[Pack, ...]
    names: tuple[str, ...]
    pairs: tuple[Pairs, ...] = field(repr=False)
    matching: str = MATCHING_VERSION

    @property
    def verification(self) -> str:
        return "; ".join(sorted({pack.verification for pack in self.parents if pack.verification}))

    @property
    def folder(self) -> Path:
        return self.parents[0].folder

    def content(self, name: str, expected: str, what: str) -> bytes:
        return self.parents[0].files.content(name, expected, what)

    def ticks(self, fixtures: Sequence[Fixture] | None) -> _Ticks:
        return self.parents[0].files.ticks(fixtures)

    def books(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        others = pl.defer(lambda: self.other_books(fixtures)[0], schema=BOOK_ROWS)
        own = [self.parents[0].files.books(fixtures)] if self.parents[0].books else []
        return pl.concat([*own, others]).sort(*STREAM, "tick_seq")

    def ladders(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        return self.parents[0].files.ladders(fixtures)

    def other_books(self, fixtures: Sequence[Fixture] | None) -> tuple[pl.DataFrame, int]:
        """Return ``BOOK_ROWS`` of the other sources, and the number of their states after the last tick of the first."""
        fixtures_of = self.parents[0].manifest.fixtures if fixtures is None else fixtures
        wanted = {one.fixture_id: one for one in fixtures_of}
        ours = _tape_of(self.parents[0], wanted)
        frames, late = [pl.DataFrame(schema=BOOK_ROWS)], 0
        for pack, name, pairs in zip(self.parents[1:], self.names, self.pairs, strict=True):
            own = [pair for pair in pairs if pair[0] in wanted]
            if not own:
                continue
            theirs = _tape_of(pack, {second for _, second, _ in own})
            frame, after = books_of(ours, theirs, _joints(self, pack, ours, theirs, own), name)
            frames.append(frame)
            late += after
        return pl.concat(frames).sort(*STREAM, "tick_seq"), late


def sides_of(pack: Pack, book: str, fixture_ids: Sequence[int]) -> tuple[Tape, Tape, list[Joint]]:
    """Return the tapes of the first source of a join and of one of its books, each with its own times, and their common sides.

    Parameters
    ----------
    pack
        The join, as ``join_of`` makes it.
    book
        Name of the other source, one of the books of its rule.
    fixture_ids
        Fixtures of the join; those without a counterpart in the other source are left out.

    Raises
    ------
    HeldOutError
        A plan holds a fixture out.
    """
    pack.check_known(fixture_ids)
    pack.check_open(fixture_ids)
    join, wanted = pack.files, set(fixture_ids)
    if not isinstance(join, JoinFiles):
        raise ViewError(f"{pack.pack_id!r} is not a join of sources")
    place = join.names.index(book)
    second, pairs = join.parents[1 + place], [pair for pair in join.pairs[place] if pair[0] in wanted]
    ours = _tape_of(join.parents[0], {pair[0] for pair in pairs})
    theirs = _tape_of(second, {pair[1] for pair in pairs})
    return ours, theirs, _joints(join, second, ours, theirs, pairs)


def _tape_of(pack: Pack, ids: Sequence[int] | set[int] | Mapping[int, Any]) -> Tape:
    own = [one for one in pack.manifest.fixtures if one.fixture_id in ids]
    return pack.tape_of(tuple(one.fixture_id for one in own), *pack.files.ticks(own))


def _joints(join: JoinFiles, second: Pack, ours: Tape, theirs: Tape, pairs: Sequence[tuple[int, int, bool]]) -> list[Joint]:
    sources = (join.parents[0], ours), (second, theirs)
    one, other = ({own.fixture_id: own for own in listed(*source, join.matching)} for source in sources)
    found = []
    for left, right, swapped in pairs:
        markets = [market.swapped if swapped else market for market in other[right].markets]
        found += joints(left, one[left].markets, right, markets)
    return found
