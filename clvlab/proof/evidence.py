"""Reading sealed evidence: from the bytes of ``events.jsonl`` to what stands in it, in order and complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from clvlab.errors import EvidenceError, PolicyError, WindowError
from clvlab.law.closing import Window, sealed_window
from clvlab.law.columns import changes, in_range, values
from clvlab.law.gate import PostQuote, PreQuote
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import (
    LAW_VERSION,
    LOCKED_IN,
    MODE_LABELS,
    SAFE_INTEGER,
    Action,
    Causality,
    CloseKind,
    ClosingPolicy,
    EndRule,
    Held,
    SourceMode,
)
from clvlab.law.tape import check_close_age
from clvlab.proof.canonical import HASH, canonical
from clvlab.proof.coherence import check_coherence
from clvlab.proof.events import SEALED_ORDER, Kind
from clvlab.proof.limits import MAX_STARTED_BYTES, check_lines, check_started
from clvlab.proof.lines import read_closes, read_decisions, read_single
from clvlab.proof.manifest import RunStarted, run_schema

_Types = dict[str, tuple[type, ...]]

# Keys and types of what is read one by one.
_OPTIONAL_INT, _OPTIONAL_TEXT = (int, type(None)), (str, type(None))
_STARTED: _Types = {
    "agents": (list,), "binding": (dict,), "kind": (str,), "law_version": (str,), "mode_label": (str,),
    "origin_id": _OPTIONAL_TEXT, "policy": (dict,), "policy_hash": (str,), "run_id": (str,), "schema": (str,),
    "source_mode": (str,), "window": (dict,),
}  # fmt: skip
_AGENT: _Types = {
    "agent_id": (str,), "causality": (str,), "config": (dict,), "config_hash": (str,), "proof_mode": (str,),
    "source_sha256": _OPTIONAL_TEXT, "strategy": (str,), "strategy_version": (str,),
}  # fmt: skip
# Of an agent of one's own, where it could read files or reach a network; absent when off.
_ALLOWED: _Types = {"network": (bool,), "reads": (list,)}
_ISOLATION: _Types = {"agent_id": (str,), "held": (list,)}
_READ: _Types = {"name": (str,), "sha256": (str,)}
_BINDING: _Types = {"content_hash": _OPTIONAL_TEXT, "fixture_ids": (list,), "pack_id": _OPTIONAL_TEXT}
_ERROR: _Types = {"agent_id": (str,), "error": (str,), "fixture_id": _OPTIONAL_INT, "tick_seq": _OPTIONAL_INT}
_STEP_BY_STEP = {Causality.STEPPED, Causality.STEPPED_BLOCKS}
# Columns that are never null; the others of a line may be.
_GIVEN = {"seq", "agent_id", "fixture_id", "tick_seq", "ts_ms", "action", "end_seq", "close_ts_ms", "close_kind"}
_CLOSE_KINDS = {
    EndRule.PRE_MATCH: (CloseKind.IN_RUNNING, CloseKind.KICKOFF, CloseKind.TAPE_END),
    EndRule.FIXED_DURATION: (CloseKind.DURATION,),
    EndRule.MANUAL_STOP: (CloseKind.STOP,),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What stands in a sealed run.

    Attributes
    ----------
    started
        Payload of RUN_STARTED.
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``, in order of ``seq``.
    errors
        Payloads of AGENT_ERROR.
    captured
        Content hash of the pack that a live run captured, as RUN_SEALED has it; null of a replay.
    """

    started: RunStarted
    decisions: pl.DataFrame
    closes: pl.DataFrame
    errors: list[dict[str, Any]]
    captured: str | None = None

    @property
    def content_hash(self) -> str | None:
        """Content hash of the pack that the run was over, known before it or captured by it."""
        return self.captured or self.started["binding"]["content_hash"]

    @property
    def count(self) -> int:
        """Number of events: of lines."""
        return self.decisions.height + len(self.errors) + self.closes.height + 2

    @property
    def window(self) -> Window:
        """The window as sealed."""
        sealed: Mapping[str, Any] = self.started["window"]
        own = {one.name: sealed[one.name] for one in fields(Window) if one.name != "close_source"}
        own["market_allowlist"] = tuple(own["market_allowlist"])
        return Window(**own, close_source=sealed.get("close_source"))

    @property
    def max_close_age_s(self) -> int | None:
        """The pack's limit on the age of a close, as sealed; null without one."""
        limit: int | None = self.started["window"].get("max_close_age_s")
        return limit

    @property
    def policy(self) -> PolicyEnvelope:
        """The policy envelope as sealed."""
        return PolicyEnvelope.sealed(self.started["policy"])


def read_evidence(events: bytes) -> Evidence:
    """Read the bytes of a sealed run strictly.

    Steps: 1. count bytes and lines; 2. cut the bytes into the blocks of the five kinds; 3. read decisions and closes, and write
    them again; 4. check numbering, counts and order.

    Parameters
    ----------
    events
        The whole of ``events.jsonl``.

    Raises
    ------
    EvidenceError
        More than the limits allow, or a line that is not canonical, has other keys or types than its kind, or stands out of
        order.
    """
    if not events.endswith(b"\n"):
        raise EvidenceError("the evidence is empty or does not end with a line feed")
    check_lines(events, "events.jsonl", MAX_STARTED_BYTES)
    first = events.index(b"\n") + 1
    after = _end_of(Kind.DECISION, events, first)
    closes_from = _start_of(Kind.MARKET_CLOSE, events, after)
    closes_to = _end_of(Kind.MARKET_CLOSE, events, closes_from)

    started = read_single(events[:first], Kind.RUN_STARTED)
    _check_failures(events.count(b"\n", after, closes_from), started["payload"].get("agents"))
    decisions = read_decisions(events, first, after)
    errors = [read_single(line + b"\n", Kind.AGENT_ERROR) for line in events[after:closes_from].split(b"\n")[:-1]]
    closes = read_closes(events, closes_from, closes_to)
    _check_end(events, closes_to)
    sealed = read_single(events[closes_to:], Kind.RUN_SEALED)
    captured = sealed["payload"].get("content_hash")
    evidence = Evidence(started["payload"], decisions, closes, [event["payload"] for event in errors], captured)
    _check_started(evidence)
    _check_mode(evidence)
    _check_numbers(evidence, started, errors, sealed)
    _check_values(evidence)
    _check_order(evidence)
    _check_errors(evidence)
    window = evidence.started["window"]
    check_coherence(decisions, closes, ClosingPolicy(window["closing_policy"]), window["duration_s"])
    return evidence


def _check_failures(count: int, agents: Any) -> None:
    """Refuse more AGENT_ERROR lines than agents before any of them is read."""
    if isinstance(agents, list) and count > len(agents):
        raise EvidenceError(f"{count:,} lines stand where at most {len(agents):,} agents could have failed")


def _check_end(events: bytes, start: int) -> None:
    """Refuse other lines than RUN_SEALED behind the closes before they are read as one."""
    count = events.count(b"\n", start)
    if count != 1:
        raise EvidenceError(f"{count:,} lines stand where RUN_SEALED must stand alone")


def _end_of(kind: Kind, events: bytes, start: int) -> int:
    """Return the end of the block of one kind that starts at ``start``: after its last line."""
    last = events.rfind(b'\n{"kind":"%s"' % kind.encode(), start - 1)
    return start if last < 0 else events.index(b"\n", last + 1) + 1


def _start_of(kind: Kind, events: bytes, start: int) -> int:
    """Return the first line of a kind at or after ``start``, or of the last line if there is none."""
    found = events.find(b'\n{"kind":"%s"' % kind.encode(), start - 1)
    return found + 1 if found >= 0 else max(events.rfind(b"\n", start - 1, len(events) - 1) + 1, start)


def _check_numbers(evidence: Evidence, started: dict[str, Any], errors: list[dict[str, Any]], sealed: dict[str, Any]) -> None:
    n, m, k = evidence.decisions.height, len(errors), evidence.closes.height
    seqs = [started["seq"], *(event["seq"] for event in errors), sealed["seq"]]
    counted = (evidence.decisions["seq"] == pl.int_range(1, n + 1, eager=True)).all() and (
        evidence.closes["seq"] == pl.int_range(n + m + 1, n + m + k + 1, eager=True)
    ).all()
    named = {} if evidence.captured is None else {"content_hash": evidence.captured}
    stated = sealed["payload"]
    if any(type(number) is not int for number in (*seqs, *(stated[name] for name in stated if name not in named))):
        raise EvidenceError("seq and the counts of RUN_SEALED must be integers")
    if not counted or seqs != [0, *range(n + 1, n + m + 1), n + m + k + 1]:
        raise EvidenceError("seq must count the lines from 0")
    if stated != {"agent_errors": m, "decisions": n, "market_closes": k} | named:
        raise EvidenceError(f"RUN_SEALED counts {stated}, before it stand {n} decisions, {m} errors, {k} closes")


def _check_values(evidence: Evidence) -> None:
    decisions, closes = evidence.decisions, evidence.closes
    for frame in (decisions, closes):  # beyond 2**53 - 1 a reader with doubles would see another number than was hashed
        if any(frame[column].null_count() for column in frame.columns if column in _GIVEN):
            raise EvidenceError("null where a value must stand")
        if not all(in_range(column, -SAFE_INTEGER, SAFE_INTEGER) for column in frame if column.dtype == pl.Int64):
            raise EvidenceError("integer beyond 2**53 - 1")
    back, wait = decisions["action"] == Action.BACK, decisions["action"] == Action.WAIT
    stateless, unjudged = decisions["sides"].is_null(), decisions["pre"].is_null()
    kinds = [kind.value for kind in _CLOSE_KINDS[EndRule(evidence.window.end_rule)]]
    bad_values = {
        "an action is neither BACK nor WAIT": not (back | wait).all(),
        f"a close_kind is none of {kinds}, which its end_rule gives": not values(closes["close_kind"]) <= set(kinds),
        # Look-ahead written into the evidence: the price after the tick in place of the one at it.
        "a market state is later than its decision": (decisions["state_tick_seq"] > decisions["tick_seq"]).any()
        or (decisions["state_ts_ms"] > decisions["ts_ms"]).any(),
        # A close from play would score a decision by what nobody knew before.
        "a closing state is outside its window": (closes["state_tick_seq"] >= closes["end_seq"]).any()
        or (closes["state_ts_ms"] > closes["close_ts_ms"]).any(),
        "a time is negative": not (in_range(decisions["state_ts_ms"], 0) and in_range(decisions["ts_ms"], 0)),
        "a closing time is negative": not (in_range(closes["state_ts_ms"], 0) and in_range(closes["close_ts_ms"], 0)),
        "a WAIT, or a BACK without a market, has a state": not (
            stateless | (back & decisions["market_key"].is_not_null())
        ).all(),
        "a stake is negative": not in_range(decisions["stake"], 0),
        "a limit is negative, or beyond 2**31 - 1": not in_range(decisions["limit_odds_milli"], 0, 2**31 - 1),
        # A verdict left out would hide that an action was refused.
        "a BACK has no verdict of the policy, or a WAIT has one": (unjudged != wait).any(),
        "a confidence is no probability": not in_range(decisions["confidence_ppm"], 0, 1_000_000),
        "a decision is on a fixture that is not replayed": not values(decisions["fixture_id"])
        <= set(evidence.started["binding"]["fixture_ids"]),
    }
    for phase, known in (("pre", PreQuote), ("post", PostQuote)):
        if not values(decisions[phase].explode()) <= set(known):
            raise EvidenceError(f"a reason of the {phase}-quote phase is none of {', '.join(known)}")
    for text, is_bad in bad_values.items():
        if is_bad:
            raise EvidenceError(text)


def _check_order(evidence: Evidence) -> None:
    # One order of the same decisions, or one run would have many hashes, and the best of them could be sought.
    key = evidence.decisions[list(SEALED_ORDER)]
    if not key.equals(key.sort(SEALED_ORDER, nulls_last=False)):
        raise EvidenceError(f"decisions are not in the order of {', '.join(SEALED_ORDER)}")
    other = changes(key["ts_ms"])
    for name in SEALED_ORDER[1:]:
        other |= changes(key[name])
    if not other.all():
        raise EvidenceError("an agent decides twice on the same side of a market at a tick")
    waits = key.filter(key["action"] == Action.WAIT)[["agent_id", "fixture_id", "tick_seq"]]
    if waits.height and waits.is_duplicated().any():
        raise EvidenceError("an agent waits twice at a tick")


def _check_errors(evidence: Evidence) -> None:
    """Require agents to fail once and then to have decided nothing; a run in which all failed is not sealed."""
    # An agent that could fail with its decisions kept would fail when it loses (choices.md, "an agent that raises an error").
    failed, named = (
        [error["agent_id"] for error in evidence.errors],
        {agent["agent_id"] for agent in evidence.started["agents"]},
    )
    if not named.issuperset(failed) or len(failed) == len(named):
        raise EvidenceError("a failed agent is not named by RUN_STARTED, or all of them failed")
    if failed != sorted(set(failed)):
        raise EvidenceError("an agent fails twice, or failures are not in byte order")
    if not values(evidence.decisions["agent_id"]).isdisjoint(failed):
        raise EvidenceError("a decision is by an agent that failed")


def _check_started(evidence: Evidence) -> None:
    started = evidence.started
    isolation: _Types = {"isolation": (list,)} if "isolation" in started else {}
    _check_types(started, _STARTED | isolation, "RUN_STARTED")
    _check_types(started["binding"], _BINDING, "the binding")
    for agent in started["agents"]:
        _check_agent(agent)
    for error in evidence.errors:
        _check_types(error, _ERROR, "AGENT_ERROR")
    check_started(started)
    _check_isolation(started)
    if (started["law_version"], started["schema"]) != (LAW_VERSION, run_schema(started)):
        raise EvidenceError(
            f"the run is {started['schema']!r} under {started['law_version']!r}, what it says is of {run_schema(started)!r}, "
            f"and this reads {LAW_VERSION}"
        )
    ids = [agent["agent_id"] for agent in started["agents"]]
    if not ids or ids != sorted(set(ids)):
        raise EvidenceError(f"agents must be named once and in byte order, not {ids}")
    if any(agent["causality"] not in list(Causality) for agent in started["agents"]):
        raise EvidenceError(f"a causality is none of {', '.join(Causality)}")
    if any(type(number) is not int for number in started["binding"]["fixture_ids"]):
        raise EvidenceError("a fixture id is no integer")
    if not values(evidence.decisions["agent_id"]) <= set(ids):
        raise EvidenceError("a decision is by an agent that RUN_STARTED does not name")
    try:
        policy = ClosingPolicy(started["window"]["closing_policy"])
        check_close_age(evidence.max_close_age_s)
        if canonical(started["window"]) != canonical(sealed_window(evidence.window, policy, evidence.max_close_age_s)):
            raise EvidenceError("the sealed window has other keys than a window")
        if canonical(started["policy"]) != canonical(evidence.policy.payload(())):
            raise EvidenceError("the sealed policy is not as a policy is sealed")
    except (AttributeError, KeyError, TypeError, ValueError, PolicyError, WindowError) as error:
        raise EvidenceError(f"RUN_STARTED is malformed: {error!r}") from error


def _check_mode(evidence: Evidence) -> None:
    """Require a live run to say so everywhere, and a replay nowhere."""
    started, binding = evidence.started, evidence.started["binding"]
    if (started["source_mode"], started["mode_label"]) not in MODE_LABELS.items():
        raise EvidenceError(
            f"{started['source_mode']!r} is labelled {started['mode_label']!r}; a replay is a Backtest, never live"
        )
    live = started["source_mode"] == SourceMode.LIVE
    # A pack that is known beforehand is no live feed; one that was captured is known by its hash when the run is sealed.
    if live and (binding["pack_id"], binding["content_hash"]) != (None, None):
        raise EvidenceError(f"a live run is bound to pack {binding['pack_id']!r} before it began")
    named = isinstance(evidence.captured, str) and HASH.fullmatch(evidence.captured) is not None
    if named != live or (evidence.captured is not None) != live:
        raise EvidenceError(f"RUN_SEALED of a {started['source_mode']} has the content_hash {evidence.captured!r}")
    if any((agent["causality"] == Causality.LIVE) != live for agent in started["agents"]):
        raise EvidenceError(f"causality {Causality.LIVE.value!r} is that of all agents of a live run, and of no others")


def _check_agent(agent: Any) -> None:
    here = {key: types for key, types in _ALLOWED.items() if isinstance(agent, dict) and key in agent}
    _check_types(agent, _AGENT | here, "an agent")
    for read in agent.get("reads", ()):
        _check_types(read, _READ, "a file that an agent could read")
    named = [(read["name"], read["sha256"]) for read in agent.get("reads", ())]
    if named != sorted(named) or agent.get("reads") == [] or agent.get("network") is False:
        raise EvidenceError("what an agent could read or reach must be named in order, and left out when it is nothing")


def _check_isolation(started: RunStarted) -> None:
    """Require what was held of agents to be said in order, each once, and to be left out where it is nothing."""
    stated = started.get("isolation", [])
    for one in stated:
        _check_types(one, _ISOLATION, "the isolation of an agent")
        if not one["held"] or not all(isinstance(held, str) for held in one["held"]):
            raise EvidenceError(f"what was held of {one['agent_id']} is {one['held']!r}")
        if one["held"] != sorted(set(one["held"]) & set(Held)):
            raise EvidenceError(f"what was held of {one['agent_id']} is not some of {', '.join(Held)}, each once and in order")
    ids = [one["agent_id"] for one in stated]
    named = {agent["agent_id"] for agent in started["agents"]}
    if ids != sorted(named.intersection(ids)) or ("isolation" in started and not ids):
        raise EvidenceError("what was held of agents must be named in order of those, and left out when it is nothing")
    held = {one["agent_id"]: set(one["held"]) for one in stated}
    if any(
        agent["causality"] in _STEP_BY_STEP and not held.get(agent["agent_id"], set()) >= LOCKED_IN
        for agent in started["agents"]
    ):
        raise EvidenceError("an agent that was asked step by step must have been held to its calls and files")


def _check_types(value: Any, types: _Types, name: str) -> None:
    """Require exactly these keys, each of one of its types; True is no integer."""
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise EvidenceError(f"{name} does not have the keys {sorted(types)}")
    for key, allowed in types.items():
        if type(value[key]) not in allowed:
            raise EvidenceError(f"{key} of {name} is {value[key]!r}")
