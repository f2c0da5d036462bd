"""Templates by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import polars as pl
from pydantic import ValidationError

from clvlab.agents import baseline, drift, llm, momentum, momentum_following
from clvlab.agents.template import Config, Template
from clvlab.engine.agent import register
from clvlab.engine.following import Follower
from clvlab.errors import AgentError, UnknownAgentError
from clvlab.law.tape import Tape

_DECIMAL = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,320})?")
_Rule = Callable[[Tape, Any], pl.DataFrame]

_FOLLOWERS: Mapping[str, Callable[[Any], Follower]] = MappingProxyType(
    {
        "baseline": baseline.BaselineFollower,
        "cumulative-drift": drift.DriftFollower,
        "sharp-momentum-v2": momentum_following.MomentumFollower,
    }
)
"""Those that decide message by message by code of their own; the others decide anew at each."""

TEMPLATES: Mapping[str, tuple[type[Config], _Rule]] = MappingProxyType(
    {
        "baseline": (baseline.BaselineConfig, baseline.decide),
        "cumulative-drift": (drift.DriftConfig, drift.decide),
        "sharp-momentum-v2": (momentum.MomentumConfig, momentum.decide),
        "llm": (llm.LlmConfig, llm.decide),
    }
)


def template(strategy: str, params: Mapping[str, Any] | None = None, *, agent_id: str | None = None) -> Template[Any]:
    """Make an agent of a template.

    Parameters
    ----------
    strategy
        Name of the template.
    params
        Parameters that differ from the defaults.
    agent_id
        The strategy's name by default.

    Raises
    ------
    UnknownAgentError
        No template of that name.
    AgentError
        An unknown parameter, or a value out of bounds; the message names it.
    """
    if strategy not in TEMPLATES:
        near = get_close_matches(strategy, TEMPLATES, n=1)
        said = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownAgentError(f"unknown agent {strategy!r}: use one of {', '.join(TEMPLATES)}{said}")
    model, rule = TEMPLATES[strategy]
    try:
        config = model.model_validate({name: _given(model, name, value) for name, value in dict(params or {}).items()})
    except ValidationError as error:
        wrong = error.errors()[0]
        name = ".".join(str(part) for part in wrong["loc"])
        known = ", ".join(model.model_fields)
        raise AgentError(
            f"{strategy}: parameter {name} = {wrong['input']!r:.80}: {wrong['msg']} (parameters: {known})"
        ) from error
    return register(Template(agent_id or strategy, strategy, config, rule, _FOLLOWERS.get(strategy)))


def of_sealed_config(agent_id: str, strategy: str, config: Mapping[str, Any]) -> Template[Any]:
    """Make the agent of a template that a sealed run names; keys that the template does not know had no effect.

    Raises
    ------
    UnknownAgentError, AgentError
        As ``template``.
    """
    fields = TEMPLATES[strategy][0].model_fields if strategy in TEMPLATES else config
    return template(strategy, {name: value for name, value in config.items() if name in fields}, agent_id=agent_id)


def _given(model: type[Config], name: str, value: Any) -> Any:
    """Take a fraction also as the decimal text in which it is sealed, so that a sealed configuration can be run again."""
    known = model.model_fields.get(name)
    is_fraction = known is not None and known.annotation is float
    return float(value) if is_fraction and isinstance(value, str) and _DECIMAL.fullmatch(value) else value
