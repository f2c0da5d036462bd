"""The process of an agent: started by its parent, sandboxed, then given tapes until its parent ends.

The parent trusts only what it says before the agent's code is loaded.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from functools import partial
from io import TextIOBase
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard

from clvlab.agents.isolation.frames import (
    PROGRESS,
    AgentSetup,
    FrameKind,
    ProcessSetup,
    Request,
    read_frame,
    read_step,
    write_frame,
    write_step,
)
from clvlab.agents.isolation.sandbox import end_with, enter_own_root, limit_mappings, limit_memory, lock_in

if TYPE_CHECKING:
    from clvlab.agents.columnar import RepeatedTape
    from clvlab.agents.template import Params
    from clvlab.agents.ticks import TickAgent, Walk
    from clvlab.engine.agent import Agent
    from clvlab.engine.live import Follower

_OnProgress = Callable[[int, int], None]
_Decide = Callable[[Any, str, _OnProgress | None], object]
_REQUESTS = {FrameKind.ASK: 1 << 40}  # the parent is trusted
_MAX_MESSAGE, _MAX_TRACE, _MAX_PRINTED = 4_000, 20_000, 1 << 16
_ROWS_PER_MB = 100  # of ticks in memory: a sixty-fourth of what the process may have


class _PrintStream(TextIOBase):
    def __init__(self, answers: BinaryIO, kind: FrameKind) -> None:
        self._answers, self._kind = answers, kind

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for start in range(0, len(text), _MAX_PRINTED):
            write_frame(self._answers, self._kind, text[start : start + _MAX_PRINTED].encode(errors="replace"))
        return len(text)


def main() -> None:
    requests, answers = pipes()
    answer_all(json.loads(sys.argv[1]), requests, answers)


def answer_all(settings: ProcessSetup, requests: BinaryIO, answers: BinaryIO, *, forked: bool = False) -> None:
    """Sandbox this process as the settings say, and answer requests; a forked one that can't be sandboxed answers none.

    Steps: 1. limit memory, sandbox, and report how far that holds; 2. load libraries, limit further mappings, load the agent;
    3. answer.
    """
    apart, number = enter_own_root(settings["folder"], settings["reads"], network=settings["network"])
    parent = os.getppid()
    limit_memory(settings["memory_mb"])
    locked = lock_in([settings["folder"], *settings["reads"]], network=settings["network"])
    if os.name == "posix":  # a thread that is older than the sandbox would not be in it
        end_with(parent)
    if forked and not locked:  # it could reach what it was forked from
        return
    write_frame(answers, FrameKind.READY, json.dumps({"sandbox": locked, "namespace": apart, "process": number}).encode())
    sys.stdout, sys.stderr = _PrintStream(answers, FrameKind.OUT), _PrintStream(answers, FrameKind.ERR)
    agent: Any = None
    followers: list[Follower] = []  # of one run, once it has begun
    decide = _grown() if settings["grows"] else _repeated(settings["memory_mb"] * _ROWS_PER_MB)
    while True:
        try:
            request: Request = pickle.loads(read_frame(requests, _REQUESTS)[1])  # noqa: S301  by the parent
        except EOFError:
            return
        try:
            if "code" in request:
                _load_libraries()
                limit_mappings(settings["memory_mb"])
                agent = _loaded(request)
            own = _configured(agent, request["configured"])
            if "steps" in request:
                answer = _stepped(own, requests, answers)
            elif "messages" in request:
                answer = _followed(own, followers, request)
            else:
                on_progress = partial(_write_progress, answers) if request.get("progress") else None
                answer = _identity(own) if request["tape"] is None else _decisions(own, decide, request["tape"], on_progress)
        except BaseException as error:  # noqa: BLE001  the boundary of a process: whatever the agent raises is its failure
            failure = {"kind": type(error).__name__, "message": str(error)[:_MAX_MESSAGE], "trace": _trace(error)}
            answer = FrameKind.FAILURE, json.dumps(failure).encode(errors="replace")
        write_frame(answers, *answer)


def pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move this process's pipes away from where an agent would read or print by accident."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    return requests, answers


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_MAX_TRACE:]


def _load_libraries() -> None:
    """Import what any agent needs, and start the threads of Polars: they reserve more addresses than they use memory."""
    import polars as pl

    import clvlab.agents.isolation.columns  # noqa: F401

    pl.LazyFrame({"a": [1, 2]}).group_by("a").len().collect()


def _loaded(request: Request) -> Agent:
    if request["file"] is None:
        agent: Agent = pickle.loads(request["code"])  # noqa: S301  the purpose of this process
        return agent
    from clvlab.agents.files import agent_of

    path, name = request["file"]
    return agent_of(request["code"], path, name)


def _configured(agent: Agent, configured: AgentSetup) -> Agent:
    params, agent_id, sealed = configured["params"], configured["agent_id"], configured["sealed"]
    if not params and sealed is None and agent_id is None:
        return agent
    from clvlab.agents.columnar import Strategy
    from clvlab.errors import AgentError

    if isinstance(agent, Strategy):
        return agent.with_params(agent_id, **(params if sealed is None else _unsealed(agent.params, sealed)))
    if params:
        raise AgentError(
            f"{type(agent).__name__} takes no parameters here, as {next(iter(params))!r:.80}: make the agent with them"
        )
    if agent_id not in (None, agent.identity.agent_id) and sealed is None:
        raise AgentError(f"{type(agent).__name__} can't be entered as {agent_id!r}: make it with that agent_id")
    return agent


def _unsealed(params: Params, sealed: Params) -> Params:
    """Return parameters as before sealing, which writes fractions as text."""
    return {
        name: float(value) if isinstance(params[name], float) and isinstance(value, str) else value
        for name, value in sealed.items()
        if name in params
    }


def _identity(agent: Agent) -> tuple[FrameKind, bytes]:
    from clvlab.engine.agent import sealable

    identity = agent.identity
    names = ("agent_id", "strategy", "strategy_version", "proof_mode")
    sealable(identity)  # or it is refused here, by name
    stated = {name: getattr(identity, name) for name in names} | {"config": identity.config, "by_message": _by_message(agent)}
    return FrameKind.IDENTITY, json.dumps(stated).encode()


def _by_message(agent: Agent) -> TypeGuard[TickAgent]:
    from clvlab.agents.ticks import TickAgent

    return isinstance(agent, TickAgent) and type(agent).decide is TickAgent.decide


def _grown() -> _Decide:
    """Return a function that decides over growing tapes in folders: tick agents continue, others start again."""
    walk: Walk | None = None

    def decide(agent: Any, folder: str, on_progress: _OnProgress | None) -> object:  # noqa: ARG001  only an audit's tapes grow
        from clvlab.agents.isolation.tapes import read_tape
        from clvlab.agents.ticks import Walk

        nonlocal walk
        tape = read_tape(folder)
        if not _by_message(agent):
            return agent.decide(tape)
        walk = walk or Walk(agent)
        return walk.decide(tape)

    return decide


def _repeated(most_rows: int) -> _Decide:
    """Return a function that decides over the tape of a folder. A strategy gets the last tape's ticks as they were computed."""
    last: tuple[str, RepeatedTape] | None = None

    def decide(agent: Any, folder: str, on_progress: _OnProgress | None) -> object:
        from clvlab.agents.columnar import RepeatedTape, Strategy
        from clvlab.agents.isolation.tapes import read_tape
        from clvlab.agents.ticks import Walk

        nonlocal last
        if on_progress and _by_message(agent):
            return Walk(agent).decide(read_tape(folder), on_progress)
        if type(agent) is not Strategy:  # it could change the frames of a tape
            return agent.decide(read_tape(folder))
        if last is None or last[0] != folder:
            last = None  # before the next tape takes memory
            last = folder, RepeatedTape(read_tape(folder), most_rows)
        return last[1].decide(agent)

    return decide


def _followed(agent: Agent, followers: list[Follower], request: Request) -> tuple[FrameKind, bytes]:
    import polars as pl

    from clvlab.agents.isolation.columns import columns
    from clvlab.agents.ticks import TickFollower
    from clvlab.engine.live import TapeFollower
    from clvlab.law.actions import decisions_of
    from clvlab.law.message import Message
    from clvlab.law.schema import FIXTURES

    if not followers:
        if _by_message(agent):
            followers.append(TickFollower(agent))
        else:
            followers.append(TapeFollower(agent, pl.DataFrame(request["fixtures"], schema=FIXTURES, orient="row")))
    decided = [one for message in request["messages"] for one in followers[0].take(Message(*message))]
    return FrameKind.DECISIONS, columns(decisions_of(decided, agent.identity.agent_id)) if decided else b""


def _stepped(agent: Agent, requests: BinaryIO, answers: BinaryIO) -> tuple[FrameKind, bytes]:
    """Answer one message after the other, until an empty one; the next comes when the answer has left."""
    from clvlab.agents.isolation.steps import Stepper
    from clvlab.agents.ticks import TickFollower
    from clvlab.errors import AgentError

    if not _by_message(agent):
        raise AgentError(f"{type(agent).__name__} decides over whole tapes: step by step goes a clvlab.TickAgent, with on_tick")
    take = Stepper(TickFollower(agent)).take
    write_step(answers, b"")
    while step := read_step(requests):
        write_step(answers, take(step))
    return FrameKind.STEP, b""


def _write_progress(answers: BinaryIO, done: int, total: int) -> None:
    write_frame(answers, FrameKind.PROGRESS, PROGRESS.pack(done, total))


def _decisions(agent: Agent, decide: _Decide, folder: str, on_progress: _OnProgress | None) -> tuple[FrameKind, bytes]:
    import polars as pl

    from clvlab.agents.isolation.columns import columns
    from clvlab.errors import DecisionError
    from clvlab.law.schema import DECISIONS, conform

    decided = decide(agent, folder, on_progress)
    if not isinstance(decided, pl.DataFrame):
        raise DecisionError(f"agent {agent.identity.agent_id!r} must return a polars DataFrame, not {type(decided).__name__}")
    return FrameKind.DECISIONS, columns(conform(decided, DECISIONS, "DECISIONS"))


if __name__ == "__main__":
    main()
