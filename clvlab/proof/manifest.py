"""The manifest, which binds a run id, its evidence and its scores, and the hashes that identify agents and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

import orjson

from clvlab.errors import EvidenceError
from clvlab.law.closing import SealedWindow
from clvlab.law.schema import LAW_VERSION, SAFE_INTEGER, Causality
from clvlab.proof.canonical import JsonObject, canonical, sha256

# RUN_STARTED: everything that shapes the result of a run, known before its tape is opened.
#
# It is a dict with typed keys, like its bytes, so that reading a sealed line loses nothing.


class ReadFile(TypedDict):
    name: str
    sha256: str


class SealedAgent(TypedDict):
    """An agent; ``reads`` and ``network`` are present only where it had access."""

    agent_id: str
    strategy: str
    strategy_version: str
    config: JsonObject
    config_hash: str
    proof_mode: str
    causality: str
    source_sha256: str | None
    reads: NotRequired[list[ReadFile]]
    network: NotRequired[bool]


class SealedIsolation(TypedDict):
    """Resources held from the process of an agent: ``clvlab.law.schema.Held``, sorted."""

    agent_id: str
    held: list[str]


class SealedBinding(TypedDict):
    """Ticks that were replayed; pack and hash are ``None`` for a tape that comes from no pack."""

    pack_id: str | None
    fixture_ids: list[int]
    content_hash: str | None


class RunStarted(TypedDict):
    """Payload of the first line of evidence; ``isolation`` is present only if it names an agent."""

    schema: str
    kind: str
    origin_id: str | None
    source_mode: str
    mode_label: str
    law_version: str
    window: SealedWindow
    binding: SealedBinding
    agents: list[SealedAgent]
    policy: JsonObject
    policy_hash: str
    run_id: str
    isolation: NotRequired[list[SealedIsolation]]


VERIFIER_VERSION = "clvlab-proof/1"
MAX_MANIFEST_BYTES = 1 << 20
_RUN_SCHEMAS = ("clvlab-run/1", "clvlab-run/2")
_SINCE_TWO = {Causality.TRANSCRIPT, Causality.STEPPED, Causality.STEPPED_BLOCKS, Causality.ASKED}
_MANIFEST_SCHEMA = "clvlab-manifest/1"
_CONFIG_SCHEMA = "clvlab-agent-config/1"
_RUN_KEY = ("agents", "binding", "kind", "law_version", "origin_id", "policy_hash", "schema", "window")


def config_hash(strategy: str, strategy_version: str, config: Mapping[str, object]) -> str:
    """Return the hash of an agent's configuration, with defaults filled in and fractions as decimal text."""
    return sha256(
        canonical({"schema": _CONFIG_SCHEMA, "strategy": strategy, "strategy_version": strategy_version, "config": config})
    )


def policy_hash(policy: Mapping[str, object]) -> str:
    return sha256(canonical(policy))


def roster_hash(agents: list[SealedAgent]) -> str:
    """Return the ``config_hash`` of a single agent, or the hash of the sorted [agent_id, config_hash] pairs of several."""
    if len(agents) == 1:
        return str(agents[0]["config_hash"])
    return sha256(canonical(sorted([agent["agent_id"], agent["config_hash"]] for agent in agents)))


def sources_hash(sources: Sequence[str | None]) -> str:
    """Return the hash of the agents' ``source_sha256`` in roster order. An unknown one is ``None``."""
    return sha256(canonical(list(sources)))


def run_id(started: RunStarted) -> str:
    return derived_run_id(inputs_hash(started))


def derived_run_id(inputs: str) -> str:
    return "run_" + inputs.removeprefix("sha256:")[:32]


def inputs_hash(started: RunStarted) -> str:
    """Return the hash of everything in RUN_STARTED that shapes the result. Isolation does not shape it."""
    shaping = {key: value for key, value in started.items() if key in _RUN_KEY}
    return sha256(canonical(shaping | {"schema": _RUN_SCHEMAS[_has_new_label(started)]}))


def run_schema(started: RunStarted) -> str:
    """Return the schema of a run. The second is only for labels that the first lacks, so no run has two schemas."""
    return _RUN_SCHEMAS["isolation" in started or _has_new_label(started)]


def _has_new_label(started: RunStarted) -> bool:
    return any(agent["causality"] in _SINCE_TWO for agent in started["agents"])


def check_ids(started: RunStarted) -> None:
    """Derive every hash and id in RUN_STARTED again; ``EvidenceError`` at the first difference."""
    for agent in started["agents"]:
        own = config_hash(agent["strategy"], agent["strategy_version"], agent["config"])
        if own != agent["config_hash"]:
            raise EvidenceError(f"config_hash of {agent['agent_id']} is {agent['config_hash']}, its config gives {own}")
    policy = policy_hash(started["policy"])
    if policy != started["policy_hash"]:
        raise EvidenceError(f"policy_hash is {started['policy_hash']}, the sealed policy gives {policy}")
    derived = run_id(started)
    if derived != started["run_id"]:
        raise EvidenceError(f"run_id is {started['run_id']}, its inputs give {derived}")


def manifest(
    started: RunStarted,
    *,
    evidence_hash: str,
    evidence_root: str,
    event_count: int,
    score_root: str,
    commit_index: int | None = None,
) -> Mapping[str, object]:
    """Return the manifest of a run. ``commit_index`` is its commitment in the run log, ``None`` without a log."""
    return {
        "schema": _MANIFEST_SCHEMA,
        "run_id": started["run_id"],
        "evidence_hash": evidence_hash,
        "evidence_root": evidence_root,
        "event_count": event_count,
        "score_root": score_root,
        "content_hash": started["binding"]["content_hash"],
        "config_hash": roster_hash(started["agents"]),
        "policy_hash": started["policy_hash"],
        "law_version": LAW_VERSION,
        "verifier_version": VERIFIER_VERSION,
        "commit_index": commit_index,
    }


def stated_hash(manifest: bytes) -> str:
    """Return the evidence hash that a manifest states; ``EvidenceError`` if it states no hash or is too large."""
    if len(manifest) > MAX_MANIFEST_BYTES:
        raise EvidenceError(f"it has {len(manifest):,} bytes, the limit is {MAX_MANIFEST_BYTES:,}")
    try:
        return str(orjson.loads(manifest)["evidence_hash"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise EvidenceError(f"the manifest states no evidence_hash: {error}") from error


def stated_index(manifest: bytes) -> int | None:
    """Return the index of the commitment that the manifest states; ``None`` without a log or a readable manifest."""
    if len(manifest) > MAX_MANIFEST_BYTES:
        return None
    try:
        index = orjson.loads(manifest)["commit_index"]
    except (orjson.JSONDecodeError, KeyError, TypeError):  # the rebuilt one then differs, which fails manifest_bound
        return None
    return index if type(index) is int and 0 <= index <= SAFE_INTEGER else None
