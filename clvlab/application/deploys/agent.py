"""Deployed configurations, and the agent that one stands for."""

from __future__ import annotations

from typing import Any

from clvlab.agents.registry import template
from clvlab.agents.sizing import Kelly
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.runs.entrants import Entrant, entrant, unused_keys

_BANKROLL_STAKES = 100


def resolve(config: DeployConfig) -> DeployConfig:
    """Fill in the defaults of the agent id and of the template's parameters; what is hashed and stored.

    Raises
    ------
    UnknownAgentError, AgentError
    """
    given = {"markets": list(config.market_allowlist), "stake": config.stake} | config.params
    unused = {name: given[name] for name in unused_keys(config.strategy, given)}
    made = template(config.strategy, {name: value for name, value in given.items() if name not in unused})
    return config.model_copy(update={"agent_id": config.agent_id or config.strategy, "params": made.identity.config | unused})


def without_effect(config: DeployConfig) -> dict[str, str]:
    """Name the fields that would have no effect beside the others, and say why."""
    kelly, known = config.sizing == "fractional_kelly", DeployConfig.model_fields
    in_params = config.params.get("stake", config.stake)
    found = {}
    if in_params != config.stake and (kelly or config.stake != known["stake"].default):
        found["stake"] = f"is {config.stake}, and params has the stake {in_params!r:.80}: give one of them"
    if not kelly and config.kelly_fraction_bps != known["kelly_fraction_bps"].default:
        found["kelly_fraction_bps"] = f"{config.kelly_fraction_bps} goes with sizing fractional_kelly, not {config.sizing}"
    return found


def deployed_agent(config: DeployConfig, agent_id: str, proof_mode: str = "reproducible") -> Entrant:
    """Make the agent of a resolved configuration; its identity states the whole of it.

    Raises
    ------
    EntryError
    """
    kelly = Kelly(config.kelly_fraction_bps, _BANKROLL_STAKES * config.stake)
    return entrant(
        agent_id,
        config.strategy,
        config.params,
        pinned=pin(config),
        proof_mode=proof_mode,
        kelly=kelly if config.sizing == "fractional_kelly" else None,
    )


def pin(config: DeployConfig) -> dict[str, Any]:
    """Return a configuration as JSON values: what is stored, hashed and sealed."""
    return config.model_dump(mode="json")
