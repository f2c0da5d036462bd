"""Searches that are planned before they are made: what is held out is shut, and its opening is on the record first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clvlab.errors import StatisticsError, UnknownRunError
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import canonical, sha256, without_floats
from clvlab.runlog.entries import Planned
from clvlab.runlog.plans import note_opening, note_plan, openings, plan_id_of
from clvlab.store import plans, trials
from clvlab.store.database import Connection, Database
from clvlab.store.runlog import LogRows


@dataclass(frozen=True)
class KeptPlan:
    """A plan as it is kept.

    Attributes
    ----------
    plan_id, plan_hash
        ``plan_`` and the beginning of the hash; SHA-256 of the payload as canonical JSON.
    index
        Of its entry in the log.
    trials_before
        Trials that were on record when it was made, over its pack and over others that had a fixture of its hold-out.
    payload
        What was planned.
    openings
        Entries in the log that opened its hold-out, with the hash of the configuration that each was for.
    elsewhere
        Entries in the log that opened other plans, which hold out some of the same fixtures.
    """

    plan_id: str
    plan_hash: str
    index: int
    trials_before: int
    payload: Mapping[str, Any]
    openings: tuple[tuple[int, str], ...]
    elsewhere: tuple[int, ...]


def trial_of(params: Mapping[str, Any]) -> str:
    """Return the hash of a configuration, by which its opening is known."""
    return sha256(canonical(without_floats(dict(params))))


class Searches:
    """The planned searches of a database, whose log has their entries.

    Parameters
    ----------
    database
        Where they are kept.
    owner
        Whom the log names.
    clock
        UTC milliseconds.
    """

    def __init__(self, database: Database, owner: str, clock: Callable[[], int]) -> None:
        self._database, self._owner, self._clock = database, owner, clock

    def plan(self, payload: Mapping[str, Any], pack: Pack, held: Iterable[int], contents: Iterable[str] = ()) -> KeptPlan:
        """Keep a plan and note it in the log; the same plan again is the one that is there.

        Parameters
        ----------
        payload
            What is planned, as JSON values; ``fixture_ids`` are searched or held out.
        pack, held
            Over which pack, and which of its fixtures are held out.
        contents
            Content hashes of other packs that have a fixture of the hold-out: their trials count.

        Raises
        ------
        HeldOutError
            Another plan holds some of the fixtures out.
        StatisticsError
            A fixture is held out whose ticks are those of one that would be searched.
        """
        shut = set(held)
        digests = _digests(pack, shut)
        _check_twins(pack, set(payload["fixture_ids"]) - shut, digests)
        stated = without_floats(dict(payload))
        plan_hash = sha256(canonical(stated))
        plan_id = plan_id_of(plan_hash)
        with self._database.write() as connection:
            if plans.row(connection, plan_id) is None:
                # In the transaction that keeps it: of two plans that are made at once, one sees the other.
                self.require_open(connection, pack, payload["fixture_ids"])
                now = self._clock()
                index = note_plan(
                    LogRows(connection, writing=True), Planned(plan_id, self._owner, plan_hash, pack.content_hash), now
                )
                made = {
                    "plan_id": plan_id,
                    "content_hash": pack.content_hash,
                    "idx": index,
                    "opened": False,
                    "trials_before": trials.count(connection, {pack.content_hash, *contents}),
                    "payload": stated,
                    "created_ts_ms": now,
                }
                plans.add(connection, made, sorted(digests))
        return self.kept(plan_id)

    def kept(self, plan_id: str) -> KeptPlan:
        """Return a plan as it stands now.

        Raises
        ------
        UnknownRunError
            There is none of that id.
        """
        with self._database.read() as connection:
            found = plans.row(connection, plan_id)
            if found is None:
                raise UnknownRunError(plan_id)
            log = LogRows(connection)
            opened = tuple((index, one.trial) for index, one in openings(log, plan_id))
            elsewhere = sorted(index for other in plans.sharing(connection, plan_id) for index, _ in openings(log, other))
        payload = found["payload"]
        plan_hash = sha256(canonical(payload))
        return KeptPlan(plan_id, plan_hash, int(found["idx"]), int(found["trials_before"]), payload, opened, tuple(elsewhere))

    def open_(self, plan_id: str, params: Mapping[str, Any], *, again: bool = False) -> int:
        """Note that the hold-out is opened for a configuration, durably, and let it be read; returns the entry's index.

        Raises
        ------
        LogConflictError
            It was opened for another configuration, and ``again`` was not said.
        """
        with self._database.write() as connection:
            rows = LogRows(connection, writing=True)
            index = note_opening(rows, plan_id, trial_of(params), self._clock(), again=again)
            plans.open_(connection, plan_id)
        return index

    def require_open(self, connection: Connection, pack: Pack, fixture_ids: Iterable[int]) -> None:
        """Refuse fixtures that a plan holds out by now, in a transaction of the caller's.

        Raises
        ------
        HeldOutError
        """
        pack.shut_by(plans.shut(connection)).check_open(fixture_ids)

    def shut(self, pack: Pack) -> Pack:
        """Return the pack with the fixtures shut that plans hold out, by digest: whatever pack they have come in."""
        with self._database.read() as connection:
            return pack.shut_by(plans.shut(connection))


def _digests(pack: Pack, held: Collection[int]) -> dict[str, int]:
    """Return fixtures by digest; those without ticks all have the same one, and nothing to read."""
    return {
        fixture.digest: fixture.fixture_id
        for fixture in pack.manifest.fixtures
        if fixture.fixture_id in held and fixture.rows and fixture.digest is not None
    }


def _check_twins(pack: Pack, searched: Collection[int], held: Mapping[str, int]) -> None:
    """Refuse to hold a fixture out, and to search another one with the same ticks, which would be shut as well."""
    for fixture in pack.manifest.fixtures:
        twin = held.get(fixture.digest or "")
        if twin is not None and fixture.fixture_id in searched:
            raise StatisticsError(
                f"fixture {twin} of {pack.pack_id!r} can't be held out while {fixture.fixture_id} is searched: "
                "their ticks are the same; hold out both, or leave one out of fixtures="
            )
