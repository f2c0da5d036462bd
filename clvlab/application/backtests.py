"""Backtests: one agent over the fixtures of a pack, sealed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import orjson
import polars as pl

from clvlab.agents.isolation.isolated import IsolatedAgent, isolated
from clvlab.agents.registry import template
from clvlab.agents.template import Template
from clvlab.engine.agent import Agent, is_registered
from clvlab.engine.lookahead import LookaheadReport
from clvlab.engine.lookahead import lookahead_audit as audited
from clvlab.engine.run import RunResult, run
from clvlab.errors import AgentError, PackTamperedError, PolicyError
from clvlab.law.closing import Window
from clvlab.law.clv import allowed
from clvlab.law.clv import scores as scored
from clvlab.law.metrics import outcomes
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.ranking import ranked
from clvlab.law.schema import OUTCOMES, Reason
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.proof.card import metrics
from clvlab.proof.events import receipt_lines
from clvlab.proof.evidence import read_evidence
from clvlab.proof.lines import read_receipts
from clvlab.proof.positions import positions
from clvlab.proof.seal import SealedRun, committed
from clvlab.proof.verify import Verification, verify

__all__ = ["Backtest", "backtest", "envelope", "leaderboard", "lookahead_audit", "performed", "renamed", "reopened", "resolved"]

_HOUR_MS = 3_600_000
_OLD_CLOSE_MS = 6 * _HOUR_MS


@dataclass(frozen=True)
class Backtest:
    """A sealed backtest.

    Attributes
    ----------
    pack, window
        What was replayed, and what of it is scored.
    result
        The sealed run and its frames.
    markets_matched
        Markets of the replayed fixtures that the window allows.
    """

    pack: Pack
    window: Window
    result: RunResult
    markets_matched: int

    @property
    def run(self) -> SealedRun:
        return self.result.run

    @cached_property
    def receipts(self) -> bytes:
        """What the paper venue said, as lines: no evidence, never scored."""
        return receipt_lines(self.result.receipts)

    @cached_property
    def fixture_ids(self) -> tuple[int, ...]:
        """The fixtures that were replayed, ascending, as RUN_STARTED names them."""
        started = orjson.loads(self.run.events.partition(b"\n")[0])["payload"]
        return tuple(started["binding"]["fixture_ids"])

    @property
    def scores(self) -> pl.DataFrame:
        """``SCORES``: one row per decision."""
        return self.result.scores

    @cached_property
    def verification(self) -> Verification:
        """The seven checks, recomputed from the sealed bytes."""
        return verify(self.run, self.receipts)

    @property
    def _unmatched(self) -> list[str]:
        return [] if self.markets_matched else ["the market allowlist matches no market: nothing is scored"]

    @cached_property
    def report(self) -> dict[str, Any]:
        """Everything that is published of the backtest, as JSON values.

        References
        ----------
        Interface specification, "BacktestReport".
        """
        scores, started = self.scores, self.verification.started
        scored_rows = scores.filter(pl.col("reason") == Reason.SCORED)
        ages = scored_rows["closing_age_ms"]
        fixture_ids = list(started["binding"]["fixture_ids"])
        return {
            "backtest_id": self.run.run_id.replace("run_", "bt_", 1),
            "run_id": self.run.run_id,
            "mode_label": started["mode_label"],
            "pack_id": self.pack.pack_id,
            "provenance": self.pack.provenance,
            "content_hash": self.pack.content_hash,
            "fixture_id": fixture_ids[0] if len(fixture_ids) == 1 else None,
            "fixture_ids": fixture_ids,
            "n_fixtures": len(fixture_ids),
            "window_id": self.window.window_id,
            "window": started["window"],
            "market_universe": list(self.window.market_allowlist),
            "markets_matched": self.markets_matched,
            "warnings": [*self._unmatched, *_old_closes(scored_rows)],
            "agent": started["agents"][0],
            "evidence_hash": self.run.evidence_hash,
            "manifest_hash": self.run.manifest_hash,
            "checks": {name: check.verdict.value for name, check in self.verification.checks.items()},
            "metrics": metrics(self.result.outcomes),
            "reasons": _counts(scores, "reason"),
            "policy": {"policy_hash": started["policy_hash"], **_allowed(self.result.decisions)},
            "close_kinds": _counts(scores.filter(pl.col("close_kind").is_not_null()), "close_kind"),
            "closing_age_ms": {"median": ages.median(), "max": ages.max()},
            "closing_source": self.pack.manifest.closing_source,
            "real_executable_edge_bps": None,
        }


def _allowed(decisions: pl.DataFrame) -> dict[str, Any]:
    """Count the actions that the gate allowed, and the reasons against the others."""
    refusals = decisions.filter(pl.col("pre").is_not_null()).select(reason=pl.concat_list("pre", "post"))
    refused = refusals.filter(pl.col("reason").list.len() > 0)
    return {"allowed": refusals.height - refused.height, "refused": _counts(refused.explode("reason"), "reason")}


def _old_closes(scored: pl.DataFrame) -> list[str]:
    """Warn where more than a tenth of the scored decisions have an old close."""
    age_ms = pl.col("closing_age_ms")
    count, old, oldest_ms = scored.select(pl.len(), old=(age_ms > _OLD_CLOSE_MS).sum(), oldest=age_ms.max()).row(0)
    if 10 * old <= count:
        return []
    return [
        f"{old:,} of {count:,} scored decisions ({old / count:.1%}) have a close older than {_OLD_CLOSE_MS // _HOUR_MS} h, the "
        f"oldest {oldest_ms / _HOUR_MS:,.1f} h; a pack that is imported with a max_close_age_s leaves them unscored"
    ]


def _counts(frame: pl.DataFrame, column: str) -> dict[str, int]:
    return dict(frame.group_by(column).len().sort("len", column, descending=[True, False]).iter_rows())


def backtest(
    pack: Pack,
    agent: str | Agent = "baseline",
    *,
    params: Mapping[str, Any] | None = None,
    fixture_ids: Sequence[int] | None = None,
    window: Window | None = None,
    policy: PolicyEnvelope | None = None,
    audit: bool = True,
    commit_index: int | None = None,
) -> Backtest:
    """Replay a pack through an agent, score it and seal it.

    Parameters
    ----------
    pack
        What to replay.
    agent
        Name of a template, ``file.py:name`` of an agent, or an agent.
    params
        Parameters of a template or strategy; a template's ``markets`` is the window's allowlist unless given.
    fixture_ids
        All fixtures of the pack by default, in one run.
    window
        ``pre_match`` with a horizon of 60 s over all markets by default.
    policy
        Limits under which actions are executed on paper.
    audit
        Whether an agent of one's own is audited for look-ahead before the run is sealed.
    commit_index
        Entry of a run log that committed to the run, which its manifest then names.

    Raises
    ------
    UnknownAgentError, AgentError, LookaheadError, UnknownFixtureError, WindowError, DecisionError
    """
    window = window or Window()
    asked = resolved(agent, params, window)
    return performed(
        pack, [asked], window, policy or PolicyEnvelope(), fixture_ids=fixture_ids, audit=audit, commit_index=commit_index
    )


def performed(
    pack: Pack,
    agents: Sequence[Agent],
    window: Window,
    policy: PolicyEnvelope,
    *,
    fixture_ids: Sequence[int] | None = None,
    audit: bool = True,
    kind: str = "backtest",
    commit_index: int | None = None,
) -> Backtest:
    """Replay a pack through one agent or several, as ``backtest`` does."""
    tape = pack.tape(fixture_ids)
    result = run(tape, agents, window, policy=policy, audit_seed=secrets.randbits(64) if audit else None, kind=kind)
    return Backtest(pack, window, replace(result, run=committed(result.run, commit_index)), _matched(tape, window))


def _matched(tape: Tape, window: Window) -> int:
    return tape.series.filter(allowed(window.market_allowlist)).select("fixture_id", "market_key").n_unique()


def reopened(pack: Pack, sealed: SealedRun, receipts: bytes = b"") -> Backtest:
    """Make a backtest of a stored run again, from its evidence; ``.verification`` says whether that is what was sealed.

    Raises
    ------
    EvidenceError
        The evidence can't be read.
    PackTamperedError
        The run was made over another pack than this one.
    """
    evidence = read_evidence(sealed.events)
    bound = evidence.started["binding"]
    if bound["content_hash"] != pack.content_hash:
        raise PackTamperedError(f"the pack of {sealed.run_id}", str(bound["content_hash"]), pack.content_hash)
    window = evidence.window
    rows = scored(positions(evidence.decisions, evidence.closes), window, evidence.max_close_age_s)
    board = outcomes(rows, tuple(agent["agent_id"] for agent in evidence.started["agents"]))
    result = RunResult(sealed, evidence.decisions, evidence.closes, rows, board, read_receipts(receipts), evidence.errors)
    return Backtest(pack, window, result, _matched(pack.tape(bound["fixture_ids"]), window))


def resolved(agent: str | Agent, params: Mapping[str, Any] | None = None, window: Window | None = None) -> Agent:
    """Find an agent: by the name of its template, as ``file.py:name``, or as itself; with other parameters if any are given.

    Raises
    ------
    UnknownAgentError
        No such template, file or name in it.
    AgentError
        A parameter that the agent does not have, or a value out of its range.
    """
    given = dict(params or {})
    if isinstance(agent, str) and not agent.rpartition(":")[0].endswith(".py"):
        return template(agent, {"markets": (window or Window()).market_allowlist} | given)
    if isinstance(agent, str) or not is_registered(agent):
        return isolated(agent, params=given)
    if not given:
        return agent
    if not isinstance(agent, IsolatedAgent):
        raise AgentError(f"{type(agent).__name__} takes no parameters here: make the agent with them")
    return agent.with_params(**given)


def renamed(agent: Agent, agent_id: str) -> Agent:
    """Return an agent under another name.

    Raises
    ------
    AgentError
        An agent whose name is its own: neither a template nor a strategy.
    """
    if isinstance(agent, Template):
        return template(agent.strategy, dict(agent.config), agent_id=agent_id)
    if isinstance(agent, IsolatedAgent):
        return agent.with_params(agent_id)
    raise AgentError(f"{type(agent).__name__} can't be entered as {agent_id!r}: make it with that agent_id")


def lookahead_audit(
    agent: str | Agent, tape: Tape, *, cuts: int = 24, seed: int | None = None, max_rows: int = 100_000
) -> LookaheadReport:
    """Audit an agent as the engine does before it seals; with a seed of one's own, at the same cuts again."""
    chosen = secrets.randbits(64) if seed is None else seed
    return audited(resolved(agent), tape, cuts=cuts, seed=chosen, max_rows=max_rows)


def envelope(limits: Mapping[str, Any]) -> PolicyEnvelope:
    """Make a policy of some limits by name, defaults for the others.

    Raises
    ------
    PolicyError
        An unknown limit, or a value out of its range.
    """
    known = [field.name for field in fields(PolicyEnvelope)]
    unknown = limits.keys() - set(known)
    if unknown:
        raise PolicyError(f"a policy has no limit {min(unknown)!r}; it has: {', '.join(known)}")
    return PolicyEnvelope(**limits)


def leaderboard(backtests: Sequence[Backtest]) -> pl.DataFrame:
    """Rank agents over several backtests: ``OUTCOMES`` with a rank, by mean CLV."""
    frames = [pl.DataFrame(schema=OUTCOMES), *(backtest.result.outcomes for backtest in backtests)]
    return ranked(pl.concat(frames))
