"""Preflight: every parameter of a deploy checked under its name, all of them, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from clvlab.agents.registry import TEMPLATES
from clvlab.answers.agents import PreflightCheck
from clvlab.application.deploys.agent import deployed_agent, policy_of, resolve, window_of
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.runs.binding import Bound, PackSource, bind
from clvlab.errors import ClvlabError, UnknownPackError

_STAND_IN = "baseline"  # lets the other checks be made when there is no usable strategy


@dataclass(frozen=True, slots=True)
class Preflight:
    """The checks of a deploy, and what it came to.

    Attributes
    ----------
    checks
        ``{name, ok, message}`` of every check, in order.
    config
        The resolved configuration; None when a check of a field failed.
    bound
        Its fixture; None when there is none.
    """

    checks: list[PreflightCheck]
    config: DeployConfig | None = None
    bound: Bound | None = None

    @property
    def failures(self) -> list[PreflightCheck]:
        return [check for check in self.checks if not check["ok"]]


def preflight(body: Mapping[str, Any], catalog: PackSource) -> Preflight:
    """Check a deploy.

    Steps: 1. every field by its own type and bounds; 2. what fields say together, with defaults in place of fields that failed.
    """
    wrong = _field_errors(body)
    config = DeployConfig.model_validate({"strategy": _STAND_IN} | {name: body[name] for name in body if name not in wrong})
    if "strategy" not in wrong and config.strategy not in TEMPLATES:
        wrong["strategy"] = f"unknown strategy {config.strategy!r}: use one of {', '.join(TEMPLATES)}"
    if "strategy" in wrong:
        config = config.model_copy(update={"strategy": _STAND_IN, "params": {}})
    full, wrong_params = _tried(lambda: resolve(config))
    if wrong_params is None and full is not None:
        _, wrong_params = _tried(lambda: deployed_agent(full, str(full.agent_id)))
    wrong |= {"params": wrong_params} if wrong_params else {}
    _, policy = _tried(lambda: policy_of(config))
    _, window = _tried(lambda: window_of(config))
    own, binding = _tried(lambda: _binding(config, catalog))
    live = "no live feed is configured: deploy a replay" if config.source_mode == "live" else None
    together = {"live_feed": live, "policy": policy, "window": window, "replay_binding": binding}
    wrong |= {name: message for name, message in together.items() if message}
    names = [*DeployConfig.model_fields, "live_feed", "policy", "window", "replay_binding"]
    checks: list[PreflightCheck] = [{"name": name, "ok": name not in wrong, "message": wrong.get(name, "ok")} for name in names]
    sound = not any(name in wrong for name in DeployConfig.model_fields)
    return Preflight(checks, full if sound else None, own)


def _field_errors(body: Mapping[str, Any]) -> dict[str, str]:
    try:
        DeployConfig.model_validate(dict(body))
    except ValidationError as error:
        return {str(one["loc"][0]): f"{one['msg']}, not {one['input']!r:.80}" for one in reversed(error.errors())}
    return {}


def _tried(attempt: Callable[[], Any]) -> tuple[Any, str | None]:
    try:
        return attempt(), None
    except ClvlabError as error:
        return None, str(error)


def _binding(config: DeployConfig, catalog: PackSource) -> Bound | None:
    if config.source_mode == "live" and config.pack_id is None:
        return None
    if config.pack_id is not None:
        return bind(catalog, config.pack_id, config.fixture_id)
    entries = list(catalog.entries())
    if len(entries) != 1:
        raise UnknownPackError(f"pack_id is needed: the catalog has {len(entries)} packs")
    return bind(catalog, entries[0], config.fixture_id)
