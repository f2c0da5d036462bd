"""A laboratory: packs and runs in one place, and the same verbs wherever that is."""

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
from clvlab.runs.live.spec import GRACE_S
from clvlab.runs.search.search import grid_of
from clvlab.sources.importer import paths_of
from clvlab.sources.tables.files import Frame, is_frame
from clvlab.statistics.measures import measure_of

if TYPE_CHECKING:
    from clvlab.runs.live.request import Until
    from clvlab.runs.live.view import LiveView
    from clvlab.runs.live.watch import CaptureState
    from clvlab.sources.capture.feed import Feed


class Lab(Verbs):
    """Packs, and the runs that are made of them: kept in memory, in a file, or at a service.

    Parameters
    ----------
    where
        Nothing: in memory, gone at the end. A path: a SQLite file, with imported packs, live runs and what points of searches
        measured in folders beside it (``lab.db``, ``lab.packs``, ``lab.live`` and ``lab.sums``). A URL of ``http`` or
        ``https``: a service.
    token
        Bearer token for a service; ``compete`` and ``deploy`` need one there.

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
        """Let agents decide on paper while a fixture's odds come in; returns when its window closes, with the sealed run.

        The run is committed to in the laboratory's log before its first message, and what comes in is kept as a pack, over
        which it can be replayed. An interrupt leaves the run: the same call goes on with it, and the messages that were missed
        are a gap. Until it is over it lies in a folder that bears its id, in ``lab.live`` beside ``lab.db``.

        A service follows its own feed: one template is deployed, several compete.

        Parameters
        ----------
        agents
            As for ``compete``, or one agent.
        feed
            Name of a feed, or an object that is one; by default the one that ``CLVLAB_FEED`` names.
        fixture
            A fixture id of the feed; by default the next fixture to kick off.
        window, policy
            As for ``backtest``.
        until
            When the run is sealed at the latest: a time with its zone, or seconds from its beginning; by default when play
            begins.
        grace_s
            Seconds after the announced kickoff when it is sealed, where no message says that play began.
        progress
            Whether the run is shown as it goes, in a notebook or a terminal; or what is called twice a second with a view of
            it: how far it is in ``.line``, and its decisions so far in ``.frame``, valid and pending, without a CLV. Of a run
            at a service only the line is known.

        Raises
        ------
        FeedError
            The feed lacks a setting, can't be reached or went on with, or has no such fixture.
        FileLockedError
            The same run is being followed elsewhere.
        SourceError, DecisionError
            Nothing was said of the fixture; no agent, two of one name, or all of them failed.
        UnknownAgentError, AgentError, WindowError, PolicyError
        UnsupportedError
            At a service: an agent of one's own, a feed, a window, policy or time of its own.

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
        r"""Make a pack of a provider's files, or of a frame, and keep it; importing the same again gives the same pack.

        Parameters
        ----------
        source, paths
            As for ``clvlab.import_odds``.
        pack_id
            Its name here; that of the first file or folder by default. A frame has no name, and needs this one.
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
        progress: Callable[[CaptureState], None] | bool = True,
    ) -> Pack:
        """Write down what a feed sends, and make a pack of it; interrupting the kernel ends it properly.

        Parameters
        ----------
        feed
            Name of a feed, whose keys are variables ``CLVLAB_*``; or one that was made.
        out
            Folder of the new pack. Until it stands, the segments lie beside it, in ``<out>.capture``; what was left there is
            gone on with.
        fixtures
            Fixture ids; everything by default.
        until
            When it ends: a time with its zone, or seconds from now; else when the feed ends, or with an interrupt.
        log
            File or URL of a run log, in which each segment is noted when it is closed.
        progress
            Whether it is shown how the capture is, in a notebook or a terminal; or what is told.

        Raises
        ------
        FeedError
            The feed can't go on, and what would mend that.
        PackFormatError, SourceError
            There is a pack in that place; or nothing came that could be read.
        FileLockedError
            Another process captures there.
        UnsupportedError
            At a service.

        Examples
        --------
        >>> import clvlab as cl, tempfile
        >>> from clvlab.sources.capture.replay import ReplayFeed
        >>> feed = ReplayFeed(pack=cl.open_pack("starter").source, speed=float("inf"), shift=True)
        >>> pack = cl.Lab().capture(feed, f"{tempfile.mkdtemp()}/mine", fixtures=[90000000])
        >>> pack.provenance
        'synthetic-replay'
        """
        return self._backend.capture(feed, Path(out), capture_request(fixtures, until, log, progress))

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
        """Deploy a template at a service: pinned as an instance of the caller, and run; returns when the run is sealed.

        Parameters
        ----------
        pack, agent, params
            As for ``backtest``; the agent is a template.
        fixture
            What is replayed.
        **settings
            Further fields of DeployConfig, such as ``max_orders``, ``sizing`` or ``agent_id``.

        Raises
        ------
        UnsupportedError
            Not at a service, or an agent of one's own.
        ArgumentError
            DeployConfig has no such field, or it follows from the other arguments.
        RunFailedError
            The run failed; it says why.
        ApiError
            The service refused: ``problem["checks"]`` names every failing check.

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
        """Plan a search, and shut what it holds out, before anything is searched.

        Grid, agent, objective, folds and the content of the hold-out are hashed into the laboratory's log. Until
        ``plan.open()`` no call here reads the fixtures that are held out, in whatever pack they come; a service over the same
        database does. The same plan again is the one that is there.

        Parameters
        ----------
        pack, agent, fixtures, window
            As for ``backtest``.
        grid
            Values of each parameter.
        hold_out
            Share of the fixtures, or the fixtures.
        by
            Which: ``kickoff``, the last ones; or ``random``.
        seed
            Of ``random``.
        folds
            Of ``plan.walk_forward()``.
        objective
            The measure by which points are chosen: ``clv``, ``edge`` or ``price_ratio``.

        Raises
        ------
        StatisticsError
            A grid, hold-out, number of folds, seed or measure that can't be; or a fixture that is held out has the ticks of
            one that would be searched.
        HeldOutError
            Another plan holds some of the fixtures out.
        UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError
            As for ``backtest``; a note names the point of the grid.
        UnsupportedError
            At a service, or outside a laboratory.

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
    """Return the name that a pack has if it is given none: that of its first file or folder."""
    if is_frame(source):
        raise PackFormatError("a frame has no name that its pack could have: name it, as pack_id='mine'")
    files = paths_of(source)
    return files[0].name.partition(".")[0] if files else ""


def _backend(where: str | Path | None, token: str | None) -> Backend:
    """Return the place at a URL, in a file, or in memory."""
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
    """Return the place of a SQLite file, with folders beside it; without a path in memory, and gone at the end."""
    try:
        from clvlab.arena.run_store import KeptRuns
    except ModuleNotFoundError as error:
        raise MissingExtraError("notebook", error.name) from error
    if path is not None:
        kept = KeptRuns(f"sqlite:///{quote(str(path))}")
        folders = {name: path.with_name(f"{path.stem}.{name}") for name in ("packs", "live", "sums")}
        return LocalBackend(path.name, kept, Catalog(folders["packs"]), folders["live"], folders["sums"])
    kept, folder = KeptRuns(), Path(tempfile.mkdtemp(prefix="clvlab-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # a pack may outlive the laboratory
    return LocalBackend("this laboratory", kept, Catalog(folder / "packs"), folder / "live", folder / "sums")
