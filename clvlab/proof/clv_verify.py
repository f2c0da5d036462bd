#!/usr/bin/env python3
"""Check a sealed run with this one file, Python 3.10 or later and its standard library.

    python3 clv_verify.py RUN_FOLDER [--ticks ticks.csv] [--json]

It shares no code with the program that made the run. One line per check, and exit status 0 when all pass, 1 when one
fails, 2 when there is nothing to check: the evidence is canonical and has the sealed hash; the scores and the manifest
follow from it; with --ticks, the prices in it follow from the ticks.

What it can't show: that the ticks are what the market said, and that nobody tried other agents and kept silent. Whoever
makes a whole run anew, hashes included, passes here; compare the manifest hash with one published before.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SAFE_INTEGER = 2**53 - 1
LAW_VERSION = "clv-law/1"
MAX_WINDOW_S = (2**53 - 1) // 1_000_000
LAST_OPEN_MAX_AGE_MS = 300_000
MAX_LEVELS = 254
CHECKS = {
    "evidence_integrity": "events.jsonl is canonical, complete, in order, and has the sealed hash",
    "metrics_recomputed": "every score row follows from the evidence",
    "manifest_bound": "the manifest binds this run id, evidence and scores",
    "policy_obeyed": "every verdict follows from the sealed policy, and every receipt is for an allowed action",
    "receipt_separation": "no event is a receipt or has a key of one",
    "states_from_ticks": "every state and close in the evidence follows from the ticks",
}
CLOSE_KINDS = {"pre_match": ("in_running", "kickoff", "tape_end"), "fixed_duration": ("duration",), "manual_stop": ("stop",)}

# Shapes of the five kinds of event. A dict has exactly these keys; (shape,) may be null; [shape] is a list of them.
_SIDE = {"odds_milli": (int,), "prob_bps": (int,), "side": str}
_STATE = {"sides": [_SIDE], "suspended": bool, "tick_seq": int, "ts_ms": int}
_PHASE = {"allowed": bool, "reasons": [str]}
_PRE = (
    "kill_switch_on", "market_not_allowed", "venue_not_allowed", "warmup", "cooldown_active", "stake_missing", "stake_over_max",
    "prob_out_of_range", "order_cap", "exposure_cap",
)  # fmt: skip
_POST = ("quote_missing", "quote_stale", "slippage_over_max", "edge_below_min", "stake_over_max")
CAUSALITY = ("template", "tick-by-tick", "prefix-audit", "unchecked")
_POLICY = {
    "cooldown_s": int, "execution_mode": str, "kill_switch": bool, "market_allowlist": [str],
    "max_exposure_per_fixture": (int,), "max_exposure_per_market": (int,), "max_orders": (int,), "max_prob_bps": int,
    "max_quote_age_s": int, "max_slippage_bps": int, "max_stake": int, "min_edge_bps": (int,), "min_prob_bps": int,
    "require_quote": bool, "schema": str, "venue_allowlist": [str], "warmup_ticks": int,
}  # fmt: skip
_RECEIPT = {
    "agent_id": str, "decision_seq": int, "non_scoring": bool, "odds_milli": (int,), "run_id": str, "stake": int, "status": str,
    "ts_ms": int, "venue": str,
}  # fmt: skip
_SHAPES: dict[str, Any] = {
    "RUN_STARTED": {
        "agents": [
            {
                "agent_id": str, "causality": str, "config": dict, "config_hash": str, "proof_mode": str,
                "source_sha256": (str,), "strategy": str, "strategy_version": str,
            }
        ],
        "binding": {"content_hash": (str,), "fixture_ids": [int], "pack_id": (str,)},
        "kind": str, "law_version": str, "mode_label": str, "origin_id": (str,), "policy": _POLICY, "policy_hash": str,
        "run_id": str, "schema": str, "source_mode": str,
        "window": {
            "closing_policy": str, "duration_s": (int,), "end_rule": str, "market_allowlist": [str],
            "min_clv_horizon_s": int, "window_id": str,
        },
    },
    "DECISION": {
        "action": {"limit_odds_milli": (int,), "market_key": (str,), "side": (str,), "stake": (int,), "type": str},
        "agent_id": str, "fixture_id": int, "market_state": ({"age_ms": int, **_STATE},),
        "policy": ({"post": _PHASE, "pre": _PHASE},), "tick_seq": int,
        "ts_ms": int,
        "untrusted": {"claimed_edge_bps": (int,), "confidence_ppm": (int,), "confidence_raw": (str,), "reason": (str,)},
    },
    "AGENT_ERROR": {"agent_id": str, "error": str, "fixture_id": (int,), "tick_seq": (int,)},
    "MARKET_CLOSE": {
        "close_kind": str, "close_ts_ms": int, "closing": (_STATE,), "end_seq": int, "fixture_id": int, "market_key": str,
    },
    "RUN_SEALED": {"agent_errors": int, "decisions": int, "market_closes": int},
}  # fmt: skip


class BrokenError(Exception):
    """The evidence breaks a rule."""


class InputError(Exception):
    """There is no run, or there are no ticks, to check."""


def require(holds: object, text: str) -> None:
    """Raise ``BrokenError`` unless something holds."""
    if not holds:
        raise BrokenError(text)


# Canonical JSON (RFC 8785 with ASCII keys, integers within 2**53 - 1 and no floats) and hashes.


def canonical(value: object) -> bytes:
    """Write a value in its one canonical form."""
    try:
        _check_value(value)
        # Of ASCII keys, the order by code point is the RFC's. So are the escapes: \b \t \n \f \r \" \\ and \u00xx.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode("utf-8")
    except UnicodeEncodeError as error:
        raise BrokenError(f"a lone surrogate: {error.reason}") from error


def _check_value(value: object, levels: int = MAX_LEVELS) -> None:
    if isinstance(value, dict):
        require(all(isinstance(key, str) and key.isascii() for key in value), "a key that is no ASCII string")
        value = list(value.values())
    if isinstance(value, list):
        require(levels, f"more than {MAX_LEVELS} levels")
        for item in value:
            _check_value(item, levels - 1)
    elif isinstance(value, int):  # bool is an int to Python, and within bounds
        require(-SAFE_INTEGER <= value <= SAFE_INTEGER, f"an integer beyond 2**53 - 1: {value}")
    else:
        require(value is None or isinstance(value, str), f"a number that is no integer: {value!r}")


def parsed(line: bytes) -> dict[str, Any]:
    """Read a line that must be canonical: a repeated key, a space or ``3.0`` would not be written again."""
    try:
        value: dict[str, Any] = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BrokenError(f"no JSON: {error}") from error
    require(canonical(value) == line, f"not canonical: {line[:60]!r}")
    return value


def sha256(data: bytes) -> str:
    """Hash bytes to the form ``sha256:<hex>``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def lines_of(text: bytes) -> list[bytes]:
    """Split a text into its lines, without the line feeds."""
    return text.split(b"\n")[:-1] if text.endswith(b"\n") else text.split(b"\n") if text else []


def merkle_root(lines: Sequence[bytes]) -> str:
    """Root hash over lines (RFC 9162, section 2.1.1); an odd node at the end of a level rises unchanged."""
    level = [hashlib.sha256(b"\0" + line).digest() for line in lines]
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return "sha256:" + (level[0] if level else hashlib.sha256(b"").digest()).hex()


# Reading the evidence.


@dataclass
class Evidence:
    """The payloads of a run, in order; decisions with their ``seq``."""

    started: dict[str, Any]
    decisions: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    closes: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)


def fits(value: Any, shape: Any, where: str) -> None:
    """Require a value to have exactly the keys and types of a shape."""
    if isinstance(shape, tuple):
        if value is not None:
            fits(value, shape[0], where)
    elif isinstance(shape, list):
        require(isinstance(value, list), f"{where} is no list")
        for item in value:
            fits(item, shape[0], where)
    elif isinstance(shape, dict):
        require(isinstance(value, dict) and value.keys() == shape.keys(), f"{where} does not have the keys {sorted(shape)}")
        for key, inner in shape.items():
            fits(value[key], inner, f"{where}.{key}")
    else:  # type(), because True is an instance of int
        require(value is None if shape is None else type(value) is shape, f"{where} is {value!r}")


def read_evidence(text: bytes) -> Evidence:
    """Read ``events.jsonl``, or say which rule it breaks first."""
    require(text.endswith(b"\n"), "events.jsonl is empty or does not end with a line feed")
    events = [parsed(line) for line in lines_of(text)]
    kinds = list(_SHAPES)
    for seq, event in enumerate(events):
        fits(event, {"kind": str, "payload": dict, "seq": int}, f"line {seq + 1}")
        require(event["seq"] == seq, f"line {seq + 1} has seq {event['seq']}")
        require(event["kind"] in kinds, f"line {seq + 1} is of unknown kind {event['kind']!r}")
        fits(event["payload"], _SHAPES[event["kind"]], f"line {seq + 1}: {event['kind']}")
    order = [kinds.index(event["kind"]) for event in events]
    require(order == sorted(order) and order.count(0) == order.count(4) == 1, "the kinds of event stand out of order")

    evidence = Evidence(events[0]["payload"])
    counts = {"agent_errors": order.count(2), "decisions": order.count(1), "market_closes": order.count(3)}
    require(events[-1]["payload"] == counts, f"RUN_SEALED counts {events[-1]['payload']}, before it stand {counts}")
    evidence.decisions = [(event["seq"], event["payload"]) for event in events if event["kind"] == "DECISION"]
    closes = [event["payload"] for event in events if event["kind"] == "MARKET_CLOSE"]
    evidence.closes = {(close["fixture_id"], close["market_key"]): close for close in closes}
    require(len(closes) == len(evidence.closes), "a market closes twice")
    _check_window(evidence.started)
    agents = {agent["agent_id"] for agent in evidence.started["agents"]}
    failed = {event["payload"]["agent_id"] for event in events if event["kind"] == "AGENT_ERROR"}
    require(failed <= agents, "a failed agent is not named by RUN_STARTED")
    _check_decisions(evidence)
    _check_closes(evidence)
    return evidence


def _check_window(started: dict[str, Any]) -> None:
    window = started["window"]
    require(started["law_version"] == LAW_VERSION, f"this file knows {LAW_VERSION}, not {started['law_version']!r}")
    labels = (started["source_mode"], started["mode_label"])
    require(labels == ("replay", "Backtest"), f"{labels[0]!r} is labelled {labels[1]!r}; a replay is a Backtest, never live")
    ids = [agent["agent_id"] for agent in started["agents"]]
    require(started["schema"] == "clvlab-run/1", f"this file knows clvlab-run/1, not {started['schema']!r}")
    require(all(agent["causality"] in CAUSALITY for agent in started["agents"]), f"a causality is none of {CAUSALITY}")
    require(len(window["market_allowlist"]) <= 1000, "the market_allowlist has over 1000 entries")
    require(ids and ids == sorted(set(ids)), f"agents must be named once and in byte order, not {ids}")
    require(window["end_rule"] in CLOSE_KINDS, f"unknown end_rule {window['end_rule']!r}")
    require(window["closing_policy"] in ("last_state", "last_open"), f"unknown closing_policy {window['closing_policy']!r}")
    fixed, duration = window["end_rule"] == "fixed_duration", window["duration_s"]
    require(duration is not None and duration > 0 if fixed else duration is None, f"duration_s is {duration}")
    require(1 <= len(window["window_id"].encode()) <= 200, "window_id must have 1 to 200 bytes")
    require(max(duration or 0, window["min_clv_horizon_s"]) <= MAX_WINDOW_S, "a duration is too long")
    require(window["min_clv_horizon_s"] >= 0, f"min_clv_horizon_s is {window['min_clv_horizon_s']}")
    policy = started["policy"]
    require(policy["schema"] == "clvlab-policy/1", f"this file knows clvlab-policy/1, not {policy['schema']!r}")
    require(policy["execution_mode"] in ("paper", "dry_run"), f"unknown execution_mode {policy['execution_mode']!r}")
    limits = {key: value for key, value in policy.items() if type(value) is int and key != "min_edge_bps"}
    require(min(limits.values()) >= 0, f"a limit of the policy is negative: {limits}")
    require(max(policy["cooldown_s"], policy["max_quote_age_s"]) <= SAFE_INTEGER // 1000, "a duration is too long")
    require(policy["min_prob_bps"] <= policy["max_prob_bps"] <= 10_000, "the range of probabilities of the policy is empty")
    require(policy["max_slippage_bps"] <= 10_000 and (policy["min_edge_bps"] or 0) >= -10_000, "a limit is out of its range")
    require(max(len(policy["market_allowlist"]), len(policy["venue_allowlist"])) <= 1000, "an allowlist has over 1000 entries")


def _check_decisions(evidence: Evidence) -> None:
    agents = {agent["agent_id"] for agent in evidence.started["agents"]}
    fixtures = set(evidence.started["binding"]["fixture_ids"])
    before: tuple[Any, ...] = ()
    waits: set[tuple[Any, ...]] = set()
    for seq, decision in evidence.decisions:
        action, state = decision["action"], decision["market_state"]
        require(action["type"] in ("BACK", "WAIT"), f"seq {seq}: unknown action {action['type']!r}")
        require(decision["agent_id"] in agents, f"seq {seq}: {decision['agent_id']!r} is no agent of this run")
        # Null stands first; of texts, the order by code point is the order of their UTF-8 bytes.
        names = [(text is not None, text or "") for text in (action["market_key"], action["side"])]
        key = (decision["ts_ms"], decision["fixture_id"], decision["tick_seq"], decision["agent_id"], *names, action["type"])
        require(before < key, f"seq {seq}: not after its predecessor by time, fixture, tick, agent, market, side, action")
        before = key
        require(decision["ts_ms"] >= 0 and (action["stake"] or 0) >= 0, f"seq {seq}: a negative time or stake")
        require(0 <= (decision["untrusted"]["confidence_ppm"] or 0) <= 1_000_000, f"seq {seq}: a confidence beyond 1")
        require(0 <= (action["limit_odds_milli"] or 0) < 2**31, f"seq {seq}: a limit out of its range")
        require((decision["policy"] is None) == (action["type"] == "WAIT"), f"seq {seq}: a BACK has verdicts, a WAIT has none")
        for name, phase in (decision["policy"] or {}).items():
            require(phase["allowed"] == (not phase["reasons"]), f"seq {seq}: allowed against a reason")
            known = set(phase["reasons"]) <= set(_PRE if name == "pre" else _POST)
            require(known, f"seq {seq}: unknown reasons {phase['reasons']}")
        require(decision["fixture_id"] in fixtures, f"seq {seq}: fixture {decision['fixture_id']} is not replayed")
        if action["type"] == "WAIT":
            require(key[1:4] not in waits, f"seq {seq}: {decision['agent_id']!r} waits twice at a tick")
            waits.add(key[1:4])
        if state is not None:
            require(action["type"] == "BACK" and action["market_key"] is not None, f"seq {seq}: the state of no market")
            require(state["tick_seq"] <= decision["tick_seq"], f"seq {seq}: a state later than its decision")
            require(0 <= state["ts_ms"] <= decision["ts_ms"], f"seq {seq}: a state later than its decision")
            require(state["age_ms"] == decision["ts_ms"] - state["ts_ms"], f"seq {seq}: age_ms is {state['age_ms']}")
            _check_sides(state, f"seq {seq}")


def _check_closes(evidence: Evidence) -> None:
    asked = {
        (decision["fixture_id"], decision["action"]["market_key"])
        for _, decision in evidence.decisions
        if decision["action"]["type"] == "BACK" and decision["action"]["market_key"] is not None
    }
    require(list(evidence.closes) == sorted(asked), "there must be one MARKET_CLOSE for every market that a BACK names, sorted")
    kinds = CLOSE_KINDS[evidence.started["window"]["end_rule"]]
    ends: dict[int, tuple[Any, ...]] = {}
    for (fixture_id, market), close in evidence.closes.items():
        end = (close["end_seq"], close["close_ts_ms"], close["close_kind"])
        require(close["close_ts_ms"] >= 0, f"{market} of {fixture_id}: a negative closing time")
        require(close["close_kind"] in kinds, f"{market} of {fixture_id}: unknown close_kind {close['close_kind']!r}")
        require(ends.setdefault(fixture_id, end) == end, f"the markets of {fixture_id} close at different ticks")
        if close["closing"] is not None:
            state = close["closing"]
            inside = state["tick_seq"] < close["end_seq"] and 0 <= state["ts_ms"] <= close["close_ts_ms"]
            require(inside, f"{market} of {fixture_id}: a state after the close")
            _check_sides(close["closing"], f"{market} of {fixture_id}")


def _check_sides(state: dict[str, Any], where: str) -> None:
    names = [side["side"] for side in state["sides"]]
    require(names == sorted(set(names)), f"{where}: the sides must be unique and in byte order")
    for side in state["sides"]:
        prob, odds = side["prob_bps"], side["odds_milli"]
        require(
            prob is None or (0 <= prob <= 10_000 and not state["suspended"]), f"{where}: prob_bps {prob} of {side['side']!r}"
        )
        require(odds is None or 1001 <= odds <= 100_000_000, f"{where}: odds_milli {odds} of {side['side']!r}")


# The law, once more: scores from the two states of a decision.


def score(seq: int, decision: dict[str, Any], close: dict[str, Any] | None, window: dict[str, Any]) -> dict[str, Any]:
    """Score a DECISION by the MARKET_CLOSE of its market; null for a WAIT and a decision without a market."""
    action, state = decision["action"], decision["market_state"]
    market, side, closing = action["market_key"], action["side"], close["closing"] if close else None
    entry, final = _price(state, side), _price(closing, side)
    entry_prob, odds, close_prob = entry["prob_bps"], entry["odds_milli"], final["prob_bps"]
    horizon_ms = 1000 * window["min_clv_horizon_s"]
    rules = {  # the first that fails names the reason
        "wait_unscored": action["type"] == "WAIT",
        "market_key_missing": market is None,
        "side_missing": side is None,
        "market_not_allowed": not _starts(market, window["market_allowlist"]),
        "outside_window": close and decision["tick_seq"] >= close["end_seq"],
        "entry_market_absent": state is None,
        "entry_suspended": state and state["suspended"],
        "entry_side_missing": entry_prob is None,
        "closing_market_absent": closing is None,
        "closing_suspended": closing and closing["suspended"],
        "closing_side_missing": close_prob is None,
        "pending_horizon": close and close["close_ts_ms"] - decision["ts_ms"] < horizon_ms,
        "scored": True,
    }
    reason = next(name for name, failed in rules.items() if failed)
    scored = reason == "scored"
    return {
        **{key: decision[key] for key in ("agent_id", "fixture_id", "tick_seq")},
        "seq": seq, "market_key": market, "side": side,
        "valid": reason in ("scored", "wait_unscored", "pending_horizon"), "reason": reason,
        "entry_prob_bps": entry_prob, "odds_milli": odds, "close_prob_bps": close_prob,
        "clv_bps": close_prob - entry_prob if scored else None,
        "edge_bps": edge_bps(entry_prob, odds, close_prob) if scored else None,
        "close_kind": close["close_kind"] if close else None,
        "closing_age_ms": close["close_ts_ms"] - closing["ts_ms"] if close and closing else None,
        "confidence_ppm": decision["untrusted"]["confidence_ppm"],
    }  # fmt: skip


def _price(state: dict[str, Any] | None, name: str | None) -> dict[str, Any]:
    sides = state["sides"] if state else []
    return next((side for side in sides if side["side"] == name), {"prob_bps": None, "odds_milli": None})


def _starts(market: str | None, prefixes: list[str]) -> bool:
    return market is not None and any(market.startswith(prefix) for prefix in prefixes)


def edge_bps(entry_prob_bps: int, odds_milli: int | None, close_prob_bps: int) -> int | None:
    """Value of the price taken at the closing probability, half up; without a quote, of a fair price at the entry."""
    if odds_milli is not None:
        return (2 * close_prob_bps * odds_milli + 1000) // 2000 - 10_000
    if entry_prob_bps > 0:
        return (2 * close_prob_bps * 10_000 + entry_prob_bps) // (2 * entry_prob_bps) - 10_000
    return None


# The policy gate, once more: what was known at the decision, and what was allowed before.


def verdicts(evidence: Evidence) -> list[tuple[int, dict[str, Any]]]:
    """Judge every BACK in both phases, in order; cooldown and caps count what was allowed to the same agent."""
    policy = evidence.started["policy"]
    ready_ms: dict[tuple[Any, ...], int] = {}
    used: dict[tuple[Any, ...], int] = {}  # orders of an agent, stakes on a market and on a fixture
    judged = []
    for seq, decision in evidence.decisions:
        action = decision["action"]
        if action["type"] == "WAIT":
            continue
        agent, fixture, market, stake = decision["agent_id"], decision["fixture_id"], action["market_key"], action["stake"] or 0
        keys = {
            "max_orders": (agent,),
            "max_exposure_per_fixture": (agent, fixture),
            "max_exposure_per_market": (agent, fixture, market),
        }
        over = {
            name: policy[name] is not None and used.get(key, 0) + (1 if name == "max_orders" else stake) > policy[name]
            for name, key in keys.items()
        }
        counted = {
            "cooldown_active": decision["ts_ms"] < ready_ms.get((agent, fixture, market), 0),
            "order_cap": over["max_orders"],
            "exposure_cap": over["max_exposure_per_market"] or over["max_exposure_per_fixture"],
        }
        pre, post = _pre_quote(decision, policy, counted), _post_quote(decision, policy)
        if not pre and not post:
            ready_ms[agent, fixture, market] = decision["ts_ms"] + 1000 * policy["cooldown_s"]
            for name, key in keys.items():
                used[key] = used.get(key, 0) + (1 if name == "max_orders" else stake)
        phases = {"post": post, "pre": pre}
        judged.append((seq, {name: {"allowed": not reasons, "reasons": reasons} for name, reasons in phases.items()}))
    return judged


def _pre_quote(decision: dict[str, Any], policy: dict[str, Any], counted: dict[str, bool]) -> list[str]:
    action = decision["action"]
    market, stake = action["market_key"], action["stake"] or 0
    prob = _price(decision["market_state"], action["side"])["prob_bps"]
    rules = {
        "kill_switch_on": policy["kill_switch"],
        "market_not_allowed": not _starts(market, policy["market_allowlist"]),
        "venue_not_allowed": "paper" not in policy["venue_allowlist"],
        "warmup": decision["tick_seq"] < policy["warmup_ticks"],
        "cooldown_active": counted["cooldown_active"],
        "stake_missing": stake == 0,
        "stake_over_max": stake > policy["max_stake"],
        "prob_out_of_range": prob is None or not policy["min_prob_bps"] <= prob <= policy["max_prob_bps"],
        "order_cap": counted["order_cap"],
        "exposure_cap": counted["exposure_cap"],
    }
    return [reason for reason, broken in rules.items() if broken]


def _post_quote(decision: dict[str, Any], policy: dict[str, Any]) -> list[str]:
    action, state = decision["action"], decision["market_state"]
    price = _price(state, action["side"])
    prob, odds = price["prob_bps"], None if state and state["suspended"] else price["odds_milli"]
    limit, least = action["limit_odds_milli"] or 0, policy["min_edge_bps"]
    edge = None if prob is None or odds is None else edge_bps(prob, odds, prob)
    rules = {
        "quote_missing": policy["require_quote"] and odds is None,
        "quote_stale": state and state["age_ms"] > 1000 * policy["max_quote_age_s"],
        "slippage_over_max": limit and odds and max(0, limit - odds) * 10_000 // limit > policy["max_slippage_bps"],
        "edge_below_min": least is not None and (edge is None or edge < least),
        "stake_over_max": (action["stake"] or 0) > policy["max_stake"],
    }
    return [reason for reason, broken in rules.items() if broken]


def check_policy(evidence: Evidence, receipts: bytes) -> None:
    """Require the sealed verdicts to be the ones derived, and an allowed action behind every receipt."""
    decisions, started, stakes = dict(evidence.decisions), evidence.started, {}
    for seq, verdict in verdicts(evidence):
        require(decisions[seq]["policy"] == verdict, f"seq {seq}: the policy gives {verdict}")
        if verdict["pre"]["allowed"] and verdict["post"]["allowed"]:
            stakes[seq] = decisions[seq]["action"]["stake"]
    paper = started["policy"]["execution_mode"] == "paper"
    require(not receipts or receipts.endswith(b"\n"), "receipts.jsonl does not end with a line feed")
    for line in lines_of(receipts):
        receipt = parsed(line)
        fits(receipt, _RECEIPT, "a receipt")
        seq = receipt["decision_seq"]
        own = receipt["run_id"] == started["run_id"] and receipt["non_scoring"]
        require(paper and own and seq in stakes, f"a receipt for seq {seq}, which was not allowed to execute")
        require(receipt["agent_id"] == decisions[seq]["agent_id"], f"a receipt for seq {seq} names another agent")
        require(0 <= receipt["stake"] <= stakes.pop(seq), f"a receipt for seq {seq} of another stake than its own")
        require(receipt["venue"] in started["policy"]["venue_allowlist"], f"a receipt for seq {seq} from {receipt['venue']!r}")


def score_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Score every decision of a run; of a market without a BACK there is no close, and a WAIT is not scored by one."""
    rows = []
    for seq, decision in evidence.decisions:
        action = decision["action"]
        close = evidence.closes.get((decision["fixture_id"], action["market_key"])) if action["type"] == "BACK" else None
        rows.append(score(seq, decision, close, evidence.started["window"]))
    return rows


def rebuilt_manifest(events: bytes, evidence: Evidence, scores: Sequence[bytes]) -> dict[str, Any]:
    """Assemble the manifest that this evidence and these scores must have."""
    started, agents = evidence.started, evidence.started["agents"]
    roster = sorted([agent["agent_id"], agent["config_hash"]] for agent in agents)
    return {
        "schema": "clvlab-manifest/1", "law_version": LAW_VERSION, "verifier_version": "clvlab-proof/1",
        "run_id": started["run_id"], "content_hash": started["binding"]["content_hash"],
        "config_hash": agents[0]["config_hash"] if len(agents) == 1 else sha256(canonical(roster)),
        "policy_hash": started["policy_hash"], "commit_index": None,
        "evidence_hash": sha256(events), "event_count": len(lines_of(events)),
        "evidence_root": merkle_root(lines_of(events)), "score_root": merkle_root(scores),
    }  # fmt: skip


def check_names(evidence: Evidence) -> None:
    """Derive every config_hash and the run id again from what they name."""
    started = evidence.started
    for agent in started["agents"]:
        named = {"schema": "clvlab-agent-config/1", **{k: agent[k] for k in ("strategy", "strategy_version", "config")}}
        own = sha256(canonical(named))
        require(own == agent["config_hash"], f"config_hash of {agent['agent_id']} is {agent['config_hash']}, not {own}")
    own = sha256(canonical(started["policy"]))
    require(own == started["policy_hash"], f"policy_hash is {started['policy_hash']}, the sealed policy gives {own}")
    keys = ("agents", "binding", "kind", "law_version", "origin_id", "policy_hash", "schema", "window")
    own = "run_" + sha256(canonical({key: started[key] for key in keys}))[7:39]
    require(own == started["run_id"], f"run_id is {started['run_id']}, its inputs give {own}")


# Ticks: windows and states once more, from the prices themselves.


@dataclass
class Fixture:
    """The messages of a fixture: ``ticks`` as (tick_seq, ts_ms, in_running), and the states of each market; in order."""

    kickoff_ts_ms: int | None = None
    ticks: list[tuple[int, int, bool]] = field(default_factory=list)
    markets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def fixtures_of(rows: Iterable[dict[str, Any]]) -> dict[int, Fixture]:
    """Group tick rows, one per side of a message and in any order, into fixtures."""
    fixtures: dict[int, Fixture] = {}
    before: dict[int, tuple[Any, ...]] = {}
    for row in sorted(rows, key=lambda row: (row["fixture_id"], row["tick_seq"], row["market_key"], row["side"])):
        fixture = fixtures.setdefault(row["fixture_id"], Fixture(row["kickoff_ts_ms"]))
        states = fixture.markets.setdefault(row["market_key"], [])
        tick = (row["tick_seq"], row["ts_ms"], row["in_running"])
        message = (tick, row["market_key"], row["suspended"], row["kickoff_ts_ms"])
        if not fixture.ticks or fixture.ticks[-1][0] != row["tick_seq"]:
            fixture.ticks.append(tick)
            states.append({"sides": [], "suspended": row["suspended"], "tick_seq": row["tick_seq"], "ts_ms": row["ts_ms"]})
        elif before[row["fixture_id"]] != message:
            raise InputError(f"tick {row['tick_seq']} of fixture {row['fixture_id']} is more than one message")
        before[row["fixture_id"]] = message
        states[-1]["sides"].append({key: row[key] for key in ("odds_milli", "prob_bps", "side")})
    return fixtures


def window_end(fixture: Fixture, window: dict[str, Any]) -> tuple[int, int, str]:
    """Find where the window of a fixture ends: the first tick outside, the time of the close, and its kind."""
    past_last, last_ts = fixture.ticks[-1][0] + 1, fixture.ticks[-1][1]
    if window["end_rule"] == "manual_stop":
        return past_last, last_ts, "stop"
    if window["end_rule"] == "fixed_duration":
        limit = fixture.ticks[0][1] + 1000 * int(window["duration_s"])
        return next((seq for seq, ts, _ in fixture.ticks if ts > limit), past_last), min(limit, last_ts), "duration"
    for seq, ts, in_running in fixture.ticks:
        if in_running:
            return seq, ts, "in_running"
    kickoff = fixture.kickoff_ts_ms
    if kickoff is not None:
        return next((seq for seq, ts, _ in fixture.ticks if ts >= kickoff), past_last), kickoff, "kickoff"
    return past_last, last_ts, "tape_end"


def state_at(states: Sequence[dict[str, Any]], tick_seq: int) -> dict[str, Any] | None:
    """Give the last state of a market at or before a tick, by bisection."""
    low, high = 0, len(states)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if states[middle]["tick_seq"] <= tick_seq else (low, middle)
    return states[low - 1] if low else None


def closing_state(states: Sequence[dict[str, Any]], end_seq: int, close_ts_ms: int, policy: str) -> dict[str, Any] | None:
    """Give the state in which a market closes; ``last_open`` looks behind a suspension for at most 300 s."""
    state = state_at(states, end_seq - 1)
    if policy == "last_open" and state and state["suspended"]:
        opened = [other for other in states if other["tick_seq"] < end_seq and not other["suspended"]]
        if opened and close_ts_ms - opened[-1]["ts_ms"] <= LAST_OPEN_MAX_AGE_MS:
            return opened[-1]
    return state


def check_ticks(evidence: Evidence, fixtures: dict[int, Fixture]) -> None:
    """Derive every state in the evidence again from the ticks."""
    window = evidence.started["window"]
    times = {number: {seq: ts for seq, ts, _ in fixture.ticks} for number, fixture in fixtures.items()}
    for seq, decision in evidence.decisions:
        fixture_id, tick_seq, action = decision["fixture_id"], decision["tick_seq"], decision["action"]
        time = times.get(fixture_id, {}).get(tick_seq)
        require(time == decision["ts_ms"], f"seq {seq}: tick {tick_seq} of {fixture_id} is at {time}, not {decision['ts_ms']}")
        states = fixtures[fixture_id].markets.get(action["market_key"], []) if action["type"] == "BACK" else []
        state = state_at(states, tick_seq)
        expected = {"age_ms": decision["ts_ms"] - state["ts_ms"], **state} if state else None
        require(decision["market_state"] == expected, f"seq {seq}: the ticks say {expected}")
    ends = {number: window_end(fixture, window) for number, fixture in fixtures.items()}
    for (fixture_id, market), close in evidence.closes.items():
        end_seq, close_ts_ms, kind = ends[fixture_id]
        states = fixtures[fixture_id].markets.get(market, [])
        expected = {
            "close_kind": kind, "close_ts_ms": close_ts_ms, "end_seq": end_seq, "fixture_id": fixture_id, "market_key": market,
            "closing": closing_state(states, end_seq, close_ts_ms, window["closing_policy"]),
        }  # fmt: skip
        require(close == expected, f"{market} of {fixture_id}: the ticks say {expected}")


def read_ticks(path: Path) -> dict[int, Fixture]:
    """Read ticks from CSV: the columns of a tick and ``kickoff_ts_ms``; an empty field is null."""
    numbers = ("fixture_id", "tick_seq", "ts_ms", "prob_bps", "odds_milli", "kickoff_ts_ms")
    flags, known = ("in_running", "suspended"), {"true": True, "false": False}
    rows: list[dict[str, Any]] = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for text in csv.DictReader(file):
                row: dict[str, Any] = {"market_key": text["market_key"], "side": text["side"]}
                row.update({name: int(text[name]) if text[name] else None for name in numbers})
                row.update({name: known[text[name].lower()] for name in flags})
                rows.append(row)
    except (OSError, ValueError, KeyError, AttributeError, csv.Error) as error:
        raise InputError(f"can't read ticks from {path}: {error!r}") from error
    return fixtures_of(rows)


# The checks.


def verify(folder: Path, ticks: dict[int, Fixture] | None = None) -> dict[str, Any]:
    """Check a run folder: the hashes, and for each check what is wrong, or null."""
    names = ("events.jsonl", "scores.jsonl", "manifest.json", "receipts.jsonl")
    events, scores, manifest, receipts = ((folder / name).read_bytes() if (folder / name).is_file() else None for name in names)
    if events is None or manifest is None:
        raise InputError(f"no sealed run at {folder}: it must hold {', '.join(names[:3])}")
    stored = stated(manifest)
    result: dict[str, Any] = {key: stored.get(key) for key in ("run_id", "evidence_hash")}
    try:
        evidence = read_evidence(events)
        lines = [canonical(row) for row in score_rows(evidence)]
    except BrokenError as error:
        unread = f"the evidence can't be read: {error}"
        checks: dict[str, str | None] = {name: unread for name in CHECKS if ticks is not None or name != "states_from_ticks"}
        result |= {"recomputed_evidence_hash": f"recompute_error:{error}", "manifest_hash": sha256(manifest)}
        return result | {"verified": False, "checks": checks}
    rebuilt = rebuilt_manifest(events, evidence, lines)
    derived = b"".join(line + b"\n" for line in lines)
    other = [key for key in rebuilt if stored.get(key, ...) != rebuilt[key]] or ["bytes"]
    recount = f"the {len(lines)} rows derived from the evidence are not the {len(lines_of(scores or b''))} stored"
    integrity = f"SHA-256 of events.jsonl is {sha256(events)}, sealed was {stored.get('evidence_hash')}"
    binding = f"manifest.json has another {', '.join(other)} than the evidence gives"
    checks = {
        "evidence_integrity": None if sha256(events) == stored.get("evidence_hash") else integrity,
        "metrics_recomputed": None if derived == (scores or b"") else recount,
        "manifest_bound": fault(check_names, evidence) if canonical(rebuilt) == manifest else binding,
        "policy_obeyed": fault(check_policy, evidence, receipts or b""),
        "receipt_separation": None,  # what has been read has no room for one
    }
    if ticks is not None:
        checks["states_from_ticks"] = fault(check_ticks, evidence, ticks)
    result |= {"recomputed_evidence_hash": sha256(events), "manifest_hash": sha256(canonical(rebuilt))}
    return result | {"verified": checks["evidence_integrity"] is None, "checks": checks}


def stated(manifest: bytes) -> dict[str, Any]:
    """Give what a stored manifest states; nothing if it can't be read."""
    try:
        value = json.loads(manifest)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def fault(check: Callable[..., None], *arguments: object) -> str | None:
    """Run a check; give what is wrong, or null."""
    try:
        check(*arguments)
    except BrokenError as error:
        return str(error)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the run named on the command line; give the exit status."""
    parser = argparse.ArgumentParser(description="Check a sealed run.")
    parser.add_argument("run_folder", type=Path, help="holds events.jsonl, scores.jsonl and manifest.json")
    parser.add_argument("--ticks", type=Path, metavar="ticks.csv", help="also derive every price in evidence from these ticks")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args(arguments)
    try:
        result = verify(asked.run_folder, read_ticks(asked.ticks) if asked.ticks else None)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    verdicts = {name: ("fail", wrong) if wrong else ("pass", CHECKS[name]) for name, wrong in result["checks"].items()}
    if asked.json:
        sys.stdout.write(json.dumps(result | {"checks": verdicts}, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{verdict}  {name}: {detail}\n" for name, (verdict, detail) in verdicts.items())
        sys.stdout.write(f"evidence {result['recomputed_evidence_hash']}\nmanifest {result['manifest_hash']}\n")
    return 1 if any(result["checks"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
