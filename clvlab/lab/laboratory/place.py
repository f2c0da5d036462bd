"""What both places of a laboratory have in common: what they are asked, and the tables that SQL sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from clvlab.application.live.following import GRACE_S
from clvlab.application.live.until import Until, until_ts_ms
from clvlab.engine.agent import Agent
from clvlab.errors import AgentError, FeedError, PackFormatError, PolicyError, UnknownPackError, WindowError
from clvlab.feeds.feed import Feed
from clvlab.lab.drawing.progress import Progress
from clvlab.lab.laboratory.listing import Listing
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import VerificationResult
from clvlab.lab.results.sweeping import Trial
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import OUTCOMES, SCORES
from clvlab.proof.events import DECISION_EVENTS
from clvlab.proof.evidence import read_evidence

if TYPE_CHECKING:
    from clvlab.application.live.view import LiveView
    from clvlab.application.live.watch import CaptureState
    from clvlab.sql import Table  # loads a database

_PAGE = 200  # the most that a service gives at once


@dataclass(frozen=True)
class Question:
    """Over what agents are asked to decide.

    Attributes
    ----------
    pack
        A pack, its id, or the path of its folder.
    fixtures
        Fixture ids; null is all.
    """

    pack: Pack | str | Path
    fixtures: Sequence[int] | None = None
    window: Window = field(default_factory=Window)
    policy: PolicyEnvelope = field(default_factory=PolicyEnvelope)
    audit: bool = True


@dataclass(frozen=True)
class Entry:
    """An agent as it enters a competition."""

    agent: str | Agent
    params: Mapping[str, Any]
    agent_id: str | None = None


@dataclass(frozen=True)
class LiveRequest:
    """What a live run follows, and how it is watched.

    Attributes
    ----------
    feed
        A feed, its name, or null for the one that is configured.
    fixture
        A fixture id; null is the next to kick off.
    until
        When it is sealed at the latest; null without a bound.
    grace_s
        How long after the announced kickoff it is sealed, where no message says that play began.
    progress
        Whether it is shown, or what is called with it.
    """

    feed: Feed | str | None = None
    fixture: int | None = None
    window: Window = field(default_factory=Window)
    policy: PolicyEnvelope = field(default_factory=PolicyEnvelope)
    until: Until | None = None
    grace_s: int = GRACE_S
    progress: Callable[[LiveView], None] | bool = True


def live_request(
    feed: Any = None,
    fixture: Any = None,
    window: Any = None,
    policy: Any = None,
    until: Any = None,
    grace_s: Any = GRACE_S,
    *,
    progress: Callable[[LiveView], None] | bool = True,
) -> LiveRequest:
    """Return what a live run follows, with defaults for what was left out.

    Raises
    ------
    FeedError, WindowError, PolicyError
        A value of another type.
    """
    if fixture is not None and type(fixture) is not int:
        raise FeedError(f"a fixture is named by its id, a whole number, not {fixture!r:.80}")
    if type(grace_s) is not int:
        raise FeedError(f"a time of grace is a whole number of seconds, not {grace_s!r:.80}")
    own = question("", None, window, policy)
    return LiveRequest(feed, fixture, own.window, own.policy, until, grace_s, progress)


def question(pack: Any, fixtures: Any = None, window: Any = None, policy: Any = None, *, audit: bool = True) -> Question:
    """Return a question, with defaults for what was left out.

    Raises
    ------
    UnknownPackError, PackFormatError, WindowError, PolicyError
        A value of another type, or no fixture.
    """
    if not isinstance(pack, Pack | str | Path):
        raise UnknownPackError(f"a pack is named by its id or folder, or is a pack, not {pack!r:.80}")
    if fixtures is not None and (isinstance(fixtures, str) or not isinstance(fixtures, Iterable)):
        raise PackFormatError(f"fixtures are a list of fixture ids, not {fixtures!r:.80}")
    chosen = None if fixtures is None else tuple(fixtures)
    if chosen == ():
        raise PackFormatError("name at least one fixture, or none at all for every fixture")
    if window is not None and not isinstance(window, Window):
        raise WindowError(f"a window is a clvlab.Window, not {window!r:.80}")
    if policy is not None and not isinstance(policy, PolicyEnvelope):
        raise PolicyError(f"a policy is a clvlab.PolicyEnvelope, not {policy!r:.80}")
    return Question(pack, chosen, window or Window(), policy or PolicyEnvelope(), audit)


def entry(agent: Any, params: Any = None) -> Entry:
    """Return an agent with its parameters as an entry.

    Raises
    ------
    AgentError
        Something that is no agent, or no mapping of parameters.
    """
    if not _is_agent(agent):
        raise AgentError(f"an agent is the name of a template, 'file.py:name', or an agent, not {agent!r:.80}")
    return _named((agent, {} if params is None else params))


@dataclass(frozen=True)
class Capturing:
    """How a feed is captured.

    Attributes
    ----------
    fixtures
        What to listen to; everything if empty.
    until_ts_ms
        When it ends by the clock; null without a bound.
    log
        File or URL of a run log; null without one.
    progress
        Whether it is shown how it is, or what is told.
    """

    fixtures: tuple[int, ...]
    until_ts_ms: int | None
    log: str | Path | None
    progress: Callable[[CaptureState], None] | bool


def capturing(fixtures: Any, until: Any, log: Any, progress: Any) -> Capturing:
    """Return how a feed is to be captured; ``until`` is a time with its zone, or seconds from now.

    Raises
    ------
    FeedError
        A value of another type.
    """
    ends_ms = until_ts_ms(until, time.time_ns() // 1_000_000)
    if fixtures is not None and (isinstance(fixtures, str) or not isinstance(fixtures, Iterable)):
        raise FeedError(f"fixtures are a list of fixture ids, not {fixtures!r:.80}")
    return Capturing(tuple(fixtures or ()), ends_ms, log, progress)


class Place(Protocol):
    """Where packs and runs are made and kept: this machine, or a service."""

    where: str

    def packs(self) -> Listing: ...
    def import_odds(self, source: str, paths: Sequence[Path], pack_id: str, options: Mapping[str, Any]) -> Pack: ...
    def capture(self, feed: str | Feed, out: Path, capturing: Capturing) -> Pack: ...
    def backtest(self, question: Question, entry: Entry) -> Result: ...
    def compete(self, question: Question, entries: Sequence[Entry]) -> Result: ...

    def live(self, request: LiveRequest, entries: Sequence[Entry]) -> Result:
        """Follow a fixture live until it is sealed."""
        ...

    def deploy(self, question: Question, entry: Entry, settings: Mapping[str, Any]) -> Result:
        """Pin an agent as an instance of the caller, and let it run."""
        ...

    def sweep(
        self, question: Question, entry: Entry, grid: Mapping[str, Sequence[Any]], *, progress: Progress | bool
    ) -> tuple[tuple[Trial, ...], int]:
        """Score a grid; returns its trials, and how many others are on record over the pack."""
        ...

    def runs(self, limit: int | None = None) -> Listing: ...
    def open_run(self, run_id: str) -> Result: ...
    def verify(self, run_id: str) -> VerificationResult: ...
    def leaderboard(self) -> Listing: ...
    def tables(self) -> Mapping[str, Callable[[], Table]]: ...
    def close(self) -> None: ...


def entries(
    agents: str | Agent | Sequence[str | Agent] | Mapping[str, str | Agent | tuple[str | Agent, Mapping[str, Any]]],
) -> list[Entry]:
    """Return the entries of a competition; a lone agent in place of a list is one.

    Raises
    ------
    AgentError
        Something that is neither an agent nor an agent with its parameters.
    """
    if isinstance(agents, Mapping):
        return [_named(own, name) for name, own in agents.items()]
    if isinstance(agents, str | Agent):
        return [entry(agents)]
    if not isinstance(agents, Iterable):
        raise AgentError(f"a competition takes a list of agents, or a mapping from names to agents, not {agents!r:.80}")
    return [_named(agent) for agent in agents]


def _is_agent(own: Any) -> bool:
    return isinstance(own, str | Agent) and not isinstance(own, type)  # a class has the methods of its objects


def _named(own: Any, name: str | None = None) -> Entry:
    match own:
        case (agent, Mapping() as params) if _is_agent(agent):
            return Entry(agent, dict(params), name)
        case agent if _is_agent(agent):
            return Entry(agent, {}, name)
        case _:
            raise AgentError(f"an entry is an agent, or an agent with a mapping of its parameters, not {own!r:.80}")


def run_tables(runs: Callable[[], Listing], open_run: Callable[[str], Result]) -> dict[str, Callable[[], Table]]:
    """Return makers of the tables ``runs``, ``agents``, ``scores`` and ``decisions`` over all runs that are sealed."""

    def joined(schema: Mapping[str, Any], of: Callable[[Result], pl.DataFrame]) -> Callable[[], Table]:
        def make() -> pl.DataFrame:
            sealed = runs().frame.filter(pl.col("status") == "sealed")["run_id"]
            named = [of(open_run(run_id)).insert_column(0, pl.lit(run_id).alias("run_id")) for run_id in sealed]
            return pl.concat([pl.DataFrame(schema={"run_id": pl.String, **schema}), *named])

        return make

    return {
        "runs": lambda: runs().frame,
        "agents": joined(OUTCOMES, lambda one: pl.concat([own.outcomes for own in one.contenders])),
        "scores": joined(SCORES, lambda one: _score_rows(one.run.source.scores)),
        "decisions": joined(DECISION_EVENTS, lambda one: read_evidence(one.run.source.events).decisions),
    }


def _score_rows(lines: bytes) -> pl.DataFrame:
    return pl.read_ndjson(BytesIO(lines), schema=SCORES) if lines else pl.DataFrame(schema=SCORES)


def pages(page: Callable[..., Mapping[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """Read a list of runs page by page, newest first."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while limit is None or len(found) < limit:
        some = page(cursor, _PAGE)
        found += some["runs"]
        cursor = some["next_cursor"]
        if cursor is None:
            break
    return found[:limit]
