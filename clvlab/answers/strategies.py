"""Bodies of the strategy templates."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from clvlab.answers.answer import Answer, Hash


class StrategyInfo(Answer):
    """A strategy template."""

    strategy: Annotated[str, Field(examples=["cumulative-drift"])]
    version: str
    summary: str
    algorithm: str
    parameters: Annotated[dict[str, Any], Field(description="JSON Schema (2020-12) of its configuration.")]
    defaults: Annotated[dict[str, Any], Field(description="The configuration that stands for none.")]
    config_hash: Annotated[Hash, Field(description="Of the defaults, as an entry of a competition pins them.")]


class StrategyListResponse(Answer):
    """All templates."""

    strategies: list[StrategyInfo]
