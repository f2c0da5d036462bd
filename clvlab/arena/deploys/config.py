"""The typed configuration of a deploy: every parameter has bounds, and all but strategy and source mode have defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from clvlab.agents.registry import template
from clvlab.agents.template import Kelly
from clvlab.arena.runs.entrants import Entrant, entrant, unused_keys
from clvlab.errors import EvidenceError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.proof.canonical import canonical, without_floats

# Limits of a request's allowlists, because a run stores them several times.


MAX_ENTRIES, MAX_BYTES = 64, 200


def _short(text: str) -> str:
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"an entry has at most {MAX_BYTES} bytes, not {len(text.encode())}")
    return text


Entry = Annotated[StrictStr, Field(max_length=MAX_BYTES), AfterValidator(_short)]
Allowlist = Annotated[list[Entry], Field(max_length=MAX_ENTRIES)]


FixtureId = Annotated[StrictInt, Field(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]


def _distinct(fixture_ids: Any) -> Any:
    """Leave repeated fixtures out, so that what lists repeat of a request is bounded by its pack."""
    return list(dict.fromkeys(fixture_ids)) if isinstance(fixture_ids, list) else fixture_ids


_Several = Annotated[list[FixtureId], Field(min_length=1, max_length=100_000, fail_fast=True)]
FixtureIds = Annotated[_Several | Literal["all"], AfterValidator(_distinct)]
"""Fixtures of a pack, or all of it."""
_SCOPE = re.compile("fixture|pack", re.IGNORECASE)


def scope_faults(names: Iterable[str]) -> dict[str, str]:
    """Return a sentence for each unknown field that seems to widen a run: it would otherwise be ignored, and one fixture run.

    Examples
    --------
    >>> scope_faults(["fixtures", "colour"])
    {'fixtures': 'is unknown: name fixtures by fixture_id or fixture_ids, and their pack by pack_id'}
    """
    return {
        name: "is unknown: name fixtures by fixture_id or fixture_ids, and their pack by pack_id"
        for name in sorted(names)
        if _SCOPE.search(name)
    }


_Name = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Count = Annotated[StrictInt, Field(ge=0, le=1_000_000_000)]
_Units = Annotated[StrictInt, Field(ge=1, le=1_000_000_000)]
_MAX_SECONDS = 366 * 86_400


def _sealable(params: dict[str, Any]) -> dict[str, Any]:
    try:
        canonical(without_floats(params))
    except (EvidenceError, RecursionError) as error:
        raise ValueError(f"can't be sealed: {error!s:.200}") from error
    return params


class DeployConfig(BaseModel):
    """A deployed agent and its limits; unknown fields are never stored.

    Attributes
    ----------
    strategy, params
        Name of a template, and those of its parameters that differ from the defaults.
    agent_id
        The strategy's name by default.
    source_mode, pack_id, fixture_id
        Replayed pack and fixture; a null fixture is the lowest of the pack, a null pack the only verified one of the catalog.
        ``live`` needs a configured feed.
    fixture_ids
        In place of ``fixture_id``, several fixtures of the pack or ``all``, in one run.
    market_allowlist
        Market-key prefixes that are scored and may be traded; ``""`` is every market.
    warmup_ticks
        Ticks of a fixture before the gate allows an order.
    require_quote, max_quote_age_s
        Whether an order needs a quote, and the maximal age of the quote in seconds.
    sizing, stake, kelly_fraction_bps
        ``flat``: ``stake`` integer units on each position. ``fractional_kelly``: this fraction (basis points) of the Kelly
        stake on a bankroll of 100 times ``stake``. A field without effect fails its check: a fraction of Kelly with ``flat``,
        or a stake if ``params`` has another one.
    max_stake, max_exposure_per_market, max_orders, cooldown_s, min_edge_bps
        Caps of the policy gate; null is off.
    execution_mode
        ``paper`` or ``dry_run``.
    end_rule, duration_s, min_clv_horizon_s
        The scoring window.
    """

    model_config = ConfigDict(frozen=True)

    strategy: _Name
    source_mode: Literal["replay", "live"]
    pack_id: _Name | None = None
    fixture_id: FixtureId | None = None
    fixture_ids: FixtureIds | None = None
    agent_id: _Name | None = None
    params: Annotated[dict[str, Any], AfterValidator(_sealable)] = Field(default_factory=dict)
    market_allowlist: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=MAX_ENTRIES)] = ("",)
    warmup_ticks: _Count = 0
    require_quote: StrictBool = True
    max_quote_age_s: Annotated[StrictInt, Field(ge=1, le=_MAX_SECONDS)] = 900
    sizing: Literal["flat", "fractional_kelly"] = "flat"
    stake: _Units = 100
    kelly_fraction_bps: Annotated[StrictInt, Field(ge=1, le=10_000)] = 2500
    max_stake: _Units = 10_000
    max_exposure_per_market: _Units | None = None
    max_orders: _Units | None = None
    cooldown_s: Annotated[StrictInt, Field(ge=0, le=_MAX_SECONDS)] = 0
    min_edge_bps: Annotated[StrictInt, Field(ge=-10_000, le=1_000_000)] | None = None
    execution_mode: Literal["paper", "dry_run"] = "paper"
    end_rule: Literal["pre_match", "fixed_duration", "manual_stop"] = "pre_match"
    duration_s: Annotated[StrictInt, Field(ge=1, le=_MAX_SECONDS)] | None = None
    min_clv_horizon_s: Annotated[StrictInt, Field(ge=0, le=_MAX_SECONDS)] = 60


# Deployed configurations, and their agents.


_BANKROLL_STAKES = 100


def resolve(config: DeployConfig) -> DeployConfig:
    params = {"markets": list(config.market_allowlist), "stake": config.stake} | config.params
    unused = {name: params[name] for name in unused_keys(config.strategy, params)}
    made = template(config.strategy, {name: value for name, value in params.items() if name not in unused})
    return config.model_copy(update={"agent_id": config.agent_id or config.strategy, "params": made.identity.config | unused})


def without_effect(config: DeployConfig) -> dict[str, str]:
    kelly, known = config.sizing == "fractional_kelly", DeployConfig.model_fields
    in_params = config.params.get("stake", config.stake)
    found = {}
    if config.fixture_ids is not None and config.fixture_id is not None:
        found["fixture_ids"] = f"goes without fixture_id, which is {config.fixture_id}: give one of them"
    elif config.fixture_ids is not None and config.source_mode == "live":
        found["fixture_ids"] = "a live deploy follows one fixture: name it by fixture_id"
    if in_params != config.stake and (kelly or config.stake != known["stake"].default):
        found["stake"] = f"is {config.stake}, and params has the stake {in_params!r:.80}: give one of them"
    if not kelly and config.kelly_fraction_bps != known["kelly_fraction_bps"].default:
        found["kelly_fraction_bps"] = f"{config.kelly_fraction_bps} goes with sizing fractional_kelly, not {config.sizing}"
    return found


def deployed_agent(config: DeployConfig, agent_id: str, proof_mode: str = "reproducible") -> Entrant:
    """Make the agent of a resolved configuration; its identity states all of it. ``EntryError`` if it is not valid."""
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
    """Return a configuration as JSON values, as it is stored, hashed and sealed; without ``fixture_ids`` unless it has them."""
    pinned = config.model_dump(mode="json")
    if config.fixture_ids is None:
        del pinned["fixture_ids"]
    return pinned
