"""Execute runs, one at a time or in parallel: commit, perform, and keep. A run that fails is recorded as abandoned."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from clvlab.agents.template import Template
from clvlab.engine.agent import Agent, register
from clvlab.engine.lookahead import Draw, DrawingOf
from clvlab.engine.run import run
from clvlab.errors import AgentError, ClvlabError, PackError, PackReplayError, PlanChangedError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.packs.views.view_file import load_place, place_of
from clvlab.runs.progress import OnProgress, Stage, cause_of, to_listener
from clvlab.runs.run import Run, matched
from clvlab.runs.spec import ReplaySpec, RunSpec, rename

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.log.log import LogStore

ABANDONED = "failed"
"""The log's only text about a failure, because a log entry can't be removed."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """Commitment to a run. ``index`` is its log entry, or ``None`` without a log.

    ``drawing`` is a function by which the log draws an agent's audit, from the agent's id and a hash of its answers. It is
    ``None`` outside the log's process.
    """

    run_id: str
    index: int | None = None
    drawing: DrawingOf | None = None

    def __reduce__(self) -> tuple[type[Commitment], tuple[str, int | None]]:
        return Commitment, (self.run_id, self.index)


class HasRunId(Protocol):
    @property
    def run_id(self) -> str: ...


Subject = TypeVar("Subject", bound=HasRunId, contravariant=True)


class Recorder(Protocol[Subject]):
    """Place where runs are committed to and kept: a folder, a database, or nowhere. A folder may have a log."""

    @property
    def log(self) -> LogStore | None: ...

    def commit(self, spec: Subject) -> Commitment | None:
        """Commit to a run before its data is opened. An abandoned run gets a new commitment. ``None`` without a record."""
        ...

    def keep(self, run: Run) -> None:
        """Store a run and conclude its commitment. A second call with the same run changes nothing."""
        ...

    def abandon(self, run_id: str, cause: str) -> None:
        """Record that a run failed. A new request commits to the run again."""
        ...


class NoRecorder:
    log = None

    def commit(self, spec: RunSpec) -> None:
        """Do nothing."""

    def keep(self, run: Run) -> None:
        """Do nothing."""

    def abandon(self, run_id: str, cause: str) -> None:
        """Do nothing."""


NOWHERE = NoRecorder()


def drawing_of(log: LogStore, run_id: str, clock: Callable[[], int]) -> DrawingOf:
    """Return the function that draws a committed run's audits. The log records each hash of answers before the draw."""
    from clvlab.log.log import draw_audit

    def drawing(agent_id: str, answers_hash: str) -> Draw:
        with log.write() as rows:
            drawn = draw_audit(rows, run_id, agent_id, answers_hash, clock())
        return Draw(secrets.randbelow(SAFE_INTEGER)) if drawn is None else Draw(*drawn)

    return drawing


def execute(spec: ReplaySpec, recorder: Recorder[ReplaySpec] = NOWHERE, progress: OnProgress = to_listener) -> Run:
    """Commit to a run over a pack, make it and keep it. An error abandons the run. ``progress`` receives its progress."""
    return lifecycle(spec, recorder, lambda commitment: perform(spec, commitment, progress))


def lifecycle(
    spec: Subject,
    recorder: Recorder[Subject],
    make: Callable[[Commitment | None], Run],
    is_left: Callable[[ClvlabError], bool] = lambda error: False,  # noqa: ARG005
) -> Run:
    """Commit to a run, make it, and store it. After an interrupt, or an error that ``is_left``, it can be continued."""
    commitment = recorder.commit(spec)
    try:
        made = make(commitment)
        recorder.keep(made)
    except ClvlabError as error:
        if not is_left(error):
            recorder.abandon(spec.run_id, cause_of(error))
        raise
    return made


def perform(spec: ReplaySpec, commitment: Commitment | None = None, progress: OnProgress = to_listener) -> Run:
    """Replay, score and seal a run; ``PlanChangedError`` if its pack or an agent changed since the commitment."""
    _check(spec.run_id, commitment)
    progress(Stage.OPENING)
    markets: list[int] = []
    result = run(
        [partial(_read, spec, shard, markets.append) for shard in spec.shards],
        spec.agents,
        spec.window,
        policy=spec.policy,
        audit_seed=secrets.randbelow(SAFE_INTEGER) if spec.audit else None,
        drawing=None if commitment is None else commitment.drawing,
        kind=spec.kind,
        origin_id=spec.origin_id,
        commit_index=None if commitment is None else commitment.index,
        answered=lambda done, total: progress(Stage.DECIDING if done < total else Stage.SEALING, done, total),
    )
    progress(Stage.KEEPING)
    _check(result.sealed.run_id, commitment)
    return Run.made(result, spec.pack, sum(markets))


def _read(spec: ReplaySpec, fixture_ids: tuple[int, ...], counted: Callable[[int], None]) -> Tape:
    try:
        tape = spec.pack.tape(fixture_ids)
    except PackError as error:
        raise PackReplayError(f"pack {spec.pack.pack_id!r} can't be replayed: {error}") from error
    counted(matched(tape, spec.window))
    return tape


def _check(run_id: str, commitment: Commitment | None) -> None:
    if commitment is not None and commitment.run_id != run_id:
        raise PlanChangedError(commitment.run_id, run_id)


_Task = tuple[ReplaySpec, Commitment | None]


def execute_all(
    specs: Iterable[ReplaySpec],
    count: int,
    recorder_of: Callable[[ReplaySpec], Recorder[ReplaySpec]] = lambda spec: NOWHERE,  # noqa: ARG005
    executor: Executor | None = None,
) -> Iterator[Run]:
    """Yield runs in order. Commitments come first and storing last. An error abandons the runs not yet stored."""
    from clvlab.base.parallel import Work, parallel_map

    waiting: deque[tuple[ReplaySpec, Recorder[ReplaySpec]]] = deque()

    def tasks() -> Iterator[_Task]:
        for spec in specs:
            recorder = recorder_of(spec)
            commitment = recorder.commit(spec)
            waiting.append((spec, recorder))
            yield spec, commitment

    try:
        for made in parallel_map(Work(_here, _there, _label), tasks(), count, executor):
            _, recorder = waiting[0]
            recorder.keep(made)
            waiting.popleft()
            yield made
    except ClvlabError as error:
        for spec, recorder in waiting:
            recorder.abandon(spec.run_id, cause_of(error))
        raise


def _here(tasks: Sequence[_Task]) -> list[Run]:
    return [perform(spec, commitment) for spec, commitment in tasks]


def _there(tasks: Sequence[_Task]) -> list[Run]:
    made = _here([(_arrived(spec), commitment) for spec, commitment in tasks])
    for one in made:
        _ = one.verification  # needed by the recorder
    return made


def _label(task: _Task) -> str:
    return f"about pack {task[0].pack.pack_id!r}"


def _arrived(spec: ReplaySpec) -> ReplaySpec:
    return replace(spec, pack=arrived_pack(spec.pack), agents=[arrived_agent(agent) for agent in spec.agents])


def arrived_pack(pack: Pack) -> Pack:
    return replace(load_place(place_of(pack), pack.content_hash), held_out=pack.held_out, doubtful=pack.doubtful)


def arrived_agent(agent: Agent) -> Agent:
    """Rebuild an agent that came from another process; ``AgentError`` unless it is a template or isolated."""
    from clvlab.agents.isolation.agent import IsolatedAgent

    if isinstance(agent, Template):
        return rename(agent, agent.agent_id)
    if isinstance(agent, IsolatedAgent):
        return register(agent)
    raise AgentError(f"{type(agent).__name__} can't be asked in another process: give the name of its template")
