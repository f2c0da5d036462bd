"""Backtests under a run log: committed to before their tape is opened, and concluded or abandoned afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clvlab.anchor.log import LogStore, abandon, commit, conclude
from clvlab.application.backtests import Backtest, backtest, resolved
from clvlab.engine.agent import Agent, identified
from clvlab.engine.run import run_started
from clvlab.errors import ClvlabError, LogError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.tape import Binding
from clvlab.packs.reader import Pack
from clvlab.proof.manifest import inputs_hash

__all__ = ["logged_backtest", "planned"]


def logged_backtest(
    pack: Pack,
    agent: str | Agent = "baseline",
    *,
    log: LogStore,
    owner: str,
    clock: Callable[[], int],
    params: Mapping[str, Any] | None = None,
    fixture_ids: Sequence[int] | None = None,
    window: Window | None = None,
    policy: PolicyEnvelope | None = None,
    audit: bool = True,
) -> Backtest:
    """Backtest as ``backtest`` does, on the record.

    Steps: 1. name the run from its inputs alone; 2. commit to it; 3. open the tape and run; 4. log the manifest hash. A run
    that fails is abandoned on the record, and committed to anew when it is asked for again; one that is interrupted stays
    open, and goes on.

    Parameters
    ----------
    pack, agent, params, fixture_ids, window, policy, audit
        As of ``backtest``.
    log, owner
        Where the run is committed to, and by whom.
    clock
        Gives UTC milliseconds, which enter the log and no run.

    Raises
    ------
    LogConflictError
        The run is under way for another owner.
    """
    window, policy = window or Window(), policy or PolicyEnvelope()
    asked = resolved(agent, params, window)
    started = planned(pack, [asked], window, policy, fixture_ids, audit=audit)
    run_id = started["run_id"]
    with log.write() as rows:
        index = commit(rows, run_id, owner, inputs_hash(started), pack.content_hash, clock())
    try:
        test = backtest(pack, asked, fixture_ids=fixture_ids, window=window, policy=policy, audit=audit, commit_index=index)
        if test.run.run_id != run_id:
            raise LogError(f"run {run_id} was committed to, and {test.run.run_id} was performed")
    except ClvlabError as error:
        with log.write() as rows:
            abandon(rows, run_id, type(error).__name__, clock())
        raise
    with log.write() as rows:
        conclude(rows, run_id, test.run.manifest_hash, clock())
    return test


def planned(
    pack: Pack,
    agents: Sequence[Agent],
    window: Window,
    policy: PolicyEnvelope,
    fixture_ids: Sequence[int] | None,
    *,
    audit: bool = True,
    kind: str = "backtest",
) -> dict[str, Any]:
    """Give RUN_STARTED of a run that is sealed only if its agents pass the audit that is due."""
    wanted = pack.fixture_ids if fixture_ids is None else tuple(sorted(set(fixture_ids)))
    identities = [identified(agent, audit=audit) for agent in agents]
    binding = Binding(pack.pack_id, wanted, pack.content_hash)
    own = pack.manifest
    return run_started(binding, own.closing_policy, identities, window, policy, max_close_age_s=own.max_close_age_s, kind=kind)
