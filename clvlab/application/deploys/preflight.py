"""Preflight: every parameter of a deploy checked under its name, all of them, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from clvlab.agents.registry import TEMPLATES
from clvlab.answers.agents import PreflightCheck
from clvlab.application.backtests import settings_in
from clvlab.application.deploys.agent import deployed_agent, resolve, without_effect
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.live.feed import LiveFeed
from clvlab.application.runs.binding import Bound, PackSource, bind
from clvlab.application.runs.misfits import misfits
from clvlab.errors import BindingError, ClvlabError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.manifest import Fixture

_STAND_IN = "baseline"
_STAND_INS = {"strategy": _STAND_IN, "source_mode": "replay"}  # let the other checks be made when these are not usable


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
        Its fixture; None when there is none, or the deploy is live.
    fixture
        That of the feed; None when there is none, or the deploy is no live one.
    """

    checks: list[PreflightCheck]
    config: DeployConfig | None = None
    bound: Bound | None = None
    fixture: Fixture | None = None

    @property
    def failures(self) -> list[PreflightCheck]:
        return [check for check in self.checks if not check["ok"]]


def preflight(body: Mapping[str, Any], catalog: PackSource, live: LiveFeed) -> Preflight:
    """Check a deploy.

    Steps: 1. every field by its own type and bounds; 2. what fields say together, with defaults in place of fields that failed;
    3. of a live one, the feed.
    """
    wrong = _field_errors(body)
    config = DeployConfig.model_validate(_STAND_INS | {name: body[name] for name in body if name not in wrong})
    if "strategy" not in wrong and config.strategy not in TEMPLATES:
        wrong["strategy"] = f"unknown strategy {config.strategy!r}: use one of {', '.join(TEMPLATES)}"
    if "strategy" in wrong:
        config = config.model_copy(update={"strategy": _STAND_IN, "params": {}})
    wrong = without_effect(config) | wrong
    full, wrong_params = _tried(lambda: resolve(config))
    agent = None
    if wrong_params is None and full is not None:
        agent, wrong_params = _tried(lambda: deployed_agent(full, str(full.agent_id)))
    _, policy = _tried(lambda: settings_in(config, PolicyEnvelope))
    _, window = _tried(lambda: settings_in(config, Window))
    own, binding = _tried(lambda: _binding(config, catalog))
    if agent is not None and own is not None and not {"pack_id", "fixture_id"} & set(wrong):
        wrong_params = misfits([agent], own).get(agent.identity.agent_id)
    wrong |= {"params": wrong_params} if wrong_params else {}
    fixture, of_the_feed = _followed(config, live)
    together = of_the_feed | {"policy": policy, "window": window, "replay_binding": binding}
    wrong |= {name: message for name, message in together.items() if message}
    names = [*DeployConfig.model_fields, "live_feed", "fixture_on_feed", "quota", "policy", "window", "replay_binding"]
    checks: list[PreflightCheck] = [{"name": name, "ok": name not in wrong, "message": wrong.get(name, "ok")} for name in names]
    sound = not any(name in wrong for name in DeployConfig.model_fields)
    return Preflight(checks, full if sound else None, own, fixture)


def _followed(config: DeployConfig, live: LiveFeed) -> tuple[Fixture | None, dict[str, str]]:
    """Return the fixture that a live deploy follows, or what is wrong, by the name of the check."""
    if config.source_mode != "live":
        return None, {}
    _, missing = _tried(live.asked)
    if missing:
        return None, {"live_feed": missing}
    fixture, unknown = _tried(lambda: live.fixture(config.fixture_id))
    quota = None if unknown else live.out_of_quota()
    return fixture, {name: text for name, text in (("fixture_on_feed", unknown), ("quota", quota)) if text}


def _field_errors(body: Mapping[str, Any]) -> dict[str, str]:
    try:
        DeployConfig.model_validate(dict(body))
    except ValidationError as error:
        return {str(one["loc"][0]): _message(one) for one in reversed(error.errors())}
    return {}


def _message(one: ErrorDetails) -> str:
    if one["type"] != "missing":
        return f"{one['msg']}, not {one['input']!r:.80}"
    choices = " or ".join(get_args(DeployConfig.model_fields[str(one["loc"][0])].annotation))
    return f"must be given: {choices}" if choices else "must be given"


def _tried(attempt: Callable[[], Any]) -> tuple[Any, str | None]:
    try:
        return attempt(), None
    except ClvlabError as error:
        return None, str(error)


def _binding(config: DeployConfig, catalog: PackSource) -> Bound | None:
    if config.source_mode == "live":
        if config.pack_id is not None:
            raise BindingError(f"a live deploy follows the feed, and replays no pack: leave pack_id {config.pack_id!r} out")
        return None
    return bind(catalog, config.pack_id, config.fixture_id)
