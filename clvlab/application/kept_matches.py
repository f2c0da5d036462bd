"""The matches of packs as a database keeps them: what was tried is known when the pack is gone, and quotes are read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from clvlab.application.matches import QuotesOf, by_root, have_one_match, quotes_of_asked
from clvlab.packs.matches import Match, match_of, matches_of, quotes_of, with_quotes
from clvlab.packs.matching.quotes import Sketch
from clvlab.packs.reader import Pack
from clvlab.store import matches as rows
from clvlab.store.database import Connection, Database


class KeptMatches:
    """The matches of packs as a database keeps them, with what was quoted of them.

    Parameters
    ----------
    database
        Where they are kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._quoted = defaultdict[str, set[int]](set)  # by content hash, of which it is known that quotes are kept
        self._alike: dict[tuple[str, object], bool] = {}

    def learn(self, pack: Pack, fixture_ids: Iterable[int]) -> None:
        """Keep which matches a pack has, and what was quoted of some, so that they are known when the pack is gone."""
        wanted = set(fixture_ids)
        for root, own in by_root(pack):
            self._learn(root, {there for here, there in own if here in wanted})

    def quotes(self, root: Pack, fixture_ids: Collection[int]) -> Mapping[int, Sketch]:
        """Return what was quoted of fixtures; of a pack that lies elsewhere, as far as that was read already."""
        if not root.verification:
            self._learn(root, set(fixture_ids))
        with self._database.read() as connection:
            return _kept_quotes(connection, root, fixture_ids)

    def matches(self, pack: Pack, fixture_ids: Iterable[int]) -> list[Match]:
        """Return which matches some fixtures are; of packs on this machine with what was quoted of them."""
        wanted, found = set(fixture_ids), list[Match]()
        for root, own in by_root(pack):
            asked = {there for here, there in own if here in wanted}
            found += with_quotes((one for one in matches_of(root) if one.fixture_id in asked), self.quotes(root, asked))
        return found

    def alike(self, connection: Connection, matches: Sequence[Match], key: object, shelf: Iterable[Pack] = ()) -> set[str]:
        """Return the content hashes of packs that have one of some matches: of those kept, and of some at hand.

        ``key`` is the same for the same matches: what was found for it once is not looked for again.
        """
        kept = {name for name in rows.names(connection) if name.startswith("sha256:")}
        at_hand = {root.content_hash: root for pack in shelf for root, _ in by_root(pack)}
        found = set()
        for name in kept | at_hand.keys():
            if (name, key) not in self._alike:
                listing = rows.listing(connection, name) if name in kept else None
                listed = matches_of(at_hand[name]) if name in at_hand and listing is None else map(match_of, listing or ())
                self._alike[name, key] = have_one_match(list(listed), matches)
            if self._alike[name, key]:
                found.add(name)
        return found

    def _learn(self, root: Pack, wanted: set[int]) -> None:
        lacking = wanted - self._quoted[root.content_hash]
        if not lacking:
            return
        with self._database.read() as connection:
            known = rows.listing(connection, root.content_hash)
        listed = matches_of(root) if known is None else list(map(match_of, known))
        lacking -= {one.fixture_id for one in listed if one.quotes is not None}
        if lacking or known is None:
            kept = with_quotes(listed, quotes_of(root, lacking))
            with self._database.write() as connection:
                rows.keep(connection, root.content_hash, [one.payload() for one in kept])
        self._quoted[root.content_hash] |= wanted


def quotes_within(connection: Connection, pack: Pack, fixture_ids: Iterable[int]) -> QuotesOf:
    """Return what reads quotes in a transaction of the caller's: those kept, and of these fixtures the others."""
    read = quotes_of_asked(pack, fixture_ids)

    def quotes(root: Pack, own: Collection[int]) -> Mapping[int, Sketch]:
        kept = _kept_quotes(connection, root, own)
        return {**read(root, set(own) - kept.keys()), **kept}

    return quotes


def _kept_quotes(connection: Connection, root: Pack, fixture_ids: Collection[int]) -> dict[int, Sketch]:
    listed = map(match_of, rows.listing(connection, root.content_hash) or ())
    return {one.fixture_id: one.quotes for one in listed if one.quotes is not None and one.fixture_id in fixture_ids}
