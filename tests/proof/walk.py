"""An oracle for the shapes of the stand-alone verifier: a value is read, written again, and walked key by key."""

from __future__ import annotations

from typing import Any

from clvlab.errors import EvidenceError
from clvlab.proof.canonical import parsed

__all__ = ["KINDS", "walked"]

SAFE = 2**53 - 1

# A dict has exactly these keys; (shape,) may be null; [shape] is a list of them; a set names the values; a range the integers.
INT, COUNT, PROB = range(-SAFE, SAFE + 1), range(SAFE + 1), range(10_001)
SIDE = {"odds_milli": (range(1001, 100_000_001),), "prob_bps": (PROB,), "side": str}
STATE = {"sides": [SIDE], "suspended": bool, "tick_seq": INT, "ts_ms": COUNT}
PRE = {
    "kill_switch_on", "market_not_allowed", "venue_not_allowed", "warmup", "cooldown_active", "stake_missing", "stake_over_max",
    "prob_out_of_range", "order_cap", "exposure_cap",
}  # fmt: skip
POST = {"quote_missing", "quote_stale", "slippage_over_max", "edge_below_min", "stake_over_max"}
KINDS: dict[str, Any] = {
    "DECISION": {
        "action": {
            "limit_odds_milli": (range(2**31),), "market_key": (str,), "side": (str,), "stake": (COUNT,),
            "type": {"BACK", "WAIT"}},
        "agent_id": str, "fixture_id": INT, "market_state": ({"age_ms": COUNT, **STATE},),
        "policy": ({"post": {"allowed": bool, "reasons": [POST]}, "pre": {"allowed": bool, "reasons": [PRE]}},),
        "tick_seq": INT, "ts_ms": COUNT,
        "untrusted": {
            "claimed_edge_bps": (INT,), "confidence_ppm": (range(1_000_001),), "confidence_raw": (str,), "reason": (str,)}},
    "AGENT_ERROR": {"agent_id": str, "error": str, "fixture_id": (INT,), "tick_seq": (INT,)},
    "MARKET_CLOSE": {
        "close_kind": str, "close_ts_ms": COUNT, "closing": (STATE,), "end_seq": INT, "fixture_id": INT, "market_key": str},
    "RUN_SEALED": {"agent_errors": COUNT, "decisions": COUNT, "market_closes": COUNT},
}  # fmt: skip


def walked(line: bytes, kind: str) -> bool:
    """Tell whether a line is canonical and of a kind."""
    try:
        value = parsed(line)
    except EvidenceError:
        return False
    return _fits(value, {"kind": {kind}, "payload": KINDS[kind], "seq": COUNT})


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, tuple):
        return value is None or _fits(value, shape[0])
    if isinstance(shape, list):
        return type(value) is list and all(_fits(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        same = type(value) is dict and value.keys() == shape.keys()
        return same and all(_fits(value[key], inner) for key, inner in shape.items())
    if isinstance(shape, range):
        return type(value) is int and value in shape
    if isinstance(shape, set):
        return type(value) is str and value in shape
    return type(value) is shape
