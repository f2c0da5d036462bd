"""Planned searches: their hold-outs are closed, and each opening is recorded first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.errors import StatisticsError, UnknownRunError
from clvlab.log.entries import PlanEntry
from clvlab.log.plans import note_opening, note_plan, openings, plan_id_of
from clvlab.packs.matches import (
    HeldMatches,
    Match,
    QuotesOf,
    by_root,
    check_open,
    have_one_match,
    held_matches,
    match_of,
    matches_of,
    overlap_of,
    quotes_of,
    quotes_of_fixtures,
    with_quotes,
    without_held,
)
from clvlab.packs.matching.prices import Sketch
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import canonical, sha256, without_floats
from clvlab.store import plans
from clvlab.store.database import Connection, Database
from clvlab.store.runlog import StoredLogRows

# The database keeps the matches of packs, so that trials are recognised after a pack is gone, and quotes are read once.


class KeptMatches:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._quoted = defaultdict[str, set[int]](set)  # by content hash: fixtures with stored quotes
        self._alike: dict[tuple[str, object], bool] = {}

    def learn(self, pack: Pack, fixture_ids: Iterable[int]) -> None:
        """Store the matches of a pack and the quotes of some fixtures, so that they are known after the pack is gone."""
        wanted = set(fixture_ids)
        for root, own in by_root(pack):
            self._learn(root, {there for here, there in own if here in wanted})

    def quotes(self, root: Pack, fixture_ids: Collection[int]) -> Mapping[int, Sketch]:
        """Return the quotes of fixtures; for a remote pack, only those that were already read."""
        if not root.verification:
            self._learn(root, set(fixture_ids))
        with self._database.read() as connection:
            return _kept_quotes(connection, root, fixture_ids)

    def matches(self, pack: Pack, fixture_ids: Iterable[int]) -> list[Match]:
        wanted, found = set(fixture_ids), list[Match]()
        for root, own in by_root(pack):
            ids = {there for here, there in own if here in wanted}
            found += with_quotes((one for one in matches_of(root) if one.fixture_id in ids), self.quotes(root, ids))
        return found

    def alike(self, connection: Connection, matches: Sequence[Match], key: object, shelf: Iterable[Pack] = ()) -> set[str]:
        """Return the content hashes of stored and available packs that have one of these matches.

        ``key`` identifies the matches; results are cached under it.
        """
        kept = {name for name in plans.names(connection) if name.startswith("sha256:")}
        at_hand = {root.content_hash: root for pack in shelf for root, _ in by_root(pack)}
        found = set()
        for name in kept | at_hand.keys():
            if (name, key) not in self._alike:
                listing = plans.listing(connection, name) if name in kept else None
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
            known = plans.listing(connection, root.content_hash)
        listed = matches_of(root) if known is None else list(map(match_of, known))
        lacking -= {one.fixture_id for one in listed if one.quotes is not None}
        if lacking or known is None:
            kept = with_quotes(listed, quotes_of(root, lacking))
            with self._database.write() as connection:
                plans.keep(connection, root.content_hash, [one.payload() for one in kept])
        self._quoted[root.content_hash] |= wanted


def quotes_within(connection: Connection, pack: Pack, fixture_ids: Iterable[int]) -> QuotesOf:
    """Return a reader of quotes in the caller's transaction: stored quotes, or for these fixtures those of the pack."""
    read = quotes_of_fixtures(pack, fixture_ids)

    def quotes(root: Pack, own: Collection[int]) -> Mapping[int, Sketch]:
        kept = _kept_quotes(connection, root, own)
        return {**read(root, set(own) - kept.keys()), **kept}

    return quotes


def _kept_quotes(connection: Connection, root: Pack, fixture_ids: Collection[int]) -> dict[int, Sketch]:
    listed = map(match_of, plans.listing(connection, root.content_hash) or ())
    return {one.fixture_id: one.quotes for one in listed if one.quotes is not None and one.fixture_id in fixture_ids}


@dataclass(frozen=True)
class KeptPlan:
    """A stored plan."""

    # plan_id: ``plan_`` and the beginning of the hash; plan_hash: SHA-256 of the payload as canonical JSON
    plan_id: str
    plan_hash: str
    index: int  # index of its entry in the log
    trials_before: int  # trials recorded before the plan, over its pack and packs with a match of its hold-out
    payload: Mapping[str, Any]  # the plan as JSON values
    # Entries in the log that opened its hold-out, each with the hash of its configuration.
    openings: tuple[tuple[int, str], ...]
    elsewhere: tuple[int, ...]  # log entries that opened other plans with some of the same held-out matches


def trial_of(params: Mapping[str, Any]) -> str:
    return sha256(canonical(without_floats(dict(params))))


class Searches:
    """The planned searches of a database, whose log records them; ``owner`` is the log's name of their author."""

    def __init__(self, database: Database, owner: str, clock: Callable[[], int]) -> None:
        self._database, self._owner, self._clock = database, owner, clock
        self.matches = KeptMatches(database)
        self._held: dict[tuple[str, ...], HeldMatches] = {}
        self._held_out: dict[tuple[str, tuple[str, ...]], tuple[dict[int, str], dict[int, str]]] = {}
        self._sharing: dict[tuple[str, str], bool] = {}

    def plan(self, payload: Mapping[str, Any], pack: Pack, held: Iterable[int], shelf: Iterable[Pack] = ()) -> KeptPlan:
        """Store a plan and log it; a repeated plan returns the stored one.

        ``payload`` is JSON. Its ``fixture_ids`` are the searched and the held-out fixtures; ``held`` are the held-out ones.
        Trials over packs of ``shelf`` count if the pack has a match of the hold-out.

        Raises
        ------
        HeldOutError
            Another plan holds some of the fixtures out.
        StatisticsError
            A held-out fixture is the same match as a searched one.
        """
        out, at_hand = set(held), list(shelf)
        stated = without_floats(dict(payload))
        plan_hash = sha256(canonical(stated))
        plan_id = plan_id_of(plan_hash)
        matches = self.matches.matches(pack, out)
        self._check_twins(pack, set(payload["fixture_ids"]) - out, matches)
        with self._database.write() as connection:
            if plans.row(connection, plan_id) is None:
                # This is in the transaction that stores the plan, so that one of two concurrent plans sees the other.
                self.require_open(connection, pack, payload["fixture_ids"])
                now = self._clock()
                index = note_plan(
                    StoredLogRows(connection, writing=True), PlanEntry(plan_id, self._owner, plan_hash, pack.content_hash), now
                )
                contents = {pack.content_hash, *pack.sources, *self.matches.alike(connection, matches, plan_id, at_hand)}
                made = {
                    "plan_id": plan_id,
                    "content_hash": pack.content_hash,
                    "idx": index,
                    "opened": False,
                    "trials_before": plans.count(connection, contents),
                    "payload": stated,
                    "created_ts_ms": now,
                }
                digests = {one.digest for one in matches if one.digest is not None}
                plans.add(connection, made, sorted(digests), [one.payload() for one in matches])
        return self.plan_state(plan_id)

    def count_trials(self, plan_id: str, pack: Pack, shelf: Iterable[Pack]) -> int:
        """Count the recorded trials over the pack of a plan and over all packs with a match of its hold-out."""
        at_hand = list(shelf)
        with self._database.read() as connection:
            held = self._held_by(connection, (plan_id,)).matches
            contents = {pack.content_hash, *pack.sources, *self.matches.alike(connection, held, plan_id, at_hand)}
            return plans.count(connection, contents)

    def plan_state(self, plan_id: str) -> KeptPlan:
        """Return a plan in its present state; ``UnknownRunError`` if the id is unknown."""
        with self._database.read() as connection:
            found = plans.row(connection, plan_id)
            if found is None:
                raise UnknownRunError(plan_id)
            log = StoredLogRows(connection)
            opened = tuple((index, one.trial) for index, one in openings(log, plan_id))
            others = (other for other in plans.ids(connection) if other != plan_id and self._share(connection, plan_id, other))
            elsewhere = sorted(index for other in others for index, _ in openings(log, other))
        index, trials_before, payload = found
        return KeptPlan(plan_id, sha256(canonical(payload)), index, trials_before, payload, opened, tuple(elsewhere))

    def open_(self, plan_id: str, params: Mapping[str, Any], *, again: bool = False) -> int:
        """Log durably that the hold-out is opened for a configuration, then release it; return the entry's index.

        Raises
        ------
        LogConflictError
            The hold-out was opened for another configuration, and ``again`` is false.
        """
        with self._database.write() as connection:
            rows = StoredLogRows(connection, writing=True)
            index = note_opening(rows, plan_id, trial_of(params), self._clock(), again=again)
            plans.open_(connection, plan_id)
        return index

    def require_open(self, connection: Connection, pack: Pack, fixture_ids: Iterable[int]) -> None:
        """Refuse fixtures that a plan holds out, in the caller's transaction."""
        held = self._held_by(connection, tuple(plans.ids(connection, holding=True)))
        check_open(without_held(pack, held, quotes_within(connection, pack, fixture_ids)), fixture_ids)

    def without_held_out(self, pack: Pack) -> Pack:
        """Return the pack without the fixtures whose matches a plan holds out, even if the plan is over another pack."""
        with self._database.read() as connection:
            plan_ids = tuple(plans.ids(connection, holding=True))
            held = self._held_by(connection, plan_ids)
        if (pack.content_hash, plan_ids) not in self._held_out:
            found = without_held(pack, held, self.matches.quotes)
            self._held_out[pack.content_hash, plan_ids] = dict(found.held_out), dict(found.doubtful)
        return pack.holding_out(*self._held_out[pack.content_hash, plan_ids])

    def _held_by(self, connection: Connection, plan_ids: tuple[str, ...]) -> HeldMatches:
        if plan_ids not in self._held:
            self._held[plan_ids] = held_matches({plan_id: plans.held(connection, plan_id) for plan_id in plan_ids})
        return self._held[plan_ids]

    def _share(self, connection: Connection, one: str, other: str) -> bool:
        if (one, other) not in self._sharing:
            own, others = (self._held_by(connection, (plan_id,)).matches for plan_id in (one, other))
            self._sharing[one, other] = have_one_match(own, others)
        return self._sharing[one, other]

    def _check_twins(self, pack: Pack, searched: Collection[int], held: Sequence[Match]) -> None:
        """Refuse a searched fixture that is the same match as a held-out one, because it would be held out too."""
        for root, own in by_root(pack):
            same = overlap_of(root, held, self.matches.quotes).same
            for here, there in own:
                if here in searched and there in same:
                    twin = held[same[there]].fixture_id
                    raise StatisticsError(
                        f"fixture {twin} of {pack.pack_id!r} can't be held out while {here} is searched: by their ticks, ids, "
                        "teams or quotes they are one match; hold out both, or leave one out of fixtures="
                    )
