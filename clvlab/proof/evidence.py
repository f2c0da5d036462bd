"""Strict reading of sealed evidence, the bytes of ``events.jsonl``, in order and complete."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from clvlab.errors import EvidenceError, PolicyError, WindowError
from clvlab.law.closing import Window, read_window
from clvlab.law.lines import Ints
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.positions import check_coherence, check_values, market_rows
from clvlab.law.schema import LAW_VERSION, LOCKED_IN, MODE_LABELS, Causality, ClosingPolicy, Held, SourceMode
from clvlab.proof.canonical import HASH, JsonObject
from clvlab.proof.events import Event, Events, Kind, read_events, read_single
from clvlab.proof.limits import MAX_LINE_BYTES, MAX_STARTED_BYTES, check_lines, check_started
from clvlab.proof.manifest import RunStarted, SealedAgent, run_schema

_Types = dict[str, tuple[type, ...]]

# Keys and types of values that are read one by one.
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
# For a user's agent that could read files or reach a network. A key is absent if the permission is off.
_ALLOWED: _Types = {"network": (bool,), "reads": (list,)}
_ISOLATION: _Types = {"agent_id": (str,), "held": (list,)}
_READ: _Types = {"name": (str,), "sha256": (str,)}
_BINDING: _Types = {"content_hash": _OPTIONAL_TEXT, "fixture_ids": (list,), "pack_id": _OPTIONAL_TEXT}
_ERROR: _Types = {"agent_id": (str,), "error": (str,), "fixture_id": _OPTIONAL_INT, "tick_seq": _OPTIONAL_INT}
_STEP_BY_STEP = {Causality.STEPPED, Causality.STEPPED_BLOCKS}


class SealedLimits(NamedTuple):
    """Sealed limits of a run: window, the pack's closing policy and limit on the age of a close, and policy envelope."""

    window: Window
    closing_policy: ClosingPolicy
    max_close_age_s: int | None
    policy: PolicyEnvelope


@dataclass(frozen=True)
class Evidence:
    """Content of a sealed run.

    Attributes
    ----------
    started
        Payload of RUN_STARTED.
    events
        Decisions and closes.
    errors
        Payloads of AGENT_ERROR.
    captured
        Content hash of the pack that a live run captured, from RUN_SEALED; ``None`` for a replay.
    """

    started: RunStarted
    events: Events
    errors: list[JsonObject]
    captured: str | None = None

    @property
    def decisions(self) -> pl.DataFrame:
        """``DECISION_EVENTS`` in order of ``seq``."""
        return self.events.frames[0]

    @property
    def closes(self) -> pl.DataFrame:
        """``CLOSE_EVENTS`` in order of ``seq``."""
        return self.events.frames[1]

    @property
    def content_hash(self) -> str | None:
        """Content hash of the pack that the run replayed or captured."""
        return self.captured or self.started["binding"]["content_hash"]

    @property
    def count(self) -> int:
        """Number of events, one a line."""
        decisions, closes = self.events.lines
        return len(decisions) + len(self.errors) + len(closes) + 2

    @cached_property
    def limits(self) -> SealedLimits:
        """Limits of the run.

        Raises
        ------
        EvidenceError
            RUN_STARTED has content that no run seals.
        """
        sealed = self.started["policy"]
        try:
            limits = read_window(self.started["window"])
            policy = PolicyEnvelope.sealed(sealed)
            if sealed != policy.payload(()):
                raise EvidenceError("the sealed policy is not as a policy is sealed")
        except (AttributeError, KeyError, TypeError, ValueError, PolicyError, WindowError) as error:
            raise EvidenceError(f"RUN_STARTED is malformed: {error!r}") from error
        return SealedLimits(*limits, policy)

    @property
    def window(self) -> Window:
        """The window as sealed."""
        return self.limits.window

    @property
    def max_close_age_s(self) -> int | None:
        """The pack's limit on the age of a close, as sealed; ``None`` without a limit."""
        return self.limits.max_close_age_s

    @property
    def policy(self) -> PolicyEnvelope:
        """The policy envelope as sealed."""
        return self.limits.policy

    @cached_property
    def market(self) -> Ints:
        """Row in ``closes`` of the market that each decision backs; -1 for a decision that backs no market.

        Raises
        ------
        EvidenceError
            The closes are not sorted, or not exactly one per market that a BACK names.
        """
        return market_rows(*self.events.lines)


def read_evidence(events: bytes) -> Evidence:
    """Read the whole of ``events.jsonl``, or raise ``EvidenceError``.

    1. Count bytes and lines.
    2. Cut the bytes into the blocks of the five kinds.
    3. Read decisions and closes, and write them again.
    4. Check the content of each line, numbers, counts and order.
    5. Check that all lines can come from one tape.
    """
    if not events.endswith(b"\n"):
        raise EvidenceError("the evidence is empty or does not end with a line feed")
    check_lines(events, "events.jsonl", MAX_STARTED_BYTES)  # 1

    first = events.index(b"\n") + 1  # 2
    after = _end_of(Kind.DECISION, events, first)
    closes_from = _start_of(Kind.MARKET_CLOSE, events, after)
    closes_to = _end_of(Kind.MARKET_CLOSE, events, closes_from)

    opening = read_single(events[:first], Kind.RUN_STARTED)  # 3
    started: RunStarted = opening["payload"]
    _check_failures(events.count(b"\n", after, closes_from), started.get("agents"))
    read = read_events(events, (first, after), (closes_from, closes_to))
    errors = [read_single(line + b"\n", Kind.AGENT_ERROR) for line in events[after:closes_from].split(b"\n")[:-1]]
    _check_end(events, closes_to)
    sealed = read_single(events[closes_to:], Kind.RUN_SEALED)
    captured = sealed["payload"].get("content_hash")
    failures = [event["payload"] for event in errors]

    deciders = set(read.decisions.agent_id.values)  # 4
    _check_started(started, first - 1, failures, deciders)
    evidence = Evidence(started, read, failures, captured)
    limits = evidence.limits
    _check_mode(started, captured)
    _check_numbers(opening, read, errors, sealed)
    check_values(read.decisions, read.closes, limits.window, started["binding"]["fixture_ids"])
    _check_errors(failures, started["agents"], deciders)

    check_coherence(read.decisions, read.closes, evidence.market, limits.closing_policy, limits.window.duration_s)  # 5
    return evidence


def _check_failures(count: int, agents: Any) -> None:
    """Refuse more AGENT_ERROR lines than agents, before reading such a line."""
    if isinstance(agents, list) and count > len(agents):
        raise EvidenceError(f"{count:,} lines stand where at most {len(agents):,} agents could have failed")


def _check_end(events: bytes, start: int) -> None:
    """Refuse lines other than RUN_SEALED after the closes, before they are read as one line."""
    count = events.count(b"\n", start)
    if count != 1:
        raise EvidenceError(f"{count:,} lines stand where RUN_SEALED must stand alone")


def _end_of(kind: Kind, events: bytes, start: int) -> int:
    last = events.rfind(b'\n{"kind":"%s"' % kind.encode(), start - 1)
    return start if last < 0 else events.index(b"\n", last + 1) + 1


def _start_of(kind: Kind, events: bytes, start: int) -> int:
    """Return the start of the first line of a kind at or after ``start``, or of the last line if no such line follows."""
    found = events.find(b'\n{"kind":"%s"' % kind.encode(), start - 1)
    return found + 1 if found >= 0 else max(events.rfind(b"\n", start - 1, len(events) - 1) + 1, start)


def _check_numbers(started: Event, read: Events, errors: list[Event], sealed: Event) -> None:
    n, m, k = len(read.decisions), len(errors), len(read.closes)
    seqs = [started["seq"], *(event["seq"] for event in errors), sealed["seq"]]
    decided, closed = np.arange(1, n + 1), np.arange(n + m + 1, n + m + k + 1)
    counted = np.array_equal(read.decision_seqs, decided) and np.array_equal(read.close_seqs, closed)
    stated = sealed["payload"]
    captured = stated.get("content_hash")
    named = {} if captured is None else {"content_hash": captured}
    if any(type(number) is not int for number in (*seqs, *(stated[name] for name in stated if name not in named))):
        raise EvidenceError("seq and the counts of RUN_SEALED must be integers")
    if not counted or seqs != [0, *range(n + 1, n + m + 1), n + m + k + 1]:
        raise EvidenceError("seq must count the lines from 0")
    # Lines are counted twice, by number and in the last line, so that truncated evidence is never read as complete.
    if stated != {"agent_errors": m, "decisions": n, "market_closes": k} | named:
        raise EvidenceError(f"RUN_SEALED counts {stated}, before it stand {n} decisions, {m} errors, {k} closes")


def _check_errors(errors: list[JsonObject], agents: list[SealedAgent], deciders: set[str]) -> None:
    """Require each failed agent once, in order, without decisions. A run whose agents all failed is not sealed."""
    # If a failed agent kept its decisions, it could fail whenever it loses (choices.md, "an agent that raises an error").
    failed, named = [error["agent_id"] for error in errors], {agent["agent_id"] for agent in agents}
    if not named.issuperset(failed) or len(failed) == len(named):
        raise EvidenceError("a failed agent is not named by RUN_STARTED, or all of them failed")
    # A free order would give one run several hashes to choose from.
    if failed != sorted(set(failed)):
        raise EvidenceError("an agent fails twice, or failures are not in byte order")
    if not deciders.isdisjoint(failed):
        raise EvidenceError("a decision is by an agent that failed")


def _check_started(started: RunStarted, size: int, errors: list[JsonObject], deciders: set[str]) -> None:
    """Require RUN_STARTED to match its shape and the agents in later lines. Its line has ``size`` bytes."""
    isolation: _Types = {"isolation": (list,)} if "isolation" in started else {}
    _check_types(started, _STARTED | isolation, "RUN_STARTED")
    _check_types(started["binding"], _BINDING, "the binding")
    for agent in started["agents"]:
        _check_agent(agent)
    for error in errors:
        _check_types(error, _ERROR, "AGENT_ERROR")
    if size > MAX_LINE_BYTES:  # a shorter line is within every limit
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
        raise EvidenceError(f"a causality is not one of {', '.join(Causality)}")
    if any(type(number) is not int for number in started["binding"]["fixture_ids"]):
        raise EvidenceError("a fixture id is no integer")
    if not deciders <= set(ids):
        raise EvidenceError("a decision is by an agent that RUN_STARTED does not name")


def _check_mode(started: RunStarted, captured: object) -> None:
    """Require all fields to agree on whether the run is live or a replay."""
    binding = started["binding"]
    if (started["source_mode"], started["mode_label"]) not in MODE_LABELS.items():
        raise EvidenceError(
            f"{started['source_mode']!r} is labelled {started['mode_label']!r}; a replay is a Backtest, never live"
        )
    live = started["source_mode"] == SourceMode.LIVE
    # A pack from before the run can't be a live feed. A captured pack has a hash only when the run is sealed.
    if live and (binding["pack_id"], binding["content_hash"]) != (None, None):
        raise EvidenceError(f"a live run is bound to pack {binding['pack_id']!r} before it began")
    named = isinstance(captured, str) and HASH.fullmatch(captured) is not None
    if named != live or (captured is not None) != live:
        raise EvidenceError(f"RUN_SEALED of a {started['source_mode']} has the content_hash {captured!r}")
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
    """Require isolation in order, with each resource once and no empty entries."""
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
    # "stepped" promises that no later tick was within reach. Only a sandbox without calls and files can keep that promise.
    held = {one["agent_id"]: set(one["held"]) for one in stated}
    if any(
        agent["causality"] in _STEP_BY_STEP and not held.get(agent["agent_id"], set()) >= LOCKED_IN
        for agent in started["agents"]
    ):
        raise EvidenceError("an agent that was asked step by step must have been held to its calls and files")


def _check_types(value: Any, types: _Types, name: str) -> None:
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise EvidenceError(f"{name} does not have the keys {sorted(types)}")
    for key, allowed in types.items():
        if type(value[key]) not in allowed:
            raise EvidenceError(f"{key} of {name} is {value[key]!r}")
