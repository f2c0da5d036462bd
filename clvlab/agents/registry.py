"""Templates by name."""

from __future__ import annotations

import copyreg
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeGuard

import polars as pl
from pydantic import ValidationError

from clvlab.agents import baseline, bets, drift, llm, momentum, momentum_following
from clvlab.agents.template import Config, Template
from clvlab.engine.agent import is_registered, register
from clvlab.engine.following import Follower
from clvlab.errors import AgentError, UnknownAgentError
from clvlab.law.tape import Tape
from clvlab.naming import among, nearest

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
        "bets": (bets.BetsConfig, bets.decide),
    }
)

TRANSCRIBED = tuple(strategy for strategy, (model, _) in TEMPLATES.items() if model.repeats)
"""Those that replay a transcript, which names ticks of a fixture."""


def names_template(agent: object) -> TypeGuard[str]:
    """Tell whether what stands for an agent is the name of a template, there or not, and no agent of one's own."""
    return isinstance(agent, str) and not agent.rpartition(":")[0].endswith(".py")


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
        raise UnknownAgentError(f"unknown agent {strategy!r:.200}{_hint(strategy)}")
    model, rule = TEMPLATES[strategy]
    try:
        config = model.model_validate({name: _given(model, name, value) for name, value in dict(params or {}).items()})
    except ValidationError as error:
        raise AgentError(f"{strategy}: {_refusal(model, error)}") from error
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


def _reduced(agent: Template[Any]) -> Any:
    """Take a template to another process as what makes it there: an object that was only read is none of clvlab's."""
    if not is_registered(agent):
        return object.__reduce_ex__(agent, 4)
    return _made, (agent.strategy, agent.config.model_dump(mode="json"), agent.agent_id)


def _made(strategy: str, params: Mapping[str, Any], agent_id: str) -> Template[Any]:
    return template(strategy, params, agent_id=agent_id)


copyreg.pickle(Template, _reduced)


def _hint(strategy: str) -> str:
    """Say which template was probably meant, or how an agent in a file is named."""
    known = f"use one of {', '.join(TEMPLATES)}"
    if strategy.endswith(".py"):
        return f": an agent in a file is named as {strategy}:name, with the name that it has there"
    meant = nearest(strategy, TEMPLATES)
    return f": {known}" if meant is None else f": did you mean {meant!r}? If not, {known}"


_KINDS = {
    "int_type": "must be a whole number", "int_from_float": "must be a whole number", "float_type": "must be a number",
    "tuple_type": "must be a list", "string_type": "must be a text", "bool_type": "must be True or False",
}  # fmt: skip


def _refusal(model: type[Config], error: ValidationError) -> str:
    """Say of the first parameter that is wrong what is wrong with it, and what may stand there."""
    wrong = error.errors()[0]
    name = ".".join(str(part) for part in wrong["loc"])
    if wrong["type"] == "extra_forbidden" and len(wrong["loc"]) == 1:
        return f"no parameter {name!r}{among(name, model.model_fields)}"
    field = model.model_fields.get(str(wrong["loc"][0]))
    default = "" if field is None or len(wrong["loc"]) > 1 else f"; the default is {_shown(field.default)}"
    said = _KINDS.get(wrong["type"], wrong["msg"].replace("Input should be", "must be").removeprefix("Value error, "))
    return f"parameter {name} = {wrong['input']!r:.80}: {said}{default}"


def _shown(default: object) -> str:
    return repr(list(default)) if isinstance(default, tuple) else repr(default)


def _given(model: type[Config], name: str, value: Any) -> Any:
    """Take a fraction also as the decimal text in which it is sealed, so that a sealed configuration can be run again."""
    known = model.model_fields.get(name)
    is_fraction = known is not None and known.annotation is float
    return float(value) if is_fraction and isinstance(value, str) and _DECIMAL.fullmatch(value) else value
