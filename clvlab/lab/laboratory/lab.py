"""A laboratory keeps packs and runs, and has the same functions on this machine and at a service."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from clvlab.base.names import names_checked
from clvlab.engine.agent import Agent
from clvlab.errors import MissingExtraError, PackFormatError, StoreUnreachableError, UnsupportedError
from clvlab.lab.laboratory.backend import Backend
from clvlab.lab.laboratory.local import LocalBackend
from clvlab.lab.laboratory.methods import Verbs
from clvlab.lab.laboratory.requests import HoldOut, agent_spec, agent_specs, capture_request, live_request, run_request
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.plan import SearchPlan
from clvlab.lab.results.result import Result
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.catalog import Catalog
from clvlab.runs.folds import KICKOFF
from clvlab.runs.live import GRACE_S
from clvlab.runs.search.search import grid_of
from clvlab.runs.search.sums import KeptSums
from clvlab.sources.importer import paths_of
from clvlab.sources.tables.files import Frame, is_frame
from clvlab.statistics.measures import measure_of

if TYPE_CHECKING:
    from clvlab.runs.live.request import Until
    from clvlab.runs.live.view import LiveView
    from clvlab.runs.live.watch import CaptureState
    from clvlab.sources.capture.feed import Feed


class Lab(Verbs):
    """Packs and runs, kept in memory, in a file, or at a service.

    Parameters
    ----------
    where
        None keeps everything in memory. A path names a SQLite file, with folders next to it for packs, live runs and the sums
        of searches (``lab.db``, ``lab.packs``, ``lab.live`` and ``lab.sums``). A URL names a service.
    token
        Bearer token for a service; ``compete`` and ``deploy`` need it.

    Raises
    ------
    StoreUnreachableError, StoreError
        The file can't be opened, is not a database, or was written by a newer clvlab.
    MissingExtraError
        The libraries of the store or the client are not installed.

    Examples
    --------
    >>> import clvlab as cl
    >>> lab = cl.Lab()
    >>> lab.backtest("starter", "cumulative-drift").report["n_fixtures"]
    12
    >>> lab.leaderboard().frame["agent_id"].to_list()
    ['cumulative-drift']
    """

    @names_checked
    def __init__(self, where: str | Path | None = None, *, token: str | None = None) -> None:
        super().__init__(_backend(where, token))

    @names_checked
    def live(
        self,
        agents: str | Agent | Sequence[str | Agent] | Mapping[str, str | Agent | tuple[str | Agent, Mapping[str, Any]]],
        feed: Feed | str | None = None,
        *,
        fixture: int | None = None,
        window: Window | None = None,
        policy: PolicyEnvelope | None = None,
        until: Until | None = None,
        grace_s: int = GRACE_S,
        progress: Callable[[LiveView], None] | bool = True,
    ) -> Result:
        """Let agents decide on paper while the odds of a fixture arrive, and return the run, sealed when its window closes.

        The laboratory's log commits to the run before its first message, and its messages become a pack for replay. After an
        interrupt the same call continues the run; missed messages leave a gap. ``lab.live`` has a folder for each open run.

        A service follows its own feed: it deploys a single template, or lets several compete.

        Parameters
        ----------
        agents
            As for ``compete``, or one agent.
        feed
            Name of a feed, or a feed; by default the feed in ``CLVLAB_FEED``.
        fixture
            A fixture id of the feed; by default the next fixture to kick off.
        window, policy
            As for ``backtest``.
        until
            Latest time of the seal, as a time with its zone or as seconds from the start; by default the start of play.
        grace_s
            Seconds from the announced kickoff to the seal, if no message says that play began.
        progress
            Whether to show progress in a notebook or terminal; or a callback, called twice a second with a view. The view has
            ``.line``, and ``.frame`` with the decisions so far, without CLV; at a service it has only ``.line``.

        Raises
        ------
        FeedError
            The feed lacks a setting, can't be reached or continued, or does not have the fixture.
        FileLockedError
            Another process follows the same run.
        SourceError, DecisionError
            No message about the fixture came; there is no agent, two agents have one name, or all agents failed.
        UnsupportedError
            A service got your own agent, a feed, a window, a policy or a time.

        Examples
        --------
        >>> import clvlab as cl
        >>> from clvlab.sources.capture.replay import ReplayFeed
        >>> lab, pack = cl.Lab(), cl.open_pack("starter").source
        >>> run = lab.live("cumulative-drift", ReplayFeed(pack=pack, speed=1e9, shift=True), fixture=90000000)
        >>> run.report["mode_label"], run.run.verify().passed, run.pack.pack_id in list(lab.packs().frame["pack_id"])
        ('Live paper', True, True)
        """
        request = live_request(feed, fixture, window, policy, until, grace_s)
        return self._backend.live(request, agent_specs(agents), progress=progress)

    @names_checked
    def import_odds(
        self, source: str | None, paths: str | Path | Sequence[str | Path] | Frame, pack_id: str | None = None, **options: Any
    ) -> Pack:
        r"""Import a provider's files or a frame as a pack, and keep it; a repeated import gives the same pack.

        Parameters
        ----------
        source, paths
            As for ``clvlab.import_odds``.
        pack_id
            Name of the pack; by default the name of the first file or folder. A frame needs a name.
        **options
            As for ``clvlab.import_odds``.

        Raises
        ------
        SourceError, OddsError, PackFormatError
            The files are unreadable, or other odds already have the name.
        UnsupportedError
            The laboratory is at a service, whose operator admits packs.

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
        if pack_id is not None and not isinstance(pack_id, str):
            raise PackFormatError(f"a pack is named by a text, such as pack_id='mine', not {pack_id!r:.80}")
        return self._backend.import_odds(source, paths, pack_id or _name(paths), options)

    @names_checked
    def capture(
        self,
        feed: str | Feed,
        out: str | Path,
        *,
        fixtures: Sequence[int] | None = None,
        until: Until | None = None,
        log: str | Path | None = None,
        ladders: bool = False,
        progress: Callable[[CaptureState], None] | bool = True,
    ) -> Pack:
        """Record a feed and make a pack from it; an interrupt ends the capture properly.

        Parameters
        ----------
        feed
            Name of a feed, with its keys in variables ``CLVLAB_*``; or a feed.
        out
            Folder of the new pack. Until the pack is made, the segments are in ``<out>.capture``; an unfinished capture there
            continues.
        fixtures
            Fixture ids; all by default.
        until
            A time with its zone, or seconds from now; by default the end of the feed, or an interrupt.
        log
            File or URL of a run log, which records each closed segment.
        ladders
            Whether the pack keeps the offers of each side, level by level: of Betfair, Kalshi or Polymarket.
        progress
            Whether to show the state of the capture in a notebook or terminal; or a callback.

        Raises
        ------
        FeedError
            The feed can't continue.
        PackFormatError, SourceError
            The folder already has a pack, or no readable message came.
        FileLockedError
            Another process captures to that folder.
        UnsupportedError
            The laboratory is at a service.

        Examples
        --------
        >>> import clvlab as cl, tempfile
        >>> from clvlab.sources.capture.replay import ReplayFeed
        >>> feed = ReplayFeed(pack=cl.open_pack("starter").source, speed=float("inf"), shift=True)
        >>> pack = cl.Lab().capture(feed, f"{tempfile.mkdtemp()}/mine", fixtures=[90000000])
        >>> pack.provenance
        'synthetic-replay'
        """
        return self._backend.capture(feed, Path(out), capture_request(fixtures, until, log, ladders, progress))

    @names_checked
    def deploy(
        self,
        pack: Pack | str,
        agent: str,
        *,
        fixture: int,
        params: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Result:
        """Deploy a template at a service as an instance of the caller, and return its run when it is sealed.

        Parameters
        ----------
        pack, agent, params
            As for ``backtest``; the agent is a template.
        fixture
            Fixture to replay.
        **settings
            Other fields of DeployConfig, such as ``max_orders``, ``sizing`` or ``agent_id``.

        Raises
        ------
        UnsupportedError
            The laboratory is not at a service, or the agent is not a template.
        ArgumentError
            DeployConfig has no such field, or another argument sets it.
        RunFailedError
            The run failed.
        ApiError
            The service refused the deploy; ``problem["checks"]`` names the failing checks.

        Examples
        --------
        >>> import clvlab as cl
        >>> cl.Lab().deploy("starter", "baseline", fixture=90000000)
        Traceback (most recent call last):
        clvlab.errors.UnsupportedError: this laboratory deploys nothing: .backtest() replays the same agent
        """
        return self._backend.deploy(run_request(pack, [fixture]), agent_spec(agent, params), settings)

    @names_checked
    def plan(
        self,
        pack: Pack | str | Path,
        agent: str | Agent,
        grid: Mapping[str, Sequence[Any]],
        *,
        hold_out: float | Sequence[int] = 0.3,
        by: str = KICKOFF,
        folds: int = 5,
        objective: str = "clv",
        seed: int = 0,
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
    ) -> SearchPlan:
        """Plan a search with a hold-out before the search starts.

        The laboratory's log gets a hash of grid, agent, objective, folds and hold-out. Until ``plan.open()``, no call of this
        laboratory reads the held-out fixtures, in any pack; a service over the same database may read them. A repeated call
        with the same plan returns the first one.

        Parameters
        ----------
        pack, agent, fixtures, window
            As for ``backtest``.
        grid
            Values of each parameter.
        hold_out
            Share of the fixtures, or fixture ids.
        by
            ``kickoff`` holds out the last fixtures, ``random`` holds out random ones.
        seed
            Seed of ``random``.
        folds
            Number of folds of ``plan.walk_forward()``.
        objective
            Measure that chooses points: ``clv``, ``edge`` or ``price_ratio``.

        Raises
        ------
        StatisticsError
            The grid, hold-out, number of folds, seed or measure is not possible; or a held-out fixture has the same ticks as a
            training fixture.
        HeldOutError
            Another plan holds out some of the fixtures.
        UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError
            As for ``backtest``; a note names the point of the grid.
        UnsupportedError
            The call is at a service, or outside a laboratory.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> plan = lab.plan("season", "cumulative-drift", {"warmup_ticks": [20, 40]}, hold_out=0.2)
        >>> len(plan.training), len(plan.held_out), plan.sweep(progress=False).trials
        (240, 60, 2)
        >>> result = plan.open()
        >>> result.report["n_fixtures"], plan.open().run_id == result.run_id
        (60, True)
        """
        request, values = run_request(pack, fixtures, window), grid_of(grid)
        measure_of(objective)
        return self._backend.plan(request, agent_spec(agent), values, HoldOut(hold_out, by, folds, objective, seed))


_HOST = re.compile(r"[\w.-]+:[0-9]{2,5}/?")  # of a service, without http://


def _name(source: Any) -> str:
    """Return the default name of a pack, which is the name of its first file or folder."""
    if is_frame(source):
        raise PackFormatError("a frame has no name that its pack could have: name it, as pack_id='mine'")
    files = paths_of(source)
    return files[0].name.partition(".")[0] if files else ""


def _backend(where: str | Path | None, token: str | None) -> Backend:
    """Return the backend of a URL, a file, or memory."""
    if isinstance(where, str) and where.lower().startswith(("http://", "https://")):
        try:
            from clvlab.lab.laboratory.remote import HttpBackend
        except ModuleNotFoundError as error:
            raise MissingExtraError("client", error.name) from error
        return HttpBackend(where, token)
    if token is not None:
        raise UnsupportedError(
            f"a token is for a service, and {_location(str(where))} is not a service: its URL begins with http:// or https://"
        )
    if where == "" or (where is not None and not isinstance(where, str | Path)) or "://" in str(where):
        raise UnsupportedError(f"a laboratory is a file, or a service at http:// or https://, not {_location(where)}")
    if where is not None and Path(where).is_dir():
        file = str(Path(where, "lab.db"))
        raise StoreUnreachableError(f"{str(where)!r:.200} is a folder, and a laboratory is a file: write Lab({file!r:.200})")
    if isinstance(where, str) and _HOST.fullmatch(where):
        raise UnsupportedError(f"a service is named by its whole URL: write Lab('http://{where}')")
    return _local(None if where in (None, ":memory:") else Path(where))


def _location(where: object) -> str:
    return "another URL" if "://" in str(where) else f"{where!r:.200}"  # the URL of a database may hold a password


def _local(path: Path | None) -> LocalBackend:
    """Open the backend of a SQLite file and its folders, or a backend in memory without a path."""
    try:
        from clvlab.arena.run_store import KeptRuns
    except ModuleNotFoundError as error:
        raise MissingExtraError("notebook", error.name) from error
    if path is not None:
        kept = KeptRuns(f"sqlite:///{quote(str(path))}")
        folders = {name: path.with_name(f"{path.stem}.{name}") for name in ("packs", "live", "sums", "verdicts")}
        sums, verdicts = KeptSums(folders["sums"]), folders["verdicts"]
        return LocalBackend(path.name, kept, Catalog(folders["packs"]), folders["live"], sums, verdicts)
    kept, folder = KeptRuns(), Path(tempfile.mkdtemp(prefix="clvlab-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # a pack may outlive the laboratory
    return LocalBackend("this laboratory", kept, Catalog(folder / "packs"), folder / "live", KeptSums(folder / "sums"))
