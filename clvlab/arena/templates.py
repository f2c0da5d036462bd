"""Descriptions of the strategy templates, taken from their code."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from pydantic import BaseModel

from clvlab.agents.registry import TEMPLATES, template
from clvlab.api.answer import pick
from clvlab.api.backtests import StrategyInfo, StrategyListResponse
from clvlab.arena.runs.entrants import config_hash_of
from clvlab.errors import UnknownStrategyError
from clvlab.proof.canonical import without_floats

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "maxItems": "at most"}


def cards() -> list[dict[str, Any]]:
    return [card(name) for name in TEMPLATES]


def card(name: str) -> dict[str, Any]:
    """Describe a template: algorithm and source, parameters with meaning, default and bounds, hash of the defaults."""
    identity = template(name).identity
    model, rule = TEMPLATES[name]
    algorithm = inspect.getdoc(rule) or ""
    fields = model.model_json_schema()["properties"]
    config = without_floats(identity.config)
    return {
        "strategy": name,
        "version": identity.strategy_version,
        "summary": algorithm.splitlines()[0],
        "algorithm": algorithm,
        "parameters": [
            {"name": field, "default": config[field], "bounds": _bounds(schema), "meaning": schema["description"]}
            for field, schema in fields.items()
        ],
        "config_hash": config_hash_of(identity),
    }


def parameter_models() -> dict[str, type[BaseModel]]:
    return {name: model for name, (model, _) in TEMPLATES.items()}


def strategies() -> StrategyListResponse:
    return {"strategies": [strategy(name) for name in TEMPLATES]}


@cache
def strategy(name: str) -> StrategyInfo:
    """Describe a template for a program: parameters as a JSON Schema, and the defaults as they may be sent."""
    if name not in TEMPLATES:
        raise UnknownStrategyError(f"unknown strategy {name!r:.80}: use one of {', '.join(TEMPLATES)}")
    parameters = {"$schema": _DIALECT} | TEMPLATES[name][0].model_json_schema()
    defaults = dict(template(name).identity.config)
    return pick(StrategyInfo, {**card(name), "parameters": parameters, "defaults": defaults})


def _bounds(schema: dict[str, Any]) -> str:
    limits = [f"{words} {schema[key]}" for key, words in _LIMITS.items() if key in schema]
    entries = " entries" if "maxItems" in schema else ""
    return " and ".join(limits) + entries
