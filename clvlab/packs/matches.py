"""Identity of a match across files: by its ticks, its provider's id, its teams and kickoff, or its quotes."""

from __future__ import annotations

import warnings
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any

from clvlab.packs.matching.fixtures import ListedFixture
from clvlab.packs.matching.matching import EXACT_MS, FAR_MS, NEAR_MS, SURELY_ALIKE, LikelyPair, likely_pairs
from clvlab.packs.matching.names import likeness, words_of
from clvlab.packs.matching.prices import Sketch, are_same_quotes, sketches
from clvlab.packs.reader import Pack, shards_of

_SYNTHETIC = "synthetic"
_OF_ANYBODY = frozenset({"table", "unknown"})  # ids of these providers come from the author of the file


@dataclass(frozen=True, slots=True)
class Match:
    """The facts that identify the match of a fixture.

    ``digest`` is that of its ticks (``None`` without ticks), ``kind`` and ``provider`` are the parts of its pack's provenance,
    ``source_id`` is the provider's id (empty if generated), ``kickoffs`` are the known ones in UTC milliseconds, actual and
    announced, and ``quotes`` are ``None`` until they are read.
    """

    fixture_id: int
    digest: str | None
    kind: str = ""
    provider: str = ""
    source_id: str = ""
    names: tuple[str, ...] = ()
    kickoffs: tuple[int, ...] = ()
    quotes: Sketch | None = None

    def payload(self) -> list[Any]:
        """Return the match as JSON values, the inverse of ``match_of``."""
        quotes = None if self.quotes is None else list(self.quotes)
        own = (self.fixture_id, self.digest, self.kind, self.provider, self.source_id)
        return [*own, list(self.names), list(self.kickoffs), quotes]


def match_of(payload: Sequence[Any]) -> Match:
    fixture_id, digest, kind, provider, source_id, names, kickoffs, quotes = payload
    sketch = None if quotes is None else tuple(quotes)
    return Match(fixture_id, digest, kind, provider, source_id, tuple(names), tuple(kickoffs), sketch)


def matches_of(pack: Pack) -> list[Match]:
    """Return the match of each fixture by the descriptor of a pack; for a derived pack, ask its origins."""
    kind, _, provider = pack.provenance.partition("-")
    known = provider or kind
    return [
        Match(
            one.fixture_id,
            one.digest if one.rows else None,
            kind,
            known,
            "" if kind == _SYNTHETIC else one.source_id or str(one.fixture_id),
            one.names,
            tuple(dict.fromkeys(at for at in (one.kickoff_ts_ms, one.scheduled_ts_ms) if at is not None)),
        )
        for one in pack.manifest.fixtures
    ]


def quotes_of(pack: Pack, fixture_ids: Collection[int]) -> dict[int, Sketch]:
    """Read the quotes of some fixtures of a root pack (one that is not derived), held out or not."""
    wanted = [one for one in pack.manifest.fixtures if one.fixture_id in fixture_ids and one.rows]
    found = dict[int, Sketch]()
    for shard in shards_of(wanted) if wanted else ():
        found |= sketches(*pack.files.ticks(shard))
    return {fixture_id: found.get(fixture_id, ()) for fixture_id in fixture_ids}


@dataclass(frozen=True, slots=True)
class Overlap:
    """The fixtures of a pack that are matches of a list.

    ``same`` maps a fixture to its place in the list. ``doubtful`` maps undecided fixtures to the place of a possible match.
    These lack two teams or a kickoff, or their teams play on following days.
    """

    same: Mapping[int, int] = field(default_factory=dict)
    doubtful: Mapping[int, int] = field(default_factory=dict)


Quotes = Callable[[Collection[int]], Mapping[int, Sketch]]
"""Returns the quotes of fixtures, as far as they are cheap to read."""


def overlap(own: Sequence[Match], others: Sequence[Match], quotes: Quotes) -> Overlap:
    """Find the fixtures of a root pack that are matches of a list.

    Quotes are read only of fixtures that ids and teams leave undecided, and only while a match of the list is not found.
    """
    same = dict(_by_id(own, others))
    present = set(same.values())
    left = [one for one in own if one.fixture_id not in same]
    doubtful, met = dict[int, int](), set(present)
    if left and others:
        likely = _likely(left, own, others)
        near = {pair.second for pair in likely if pair.is_near}
        met |= near
        for pair in likely:
            if _is_same(pair, listed=pair.second in present):
                same.setdefault(pair.first, pair.second)
                met.add(pair.second)
            elif pair.daily and not pair.is_near and pair.second not in present | near:
                doubtful.setdefault(pair.first, pair.second)
    missing = [number for number in range(len(others)) if number not in met]
    unknown = [one for one in left if one.fixture_id not in same]
    if missing and unknown:
        again, unsure = _by_quotes(unknown, others, missing, quotes)
        same, doubtful = same | again, unsure | doubtful
    return Overlap(same, {own_id: number for own_id, number in doubtful.items() if own_id not in same})


def _by_id(own: Sequence[Match], others: Sequence[Match]) -> Iterator[tuple[int, int]]:
    """Yield pairs with the same ticks, or with the same id at the same provider."""
    by_digest = {one.digest: number for number, one in enumerate(others) if one.digest is not None}
    by_id = defaultdict[tuple[str, str], list[int]](list)
    for place, one in enumerate(others):
        if one.source_id:
            by_id[one.provider, one.source_id].append(place)
    for one in own:
        number = None if one.digest is None else by_digest.get(one.digest)
        if number is None:
            named = by_id.get((one.provider, one.source_id), [])
            agreeing = (at for at in named if one.provider not in _OF_ANYBODY or not _contradict(one, others[at]))
            number = next(agreeing, None)
        if number is not None:
            yield one.fixture_id, number


def _contradict(one: Match, other: Match) -> bool:
    """Whether two fixtures with one id are two matches, as ids in any author's file count from 1."""
    pairs = (one.names, other.names), (one.names, other.names[::-1])
    named = len(one.names) == len(other.names) == 2
    unlike = named and max(min(map(likeness, *pair)) for pair in pairs) < SURELY_ALIKE
    apart = min((abs(at - then) for at in one.kickoffs for then in other.kickoffs), default=0)
    return unlike or apart > FAR_MS


def _likely(left: Sequence[Match], own: Sequence[Match], others: Sequence[Match]) -> list[LikelyPair]:
    """Return the likely pairs by teams and kickoffs; two generated fixtures with the same names are two matches."""
    made_up = own[0].kind == _SYNTHETIC
    named = [
        listed
        for number, one in enumerate(others)
        if not (made_up and one.kind == _SYNTHETIC)
        for listed in _listed(one, number)
    ]
    first = [listed for one in left for listed in _listed(one, one.fixture_id)]
    return likely_pairs(first, named, [listed for one in own for listed in islice(_listed(one, one.fixture_id), 1)])


def _listed(one: Match, number: int) -> Iterator[ListedFixture]:
    return (ListedFixture(number, one.names, at) for at in one.kickoffs) if len(one.names) == 2 else iter(())


def _is_same(pair: LikelyPair, *, listed: bool) -> bool:
    """Whether a pair is one match; ``listed`` says that the pack has the list's match already, under its own id.

    A source lists a match once. If the match is there already, the pair is another match unless teams and time are equal.
    """
    if listed:
        return abs(pair.gap_ms) <= EXACT_MS and pair.alike >= SURELY_ALIKE
    return pair.is_near or (pair.alike >= SURELY_ALIKE and not pair.daily)


def _by_quotes(
    unknown: Sequence[Match], others: Sequence[Match], missing: Sequence[int], quotes: Quotes
) -> tuple[dict[int, int], dict[int, int]]:
    near = _Near(others, missing)
    quoted = {one.fixture_id for one in unknown if near.nameless(one) is not None or near.renamed(one)}
    by_number = defaultdict[int, list[int]](list)
    for number in missing:
        for quote in others[number].quotes or ():
            by_number[quote].append(number)
    same = dict[int, int]()
    for fixture_id, own in sorted(quotes(quoted).items()) if quoted else ():
        shared = Counter(number for quote in own for number in by_number[quote])
        for number, _ in shared.most_common(1):
            if are_same_quotes(own, others[number].quotes or ()):
                same[fixture_id] = number
    left = _Near(others, sorted(set(missing) - set(same.values())))
    unsure = ((one.fixture_id, left.nameless(one)) for one in unknown if one.fixture_id not in same)
    return same, {fixture_id: number for fixture_id, number in unsure if number is not None}


class _Near:
    """Matches of a list that a fixture without teams or kickoff, or under other team names, could be."""

    def __init__(self, others: Sequence[Match], missing: Sequence[int]) -> None:
        self._others = others
        known = [number for number in missing if others[number].provider]  # a digest alone leaves no doubt
        unnamed = [number for number in known if len(others[number].names) != 2]
        self._all, self._untimed, self._of_nothing = (
            self._by_provider(some)
            for some in (
                known,
                [number for number in known if not others[number].kickoffs],
                [number for number in unnamed if not others[number].kickoffs],
            )
        )
        self._timed, self._unnamed = (
            sorted((at, number) for number in some for at in others[number].kickoffs) for some in (known, unnamed)
        )
        self._of_teams = defaultdict[frozenset[tuple[str, ...]], list[int]](list)
        for number in set(known) - set(unnamed):
            self._of_teams[_teams(others[number])].append(number)

    def nameless(self, one: Match) -> int | None:
        """Return a match that this one may be, where teams and kickoff of both do not decide."""
        found: Iterable[int]
        if len(one.names) != 2:
            near = (number for at in one.kickoffs for number in _within(self._timed, at, FAR_MS))
            found = chain(near, self._untimed.values()) if one.kickoffs else self._all.values()
        else:
            untimed = (
                number for number in self._of_teams.get(_teams(one), ()) if not (one.kickoffs and self._others[number].kickoffs)
            )
            near = (number for at in one.kickoffs for number in _within(self._unnamed, at, FAR_MS))
            found = chain(untimed, near, self._of_nothing.values())
        return next((number for number in found if not _are_two_by_id(one, self._others[number])), None)

    def renamed(self, one: Match) -> bool:
        return any(
            one.kind != self._others[number].kind or one.kind != _SYNTHETIC
            for at in one.kickoffs
            for number in _within(self._timed, at, NEAR_MS)
        )

    def _by_provider(self, numbers: Iterable[int]) -> dict[str, int]:
        """Return the first match of each provider, as one is enough for a doubt."""
        return {self._others[number].provider: number for number in reversed(list(numbers))}


def _teams(one: Match) -> frozenset[tuple[str, ...]]:
    return frozenset(map(words_of, one.names))


def _within(timed: Sequence[tuple[int, int]], at: int, span_ms: int) -> list[int]:
    low = bisect_left(timed, (at - span_ms, -1))
    return [number for _, number in timed[low : bisect_right(timed, (at + span_ms + 1, -1))]]


def _are_two_by_id(one: Match, other: Match) -> bool:
    """Whether two fixtures are two matches because one provider has two ids for them, or one generator made both."""
    return one.provider == other.provider and one.provider not in _OF_ANYBODY


def with_quotes(matches: Iterable[Match], quotes: Mapping[int, Sketch]) -> list[Match]:
    return [replace(one, quotes=quotes.get(one.fixture_id, one.quotes)) for one in matches]


# Fixtures of a pack that are held out by their match, and the packs in which the same matches were tried.


QuotesOf = Callable[[Pack, Collection[int]], Mapping[int, Sketch]]
"""Returns the quotes of fixtures of a root pack."""


@dataclass(frozen=True)
class HeldMatches:
    matches: tuple[Match, ...] = field(repr=False)
    plans: tuple[str, ...] = field(repr=False)


def held_matches(plans: Mapping[str, tuple[Collection[str], Sequence[Sequence[Any]] | None]]) -> HeldMatches:
    """Return the held-out matches of plans; a plan without matches names fixtures by the digests of their ticks alone."""
    found = [(match, plan_id) for plan_id, (digests, listing) in plans.items() for match in _listed_of(digests, listing)]
    return HeldMatches(tuple(match for match, _ in found), tuple(plan_id for _, plan_id in found))


def _listed_of(digests: Collection[str], listing: Sequence[Sequence[Any]] | None) -> list[Match]:
    return [Match(0, digest) for digest in sorted(digests)] if listing is None else list(map(match_of, listing))


def without_held(pack: Pack, held: HeldMatches, quotes: QuotesOf = quotes_of) -> Pack:
    """Return a pack with exactly those fixtures held out whose match a plan holds out, whatever file they came in."""
    held_out, doubtful = dict[int, str](), dict[int, str]()
    for root, own in by_root(pack):
        found = overlap_of(root, held.matches, quotes)
        for known, ids in ((found.same, held_out), (found.doubtful, doubtful)):
            ids |= {here: held.plans[known[there]] for here, there in own if there in known}
    return pack.holding_out(held_out, {here: plan for here, plan in doubtful.items() if here not in held_out})


def overlap_of(root: Pack, others: Sequence[Match], quotes: QuotesOf) -> Overlap:
    return overlap(matches_of(root), others, lambda wanted: quotes(root, wanted)) if others else Overlap()


def check_open(pack: Pack, fixture_ids: Iterable[int]) -> None:
    """Refuse held-out fixtures, and warn of those that can't be decided."""
    wanted = set(fixture_ids)
    pack.check_open(wanted)
    doubtful = [(fixture_id, plan_id) for fixture_id, plan_id in pack.doubtful if fixture_id in wanted]
    if doubtful:
        first, plan_id = doubtful[0]
        others = "" if len(doubtful) == 1 else f" and {len(doubtful) - 1:,} more"
        warnings.warn(
            f"fixture {first}{others} of {pack.pack_id!r} may be held out by {plan_id}: by ids, teams, kickoff and quotes "
            "nothing tells which match it is",
            stacklevel=2,
        )


def by_root(pack: Pack) -> list[tuple[Pack, list[tuple[int, int]]]]:
    """Return the root packs of the ticks, each with pairs of fixture ids: in this pack and in the root."""
    roots, own = dict[str, Pack](), defaultdict[str, list[tuple[int, int]]](list)
    for here, root, there in pack.origins():
        roots[root.content_hash] = root
        own[root.content_hash].append((here, there))
    return [(root, own[content_hash]) for content_hash, root in roots.items()]


def quotes_of_fixtures(pack: Pack, fixture_ids: Iterable[int]) -> QuotesOf:
    """Return a reader of quotes limited to fixtures that are about to be read anyway."""
    wanted = set(fixture_ids)
    origins = {(root.content_hash, there) for here, root, there in pack.origins() if here in wanted}
    return lambda root, own: quotes_of(root, {one for one in own if (root.content_hash, one) in origins})


def have_one_match(own: Sequence[Match], others: Sequence[Match]) -> bool:
    """Whether the lists share a match, by the known facts of each."""
    sources = defaultdict[tuple[str, str], list[Match]](list)
    for one in own:
        sources[one.kind, one.provider].append(one)
    return any(overlap(source, others, partial(_known_quotes, source)).same for source in sources.values())


def _known_quotes(source: Sequence[Match], wanted: Collection[int]) -> dict[int, Sketch]:
    return {one.fixture_id: one.quotes for one in source if one.quotes is not None and one.fixture_id in wanted}
