"""The composition root: one object that holds every use case over one store and one catalog."""

from __future__ import annotations

from typing import Any

from clvlab.application.anchoring import Anchorer
from clvlab.application.competitions import Competitions
from clvlab.application.demo import Demo
from clvlab.application.deploys import Deploys
from clvlab.application.jobs import Jobs
from clvlab.application.replay_packs import ReplayPacks
from clvlab.application.reports import BacktestReports
from clvlab.application.standings import Leaderboard
from clvlab.application.stored_runs import StoredRuns
from clvlab.packs.catalog import Catalog

__all__ = ["Application"]


class Application:
    """Everything that a service can be asked for; thread-safe, and every method blocks.

    Parameters
    ----------
    database_url
        SQLAlchemy URL (``sqlite:///runs.db``, ``postgresql+psycopg://...``); None is in memory.
    catalog
        Packs that may be named; the bundled ones by default.
    anchorer
        None anchors nothing.
    workers
        Threads that perform jobs, once ``start`` was called.

    Raises
    ------
    StoreUnreachableError
        A configured database that can't be reached or migrated.
    """

    competitions: Competitions
    deploys: Deploys
    backtests: BacktestReports
    runs: StoredRuns
    leaderboard: Leaderboard
    packs: ReplayPacks
    jobs: Jobs
    demo: Demo

    def __init__(
        self,
        database_url: str | None = None,
        *,
        catalog: Catalog | None = None,
        anchorer: Anchorer | None = None,
        workers: int = 2,
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Start the workers: queued jobs are performed, and those whose worker died are picked up again."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the workers and release the database; idempotent."""
        raise NotImplementedError

    def ready(self) -> dict[str, Any]:
        """Tell whether the store answers, for a readiness probe: ``{store, schema_version}``.

        Raises
        ------
        StoreUnreachableError
        """
        raise NotImplementedError
