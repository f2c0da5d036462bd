"""A live run from its first message to its seal.

Steps: 1. read an earlier process's capture; 2. follow messages: each is on the disk before an agent sees it, and its decisions
are on the disk before the next message; 3. when the fixture closes, make a pack of the capture, and score the run over its
ticks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from clvlab.base.files import replace_file
from clvlab.engine.agent import Agent, ProcessAgent
from clvlab.engine.live import Follower, TimedFollower, checked, error_of, following, live_started, require_agent, seal_live
from clvlab.engine.run import Failures
from clvlab.errors import ClvlabError, LookaheadError, ReplayError
from clvlab.law.actions import Decision
from clvlab.law.message import Message
from clvlab.law.schema import FIXTURES
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import load_pack
from clvlab.proof.manifest import RunStarted
from clvlab.runs.execute import Commitment
from clvlab.runs.live import GRACE_S
from clvlab.runs.live.journal import Answers, Failure, Journal
from clvlab.runs.run import Run, captured_pack_id, matched
from clvlab.runs.spec import RunSpec
from clvlab.sources.capture.feed import Feed, Stop
from clvlab.sources.capture.recorder import CaptureRecorder, Note
from clvlab.sources.capture.records import Header
from clvlab.sources.capture.source import Tracker
from clvlab.sources.importer import pack_capture
from clvlab.sources.providers import SOURCES

# The agents of a live run at every message. An agent that fails stops, and the others continue.


_MAX_CAUSE = 2_000


class LiveAgents:
    """The agents of one run; at the end of the context their processes end."""

    def __init__(self, agents: Sequence[Agent], fixtures: pl.DataFrame, journal: Journal) -> None:
        self._agents, self._fixtures, self._journal = agents, fixtures, journal
        self._followers: dict[str, tuple[Follower, bool]] = {}
        self._held: dict[str, ExitStack] = {}
        self.decided: dict[str, list[Decision]] = {}
        self._failed: dict[str, tuple[dict[str, Any], str]] = {}
        self._number, self._received_ts_ms = -1, 0

    def __enter__(self) -> LiveAgents:
        with ExitStack() as stack:
            for agent in self._agents:
                name = agent.identity.agent_id
                held = self._held[name] = stack.enter_context(ExitStack())
                self._followers[name] = held.enter_context(following(agent, self._fixtures)), isinstance(agent, ProcessAgent)
                self.decided[name] = []
            apart = sum(is_apart for _, is_apart in self._followers.values())
            self._pool = stack.enter_context(ThreadPoolExecutor(max(1, apart), thread_name_prefix="clvlab-live-agent"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        for agent_id, held in self._held.items():
            try:
                held.close()
            except ClvlabError as failure:  # for example, a file that the agent reads has changed; the others continue
                if agent_id in self._followers:
                    answers = Answers(failed={agent_id: self._fail(agent_id, failure)})
                    self._journal.write(self._number, self._received_ts_ms, answers)
        self._stack.close()

    @property
    def messages(self) -> int:
        return self._number + 1

    @property
    def failures(self) -> Failures:
        ordered = sorted(self._failed.items())
        return Failures([error for _, (error, _) in ordered], {agent_id: cause for agent_id, (_, cause) in ordered})

    def at(self, message: Message, received_ts_ms: int) -> Answers:
        """Pass the next message to all agents, and return their decisions, which are on the disk."""
        self._number, self._received_ts_ms = self._number + 1, received_ts_ms
        known = self._journal.known.get(self._number)
        gone = {} if known is None else dict(known.failed)
        for agent_id, failure in gone.items():
            self._drop(agent_id, {"agent_id": agent_id, "error": failure.error, "fixture_id": None, "tick_seq": None}, failure)
        questions: dict[str, Callable[[], Sequence[Decision]]] = {
            agent_id: self._pool.submit(follower.take, message).result if apart else _later(follower, message, received_ts_ms)
            for agent_id, (follower, apart) in self._followers.items()
        }
        decided: dict[str, Sequence[Decision]] = {}
        failed: dict[str, Failure] = {}
        for agent_id, answer in questions.items():
            try:
                own = answer()
                checked(own, agent_id, message)
                self._compare(agent_id, own, known)
            except Exception as error:  # noqa: BLE001  an agent is foreign code: its failure is a fact of the run
                failed[agent_id] = self._fail(agent_id, error)
            else:
                self.decided[agent_id] += own
                if own:
                    decided[agent_id] = own
        answers = Answers(decided, failed)
        if (decided or failed) and (known is None or failed):
            self._journal.write(self._number, received_ts_ms, answers)
        return answers

    def _compare(self, agent_id: str, own: Sequence[Decision], known: Answers | None) -> None:
        """Refuse a decision that differs from the agent's decision before its process was restarted."""
        if known is None and self._number > self._journal.last:
            return
        before = [] if known is None else list(known.decided.get(agent_id, ()))
        if repr([tuple(one) for one in own]) != repr(before):  # compared as text, because NaN does not equal itself
            raise LookaheadError(f"asked again, it decides differently at message {self._number}: {before!s:.200}")

    def _fail(self, agent_id: str, error: Exception) -> Failure:
        stated = error_of(agent_id, error)
        failure = Failure(stated["error"], str(error)[:_MAX_CAUSE])
        self._drop(agent_id, stated, failure)
        return failure

    def _drop(self, agent_id: str, error: dict[str, Any], failure: Failure) -> None:
        self._followers.pop(agent_id, None)
        self.decided.pop(agent_id, None)
        self._failed[agent_id] = error, failure.cause


def _later(follower: Follower, message: Message, received_ts_ms: int) -> Callable[[], Sequence[Decision]]:
    if isinstance(follower, TimedFollower):
        return lambda: follower.take_at(message, received_ts_ms)
    return lambda: follower.take(message)


_JOURNAL, _ENDED = "journal.jsonl", "ended.json"


@dataclass(frozen=True, kw_only=True)
class LiveSpec(RunSpec):
    """Specification of a live run, before its data exists. ``origin_id`` is unique, and so is the run.

    The run is sealed at ``until_ts_ms`` at the latest, and ``grace_s`` after the announced kickoff if no message says that play
    began.
    """

    feed: Feed
    fixture: Fixture
    origin_id: str = field()
    kind: str = "live"
    grace_s: int = GRACE_S
    until_ts_ms: int | None = None

    @cached_property
    def started(self) -> RunStarted:
        return live_started(
            [self.fixture.fixture_id],
            self.agents,
            self.window,
            self.policy,
            kind=self.kind,
            origin_id=self.origin_id,
            closing_policy=SOURCES[self.feed.name].closing_policy,
        )

    @property
    def pack_id(self) -> str:
        return captured_pack_id(self.run_id)


def follow(
    spec: LiveSpec,
    folder: Path,
    stop: Stop,
    *,
    commitment: Commitment | None = None,
    note: Note | None = None,
    on_message: Callable[[Message, Answers], None] = lambda message, answers: None,  # noqa: ARG005
    on_replay: Callable[[Message, Answers], None] = lambda message, answers: None,  # noqa: ARG005
    on_idle: Callable[[Tracker], None] = lambda tracker: None,  # noqa: ARG005
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Run | None:
    """Follow a live run until its fixture closes, and seal it; ``None`` if ``stop`` ended it earlier, and it can be continued.

    ``folder`` is the run's own, with segments, journal and at the end the pack; the work of an earlier process there continues.
    ``on_message`` receives new messages with their decisions, ``on_replay`` earlier ones. ``on_idle`` is called from time to
    time, and when a gap has ended; its errors end the run. ``DecisionError`` when all agents have failed.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    feed, number = spec.feed, spec.fixture.fixture_id
    capture_id = spec.run_id.replace("run_", "cap_", 1)
    source = SOURCES[feed.name]
    skew_s = source.skew_s(feed.provenance, feed.health.skew_s)
    header = Header(feed.name, feed.provenance, capture_id, 1, None, (number,), live=True, skew_s=skew_s)
    capturing = CaptureRecorder(folder / "segments", feed, header, note=note, clock=clock)
    tracker = Tracker(capturing.segments.header, source.reader(live=True))  # a continued capture keeps its rule
    journal = Journal(folder / _JOURNAL)
    fixtures = pl.DataFrame([(number, None)], schema=FIXTURES, orient="row")  # no agent sees a kickoff: see replay_live
    closed, taken, known, ended_at = False, 0, journal.last, _ended_at(folder)
    try:
        with LiveAgents(spec.agents, fixtures, journal) as live_agents, closing(capturing.records(stop)) as coming:
            past = ((record, False) for record in capturing.segments.past())
            for record, is_new in chain(past, ((record, True) for record in coming)):
                if record is None:
                    on_idle(tracker)
                else:
                    taken += 1
                    for message in tracker.take(record):
                        answers = live_agents.at(message, record.at_ms)
                        (on_message if live_agents.messages > known + 1 else on_replay)(message, answers)
                        closed = closed or message.in_running
                        require_agent(live_agents.decided, live_agents.failures)
                    if record.resumed is not None:  # even a feed that is never idle has gaps
                        on_idle(tracker)
                # Messages that were captured in time count, and so does the end that an earlier process reached.
                closed = closed or taken == ended_at or (is_new and _is_over(spec, tracker, clock()))
                if closed:
                    break
        if stop.is_set and not closed:
            return None
        # A process that continues from here must seal the same bytes; a cut would suspend the markets at their close.
        replace_file(folder / _ENDED, orjson.dumps({"records": taken}))
        capturing.segments.keep(taken)
        capturing.segments.close()
    finally:
        journal.close()
        capturing.segments.release()
    return _sealed(spec, folder, capturing.segments.paths(), live_agents, commitment)


def has_journal(folder: Path) -> bool:
    return (folder / _JOURNAL).exists()


def _ended_at(folder: Path) -> int | None:
    """Return the number of records after which the fixture closed for an earlier process; ``None`` if it did not."""
    path = folder / _ENDED
    try:
        return int(orjson.loads(path.read_bytes())["records"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError) as error:
        raise ReplayError(f"{str(path)!r} does not say where the run ended: remove it") from error


def _is_over(spec: LiveSpec, tracker: Tracker, now_ms: int) -> bool:
    known = tracker.fixtures.get(spec.fixture.fixture_id, spec.fixture)
    kickoff = known.kickoff_ts_ms if known.kickoff_ts_ms is not None else spec.fixture.kickoff_ts_ms
    ends = [spec.until_ts_ms, None if kickoff is None else kickoff + 1000 * spec.grace_s]
    return any(end is not None and now_ms >= end for end in ends)


def _sealed(
    spec: LiveSpec, folder: Path, segments: Sequence[Path], live_agents: LiveAgents, commitment: Commitment | None
) -> Run:
    """Return the run scored over the pack, which an earlier process may have made from the same capture."""
    place = folder / spec.pack_id
    if not place.exists():
        pack_capture(segments, place)
    pack = load_pack(place)
    tape = pack.tape([spec.fixture.fixture_id])
    if tape.messages.height != live_agents.messages:
        raise ReplayError(f"agents were asked at {live_agents.messages} messages, the pack of them has {tape.messages.height}")
    result = seal_live(
        spec.started,
        tape,
        live_agents.decided,
        live_agents.failures,
        spec.window,
        spec.policy,
        captured=pack.content_hash,
        commit_index=None if commitment is None else commitment.index,
    )
    return Run.made(result, pack, matched(tape, spec.window))
