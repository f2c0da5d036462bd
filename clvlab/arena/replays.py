"""Replays of a sealed run: prices from the ticks, then decisions from the agents' own code; both are compared as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from clvlab.agents.isolation.agent import IsolatedAgent
from clvlab.agents.registry import of_sealed_config
from clvlab.arena.deploys.config import DeployConfig, deployed_agent
from clvlab.arena.packs import pack_of_run
from clvlab.engine.agent import Agent, sealable
from clvlab.engine.live import replay_live
from clvlab.engine.replay import locate, with_seq, with_states
from clvlab.engine.run import RunResult, run
from clvlab.errors import AgentError, DecisionError, EntryError, PackError, ReplayError, WindowError
from clvlab.law.schema import DECISIONS, Causality
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.packs.views.join import otherwise_matched
from clvlab.proof.events import CLOSE_EVENTS, PROPOSAL_EVENTS, Events, receipt_lines
from clvlab.proof.evidence import Evidence, read_evidence
from clvlab.proof.seal import SealedRun
from clvlab.runs.progress import shortened
from clvlab.runs.shards import Shards, sharded

_TICK = 2**31 - 1
_DEPLOY = "deploy"
_MAX_CHARACTERS = 200  # maximal characters of a differing value in a sentence


@dataclass(frozen=True, slots=True)
class Repeat:
    """Whether a replay repeats the sealed bytes, and a sentence on the comparison."""

    agrees: bool
    detail: str


def prices_again(sealed: SealedRun, pack: str | Path | None = None, view: bytes = b"") -> Repeat:
    """Derive every state and close in the evidence again from the ticks of the pack, without the agents.

    By default the catalog's pack with the sealed content hash is read. For a derived pack its parents and the run's ``view``
    file are enough. ``ReplayError`` if the pack is not available or is another one.
    """
    evidence = read_evidence(sealed.events)
    found = _pack(evidence, pack, view)
    return _prices(evidence, found, sharded(found, evidence.started["binding"]["fixture_ids"], ()))


def replay_run(
    sealed: SealedRun,
    receipts: bytes = b"",
    *,
    pack: str | Path | None = None,
    agents: Sequence[IsolatedAgent] = (),
    view: bytes = b"",
) -> Repeat:
    """Check the prices of a sealed run and run it again; ``ReplayError`` if pack or code is missing or another one.

    The agents' code runs in other processes, so that it can't reach the comparison. Audits are not repeated, so the label
    ``causality`` is copied. A live run is replayed over its captured pack: its agents saw one message at a time, and now get
    the whole tape. Its RUN_STARTED is copied too, because it was committed to before the pack existed.
    """
    evidence = read_evidence(sealed.events)
    found = _pack(evidence, pack, view)
    fixture_ids = evidence.started["binding"]["fixture_ids"]
    prices = _prices(evidence, found, sharded(found, fixture_ids, ()))
    if not prices.agrees:
        return prices
    if evidence.captured is None:
        result = _second_run(evidence, found, agents, sealed.commit_index)
    else:
        result = _followed_again(evidence, found.tape(fixture_ids), agents, sealed.commit_index)
    again = result.sealed
    pairs = {
        "events.jsonl": (sealed.events, again.events),
        "scores.jsonl": (sealed.scores, again.scores),
        "manifest.json": (sealed.manifest, again.manifest),
    }
    if receipts:
        pairs["receipts.jsonl"] = (receipts, receipt_lines(result.receipts))
    for name, (stored, made) in pairs.items():
        if stored != made:
            return Repeat(agrees=False, detail=f"run again, {name} differs from the stored one at {_first(stored, made)}")
    same = f"run again from pack {found.pack_id!r}, all {len(pairs)} files have the same bytes"
    if evidence.captured is not None:
        same += (
            f": with the whole tape at once, the agents decide as they did live ({evidence.decisions.height:,} decisions, "
            f"{evidence.closes.height:,} closes)"
        )
    return Repeat(agrees=True, detail=same)


def _followed_again(evidence: Evidence, tape: Tape, agents: Sequence[IsolatedAgent], commit_index: int | None) -> RunResult:
    started, failed = evidence.started, {error["agent_id"] for error in evidence.errors}
    return replay_live(
        started,
        tape,
        [_agent(started["kind"], named, agents) for named in started["agents"] if named["agent_id"] not in failed],
        evidence.errors,
        evidence.window,
        evidence.policy,
        captured=str(evidence.captured),
        commit_index=commit_index,
    )


def _second_run(evidence: Evidence, pack: Pack, agents: Sequence[IsolatedAgent], commit_index: int | None) -> RunResult:
    started = evidence.started
    roster = [_agent(started["kind"], named, agents) for named in started["agents"]]
    return run(
        [partial(pack.tape, shard) for shard in sharded(pack, started["binding"]["fixture_ids"], roster)],
        roster,
        evidence.window,
        policy=evidence.policy,
        kind=started["kind"],
        origin_id=started["origin_id"],
        commit_index=commit_index,
        again=started,
    )


def _looked_up(evidence: Evidence, pack: Pack, shards: Shards, decisions: pl.DataFrame) -> Iterator[Events]:
    for shard in shards:
        tape = pack.tape(shard)
        yield with_states(tape, locate(tape, decisions.filter(pl.col("fixture_id").is_in(shard))), evidence.window)
        del tape  # frees it before the next one is read


def _prices(evidence: Evidence, pack: Pack, shards: Shards) -> Repeat:
    """Look up every state of the evidence in the pack, without asking the agents."""
    sealed = (evidence.started["window"]["closing_policy"], evidence.max_close_age_s)
    if sealed != (pack.manifest.closing_policy, pack.manifest.max_close_age_s):
        return Repeat(agrees=False, detail=f"pack {pack.pack_id!r} closes by {pack.closing}, the run by {sealed}")
    if otherwise := otherwise_matched(pack):
        return Repeat(agrees=False, detail=f"pack {pack.pack_id!r} differs from the join of its sources: {otherwise}")
    ticks = evidence.decisions["tick_seq"]
    if ticks.len() and not ticks.is_between(0, _TICK).all():
        return Repeat(agrees=False, detail="a decision is at a tick that no pack has")
    named = evidence.decisions.with_columns(confidence=pl.lit(None, pl.Float64)).select(
        pl.col(name).cast(dtype) for name, dtype in DECISIONS.items()
    )
    try:
        again = with_seq([*_looked_up(evidence, pack, shards, named)], errors=len(evidence.errors))
    except (DecisionError, WindowError) as error:  # a book that the pack does not keep
        return Repeat(agrees=False, detail=str(error))
    claims = ("confidence_ppm", "confidence_raw")
    columns = [name for name in PROPOSAL_EVENTS if name not in claims]
    for stored, made in (
        (evidence.decisions.select(columns), again.frames[0].select(columns)),
        (evidence.closes.select(*CLOSE_EVENTS), again.frames[1]),
    ):
        if not stored.equals(made):
            return Repeat(agrees=False, detail=f"the ticks of pack {pack.pack_id!r} do not give {_difference(stored, made)}")
    counted = f"{evidence.decisions.height:,} decisions and {evidence.closes.height:,} closes"
    return Repeat(agrees=True, detail=f"all prices of {counted} follow from the ticks of pack {pack.pack_id!r}")


def _difference(stored: pl.DataFrame, made: pl.DataFrame) -> str:
    if stored.height != made.height:
        return f"{stored.height:,} lines, but {made.height:,}"
    pairs = zip(stored.iter_rows(named=True), made.iter_rows(named=True), strict=True)
    ours, theirs = next((ours, theirs) for ours, theirs in pairs if ours != theirs)
    names = ", ".join(f"{name} {_cut(ours[name])} but {_cut(theirs[name])}" for name in ours if ours[name] != theirs[name])
    return f"the line with seq {ours['seq']}: it says {names}"


def _cut(value: object) -> str:
    return shortened(repr(value), _MAX_CHARACTERS)


def _pack(evidence: Evidence, where: str | Path | None, view: bytes) -> Pack:
    """Find the pack of a run; a live run's evidence does not name its pack, so only the content hash identifies it."""
    expected, name = evidence.content_hash, evidence.started["binding"]["pack_id"]
    described = "the pack that it captured" if evidence.captured is not None else f"pack {name!r}"
    try:
        found = pack_of_run(expected, where, view)
    except PackError as error:
        if not view:
            raise
        raise ReplayError(f"{described} can't be made again from the view file of the run: {error}") from error
    if found is None:
        raise ReplayError(f"no pack of the catalog has content hash {expected}: name the folder of {described}")
    if found.content_hash != expected or name not in (None, found.pack_id):
        raise ReplayError(
            f"{str(where or found.pack_id)!r} is another pack than that of the run: it is {found.pack_id!r} of "
            f"{found.content_hash}, and the run was over {described} of {expected}"
        )
    return found


def _agent(kind: str, named: Mapping[str, Any], at_hand: Sequence[IsolatedAgent]) -> Agent:
    """Find the agent that RUN_STARTED names, and check its identity."""
    what = f"agent {named['agent_id']!r} ({named['strategy']} {named['strategy_version']})"
    if named["causality"] == Causality.ASKED:
        raise ReplayError(f"{what} answered from elsewhere, and can't be asked again: --pack derives its prices and its ticks")
    of_template = _deployed_agents if kind == _DEPLOY else _template
    for agent in of_template(named) if _is_template(named) else _of_file(named, at_hand):
        identity = agent.identity
        same = all(getattr(identity, key) == named[key] for key in ("agent_id", "strategy", "strategy_version"))
        if same and sealable(identity) == named["config"]:
            return agent
    raise ReplayError(f"{what} is not available as sealed: name its source as file.py:name, or install its version of clvlab")


def _is_template(named: Mapping[str, Any]) -> bool:
    """Whether an agent is a template, which has no source of its own; the label of a live run does not show that."""
    if named["causality"] == Causality.LIVE:
        return named["source_sha256"] is None
    return named["causality"] in (Causality.TEMPLATE, Causality.TRANSCRIPT)


def _deployed_agents(named: Mapping[str, Any]) -> list[Agent]:
    try:
        return [deployed_agent(DeployConfig.model_validate(named["config"]), named["agent_id"])]
    except (AgentError, EntryError, ValidationError) as error:
        raise ReplayError(f"no deployed agent {named['agent_id']!r} can be made of the sealed config: {error}") from error


def _template(named: Mapping[str, Any]) -> list[Agent]:
    try:
        return [of_sealed_config(named["agent_id"], named["strategy"], named["config"])]
    except AgentError as error:
        raise ReplayError(f"clvlab can't make template {named['strategy']!r} of the sealed config: {error}") from error


def _of_file(named: Mapping[str, Any], at_hand: Sequence[IsolatedAgent]) -> list[Agent]:
    """Return the agents whose source has the sealed digest, with the limits of the sealed agent."""
    source, own = named["source_sha256"], [agent for agent in at_hand if agent.code.has(named["source_sha256"])]
    sealed = (named.get("network", False), [(read["name"], read["sha256"]) for read in named.get("reads", [])])
    wrong = next((agent.limits for agent in own if (agent.limits.network, list(agent.limits.digests())) != sealed), None)
    if wrong:
        raise ReplayError(
            f"agent {named['agent_id']!r} was allowed to read {sealed[1]} and network {sealed[0]}, but here it is "
            f"{list(wrong.digests())} and {wrong.network}: give it the same permissions"
        )
    return [
        replace(agent, code=replace(agent.code, source_sha256=source)).as_sealed(named["agent_id"], named["config"])
        for agent in own
    ]


def _first(stored: bytes, made: bytes) -> str:
    ours, theirs = stored.split(b"\n"), made.split(b"\n")
    line = next(
        (number for number, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    return f"line {line + 1}"
