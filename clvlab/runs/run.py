"""A sealed run as a value: its bytes, its pack, and the content read from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import orjson
import polars as pl

from clvlab.engine.lookahead import LookaheadReport
from clvlab.engine.replay import of_rows
from clvlab.engine.run import RunResult
from clvlab.errors import EvidenceError, PackTamperedError, UnknownPackError
from clvlab.law.closing import Window
from clvlab.law.clv import is_allowed, scores
from clvlab.law.metrics import outcomes
from clvlab.law.positions import placed
from clvlab.law.schema import Causality, Reason, SourceMode
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.proof.events import read_receipts, receipt_lines
from clvlab.proof.evidence import Evidence, read_evidence
from clvlab.proof.manifest import RunStarted, SealedAgent
from clvlab.proof.seal import SealedRun
from clvlab.runs.shards import sharded

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.api.backtests import BacktestReport, LiveReport, PolicySummary, RunReport
    from clvlab.proof.anchor import Anchor
    from clvlab.proof.verify import Verification

_HOUR_MS = 3_600_000
_OLD_CLOSE_MS = 6 * _HOUR_MS
_AUDITED = (Causality.AUDITED_SANDBOX, Causality.AUDITED_PROCESS, Causality.STEPPED_BLOCKS)  # a seed draws their cuts


@dataclass(frozen=True, eq=False)  # the runs of two agents share their bytes
class Run:
    """A sealed run and its content, made here or read back from a folder, a database or a service.

    The content is read and computed on access. A run that was made here has it already. ``dataclasses.replace`` copies the
    bytes only, and the copy computes its content again.

    Attributes
    ----------
    sealed
        The bytes.
    receipts
        Receipts of the paper venue, one a line. They are not evidence and are never scored.
    packs
        Packs among which the run's own pack is searched once.
    anchor
        Recorded anchor; ``None`` without one.
    causes
        Errors of agents that failed, by agent id; empty for a run that was read back.
    audits
        Audits of agents, by agent id; empty for a run that was read back.
    is_made
        Whether the run was made here instead of read back.
    """

    sealed: SealedRun
    receipts: bytes = field(default=b"", repr=False)
    packs: Iterable[Pack] = field(default=(), repr=False)
    anchor: Anchor | None = None
    causes: Mapping[str, str] = field(default_factory=dict)
    audits: Mapping[str, LookaheadReport] = field(default_factory=dict)
    is_made: bool = False

    @classmethod
    def made(cls, result: RunResult, pack: Pack, markets_matched: int) -> Run:
        """Return a run made over a pack. ``markets_matched`` is the number of the pack's markets that the window allows."""
        lines = receipt_lines(result.receipts)
        return cls(result.sealed, lines, [pack], causes=result.causes, audits=result.audits, is_made=True).knowing(
            pack=pack, evidence=result.evidence, scores=result.scores, outcomes=result.outcomes, markets_matched=markets_matched
        )

    def knowing(self, **known: object) -> Run:
        """Set values that are already computed."""
        vars(self).update(known)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Include the pack in a pickle, if it is available."""
        try:
            packs = [self.pack]
        except (UnknownPackError, EvidenceError):
            packs = []
        return vars(self) | {"packs": packs}

    @property
    def run_id(self) -> str:
        return self.sealed.run_id

    @cached_property
    def verification(self) -> Verification:
        """The seven checks, recomputed from the sealed bytes. An anchor is pending, because no chain is asked."""
        from clvlab.proof.verify import verify

        return verify(self.sealed, self.receipts, anchor=self.anchor)

    @cached_property
    def evidence(self) -> Evidence:
        """Evidence in the sealed bytes.

        Raises
        ------
        EvidenceError
            The bytes can't be read.
        """
        return read_evidence(self.sealed.events)

    @cached_property
    def scores(self) -> pl.DataFrame:
        """``SCORES``: one row per decision."""
        read = self.evidence
        return scores(placed(*read.events.lines, read.market), read.window, read.max_close_age_s)

    @cached_property
    def outcomes(self) -> pl.DataFrame:
        """``OUTCOMES``: one row per agent."""
        return outcomes(self.scores, tuple(agent["agent_id"] for agent in self.started["agents"]))

    def verified(self) -> Run:
        """Return the run with the evidence and scores of its verification.

        Raises
        ------
        EvidenceError
            The bytes can't be read.
        """
        found = self.verification
        if found.scores is None or found.evidence is None:
            raise EvidenceError(f"run {self.run_id} can't be read: {found.recomputed_evidence_hash}")
        return self.knowing(evidence=found.evidence, scores=found.scores)

    @property
    def started(self) -> RunStarted:
        """Payload of RUN_STARTED."""
        return self.evidence.started

    @property
    def agent(self) -> SealedAgent:
        """Its only or first agent in RUN_STARTED."""
        return self.started["agents"][0]

    @property
    def agent_id(self) -> str:
        return self.agent["agent_id"]

    @property
    def window(self) -> Window:
        """The window as sealed."""
        return self.evidence.window

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        """Fixtures that were replayed, ascending."""
        return tuple(self.started["binding"]["fixture_ids"])

    @property
    def is_live(self) -> bool:
        """Whether its agents decided live, while its pack was captured."""
        return self.started["source_mode"] == SourceMode.LIVE

    @property
    def content_hash(self) -> str:
        """Content hash of the pack that was replayed or captured."""
        return str(self.evidence.content_hash)

    @property
    def pack_id(self) -> str:
        """Id of that pack when the run was made."""
        return self.started["binding"]["pack_id"] or captured_pack_id(self.run_id)

    @cached_property
    def pack(self) -> Pack:
        """The pack that was replayed or captured, found by its content hash.

        Raises
        ------
        UnknownPackError
            The pack is not available.
        """
        found = next((pack for pack in self.packs if pack.content_hash == self.content_hash), None)
        if found is None:
            raise UnknownPackError(f"pack {self.pack_id!r} of {self.run_id} is not here: no pack has {self.content_hash}")
        return found

    @cached_property
    def markets_matched(self) -> int:
        """Number of markets of the replayed fixtures that the window allows."""
        window = self.window
        return sum(matched(self.pack.tape(shard), window) for shard in sharded(self.pack, self.fixture_ids, ()))

    @cached_property
    def in_gap(self) -> pl.Series:
        """Boolean per row of the scores: whether a gap of the pack's capture touches its entry or close."""
        from clvlab.runs.reasons import in_gap, lasting_gaps

        gaps = lasting_gaps(self.pack)
        named = any(gap.markets for gap in gaps)
        markets = self.pack.tape(self.fixture_ids).series["market_key"].unique().to_list() if named else ()
        return in_gap(self.evidence.decisions, self.evidence.closes, gaps, markets)

    @cached_property
    def at_close(self) -> pl.Series:
        """Boolean per row of the scores: whether the entry was at the message that closes its market."""
        from clvlab.runs.inspector import at_close

        return at_close(self.evidence.decisions, self.evidence.closes)

    @property
    def marked(self) -> pl.DataFrame:
        """``SCORES`` with ``at_close``."""
        return self.scores.with_columns(self.at_close)

    @property
    def failed_audits(self) -> int:
        """Number of agents that failed their audit and are not in the sealed run. Each failure counts as an attempt."""
        return len(audited(self.started) & {error["agent_id"] for error in self.evidence.errors})

    def moved(self, pack: Pack) -> Run:
        """Return the run with its pack at another place."""
        known = {name: value for name, value in vars(self).items() if name != "report"}
        return replace(self).knowing(**known | {"packs": [pack], "pack": pack})

    def part(self, agent_id: str) -> Run:
        """Return the run reduced to one of its agents. Its bytes still cover all agents."""
        own, read = pl.col("agent_id") == agent_id, self.evidence
        decided = np.flatnonzero(read.events.decisions.agent_id.equals(agent_id))
        agents = [agent for agent in read.started["agents"] if agent["agent_id"] == agent_id]
        started = RunStarted({**read.started, "agents": agents})
        evidence = replace(read, started=started, events=of_rows(read.events, decided))
        known = {name: vars(self)[name] for name in ("pack", "markets_matched", "verification") if name in vars(self)}
        return replace(self).knowing(
            **known, evidence=evidence, scores=self.scores.filter(own), outcomes=self.outcomes.filter(own)
        )

    @cached_property
    def report(self) -> BacktestReport | LiveReport:
        """Return all that is published about a backtest or live run, as JSON values.

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
        from clvlab.runs.card import metrics, verdicts
        from clvlab.runs.reasons import unscored

        rows, started, window = self.scores, self.started, self.window
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
            "window_id": window.window_id,
            "window": started["window"],
            "market_universe": list(window.market_allowlist),
            "markets_matched": self.markets_matched,
            "warnings": [
                *_unmatched(self.markets_matched),
                *unscored(rows, self.at_close, started, self.pack),
                *_old_closes(scored_rows),
                *_gapped(gapped, scored_rows.height),
            ],
            "agent": started["agents"][0],
            "evidence_hash": self.sealed.evidence_hash,
            "manifest_hash": self.sealed.manifest_hash,
            "checks": verdicts(self.verification.checks),
            "metrics": metrics(self.outcomes),
            "reasons": _counts(rows, "reason"),
            "policy": _policy(started["policy_hash"], self.evidence.decisions),
            "close_kinds": _counts(rows.filter(pl.col("close_kind").is_not_null()), "close_kind"),
            "closing_age_ms": {"median": cast("float | None", ages.median()), "max": cast("int | None", ages.max())},
            "closing_source": self.pack.manifest.closing_source,
            "in_gap": gapped,
            "real_executable_edge_bps": None,
        }


def audited(started: RunStarted) -> frozenset[str]:
    return frozenset(agent["agent_id"] for agent in started["agents"] if agent["causality"] in _AUDITED)


def captured_pack_id(run_id: str) -> str:
    return f"live-{run_id.removeprefix('run_')[:16]}"


def backtest_id(run_id: str) -> str:
    return run_id.replace("run_", "bt_", 1)


def run_id_of(backtest_id: str) -> str:
    return backtest_id.replace("bt_", "run_", 1)


def matched(tape: Tape, window: Window) -> int:
    return int(is_allowed(tape.series.filter(side_no=0)["market_key"], window.market_allowlist).sum())


def _lost(pack: Pack) -> dict[str, int]:
    """Return the number of a capture's gaps by cause, without gaps whose messages were all sent again."""
    from clvlab.runs.reasons import lasting_gaps

    return dict(sorted(Counter(gap.cause or "unknown" for gap in lasting_gaps(pack)).items()))


def _unmatched(markets_matched: int) -> list[str]:
    return [] if markets_matched else ["the market allowlist matches no market: nothing is scored"]


def _policy(policy_hash: str, decisions: pl.DataFrame) -> PolicySummary:
    refusals = decisions.filter(pl.col("pre").is_not_null()).select(reason=pl.concat_list("pre", "post"))
    refused = refusals.filter(pl.col("reason").list.len() > 0)
    return {
        "policy_hash": policy_hash,
        "allowed": refusals.height - refused.height,
        "refused": _counts(refused.explode("reason"), "reason"),
    }


def _old_closes(scored: pl.DataFrame) -> list[str]:
    """Return a warning if more than a tenth of the scored decisions have an old close."""
    age_ms = pl.col("closing_age_ms")
    count, old, oldest_ms = scored.select(pl.len(), old=(age_ms > _OLD_CLOSE_MS).sum(), oldest=age_ms.max()).row(0)
    if 10 * old <= count:
        return []
    return [
        f"{old:,} of {count:,} scored decisions ({old / count:.1%}) have a close older than {_OLD_CLOSE_MS // _HOUR_MS} h. The "
        f"oldest is {oldest_ms / _HOUR_MS:,.1f} h old. An import with max_close_age_s leaves such decisions unscored."
    ]


def _gapped(count: int, scored: int) -> list[str]:
    if not count:
        return []
    return [
        f"{count:,} of {scored:,} scored decisions ({count / scored:.1%}) have an entry or a close in a gap of the capture. "
        "Prices may have changed there unseen. These decisions are marked in_gap."
    ]


def _counts(frame: pl.DataFrame, column: str) -> dict[str, int]:
    return dict(frame.group_by(column).len().sort("len", column, descending=[True, False]).iter_rows())


def content_hash_of(sealed: SealedRun) -> str | None:
    """Return the content hash of the pack that a run was bound to or captured; ``EvidenceError`` if it can't be read."""
    lines = sealed.events.partition(b"\n")[0], sealed.events.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        started, ended = (orjson.loads(line)["payload"] for line in lines)
        found: str | None = ended.get("content_hash") or started["binding"]["content_hash"]
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise EvidenceError(f"the events of {sealed.run_id} are cut short or damaged: {error}") from error
    return found


def reopen(pack: Pack, sealed: SealedRun, receipts: bytes = b"") -> Run:
    """Return a stored run with its pack, unverified; ``PackTamperedError`` if the run has another pack."""
    run = Run(sealed, receipts, [pack])
    if run.evidence.content_hash != pack.content_hash:
        raise PackTamperedError(f"the pack of {sealed.run_id}", run.content_hash, pack.content_hash)
    read_receipts(receipts)  # a page made from the run says nothing about its checks
    return run
