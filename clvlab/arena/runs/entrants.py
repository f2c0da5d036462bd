"""Agents made from pinned facts: a template, parameters, a proof mode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from clvlab.agents.proposals import BetsConfig, LlmConfig
from clvlab.agents.registry import TEMPLATES, template
from clvlab.agents.template import Kelly, Template
from clvlab.api.answer import ProofMode
from clvlab.arena.runs.binding import Bound
from clvlab.engine.agent import Identity, decisions_of, register
from clvlab.engine.live import Follower
from clvlab.engine.replay import locate
from clvlab.errors import AgentError, ClvlabError, EntryError, EvidenceError, PackError
from clvlab.law.actions import Decision
from clvlab.law.message import Message
from clvlab.law.schema import Action
from clvlab.law.tape import Tape
from clvlab.proof.canonical import without_floats
from clvlab.proof.manifest import config_hash

_PUNCTUATION = re.compile(r"[-_\s]")
_PROOF_MODES: dict[str, ProofMode] = {
    "reproducible": "reproducible",
    "deterministic": "reproducible",
    "verified": "verified",
    "evidenceverified": "verified",
    "llm": "verified",
    "llmevidenceverified": "verified",
}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Entrant:
    identity: Identity
    template: Template[Any]
    kelly: Kelly | None = None

    def decide(self, tape: Tape) -> pl.DataFrame:
        decisions = self.template.decide(tape)
        return decisions if self.kelly is None else self.kelly.sized(tape, decisions)

    @contextmanager
    def following(self, fixtures: pl.DataFrame) -> Iterator[Follower]:
        """Follow a feed as the template does, with sized stakes; ``fixtures`` has the schema ``FIXTURES``."""
        with self.template.following(fixtures) as follower:
            yield follower if self.kelly is None else _KellyFollower(follower, self.kelly)


@dataclass(frozen=True, slots=True)
class _KellyFollower:
    follower: Follower
    kelly: Kelly

    def take(self, message: Message) -> Sequence[Decision]:
        return [self._with_stake(message, one) for one in self.follower.take(message)]

    def _with_stake(self, message: Message, decision: Decision) -> Decision:
        side = decision[4]
        if decision[2] != Action.BACK or side is None:
            return decision
        return (*decision[:5], self.kelly.stake_at(message, side), *decision[6:])


def entrant(
    agent_id: str,
    strategy: str,
    params: Mapping[str, Any],
    *,
    pinned: Mapping[str, Any] | None = None,
    proof_mode: str = "reproducible",
    kelly: Kelly | None = None,
) -> Entrant:
    """Make an agent of a template.

    Unknown keys of ``params`` are unused, and stay in the identity. ``pinned`` replaces the template's own configuration in the
    identity. ``proof_mode`` is in canonical form. Without ``kelly`` the template's stake applies.

    Raises
    ------
    EntryError
        The strategy is unknown, a value is not valid, or the configuration can't be sealed (infinities, integers beyond 2**53 -
        1).
    """
    unused = {key: params[key] for key in unused_keys(strategy, params)}
    try:
        made = template(strategy, {key: value for key, value in params.items() if key not in unused}, agent_id=agent_id)
        own = made.identity
        identity = replace(own, config=dict(own.config | unused if pinned is None else pinned), proof_mode=proof_mode)
        config_hash_of(identity)
    except (AgentError, EvidenceError, RecursionError) as error:
        raise EntryError(str(error)) from error
    return register(Entrant(identity, made, kelly))


def unused_keys(strategy: str, params: Mapping[str, Any]) -> list[str]:
    """Return the parameters that a template does not know; they are pinned and hashed, but have no effect."""
    known = TEMPLATES[strategy][0].model_fields if strategy in TEMPLATES else params
    return sorted(set(params) - set(known))


def config_hash_of(identity: Identity) -> str:
    return config_hash(identity.strategy, identity.strategy_version, without_floats(identity.config))


def proof_mode(text: str) -> ProofMode:
    """Normalize a proof mode; case, ``-``, ``_`` and spaces are ignored, and ``/`` separates names of one mode.

    Raises
    ------
    EntryError
        The text is not a spelling of ``reproducible`` or ``verified``, or is one of both.

    Examples
    --------
    >>> proof_mode("Evidence-Verified"), proof_mode("LLM/evidence-verified")
    ('verified', 'verified')
    """
    modes = {_PROOF_MODES.get(_PUNCTUATION.sub("", name).lower()) for name in text.split("/")}
    mode = modes.pop()
    if mode is None or modes:
        raise EntryError(f"unknown proof_mode {text!r}: use reproducible or verified")
    return mode


# Agents that can't decide over the fixture of their run.


def names_ticks(agent: Entrant) -> bool:
    """Whether an agent's configuration names things that a tape may lack, as only a transcript does."""
    config = agent.template.config
    return isinstance(config, LlmConfig | BetsConfig) and bool(config.transcript)


def misfits(agents: Iterable[Entrant], own: Bound) -> dict[str, str]:
    """Return the reasons why agents can't decide over a fixture, by agent id.

    Agents that name no ticks fit every tape and are not tried. Over a pack that can't be replayed no agent is tried, as the run
    will report that.
    """
    candidates = [agent for agent in agents if names_ticks(agent)]
    if not candidates:
        return {}
    try:
        tape = own.pack.tape(own.fixtures)
    except PackError:
        return {}
    found: dict[str, str] = {}
    for agent in candidates:
        try:
            locate(tape, decisions_of(agent, tape))
        except ClvlabError as error:
            named = f"fixture {own.fixture_id}" if own.fixture_ids is None else f"{len(own.fixture_ids)} fixtures"
            found[agent.identity.agent_id] = f"can't run over {named} of pack {own.pack.pack_id!r}: {error}"
    return found
