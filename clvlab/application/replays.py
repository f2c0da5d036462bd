"""Running a sealed run again, from the pack and the agents' own code, and comparing bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clvlab.agents.columnar import Strategy
from clvlab.agents.files import from_file
from clvlab.agents.registry import TEMPLATES
from clvlab.agents.template import Template
from clvlab.application.packs import bundled_catalog, open_pack
from clvlab.engine.agent import Agent, Causality
from clvlab.engine.run import run
from clvlab.errors import ReplayError
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import without_floats
from clvlab.proof.events import receipt_lines
from clvlab.proof.evidence import read_evidence
from clvlab.proof.seal import SealedRun, committed

__all__ = ["Replayed", "replayed"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """Whether a second run gives the same bytes, and in a sentence what was compared."""

    agrees: bool
    detail: str


def replayed(
    sealed: SealedRun, receipts: bytes = b"", *, pack: str | Path | None = None, agents: Sequence[str] = ()
) -> Replayed:
    """Run a sealed run again.

    Parameters
    ----------
    sealed, receipts
        As stored; receipts are compared only where there are any.
    pack
        Id or folder of the pack; the one of the catalog with the sealed content hash by default.
    agents
        Agents that are no templates, as ``file.py:name``.

    Raises
    ------
    ReplayError
        The pack or an agent's code is not at hand, or is another one.
    EvidenceError
        The evidence can't be read.
    """
    evidence = read_evidence(sealed.events)
    started, binding = evidence.started, evidence.started["binding"]
    found = _pack(binding, pack)
    at_hand = [from_file(*agent.rsplit(":", 1)) for agent in agents]
    asked = [_agent(named, at_hand) for named in started["agents"]]
    audited = any(named["causality"] == Causality.PREFIX_AUDIT for named in started["agents"])
    result = run(
        found.tape(binding["fixture_ids"]),
        asked,
        evidence.window,
        policy=evidence.policy,
        kind=started["kind"],
        origin_id=started["origin_id"],
        audit=audited,
    )
    again = committed(result.run, sealed.commit_index)
    pairs = {
        "events.jsonl": (sealed.events, again.events),
        "scores.jsonl": (sealed.scores, again.scores),
        "manifest.json": (sealed.manifest, again.manifest),
    }
    if receipts:
        pairs["receipts.jsonl"] = (receipts, receipt_lines(result.receipts))
    for name, (stored, made) in pairs.items():
        if stored != made:
            return Replayed(agrees=False, detail=f"run again, {name} differs from the stored one at {_first(stored, made)}")
    return Replayed(agrees=True, detail=f"run again from pack {found.pack_id!r}, all {len(pairs)} files have the same bytes")


def _pack(binding: Mapping[str, Any], given: str | Path | None) -> Pack:
    expected = binding["content_hash"]
    if given is None:
        known = {pack.content_hash: pack for pack in bundled_catalog().packs()}
        if expected not in known:
            raise ReplayError(
                f"no pack of the catalog has content hash {expected}: name the folder of pack {binding['pack_id']!r}"
            )
        found = known[expected]
    else:
        found = open_pack(given)
    if (found.pack_id, found.content_hash) != (binding["pack_id"], expected):
        raise ReplayError(
            f"the run was over pack {binding['pack_id']!r} of {expected}, {str(given or found.pack_id)!r} is "
            f"{found.pack_id!r} of {found.content_hash}"
        )
    return found


def _agent(named: Mapping[str, Any], at_hand: Sequence[Agent]) -> Agent:
    """Find the agent that RUN_STARTED names, and make sure that it is the same one."""
    keys = ("strategy", "strategy_version", "source_sha256")
    for agent in [*_template(named), *(_configured(agent, named) for agent in at_hand)]:
        identity = agent.identity
        same = all(getattr(identity, key) == named[key] for key in (*keys, "agent_id"))
        if same and without_floats(identity.config) == named["config"]:
            return agent
    what = f"agent {named['agent_id']!r} ({named['strategy']} {named['strategy_version']})"
    raise ReplayError(f"{what} is not at hand as it was sealed: give its source as file.py:name, or its version of clvlab")


def _template(named: Mapping[str, Any]) -> list[Agent]:
    if named["strategy"] not in TEMPLATES or named["source_sha256"] is not None:
        return []
    model, rule = TEMPLATES[named["strategy"]]
    fields = {
        name: float(value) if model.model_fields[name].annotation is float and isinstance(value, str) else value
        for name, value in named["config"].items()
        if name in model.model_fields
    }
    try:
        config = model.model_validate(fields)
    except (ValidationError, ValueError) as error:
        raise ReplayError(f"template {named['strategy']!r} does not take the sealed config: {error}") from error
    return [Template(named["agent_id"], named["strategy"], config, rule)]


def _configured(agent: Agent, named: Mapping[str, Any]) -> Agent:
    """Give a strategy the sealed values of its parameters; fractions were sealed as text."""
    if not isinstance(agent, Strategy):
        return agent
    config = named["config"]
    sealed = {name: config[name] for name in agent.params if name in config}
    values = {
        name: float(value) if isinstance(agent.params[name], float) and isinstance(value, str) else value
        for name, value in sealed.items()
    }
    return agent.with_params(named["agent_id"], **values)


def _first(stored: bytes, made: bytes) -> str:
    ours, theirs = stored.split(b"\n"), made.split(b"\n")
    line = next(
        (number for number, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    return f"line {line + 1}"
