"""Runs kept on this machine: in a database with every trial, and logged in the same way as by a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from clvlab.agents.isolation.agent import code_name
from clvlab.anchor import anchorer_of
from clvlab.anchor.settings import AnchorSettings
from clvlab.arena.anchors import RunAnchors, StoredRecords
from clvlab.arena.leaderboard import GlobalLeaderboard
from clvlab.arena.log.public import PublicLog
from clvlab.arena.runs.in_database import DatabaseRecorder
from clvlab.arena.runs.runs import StoredRuns
from clvlab.arena.searches import Searches
from clvlab.engine.agent import Agent
from clvlab.law.closing import Window
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import canonical, sha256, without_floats
from clvlab.runs.live.feed import feed_at, is_genuine
from clvlab.runs.live.paper import run_live
from clvlab.runs.live.request import LiveRequest
from clvlab.runs.live.view import LiveView
from clvlab.runs.run import Run
from clvlab.runs.spec import ReplaySpec
from clvlab.store import plans as plan_rows
from clvlab.store import runs
from clvlab.store.database import Connection, Database

_OWNER = "laboratory"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class KeptRuns:
    """Runs made and kept here; a service over the same database shows and verifies them too.

    ``runs`` and ``leaderboard`` read the kept runs; ``searches`` has planned searches and their hold-outs.

    Raises
    ------
    StoreUnreachableError, StoreError
        The database can't be opened, or a newer clvlab wrote it.
    """

    def __init__(self, database_url: str | None = None, *, clock: Callable[[], int] = _now_ms) -> None:
        self._database = database = Database(database_url)
        self._clock = clock
        anchoring = RunAnchors(database, anchorer_of(AnchorSettings(), StoredRecords(database)), clock)
        self.runs = StoredRuns(database, anchoring, PublicLog(database, None), clock)
        self.leaderboard = GlobalLeaderboard(database)
        self.searches = Searches(database, _OWNER, clock)
        self.leaderboard.bring_up_to_date()

    def close(self) -> None:
        """Close the database; one in memory is lost."""
        self._database.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the database against other processes, for a change outside the database that must not run twice at once."""
        with self._database.write():
            yield

    def recorder_of(self, spec: ReplaySpec) -> DatabaseRecorder:
        """Return the recorder of a run, which also records a trial of each agent.

        The recorder raises ``HeldOutError`` before any commitment if a plan holds out some of the fixtures.
        """

        def still_open(connection: Connection) -> None:
            # The pack was opened before this transaction, and a search may have been planned since then.
            self.searches.require_open(connection, spec.pack, spec.fixture_ids)

        self.searches.matches.learn(spec.pack, spec.fixture_ids)
        return replace(self._recorder(spec.agents), before=still_open)

    def live(
        self,
        request: LiveRequest,
        agents: Sequence[Agent],
        folder: Path,
        on_update: Callable[[LiveView], None],
        store_pack: Callable[[Pack], Pack],
    ) -> Run:
        """Follow a live run like ``run_live`` and keep it; over a generated feed it is not ranked. ``folder`` has live runs."""
        feed = feed_at(request.feed)
        recorder = self._recorder(agents, ranked=is_genuine(feed))
        run = run_live(
            replace(request, feed=feed), agents, recorder, folder, on_update=on_update, store_pack=store_pack, clock=self._clock
        )
        self.searches.matches.learn(run.pack, run.fixture_ids)
        return run

    def _recorder(self, agents: Sequence[Agent], *, ranked: bool = True) -> DatabaseRecorder:
        def add_trials(connection: Connection, done: Run) -> None:
            identities = [_trial_id(agent, done.pack, done.fixture_ids, done.window) for agent in agents]
            _add_trials(connection, done.pack, identities, self._clock())

        return DatabaseRecorder(self._database, _OWNER, self._clock, also=add_trials, ranked=ranked)

    def receipts(self, run_id: str) -> bytes:
        with self._database.read() as connection:
            return runs.receipt_lines(connection, run_id)

    def record_trials(self, specs: Sequence[ReplaySpec]) -> int:
        """Record trials over a pack, with or without a sealed run.

        Return the number of other trials over this pack, or over packs that share a match with the requested fixtures.
        """
        pack, wanted = specs[0].pack, specs[0].fixture_ids
        ids = [own for spec in specs for own in trial_ids(spec)]
        kept = self.searches.matches
        kept.learn(pack, wanted)
        matches = kept.matches(pack, wanted)
        with self._database.write() as connection:
            alike = kept.alike(connection, matches, (pack.content_hash, tuple(wanted)))
            others = [
                plan_rows.of_pack(connection, source) - set(_ids_over(pack, source, ids))
                for source in sorted(alike | set(pack.sources))
            ]
            _add_trials(connection, pack, ids, self._clock())
        return sum(map(len, others))


def _add_trials(connection: Connection, pack: Pack, ids: Sequence[str], now_ms: int) -> None:
    """Record trials with each pack whose ticks they saw: a trial over a view counts for its parents."""
    for source in pack.sources:
        plan_rows.add_trials(connection, source, _ids_over(pack, source, ids), now_ms)


def _ids_over(pack: Pack, source: str, ids: Sequence[str]) -> list[str]:
    """Return the ids of trials under which one of their packs records them."""
    return list(ids) if len(pack.sources) == 1 else [sha256(canonical([own, source])) for own in ids]


def trial_ids(spec: ReplaySpec) -> list[str]:
    """Return the id of each agent's trial: a hash of everything that shapes its scores. Name and policy do not."""
    return [_trial_id(agent, spec.pack, spec.fixture_ids, spec.window) for agent in spec.agents]


def _trial_id(agent: Agent, pack: Pack, fixture_ids: Sequence[int], window: Window) -> str:
    identity = agent.identity
    tried = {
        "content_hash": pack.content_hash,
        "fixture_ids": list(fixture_ids),
        "window": window.payload(),
        "strategy": [identity.strategy, identity.strategy_version, code_name(agent)],
        "config": without_floats(identity.config),
    }
    return sha256(canonical(tried))
