"""Requests for backtests: one fixture, as in the interface, or several with any template, parameters and policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Strict, StrictInt, StrictStr, Tag, TypeAdapter, create_model

from clvlab.agents.registry import TEMPLATES, TRANSCRIBED, template
from clvlab.arena.deploys.config import Allowlist, FixtureIds
from clvlab.errors import AgentError, UnknownFixtureError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import EndRule
from clvlab.packs.reader import Pack
from clvlab.runs.spec import ReplaySpec, envelope, settings_in

_AGENT = "baseline"
_FIXTURES = "fixture_ids"

ONE, SEVERAL = "one-fixture", "several-fixtures"
"""Tags of the two kinds of requests, which validation errors name like a field."""


class _WindowRequest(BaseModel):
    """The window of a backtest; ``Window`` checks rules between its fields, and raises ``WindowError``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pack_id: StrictStr
    window_id: StrictStr
    market_allowlist: Allowlist
    end_rule: Annotated[StrictStr, Field(json_schema_extra={"enum": list(EndRule)})] = "pre_match"
    duration_s: StrictInt | None = None
    min_clv_horizon_s: StrictInt = Window().min_clv_horizon_s


class BacktestRunRequest(_WindowRequest):
    """A backtest of the offline agent ``baseline`` over one fixture; unknown fields are refused.

    References
    ----------
    Interface specification, "BacktestRunRequest".
    """

    fixture_id: StrictInt

    @property
    def fixtures(self) -> list[int]:
        return [self.fixture_id]

    def spec(self, pack: Pack) -> ReplaySpec:
        return _spec(pack, self, _AGENT, {})


def _strict(settings: type, **own: Any) -> Mapping[str, Any]:
    """Return the fields of a dataclass for a model without conversions; ``own`` replaces some types."""
    kinds = get_type_hints(settings)
    return {one.name: (own.get(one.name, Annotated[kinds[one.name], Strict()]), one.default) for one in fields(settings)}


PolicyLimits = create_model(
    "PolicyLimits",
    __doc__="Limits on the execution on paper that differ from the defaults. They never affect a score.",
    __config__=ConfigDict(frozen=True, extra="forbid", validate_default=True),
    **_strict(
        PolicyEnvelope,
        market_allowlist=Allowlist | None,
        venue_allowlist=Allowlist,
        execution_mode=Literal["paper", "dry_run"],
    ),
)


class PackBacktestRequest(_WindowRequest):
    """A backtest of a template over several fixtures of a pack, or all; unknown fields are refused.

    Attributes
    ----------
    fixture_ids
        Requested fixtures; null and ``all`` mean all of the pack. The key is required, and excludes ``fixture_id``.
    strategy, params
        Any template but ``llm`` and ``bets``, because these replay a transcript; and the parameters that are not the defaults.
    policy
        Limits that differ from the defaults.
    close_source
        In a pack that keeps its books, the book whose own states are entry and close; null means the consensus.
    """

    fixture_ids: FixtureIds | None
    strategy: StrictStr = _AGENT
    params: dict[str, Any] = Field(default_factory=dict)
    window_id: StrictStr = "full"
    market_allowlist: Allowlist = Field(default=[""])
    policy: PolicyLimits | None = None  # type: ignore[valid-type]  # made from the fields of the envelope
    close_source: StrictStr | None = None

    @property
    def fixtures(self) -> list[int] | None:
        return None if self.fixture_ids == "all" else self.fixture_ids

    def spec(self, pack: Pack) -> ReplaySpec:
        if self.strategy not in TEMPLATES or self.strategy in TRANSCRIBED:
            known = ", ".join(name for name in TEMPLATES if name not in TRANSCRIBED)
            raise AgentError(f"a backtest over a pack takes a template, not {self.strategy!r:.80}: use one of {known}")
        limits = None if self.policy is None else self.policy.model_dump(exclude_unset=True)
        return _spec(pack, self, self.strategy, self.params, limits)


def _spec(
    pack: Pack,
    request: BacktestRunRequest | PackBacktestRequest,
    strategy: str,
    params: dict[str, Any],
    limits: Mapping[str, Any] | None = None,
) -> ReplaySpec:
    known = set(pack.fixture_ids)
    for fixture_id in request.fixtures or ():  # checked before window and agent
        if fixture_id not in known:
            raise UnknownFixtureError(fixture_id, pack.pack_id, pack.fixture_ids)
    window = settings_in(request, Window)
    agent = template(strategy, {"markets": window.market_allowlist} | params)
    return ReplaySpec(pack=pack, agents=[agent], window=window, policy=envelope(limits or {}), fixtures=request.fixtures)


def _kind(body: Any) -> str:
    several = _FIXTURES in body if isinstance(body, dict) else isinstance(body, PackBacktestRequest)
    return SEVERAL if several else ONE


BacktestRequest = Annotated[
    Annotated[BacktestRunRequest, Tag(ONE)] | Annotated[PackBacktestRequest, Tag(SEVERAL)], Discriminator(_kind)
]
"""The key ``fixture_ids`` distinguishes the two kinds."""

_REQUEST: TypeAdapter[BacktestRunRequest | PackBacktestRequest] = TypeAdapter(BacktestRequest)


def stored_request(body: dict[str, Any]) -> BacktestRunRequest | PackBacktestRequest:
    return _REQUEST.validate_python(body)
