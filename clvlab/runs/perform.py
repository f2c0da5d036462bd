"""Performing a plan: from the pack's ticks to sealed bytes, and all that they say."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol, cast

import orjson
import polars as pl

from clvlab.api.backtests import BacktestReport, LiveReport, PolicySummary, RunReport
from clvlab.engine.lookahead import Draw, DrawingOf
from clvlab.engine.run import RunResult, run
from clvlab.errors import ClvlabError, PackError, PackReplayError, PackTamperedError, PlanChangedError
from clvlab.law.closing import Window
from clvlab.law.clv import is_allowed, scores
from clvlab.law.metrics import outcomes
from clvlab.law.positions import positions
from clvlab.law.schema import SAFE_INTEGER, Causality, Reason, SourceMode
from clvlab.law.tape import Tape
from clvlab.log.log import LogStore, draw_audit
from clvlab.packs.reader import Pack
from clvlab.proof.events import receipt_lines
from clvlab.proof.evidence import read_evidence
from clvlab.proof.lines import read_receipts
from clvlab.proof.manifest import RunStarted
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.runs.card import metrics, verdicts
from clvlab.runs.inspector import at_close
from clvlab.runs.plan import Plan
from clvlab.runs.progress import Stage, Tell, cause_of, tell_nobody
from clvlab.runs.sharding import sharded
from clvlab.runs.unscored import in_gap, lasting_gaps, unscored

_HOUR_MS = 3_600_000
_OLD_CLOSE_MS = 6 * _HOUR_MS
_AUDITED = (Causality.AUDITED_SANDBOX, Causality.AUDITED_PROCESS, Causality.STEPPED_BLOCKS)  # whose cuts a seed draws


@dataclass(frozen=True, slots=True)
class Commitment:
    """What a run was committed to as.

    Attributes
    ----------
    run_id
        Its id.
    index
        The entry of the run log; null without a log.
    drawing
        Lets the log draw the audit of an agent, given its id and a hash of what it answered; null without a log, and in another
        process than the log's.
    """

    run_id: str
    index: int | None = None
    drawing: DrawingOf | None = None

    def __reduce__(self) -> tuple[type[Commitment], tuple[str, int | None]]:
        return Commitment, (self.run_id, self.index)


@dataclass(frozen=True)
class PerformedRun:
    """A sealed run, and what it was sealed from.

    Attributes
    ----------
    pack, window
        What was replayed, and what of it is scored.
    result
        The bytes and their frames.
    markets_matched
        Markets of the replayed fixtures that the window allows.
    """

    pack: Pack
    window: Window
    result: RunResult = field(repr=False)
    markets_matched: int

    @property
    def run(self) -> SealedRun:
        return self.result.run

    @property
    def run_id(self) -> str:
        return self.result.run.run_id

    @property
    def scores(self) -> pl.DataFrame:
        """``SCORES``: one row per decision."""
        return self.result.scores

    @cached_property
    def in_gap(self) -> pl.Series:
        """For each row of the scores, whether its entry or close is touched by a gap of the pack's capture; Boolean."""
        gaps = lasting_gaps(self.pack)
        named = any(gap.markets for gap in gaps)
        markets = self.pack.tape(self.fixture_ids).series["market_key"].unique().to_list() if named else ()
        return in_gap(self.result.decisions, self.result.closes, gaps, markets)

    @cached_property
    def at_close(self) -> pl.Series:
        """For each row of the scores, whether it was entered at the message that closes its market; Boolean."""
        return at_close(self.result.decisions, self.result.closes)

    @property
    def failed_audits(self) -> int:
        """How many agents under audit the run went on without: whatever ended them, they may be tried again."""
        return len(audited(self.started) & {error["agent_id"] for error in self.result.errors})

    @cached_property
    def receipts(self) -> bytes:
        """What the paper venue said, as lines: no evidence, never scored."""
        return receipt_lines(self.result.receipts)

    @cached_property
    def verification(self) -> Verification:
        """The seven checks, recomputed from the sealed bytes."""
        return verify(self.run, self.receipts)

    @cached_property
    def started(self) -> RunStarted:
        """Payload of RUN_STARTED, as the sealed bytes have it."""
        started: RunStarted = orjson.loads(self.run.events.partition(b"\n")[0])["payload"]
        return started

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        """The fixtures that were replayed, ascending."""
        return tuple(self.started["binding"]["fixture_ids"])

    @property
    def is_live(self) -> bool:
        """Whether it was decided live, and the pack captured on the way."""
        return self.started["source_mode"] == SourceMode.LIVE

    @cached_property
    def report(self) -> BacktestReport | LiveReport:
        """Everything that is published of a backtest, or likewise of a live run, as JSON values.

        References
        ----------
        Interface specification, "BacktestReport".
        """
        if self.is_live:
            return {**self._report, "mode_label": "Live paper", "gaps": _lost(self.pack)}
        named = {"backtest_id": backtest_id(self.run_id), "mode_label": "Backtest"}
        if self.pack.verification:
            named["pack_verification"] = self.pack.verification
        return cast("BacktestReport", {**self._report, **named})

    @property
    def _report(self) -> RunReport:
        rows, started = self.scores, self.started
        is_scored = rows["reason"] == Reason.SCORED
        scored_rows, gapped = rows.filter(is_scored), int((self.in_gap & is_scored).sum())
        ages = scored_rows["closing_age_ms"]
        fixture_ids = list(started["binding"]["fixture_ids"])
        return {
            "run_id": self.run_id,
            "pack_id": self.pack.pack_id,
            "provenance": self.pack.provenance,
            "grade": self.pack.verified_grade.value,
            "content_hash": self.pack.content_hash,
            "fixture_id": fixture_ids[0] if len(fixture_ids) == 1 else None,
            "fixture_ids": fixture_ids,
            "n_fixtures": len(fixture_ids),
            "window_id": self.window.window_id,
            "window": started["window"],
            "market_universe": list(self.window.market_allowlist),
            "markets_matched": self.markets_matched,
            "warnings": [
                *_unmatched(self.markets_matched),
                *unscored(rows, self.at_close, started, self.pack),
                *_old_closes(scored_rows),
                *_gapped(gapped, scored_rows.height),
            ],
            "agent": started["agents"][0],
            "evidence_hash": self.run.evidence_hash,
            "manifest_hash": self.run.manifest_hash,
            "checks": verdicts(self.verification.checks),
            "metrics": metrics(self.result.outcomes),
            "reasons": _counts(rows, "reason"),
            "policy": _policy(started["policy_hash"], self.result.decisions),
            "close_kinds": _counts(rows.filter(pl.col("close_kind").is_not_null()), "close_kind"),
            "closing_age_ms": {"median": cast("float | None", ages.median()), "max": cast("int | None", ages.max())},
            "closing_source": self.pack.manifest.closing_source,
            "in_gap": gapped,
            "real_executable_edge_bps": None,
        }


def audited(started: RunStarted) -> frozenset[str]:
    """Name the agents of a run that are audited for look-ahead."""
    return frozenset(agent["agent_id"] for agent in started["agents"] if agent["causality"] in _AUDITED)


def captured_pack_id(run_id: str) -> str:
    """Return the id of the pack that a live run captures."""
    return f"live-{run_id.removeprefix('run_')[:16]}"


def backtest_id(run_id: str) -> str:
    """Return the id of the report of a run."""
    return run_id.replace("run_", "bt_", 1)


def run_id_of(backtest_id: str) -> str:
    """Return the id of the run that a report is about."""
    return backtest_id.replace("bt_", "run_", 1)


def perform(plan: Plan, commitment: Commitment | None = None, tell: Tell = tell_nobody) -> PerformedRun:
    """Replay, score and seal a plan.

    Parameters
    ----------
    plan
        What to run.
    commitment
        What was committed to, if anything was; the manifest names its entry.
    tell
        Told how far it is; may end it by an error of its own.

    Raises
    ------
    PlanChangedError
        What was committed to is another run: its pack or an agent changed since.
    PackReplayError
        The ticks of the pack can't be replayed.
    LookaheadError, AgentError, DecisionError
        The only agent, or the last one left, failed, or decided by what came later.
    """
    _check(plan.run_id, commitment)
    tell(Stage.OPENING)
    markets: list[int] = []
    result = run(
        [partial(_read, plan, shard, markets.append) for shard in plan.shards],
        plan.agents,
        plan.window,
        policy=plan.policy,
        audit_seed=secrets.randbelow(SAFE_INTEGER) if plan.audit else None,
        drawing=None if commitment is None else commitment.drawing,
        kind=plan.kind,
        origin_id=plan.origin_id,
        commit_index=None if commitment is None else commitment.index,
        answered=lambda done, total: tell(Stage.DECIDING if done < total else Stage.SEALING, done, total),
    )
    tell(Stage.KEEPING)
    _check(result.run.run_id, commitment)
    return PerformedRun(plan.pack, plan.window, result, sum(markets))


def _read(plan: Plan, fixture_ids: tuple[int, ...], counted: Callable[[int], None]) -> Tape:
    """Read a shard of a plan, and count the markets that its window allows in it."""
    try:
        tape = plan.pack.tape(fixture_ids)
    except PackError as error:
        raise PackReplayError(f"pack {plan.pack.pack_id!r} can't be replayed: {error}") from error
    counted(matched(tape, plan.window))
    return tape


def _check(run_id: str, commitment: Commitment | None) -> None:
    if commitment is not None and commitment.run_id != run_id:
        raise PlanChangedError(commitment.run_id, run_id)


def matched(tape: Tape, window: Window) -> int:
    return tape.series.filter(is_allowed(window.market_allowlist)).select("fixture_id", "market_key").n_unique()


def _lost(pack: Pack) -> dict[str, int]:
    """Count the gaps of a capture by cause, but for those whose messages were all sent again."""
    return dict(sorted(Counter(gap.cause or "unknown" for gap in lasting_gaps(pack)).items()))


def _unmatched(markets_matched: int) -> list[str]:
    return [] if markets_matched else ["the market allowlist matches no market: nothing is scored"]


def _policy(policy_hash: str, decisions: pl.DataFrame) -> PolicySummary:
    """Count the actions that the gate allowed, and the reasons against the others."""
    refusals = decisions.filter(pl.col("pre").is_not_null()).select(reason=pl.concat_list("pre", "post"))
    refused = refusals.filter(pl.col("reason").list.len() > 0)
    return {
        "policy_hash": policy_hash,
        "allowed": refusals.height - refused.height,
        "refused": _counts(refused.explode("reason"), "reason"),
    }


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


def _gapped(count: int, scored: int) -> list[str]:
    if not count:
        return []
    return [
        f"{count:,} of {scored:,} scored decisions ({count / scored:.1%}) have an entry or a close that a gap of the capture "
        "touches: prices may have changed in it unseen; they are marked in_gap"
    ]


def _counts(frame: pl.DataFrame, column: str) -> dict[str, int]:
    return dict(frame.group_by(column).len().sort("len", column, descending=[True, False]).iter_rows())


# The life of a run: planned, committed to, performed, kept; or abandoned, on the record.


ABANDONED = "failed"
"""All that the log says of a failure, as nothing can be taken back from it."""


class CommittablePlan(Protocol):
    """A run as it is planned: of a pack that is there, or of one that a live run will capture."""

    @property
    def run_id(self) -> str: ...

    @property
    def started(self) -> RunStarted: ...


class Recorder(Protocol):
    """Where runs are committed to and kept: in a folder, with or without a log, or in the database."""

    @property
    def log(self) -> LogStore | None:
        """The log in which runs are committed to; null without one."""
        ...

    def commit(self, plan: CommittablePlan) -> Commitment:
        """Commit to a run before its tape is opened; again if it was abandoned."""
        ...

    def keep(self, done: PerformedRun) -> None:
        """Store a run and conclude its commitment; the same again changes nothing."""
        ...

    def abandon(self, run_id: str, cause: str) -> None:
        """Note that a run failed; asking for it again commits to it anew."""
        ...


def drawing_of(log: LogStore, run_id: str, clock: Callable[[], int]) -> DrawingOf:
    """Return what draws the audits of a committed run by its log, which notes what an agent answered before."""

    def drawing(agent_id: str, answers_hash: str) -> Draw:
        with log.write() as rows:
            drawn = draw_audit(rows, run_id, agent_id, answers_hash, clock())
        return Draw(secrets.randbelow(SAFE_INTEGER)) if drawn is None else Draw(*drawn)

    return drawing


def make(plan: Plan, record: Recorder, tell: Tell = tell_nobody) -> PerformedRun:
    """Make a run and keep it, on the record.

    One that is interrupted stays open, and goes on when it is asked for again; ``tell`` is told how far it is.

    Raises
    ------
    ClvlabError
        As ``perform``, and as the record says; the run is then abandoned.
    """
    commitment = record.commit(plan)
    try:
        done = perform(plan, commitment, tell)
        record.keep(done)
    except ClvlabError as error:
        record.abandon(plan.run_id, cause_of(error))
        raise
    return done


# Reading a stored run back: from its sealed bytes, over the pack that it was made of.


def content_hash_of(sealed: SealedRun) -> str | None:
    """Return the content hash of the pack of a run whose bytes can be read: that of its binding, or of what it captured."""
    lines = sealed.events.partition(b"\n")[0], sealed.events.rstrip(b"\n").rpartition(b"\n")[2]
    started, ended = (orjson.loads(line)["payload"] for line in lines)
    found: str | None = ended.get("content_hash") or started["binding"]["content_hash"]
    return found


def reopen(pack: Pack, sealed: SealedRun, receipts: bytes = b"") -> PerformedRun:
    """Read a stored run back from its evidence; ``.verification`` says whether that is what was sealed.

    Raises
    ------
    EvidenceError
        The evidence can't be read.
    PackTamperedError
        The run was made over another pack than this one, or captured another.
    """
    evidence = read_evidence(sealed.events)
    bound = evidence.started["binding"]
    if evidence.content_hash != pack.content_hash:
        raise PackTamperedError(f"the pack of {sealed.run_id}", str(evidence.content_hash), pack.content_hash)
    window = evidence.window
    rows = scores(positions(evidence.decisions, evidence.closes), window, evidence.max_close_age_s)
    board = outcomes(rows, tuple(agent["agent_id"] for agent in evidence.started["agents"]))
    result = RunResult(sealed, evidence.decisions, evidence.closes, rows, board, read_receipts(receipts), evidence.errors)
    shards = sharded(pack, bound["fixture_ids"], ())
    return PerformedRun(pack, window, result, sum(matched(pack.tape(shard), window) for shard in shards))
