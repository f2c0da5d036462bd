"""Look-ahead audits of an agent over several packs, in parallel."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from clvlab.base.parallel import Work, parallel_map
from clvlab.engine.agent import Agent
from clvlab.engine.lookahead import LookaheadReport
from clvlab.engine.lookahead import lookahead_audit as audited
from clvlab.law.schema import SAFE_INTEGER
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.runs.execute import arrived_agent, arrived_pack
from clvlab.runs.spec import resolve


def lookahead_audit(
    agent: str | Agent, tape: Tape, *, cuts: int = 24, seed: int | None = None, max_rows: int = 100_000
) -> LookaheadReport:
    """Run the audit that the engine runs before it seals. The same ``seed`` repeats the same cuts."""
    chosen = secrets.randbelow(SAFE_INTEGER) if seed is None else seed
    return audited(resolve(agent), tape, cuts=cuts, seed=chosen, max_rows=max_rows)


@dataclass(frozen=True, slots=True)
class Audit:
    cuts: int = 24
    seed: int | None = None
    max_rows: int = 100_000


_AuditTask = tuple[Agent, Pack, Audit]


def audit_all(agent: Agent, packs: Sequence[Pack], audit: Audit, executor: Executor | None = None) -> Iterator[LookaheadReport]:
    return parallel_map(Work(_here, _there, _subject), ((agent, pack, audit) for pack in packs), len(packs), executor)


def _here(tasks: Sequence[_AuditTask]) -> list[LookaheadReport]:
    return [
        lookahead_audit(agent, pack.tape(), cuts=how.cuts, seed=how.seed, max_rows=how.max_rows) for agent, pack, how in tasks
    ]


def _there(tasks: Sequence[_AuditTask]) -> list[LookaheadReport]:
    return _here([(arrived_agent(agent), arrived_pack(pack), how) for agent, pack, how in tasks])


def _subject(task: _AuditTask) -> str:
    return f"about pack {task[1].pack_id!r}"
