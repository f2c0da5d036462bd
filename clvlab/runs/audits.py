"""Look-ahead audits of an agent over several packs, wherever there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from clvlab.base.parallel import Fault, Work, in_order
from clvlab.engine.agent import Agent
from clvlab.engine.lookahead import LookaheadReport
from clvlab.errors import ClvlabError
from clvlab.packs.reader import Pack
from clvlab.runs.backtests import lookahead_audit
from clvlab.runs.many import arrived_agent, arrived_pack


@dataclass(frozen=True, slots=True)
class Audit:
    """How an agent is audited; see ``lookahead_audit``."""

    cuts: int = 24
    seed: int | None = None
    max_rows: int = 100_000


_Asked = tuple[Agent, Pack, Audit]


def audit_all(agent: Agent, packs: Sequence[Pack], audit: Audit, executor: Executor | None = None) -> Iterator[LookaheadReport]:
    """Audit an agent over packs, in their order.

    Raises
    ------
    ExecutorError, ClvlabError
        As ``in_order`` and ``lookahead_audit``.
    """
    return in_order(Work(_here, _there, _said), ((agent, pack, audit) for pack in packs), len(packs), executor)


def _here(asked: Sequence[_Asked]) -> list[LookaheadReport]:
    return [
        lookahead_audit(agent, pack.tape(), cuts=how.cuts, seed=how.seed, max_rows=how.max_rows) for agent, pack, how in asked
    ]


def _there(asked: Sequence[_Asked]) -> list[LookaheadReport] | Fault:
    try:
        return _here([(arrived_agent(agent), arrived_pack(pack), how) for agent, pack, how in asked])
    except ClvlabError as error:
        return Fault.of(error)


def _said(asked: _Asked) -> str:
    return f"about pack {asked[1].pack_id!r}"
