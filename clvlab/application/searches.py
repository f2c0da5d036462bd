"""Searches that are planned before they are made: what is held out is shut, and its opening is on the record first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from clvlab.errors import UnknownRunError
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import canonical, sha256, without_floats
from clvlab.runlog.entries import Planned
from clvlab.runlog.plans import note_opening, note_plan, openings
from clvlab.store import plans, trials
from clvlab.store.database import Database
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
        Trials over its pack that were on record when it was made.
    payload
        What was planned.
    openings
        Entries in the log that opened its hold-out, with the hash of the configuration that each was for.
    """

    plan_id: str
    plan_hash: str
    index: int
    trials_before: int
    payload: Mapping[str, Any]
    openings: tuple[tuple[int, str], ...]


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

    def plan(self, payload: Mapping[str, Any], digests: Mapping[int, str], check: Callable[[], None]) -> KeptPlan:
        """Keep a plan and note it in the log; the same plan again is the one that is there.

        Parameters
        ----------
        payload
            What is planned, as JSON values; ``content_hash`` is the pack's.
        digests
            Of the fixtures that are held out, by fixture.
        check
            Called before a new plan is kept, and may refuse it.
        """
        stated = without_floats(dict(payload))
        plan_hash = sha256(canonical(stated))
        plan_id = f"plan_{plan_hash.removeprefix('sha256:')[:32]}"
        with self._database.write() as connection:
            if plans.row(connection, plan_id) is None:
                check()
                now = self._clock()
                content_hash = str(payload["content_hash"])
                index = note_plan(
                    LogRows(connection, writing=True), Planned(plan_id, self._owner, plan_hash, content_hash), now
                )
                made = {
                    "plan_id": plan_id,
                    "content_hash": content_hash,
                    "idx": index,
                    "opened": False,
                    "trials_before": len(trials.of_pack(connection, content_hash)),
                    "payload": stated,
                    "created_ts_ms": now,
                }
                plans.add(connection, made, sorted(set(digests.values())))
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
            opened = tuple((index, one.trial) for index, one in openings(LogRows(connection), plan_id))
        payload = found["payload"]
        plan_hash = sha256(canonical(payload))
        return KeptPlan(plan_id, plan_hash, int(found["idx"]), int(found["trials_before"]), payload, opened)

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

    def shut(self, pack: Pack) -> Pack:
        """Return the pack with the fixtures shut that plans hold out, by digest: whatever pack they have come in."""
        with self._database.read() as connection:
            by_digest = plans.shut(connection)
        held = {
            fixture.fixture_id: by_digest[fixture.digest] for fixture in pack.manifest.fixtures if fixture.digest in by_digest
        }
        return pack if held == dict(pack.held_out) else replace(pack, held_out=tuple(sorted(held.items())))
