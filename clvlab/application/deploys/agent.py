"""Deployed configurations: the agent, the policy and the window that one stands for."""

from __future__ import annotations

from typing import Any

from clvlab.agents.registry import template
from clvlab.agents.sizing import Kelly
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.runs.entrants import Entrant, entrant, unused_keys
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope

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


def policy_of(config: DeployConfig) -> PolicyEnvelope:
    """Return the limits under which a deployed agent acts.

    Raises
    ------
    PolicyError
    """
    return PolicyEnvelope(
        market_allowlist=config.market_allowlist,
        execution_mode=config.execution_mode,
        max_stake=config.max_stake,
        max_exposure_per_market=config.max_exposure_per_market,
        max_orders=config.max_orders,
        cooldown_s=config.cooldown_s,
        warmup_ticks=config.warmup_ticks,
        require_quote=config.require_quote,
        max_quote_age_s=config.max_quote_age_s,
        min_edge_bps=config.min_edge_bps,
    )


def window_of(config: DeployConfig) -> Window:
    """Return the scoring window of a deployed agent.

    Raises
    ------
    WindowError
        ``duration_s`` missing or superfluous.
    """
    return Window(
        end_rule=config.end_rule,
        duration_s=config.duration_s,
        min_clv_horizon_s=config.min_clv_horizon_s,
        market_allowlist=config.market_allowlist,
    )
