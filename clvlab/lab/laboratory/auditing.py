"""The verbs that look for decisions that knew the future."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from clvlab.application import backtests
from clvlab.application.audits import Audit, audit_all
from clvlab.engine.agent import Agent
from clvlab.lab.laboratory.asked import entry
from clvlab.lab.laboratory.given import check_audit, pack_given, several
from clvlab.lab.laboratory.local import HERE
from clvlab.lab.results.audit import AuditReport
from clvlab.lab.results.grid import Work
from clvlab.lab.results.pack import Pack
from clvlab.law.tape import Tape
from clvlab.naming import names_checked


@names_checked
def lookahead_audit(
    agent: str | Agent, tape: Pack | Tape | str | Path, *, cuts: int = 24, seed: int | None = None, max_rows: int = 100_000
) -> AuditReport:
    """Compare an agent's decisions on prefixes of a tape with the prefixes of its decisions.

    Parameters
    ----------
    agent
        An agent, or the name of a template.
    tape
        A tape; or a pack, its id, or the path of its folder.
    cuts
        Number of prefixes. Most of them end where the agent decided, the others anywhere.
    seed
        Chooses the messages at which the tape is cut; by default one that nobody knew before. It stands in the report.
    max_rows
        A longer tape is audited on some of its fixtures, and on at least 100 that are drawn without a look at decisions.

    Raises
    ------
    UnknownAgentError, UnknownPackError, AgentError

    Examples
    --------
    >>> lookahead_audit("baseline", "starter")
    Look-ahead audit of 'baseline': passed, decisions on 24 prefixes of 12 fixture(s) equal those on the whole tape; ...
    """
    check_audit(cuts, seed, max_rows)
    if not isinstance(tape, Tape):
        tape = HERE.pack(pack_given(tape)).source.tape()
    agent = entry(agent).agent
    return AuditReport(backtests.lookahead_audit(agent, tape, cuts=cuts, seed=seed, max_rows=max_rows))


@names_checked
def lookahead_audits(
    agent: str | Agent,
    packs: Sequence[Pack | str | Path],
    *,
    cuts: int = 24,
    seed: int | None = None,
    max_rows: int = 100_000,
    executor: Executor | None = None,
) -> tuple[AuditReport, ...]:
    """Audit an agent over several packs, as ``lookahead_audit`` does over one, in their order.

    Parameters
    ----------
    agent, cuts, seed, max_rows
        As for ``lookahead_audit``.
    packs
        Packs, their ids, or the paths of their folders.
    executor
        Who computes, as for ``backtests``.

    Raises
    ------
    UnknownAgentError, UnknownPackError, AgentError, ExecutorError

    Examples
    --------
    >>> [report.passed for report in lookahead_audits("baseline", ["starter", "season"])]
    [True, True]
    """
    check_audit(cuts, seed, max_rows)
    found = [HERE.pack(pack_given(pack)).source for pack in several(packs)]
    reports = audit_all(backtests.resolve(entry(agent).agent), found, Audit(cuts, seed, max_rows), Work(executor).executor)
    return tuple(AuditReport(report) for report in reports)
