"""A laboratory: packs and runs in one place, and the same verbs wherever that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clvlab.engine.agent import Agent
from clvlab.errors import MissingExtraError, StatisticsError, UnsupportedError
from clvlab.lab.drawing.progress import Progress
from clvlab.lab.drawing.showing import check_settings
from clvlab.lab.laboratory import verbs as session
from clvlab.lab.laboratory.place import Bench, asked, entries, entry
from clvlab.lab.laboratory.records import Records
from clvlab.lab.results.comparison import Comparison
from clvlab.lab.results.outcome import Outcome
from clvlab.lab.results.report import Backtest
from clvlab.lab.results.run import Pack
from clvlab.lab.results.sweeping import Sweep, check_trials, grid_of
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope

__all__ = ["Lab"]

Runs = Sequence[Backtest | Outcome | str]


class Lab(Records):
    """Packs, and the runs that are made of them: kept in memory, in a file, or at a service.

    Parameters
    ----------
    where
        Nothing: in memory, gone at the end. A path: a SQLite file, with imported packs in a folder beside it (``lab.db`` and
        ``lab.packs``). A URL of ``http`` or ``https``: a service.
    token
        Bearer token for a service; ``compete`` needs one there.

    Raises
    ------
    StoreUnreachableError, StoreError
        The file can't be opened, is no database, or was written by a newer clvlab.
    MissingExtraError
        The libraries of the store or of the client are not installed.

    Examples
    --------
    >>> import clvlab as cl
    >>> lab = cl.Lab()
    >>> lab.backtest("starter", "cumulative-drift").report["n_fixtures"]
    12
    >>> lab.leaderboard().frame["agent_id"].to_list()
    ['cumulative-drift']
    """

    def __init__(self, where: str | Path | None = None, *, token: str | None = None) -> None:
        super().__init__(_bench_at(where, token))

    def import_odds(
        self, source: str, paths: str | Path | Sequence[str | Path], pack_id: str | None = None, **options: Any
    ) -> Pack:
        r"""Make a pack of a provider's files and keep it; importing the same files again gives the same pack.

        Parameters
        ----------
        source, paths
            As for ``clvlab.import_odds``.
        pack_id
            Its name here; that of the first file or folder by default.
        **options
            As for ``clvlab.import_odds``.

        Raises
        ------
        SourceError, OddsError, PackFormatError
            Files that can't be read; a name that is taken by other odds.
        UnsupportedError
            At a service, whose operator admits packs.

        Examples
        --------
        >>> import clvlab as cl, pathlib, tempfile
        >>> odds = pathlib.Path(tempfile.mkdtemp(), "mine.csv")
        >>> _ = odds.write_text(
        ...     "fixture,time,market,side,odds\n"
        ...     "match,2026-03-01T12:00Z,WINNER||,home,2.10\n"
        ...     "match,2026-03-01T12:00Z,WINNER||,away,1.80\n"
        ... )
        >>> cl.Lab().import_odds("csv", odds).pack_id
        'mine'
        """
        files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        name = pack_id if pack_id is not None or not files else files[0].name.partition(".")[0]
        bench = self._bench.here(
            "serves the packs of its operator: import in a Lab() here, or ask the operator to admit the pack"
        )
        return bench.import_odds(source, files, name or "", options)

    def backtest(
        self,
        pack: Pack | str | Path,
        agent: str | Agent = "baseline",
        *,
        params: Mapping[str, Any] | None = None,
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
        policy: PolicyEnvelope | None = None,
        audit: bool = True,
    ) -> Backtest | Outcome:
        """Backtest as ``clvlab.backtest`` does, and keep the run; the same backtest again changes nothing.

        A service backtests ``baseline`` on one fixture, and gives an ``Outcome`` of the bytes that it sealed.

        Parameters
        ----------
        pack, agent, params, fixtures, window, policy, audit
            As for ``clvlab.backtest``; a pack also by its name in this laboratory.

        Raises
        ------
        UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError, LookaheadError, WindowError, DecisionError
            As for ``clvlab.backtest``.
        UnsupportedError
            At a service, for another agent, more than one fixture, or ``audit=False``.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> bt = lab.backtest("starter", "cumulative-drift")
        >>> lab.verify(bt.run.run_id).passed
        True
        """
        question = asked(pack, fixtures, window, policy, audit=audit)
        return self._bench.backtest(question, entry(agent, params))

    def compete(
        self,
        pack: Pack | str | Path,
        agents: Sequence[str | Agent] | Mapping[str, str | Agent | tuple[str | Agent, Mapping[str, Any]]],
        *,
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
        policy: PolicyEnvelope | None = None,
        audit: bool = True,
    ) -> Outcome:
        """Let several agents decide on the same tape, in one sealed run, and keep it.

        Parameters
        ----------
        agents
            A list of agents, as for ``backtest``; or a mapping from names to agents, or to agents with their parameters.
        pack, fixtures, window, policy, audit
            As for ``backtest``.

        Raises
        ------
        DecisionError
            No agent, or two of one name.
        UnsupportedError
            At a service: an agent of one's own, more than one fixture, a window or policy, or ``audit=False``.

        Examples
        --------
        >>> import clvlab as cl
        >>> both = {"early": ("cumulative-drift", {"warmup_ticks": 10}), "late": ("cumulative-drift", {"warmup_ticks": 80})}
        >>> found = cl.Lab().compete("starter", both)
        >>> found.agent_ids, found.compare().differences["fixtures"].to_list()
        (['early', 'late'], [12])
        """
        question = asked(pack, fixtures, window, policy, audit=audit)
        return self._bench.compete(question, entries(agents))

    def sweep(
        self,
        pack: Pack | str | Path,
        agent: str | Agent,
        grid: Mapping[str, Sequence[Any]],
        *,
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
        policy: PolicyEnvelope | None = None,
        progress: Progress | bool = True,
        earlier_trials: int = 0,
        level: float = 0.95,
        resamples: int = 5_000,
        seed: int = 0,
    ) -> Sweep:
        """Sweep as ``clvlab.sweep`` does, with every trial over this pack on record: they deflate the best of this one.

        On record are all points of all sweeps and all runs of this laboratory over the same pack, each once.
        ``.best().seal()`` keeps the run.

        Parameters
        ----------
        pack, agent, grid, fixtures, window, policy, progress, level, resamples, seed
            As for ``clvlab.sweep``.
        earlier_trials
            Trials that were made elsewhere: they are added to those on record.

        Raises
        ------
        StatisticsError
            As for ``clvlab.sweep``.
        UnsupportedError
            At a service.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> lab.sweep("starter", "cumulative-drift", {"warmup_ticks": [10, 20]}).trials
        2
        >>> lab.sweep("starter", "cumulative-drift", {"warmup_ticks": [20, 40, 80]}).trials
        4
        """
        question, values = asked(pack, fixtures, window, policy), grid_of(grid)
        check_settings(level, resamples=resamples)
        check_trials(earlier_trials)
        bench = self._bench.here("scores no grids: sweep in a Lab() here, and enter the best in .compete()")
        trials, recorded = bench.sweep(question, entry(agent).agent, values, progress=progress)
        return Sweep(trials, values, earlier_trials + recorded, level, resamples, seed)

    def compare(self, runs: Runs, *, level: float = 0.95, resamples: int = 5_000, seed: int = 0) -> Comparison:
        """Compare agents over the same pack with the first one: settings, paired difference, positions in common.

        Parameters
        ----------
        runs
            Backtests, competitions, or ids of runs that are kept here; every agent of each takes part.
        level, resamples, seed
            As for ``clvlab.compare``.

        Raises
        ------
        StatisticsError
            Fewer than two agents, or different packs.
        UnknownRunError

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> first = lab.backtest("starter", "baseline").run.run_id
        >>> lab.compare([first, lab.backtest("starter", "cumulative-drift")]).names
        ['baseline', 'cumulative-drift']
        """
        if isinstance(runs, str) or not isinstance(runs, Iterable):
            raise StatisticsError(f"a list of backtests, competitions and ids of runs can be compared, not {runs!r:.80}")
        found = [self.open_run(one) if isinstance(one, str) else one for one in runs]
        for one in found:
            if not isinstance(one, Backtest | Outcome):
                raise StatisticsError(f"backtests, competitions and ids of runs can be compared, not {one!r:.80}")
        return session.compare(found, level=level, resamples=resamples, seed=seed)


def _bench_at(where: str | Path | None, token: str | None) -> Bench:
    """Return the bench at a URL, in a file, or in memory.

    Raises
    ------
    MissingExtraError
        The libraries of the store or of the client are not installed.
    UnsupportedError
        Neither a file nor the URL of a service, or a token for what is no service.
    """
    if isinstance(where, str) and where.lower().startswith(("http://", "https://")):
        try:
            from clvlab.lab.laboratory.remote import RemoteBench
        except ModuleNotFoundError as error:
            raise MissingExtraError("client", error.name) from error
        return RemoteBench(where, token)
    if token is not None:
        raise UnsupportedError(
            f"a token is for a service, and {str(where)!r} is not a service: its URL begins with http:// or https://"
        )
    if where == "" or (where is not None and not isinstance(where, str | Path)) or "://" in str(where):
        raise UnsupportedError(f"a laboratory is a file, or a service at http:// or https://, not {where!r:.200}")
    try:
        from clvlab.lab.laboratory.local import LocalBench
    except ModuleNotFoundError as error:
        raise MissingExtraError("notebook", error.name) from error
    return LocalBench(None if where in (None, ":memory:") else Path(where))
