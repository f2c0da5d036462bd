"""Which fixtures of a pack are held out by the match, and in which packs the same matches were tried."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clvlab.packs.matches import Match, Overlap, match_of, matches_of, overlap, quotes_of
from clvlab.packs.matching.quotes import Sketch
from clvlab.packs.reader import Pack

QuotesOf = Callable[[Pack, Collection[int]], Mapping[int, Sketch]]
"""Returns what was quoted of fixtures of a pack that is derived of none."""


@dataclass(frozen=True)
class HeldMatches:
    """Matches that plans hold out, and the plan of each."""

    matches: tuple[Match, ...] = field(repr=False)
    plans: tuple[str, ...] = field(repr=False)


def held_matches(shut: Mapping[str, tuple[Collection[str], Sequence[Sequence[Any]] | None]]) -> HeldMatches:
    """Return what plans hold out; of a plan without matches, fixtures are known by the digests of their ticks alone."""
    found = [(match, plan_id) for plan_id, (digests, listing) in shut.items() for match in _listed(digests, listing)]
    return HeldMatches(tuple(match for match, _ in found), tuple(plan_id for _, plan_id in found))


def _listed(digests: Collection[str], listing: Sequence[Sequence[Any]] | None) -> list[Match]:
    return [Match(0, digest) for digest in sorted(digests)] if listing is None else list(map(match_of, listing))


def shut_by(pack: Pack, held: HeldMatches, quotes: QuotesOf = quotes_of) -> Pack:
    """Return a pack with those fixtures shut, and no others, that plans hold out by the match, in whatever file they came."""
    shut, doubtful = dict[int, str](), dict[int, str]()
    for root, own in by_root(pack):
        found = overlap_of(root, held.matches, quotes)
        for known, told in ((found.same, shut), (found.doubtful, doubtful)):
            told |= {here: held.plans[known[there]] for here, there in own if there in known}
    return pack.shut_as(shut, {here: plan for here, plan in doubtful.items() if here not in shut})


def overlap_of(root: Pack, others: Sequence[Match], quotes: QuotesOf) -> Overlap:
    """Return which fixtures of a pack that is derived of none are matches of a list."""
    return overlap(matches_of(root), others, lambda wanted: quotes(root, wanted)) if others else Overlap()


def check_open(pack: Pack, fixture_ids: Iterable[int]) -> None:
    """Refuse fixtures that are shut, and warn of those of which nothing tells whether they should be.

    Raises
    ------
    HeldOutError
    """
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
    """Return the packs that ticks are read from, each with the fixtures that are: the id here, and the id there."""
    roots, own = dict[str, Pack](), defaultdict[str, list[tuple[int, int]]](list)
    for here, root, there in pack.origins():
        roots[root.content_hash] = root
        own[root.content_hash].append((here, there))
    return [(root, own[content_hash]) for content_hash, root in roots.items()]


def quotes_of_asked(pack: Pack, fixture_ids: Iterable[int]) -> QuotesOf:
    """Return what reads quotes of those fixtures alone that are about to be read all the same."""
    wanted = set(fixture_ids)
    asked = {(root.content_hash, there) for here, root, there in pack.origins() if here in wanted}
    return lambda root, own: quotes_of(root, {one for one in own if (root.content_hash, one) in asked})


def have_one_match(own: Sequence[Match], others: Sequence[Match]) -> bool:
    """Tell whether any match is in both lists, by what is known of each."""
    sources = defaultdict[tuple[str, str], list[Match]](list)
    for one in own:
        sources[one.kind, one.provider].append(one)
    return any(overlap(source, others, partial(_known_quotes, source)).same for source in sources.values())


def _known_quotes(source: Sequence[Match], wanted: Collection[int]) -> dict[int, Sketch]:
    return {one.fixture_id: one.quotes for one in source if one.quotes is not None and one.fixture_id in wanted}
