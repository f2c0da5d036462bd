"""The runs of a notebook: kept in a database and logged as a service does, with every trial that was made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from clvlab.anchor.configured import anchorer
from clvlab.anchor.settings import AnchorSettings
from clvlab.application.anchoring import Anchoring, StoredRecords
from clvlab.application.backtests import Backtest, performed
from clvlab.application.execution import Execution
from clvlab.application.logged import planned
from clvlab.application.public_log import PublicLog
from clvlab.application.sealing import begin, enter, give_up, seal
from clvlab.application.slots import Slots
from clvlab.application.standings import Leaderboard
from clvlab.application.stored_runs import StoredRuns
from clvlab.engine.agent import Agent
from clvlab.errors import ClvlabError, DecisionError, LogError, UnknownFixtureError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import canonical, sha256, without_floats
from clvlab.store import runs, trials
from clvlab.store.database import Database

__all__ = ["Laboratory", "trial_id"]

_OWNER = "laboratory"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Laboratory:
    """Runs that are made and kept here: a service over the same database shows and verifies them too.

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
        self._database = database = Database(database_url)
        self._clock = clock
        anchoring = Anchoring(database, anchorer(AnchorSettings(), StoredRecords(database)), clock)
        self.runs = StoredRuns(database, anchoring, PublicLog(database, None), Slots(running=1, waiting=64))
        self.leaderboard = Leaderboard(database)

    def close(self) -> None:
        """Release the database; one in memory is gone with it."""
        self._database.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the database for oneself, other processes included: for a change beside it that must not meet another."""
        with self._database.write():
            yield

    def perform(
        self,
        pack: Pack,
        agents: Sequence[Agent],
        window: Window,
        policy: PolicyEnvelope,
        fixture_ids: Sequence[int] | None = None,
        *,
        audit: bool = True,
        kind: str = "backtest",
    ) -> Backtest:
        """Make a run and keep it, on the record; the same run again changes nothing.

        Steps: 1. name the run from its inputs alone, and commit to it in the log; 2. open the tape and run; 3. store it, log
        its result, and count it in the standings and as a trial. A run that fails is abandoned on the record.

        Raises
        ------
        DecisionError
            No agents, or two of one id.
        ClvlabError
            As ``backtests.backtest``.
        """
        if len({agent.identity.agent_id for agent in agents}) != len(agents) or not agents:
            raise DecisionError(f"a run needs agents with unique ids, not {[agent.identity.agent_id for agent in agents]}")
        fixture_ids = _known(pack, fixture_ids)
        started = planned(pack, agents, window, policy, fixture_ids, audit=audit, kind=kind)
        run_id = str(started["run_id"])
        with self._database.write() as connection:
            enter(connection, started, _OWNER, self._clock())
            index = begin(connection, run_id, self._clock())
        try:
            done = performed(pack, agents, window, policy, fixture_ids=fixture_ids, audit=audit, kind=kind, commit_index=index)
            if done.run.run_id != run_id:
                raise LogError(f"run {run_id} was committed to, and {done.run.run_id} was performed")
        except ClvlabError as error:
            with self._database.write() as connection:
                give_up(connection, run_id, type(error).__name__, self._clock())
            raise
        with self._database.write() as connection:
            now = self._clock()
            seal(connection, Execution(done.result, done.receipts, done.verification), None, now)
            tried = [trial_id(pack, agent, window, fixture_ids) for agent in agents]
            trials.add(connection, pack.content_hash, tried, now)
        return done

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


def _known(pack: Pack, fixture_ids: Sequence[int] | None) -> list[int] | None:
    """Give fixture ids as plain integers, before a run of them is on record."""
    if fixture_ids is None:
        return None
    known = set(pack.fixture_ids)
    for fixture_id in fixture_ids:
        if fixture_id not in known:
            raise UnknownFixtureError(fixture_id, pack.pack_id, pack.fixture_ids)
    return [int(fixture_id) for fixture_id in fixture_ids]


def trial_id(pack: Pack, agent: Agent, window: Window, fixture_ids: Sequence[int] | None) -> str:
    """Give the id of a trial: a hash of all that shapes its scores, so neither of the agent's name nor of the policy."""
    identity = agent.identity
    tried = {
        "content_hash": pack.content_hash,
        "fixture_ids": sorted(set(_known(pack, fixture_ids) or pack.fixture_ids)),
        "window": window.payload(),
        "strategy": [identity.strategy, identity.strategy_version, identity.source_sha256],
        "config": without_floats(identity.config),
    }
    return sha256(canonical(tried))
