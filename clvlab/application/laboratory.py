"""The runs of a notebook: kept in a database as a service keeps its own, with every trial that was made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from clvlab.application.anchoring import Anchoring, NullAnchorer
from clvlab.application.backtests import resolved
from clvlab.application.execution import Execution
from clvlab.application.sealing import recorded, seal
from clvlab.application.slots import Slots
from clvlab.application.standings import Leaderboard
from clvlab.application.stored_runs import StoredRuns
from clvlab.engine.agent import Agent, Causality, identified
from clvlab.engine.run import run_started
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.tape import Binding
from clvlab.packs.reader import Pack
from clvlab.store import runs, trials
from clvlab.store.database import Database

__all__ = ["Laboratory", "trial_id"]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Laboratory:
    """Runs that were made here and are kept: a service over the same database shows and verifies them too.

    Parameters
    ----------
    database_url
        SQLAlchemy URL; None is in memory.
    clock
        UTC milliseconds.

    Attributes
    ----------
    runs, leaderboard
        What is kept, and what it adds up to per agent.

    Raises
    ------
    StoreUnreachableError, StoreError
        A database that can't be opened, or that a newer clvlab wrote.
    """

    def __init__(self, database_url: str | None = None, *, clock: Callable[[], int] = _now_ms) -> None:
        self._database = Database(database_url)
        self._clock = clock
        self._anchoring = Anchoring(self._database, NullAnchorer(), clock)
        self.runs = StoredRuns(self._database, NullAnchorer(), Slots(running=1, waiting=64))
        self.leaderboard = Leaderboard(self._database)

    def close(self) -> None:
        """Release the database; one in memory is gone with it."""
        self._database.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the database for oneself, other processes included: for a change beside it that must not meet another."""
        with self._database.write():
            yield

    def keep(self, execution: Execution) -> None:
        """Store a sealed run, count it in the standings, and put it on record as a trial; the same run again changes nothing.

        Raises
        ------
        RunConflictError
            A run of the same id is stored with other bytes.
        """
        started = execution.verification.started
        with self._database.write() as connection:
            now = self._clock()
            runs.add(connection, recorded(started, now))
            seal(connection, execution, self._anchoring, now)
            trials.add(connection, started["binding"]["content_hash"], [execution.run_id], now)

    def receipts(self, run_id: str) -> bytes:
        """Give what venues said of a run, as lines."""
        with self._database.read() as connection:
            return runs.receipt_lines(connection, run_id)

    def trials(self, content_hash: str, apart_from: Iterable[str] = ()) -> int:
        """Count the trials on record over a pack, without some that are named."""
        with self._database.read() as connection:
            return len(trials.of_pack(connection, content_hash) - set(apart_from))

    def record_trials(self, content_hash: str, trial_ids: Iterable[str]) -> None:
        """Put trials over a pack on record, which no run need follow."""
        with self._database.write() as connection:
            trials.add(connection, content_hash, trial_ids, self._clock())


def trial_id(
    pack: Pack,
    agent: str | Agent,
    params: Mapping[str, Any],
    fixture_ids: Sequence[int] | None,
    window: Window,
    policy: PolicyEnvelope,
) -> str:
    """Give the id that the run of a trial has once it is audited and sealed."""
    identity = identified(resolved(agent, params, window))
    if identity.causality == Causality.UNCHECKED:
        identity = replace(identity, causality=Causality.PREFIX_AUDIT)
    fixtures = pack.fixture_ids if fixture_ids is None else tuple(sorted(set(fixture_ids)))
    binding = Binding(pack.pack_id, fixtures, pack.content_hash)
    return str(run_started(binding, pack.manifest.closing_policy, [identity], window, policy)["run_id"])
