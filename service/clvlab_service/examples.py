"""Examples of answers, made from their schemas: each name has one value, so that all examples show the same run.

Optional fields are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clvlab.api.answer import JsonObject

_REF = "#/components/schemas/"
_TYPES = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list, "object": dict}
_UNKNOWN = {"string": "...", "integer": 1, "number": 0.5, "boolean": True, "array": [], "object": {}, "null": None}

_CONTENT_HASH = "sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0"
_EVIDENCE_HASH = "sha256:e1ad6beb5c295f58e2199d09ca67bc2552ce1719d3cdd6dcc17f7db85a982994"
_MANIFEST_HASH = "sha256:8e30ceccf56089a02d7564f8e139437e99de4733d30986c2d8e024921e59e22b"
_SCORES_HASH = "sha256:1f0cbb9b3e2a1d6c9e0f4b7a58d3c2e16a7f90b4c5d8e1f2a3b4c5d6e7f80912"
_POLICY_HASH = "sha256:7a63c478205316c45b469d33310c7ae861de134c11256de434437b99be69c8c2"
_RUN = "run_d70ea71ae5173a732e586ffb8c2c1c08"
RESULT_1X2 = "1X2_PARTICIPANT_RESULT"
_ACTION = {
    "type": "BACK",
    "market_key": f"{RESULT_1X2}||",
    "side": "part1",
    "stake": 100,
    "limit_odds_milli": None,
}
_CONFIG = {"markets": [""], "min_prob_bps": 5000, "stake": 100, "warmup_ticks": 0}

_VALUES: Mapping[str, object] = {
    "abandoned": 0,
    "abstention_count": 0,
    "action_count": 5,
    "age_ms": 0,
    "agent_id": "baseline",
    "AgentAction.type": "BACK",
    "AgentErrorCause.error": "AgentFailedError",
    "AgentErrorCause.message": "the agent failed with TimedOut: no answer within 60 s",
    "allowlists": {"markets": [""], "venues": ["paper"]},
    "allowed": True,
    "anchor_status": "not_anchored",
    "AnchorSummary": "none-anchored",
    "avg_clv_bps": 73.6,
    "backtest_id": "bt_d70ea71ae5173a732e586ffb8c2c1c08",
    "brier": None,
    "causality": "template",
    "cause": None,
    "ExecutableResponse.commission": "5 % of the net winnings of a market",
    "ExecutableResponse.commission_since": None,
    "ExecutableResponse.commission_source": None,
    "ExecutableResponse.line": "5 orders of 10, 1 s after the decision, 90.0% filled: CLV at the line +74 bps; taken and "
    "after commission +31 bps for each stake filled, +28 bps for each ordered, an edge of +1.2 %",
    "ExecutableResponse.rule": "clvlab-taking/1",
    "ExecutableResponse.unscored": {"pending_horizon": 1},
    "ExecutableResponse.why": None,
    "FeedHealth.error": None,
    "FeedHealth.quota_left": None,
    "cancelBacktest.status": "failed",
    "cancelInstance.status": "failed",
    "cancelUpload.status": "failed",
    "CheckDetails.anchor": "the run is not anchored",
    "CheckDetails.evidence_integrity": f"SHA-256 of events.jsonl is the sealed {_EVIDENCE_HASH}",
    "CheckDetails.llm_boundary": "scoring code imports only an allow-list; this stops accidents, not attackers",
    "CheckDetails.manifest_bound": f"{_MANIFEST_HASH} binds the run id, the evidence root and the score root",
    "CheckDetails.metrics_recomputed": "all 5 score rows re-derived from the evidence are equal",
    "CheckDetails.policy_obeyed": "all 5 bets pass the policy; every receipt matches one",
    "CheckDetails.receipt_separation": "no venue receipt is in the evidence of 13 events",
    "Checks.anchor": "not_applicable",
    "claimed_edge_bps": None,
    "close_kind": "in_running",
    "close_kinds": {"in_running": 5},
    "close_prob_bps": 6210,
    "closing_age_ms": 55_559,
    "closing_policy": "last_state",
    "closing_source": "model",
    "ClosingAge.max": 1_117_298,
    "ClosingAge.median": 133_331.0,
    "cluster": "devnet",
    "clv_bps": 384,
    "commit_index": 0,
    "committed": 1,
    "CompetitionEvent.kind": "AGENT_ACTION",
    "competition_id": "comp_e7adfc79ba414a5eb0682ff1939eee20",
    "competition_type": "arena",
    "confidence": 0.625,
    "config": _CONFIG,
    "config_hash": "sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed",
    "content_hash": _CONTENT_HASH,
    "created_ts_ms": 1_795_333_554_262,
    "DecisionListResponse.next_cursor": "1",
    "division": None,
    "duration_s": None,
    "earlier": 0,
    "end_rule": "pre_match",
    "entry": f'{{"content_hash":"{_CONTENT_HASH}","kind":"COMMIT","owner":"did:key:z6Mk","run_id":"{_RUN}"}}',
    "entry_prob_bps": 5826,
    "evidence_hash": _EVIDENCE_HASH,
    "execution_mode": "paper",
    "explorer_url": None,
    "first": 1,
    "fixture_id": 90_000_000,
    "fixture_ids": [90_000_000],
    "fixtures": [90_000_000, 90_000_001],
    "getIndex": {"listCompetitions": "/competitions", "getCompetition": "/competitions/{competition_id}"},
    "getManifest": {
        "evidence_root": _EVIDENCE_HASH,
        "run_id": _RUN,
        "score_root": _SCORES_HASH,
    },
    "grade": "not shown",
    "HeldFixture.kickoff_ts_ms": 1_767_025_440_000,
    "HeldFixture.names": ["Ashford", "Brackley"],
    "HeldFixture.source_id": None,
    "id": 3,
    "in_gap": 0,
    "index": 0,
    "instance_id": "inst_10394b04a7f04c2f938e2c7a81448fa3",
    "invalid_count": 0,
    "is_genuine": False,
    "kind": "competition",
    "KnowledgeSummary": "history",
    "JobState.stage": "deciding",
    "JobState.status": "running",
    "later": 0,
    "latest_seq": 19,
    "LifecycleStatus": "finalized",
    "Limits.max_body_bytes": 262_144,
    "Limits.max_token_lifetime_s": 86_400,
    "limit_odds_milli": None,
    "low_sample": True,
    "manifest_hash": _MANIFEST_HASH,
    "market_allowlist": [""],
    "market_key": _ACTION["market_key"],
    "market_scope": RESULT_1X2,
    "market_universe": [""],
    "markets_matched": 6,
    "max_drawdown": -408.0,
    "mean_clv_bps": 73.6,
    "min_clv_horizon_s": 60,
    "mode_label": "Backtest",
    "n_fixtures": 1,
    "next_cursor": "1795333554262.run_d70ea71ae5173a732e586ffb8c2c1c08",
    "odds_milli": 1682,
    "open": 0,
    "origin": "log.example/clvlab",
    "owner": "did:key:z6Mk",
    "pack_id": "starter",
    "PackFixture.names": ["Ashford", "Brackley"],
    "PackFixture.source_id": None,
    "PackMarket.sides": ["part1", "draw", "part2"],
    "PackQuality.schema": "clvlab-quality/1",
    "payload": {"fixture_id": 90_000_000, "tick_seq": 1, "ts_ms": 1_767_025_381_019, "action": _ACTION},
    "pending_count": 0,
    "policy_hash": _POLICY_HASH,
    "PolicySummary.allowed": 5,
    "PreflightCheck.message": "ok",
    "PreflightCheck.name": "strategy",
    "prob_bps": 5826,
    "ProblemKind.status": 409,
    "proof": ["605561b6965e9420324514583ccf642c2c46d59c39b116ab989c86b3cf51d652"],
    "proof_mode": "reproducible",
    "provenance": "synthetic-clvlab",
    "public_key": "log.example/clvlab+2b3c4d5e+AbGvLJ1nG2yM3tXq0sK8uQ5c7dE9fH4jP6rT1wV0zYxC",
    "rank": 1,
    "reason": "scored",
    "reasons": {"scored": 5},
    "PhaseVerdict.reasons": [],
    "receipts": [
        {"venue": "paper", "status": "filled", "decision_seq": 1, "stake": 100, "odds_milli": 1682, "non_scoring": True}
    ],
    "recomputed_edge_bps": 445,
    "recomputed_evidence_hash": _EVIDENCE_HASH,
    "refused": {},
    "root_hash": "sha256:a86e9c38596debff94d8784949a3de337ece0a591a45cd3c0fcc486460d39798",
    "roster_size": 2,
    "restarts": [],
    "run_id": _RUN,
    "run_mode": "replay",
    "runs": 1,
    "RefusedRows.examples": ["odds.csv, line 7: '1,05' is no decimal odds"],
    "RunStatus": "sealed",
    "schema_version": "0007",
    "scoring_window": None,
    "sealed": 1,
    "sealed_ts_ms": 1_795_333_554_480,
    "second": 3,
    "seq": 1,
    "SeatChain.header": {"schema": "clvlab-seat/1", "seat": "seat_0768c0f0be3c4cefa1adbdd014f854d8"},
    "SeatChain.schema": "clvlab-seat-chain/1",
    "SeatReceipt.receipt": None,
    "SeatView.fixture": "f-1565636457814522",
    "SeatView.market": "m-eefd817fba4cff7f",
    "secret": "a5c8" * 16,
    "seat_id": "seat_0768c0f0be3c4cefa1adbdd014f854d8",
    "session_id": "run_d70ea71ae5173a732e586ffb8c2c1c08/1",
    "side": "part1",
    "signature": None,
    "sim_pnl": -769,
    "size": 6,
    "source_mode": "replay",
    "source_sha256": None,
    "stake": 100,
    "AnchorInfo.status": "not_anchored",
    "store": "postgresql",
    "SeatCompetitionInfo.competition_id": "seats_e7adfc79ba414a5eb0682ff1939eee20",
    "SeatCompetitionInfo.name": "Underdogs of spring",
    "SeatCompetitionSummary.competition_id": "seats_e7adfc79ba414a5eb0682ff1939eee20",
    "SeatCompetitionSummary.name": "Underdogs of spring",
    "SeatEntrant.high": 190.1,
    "SeatEntrant.low": -42.9,
    "SeatEntrant.run_ids": [_RUN],
    "SeatPower.edge_bps": 50,
    "SeatRulesInfo.close_source": None,
    "SeatRulesInfo.fixture_ids": "all",
    "SeatRulesInfo.market_allowlist": [""],
    "SeatRulesInfo.max_stake": None,
    "SeatRulesInfo.window_id": "full",
    "OwnerPack.pack_id": "starter",
    "strategy": "baseline",
    "StrategyInfo.algorithm": "Back the likeliest side of each market at its first price after the warm-up.",
    "StrategyInfo.summary": "Back the likeliest side of each market.",
    "StrategyInfo.version": "1",
    "strategy_version": "1",
    "suspended": False,
    "template": "baseline",
    "tick_seq": 1,
    "total": 5,
    "total_clv_bps": 368,
    "tree_size": 2,
    "ts": 1_795_333_555_419,
    "ts_ms": 1_767_025_381_019,
    "unknown_pack": 0,
    "UntrustedMetadata.reason": "likeliest side at first sight, 5826 bps",
    "updated_ts_ms": 1_795_333_554_480,
    "valid_count": 5,
    "valid_pct": 100.0,
    "verifier_version": "clvlab-proof/1",
    "warnings": [],
    "window_id": "full",
    "WitnessState.detail": "6 entries",
    "WitnessState.name": "witness.example",
    "WitnessState.outcome": "cosigned",
}
"""Values by name of a field or schema, or by both names if the field has a special meaning in that schema."""


def example_of(schema: JsonObject, schemas: JsonObject, owner: str = "", field: str = "") -> Any:
    """Make an example of a schema.

    Parameters
    ----------
    schema, schemas
        Schema of the example, and the components to which it may refer.
    owner, field
        Name of the surrounding schema or operation, and of the field. An unknown name gets a value of its type, which is
        ``"..."`` for a text.
    """
    for key in (f"{owner}.{field}", owner if not field else ""):
        if key in _VALUES:
            return _VALUES[key]
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return _VALUES[name] if name in _VALUES else example_of(schemas[name], schemas, name)
    if "properties" in schema:
        required = schema.get("required", ())
        return {name: example_of(of, schemas, owner, name) for name, of in schema["properties"].items() if name in required}
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if _fits(_VALUES.get(field, ...), schema):
        return _VALUES[field]
    if "examples" in schema:
        return schema["examples"][0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], schemas, owner, field)
    if "items" in schema:
        return [example_of(schema["items"], schemas, owner)]
    return _UNKNOWN[schema.get("type", "null")]


def _fits(value: Any, schema: JsonObject) -> bool:
    """Whether a schema allows the type of a value: one name may be a list in one schema and a count in another."""
    if "anyOf" in schema:
        return any(_fits(value, one) for one in schema["anyOf"])
    kind = "object" if "$ref" in schema else schema.get("type", "null")
    if isinstance(value, list):
        return kind == "array" and all(_fits(inner, schema.get("items", {"type": kind})) for inner in value)
    return value is None if kind == "null" else isinstance(value, _TYPES[kind])
