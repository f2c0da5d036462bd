"""Several runs at once: each on the record, and performed wherever there is room."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace

from clvlab.agents.isolation.isolated import IsolatedAgent
from clvlab.agents.template import Template
from clvlab.base.parallel import Fault, Work, in_order
from clvlab.engine.agent import Agent, register
from clvlab.errors import AgentError, ClvlabError
from clvlab.packs.reader import Pack
from clvlab.packs.views.opening import load_place, place_of
from clvlab.runs.backtests import rename
from clvlab.runs.perform import Commitment, PerformedRun, Recorder, perform
from clvlab.runs.plan import Plan
from clvlab.runs.progress import cause_of

_Asked = tuple[Plan, Commitment | None]


def make_all(
    plans: Iterable[Plan], count: int, record_of: Callable[[Plan], Recorder] | None = None, executor: Executor | None = None
) -> Iterator[PerformedRun]:
    """Make runs and keep each, on the record, in their order; what they are does not depend on who performs them.

    Parameters
    ----------
    plans
        Taken as they are needed; each is committed to before it is performed.
    count
        How many there are.
    record_of
        Where a run is kept; nothing is kept without.
    executor
        Who performs them; see ``in_order``.

    Raises
    ------
    ExecutorError, ClvlabError
        As ``in_order`` and ``perform``, and as the record says. The runs that were committed to and not kept are abandoned.
    """
    waiting: deque[tuple[Plan, Recorder | None]] = deque()

    def asked() -> Iterator[_Asked]:
        for plan in plans:
            record = None if record_of is None else record_of(plan)
            commitment = None if record is None else record.commit(plan)
            waiting.append((plan, record))
            yield plan, commitment

    try:
        for done in in_order(Work(_here, _there, _said), asked(), count, executor):
            _, record = waiting[0]
            if record is not None:
                record.keep(done)
            waiting.popleft()
            yield done
    except ClvlabError as error:
        for plan, record in waiting:
            if record is not None:
                record.abandon(plan.run_id, cause_of(error))
        raise


def _here(asked: Sequence[_Asked]) -> list[PerformedRun]:
    return [perform(plan, commitment) for plan, commitment in asked]


def _there(asked: Sequence[_Asked]) -> list[PerformedRun] | Fault:
    try:
        done = _here([(_arrived(plan), commitment) for plan, commitment in asked])
    except ClvlabError as error:
        return Fault.of(error)
    for one in done:
        _ = one.verification  # whoever keeps it asks for it
    return done


def _said(asked: _Asked) -> str:
    return f"about pack {asked[0].pack.pack_id!r}"


def _arrived(plan: Plan) -> Plan:
    """Return a plan of another process with agents that are made here, and a pack whose file is what it was there."""
    return replace(plan, pack=arrived_pack(plan.pack), agents=[arrived_agent(agent) for agent in plan.agents])


def arrived_pack(pack: Pack) -> Pack:
    """Open a pack of another process here.

    Raises
    ------
    PackFormatError, PackTamperedError
        It is not here, or is another one.
    """
    return replace(load_place(place_of(pack), pack.content_hash), held_out=pack.held_out, doubtful=pack.doubtful)


def arrived_agent(agent: Agent) -> Agent:
    """Make an agent of another process here.

    Raises
    ------
    AgentError
        Neither a template nor an isolated agent.
    """
    if isinstance(agent, Template):
        return rename(agent, agent.agent_id)
    if isinstance(agent, IsolatedAgent):
        return register(agent)
    raise AgentError(f"{type(agent).__name__} can't be asked in another process: give the name of its template")
