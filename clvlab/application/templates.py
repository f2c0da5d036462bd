"""What there is to know of the strategy templates, taken from their own code."""

from __future__ import annotations

import inspect
from typing import Any

from pydantic import BaseModel

from clvlab.agents.registry import TEMPLATES, template
from clvlab.application.runs.entrants import config_hash_of
from clvlab.proof.canonical import without_floats

_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "maxItems": "at most"}


def cards() -> list[dict[str, Any]]:
    """Describe every template, in the order of the registry."""
    return [card(name) for name in TEMPLATES]


def card(name: str) -> dict[str, Any]:
    """Describe a template: algorithm and source, parameters with meaning, default and bounds, hash of the defaults.

    Raises
    ------
    UnknownAgentError
        No template of that name.
    """
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
    """Return the model of every template's parameters, by strategy, in the order of the registry."""
    return {name: model for name, (model, _) in TEMPLATES.items()}


def _bounds(schema: dict[str, Any]) -> str:
    limits = [f"{words} {schema[key]}" for key, words in _LIMITS.items() if key in schema]
    entries = " entries" if "maxItems" in schema else ""
    return " and ".join(limits) + entries
