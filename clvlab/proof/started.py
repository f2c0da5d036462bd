"""RUN_STARTED: everything that shapes the result of a run, known before its tape is opened.

A dict, as its bytes are, so that nothing of it can be lost between a sealed line and what is read; its keys are typed.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from clvlab.law.closing import SealedWindow


class ReadFile(TypedDict):
    """A file that an agent of one's own could read."""

    name: str
    sha256: str


class AgentStarted(TypedDict):
    """An agent; what it could reach stands there only if it could."""

    agent_id: str
    strategy: str
    strategy_version: str
    config: dict[str, Any]
    config_hash: str
    proof_mode: str
    causality: str
    source_sha256: str | None
    reads: NotRequired[list[ReadFile]]
    network: NotRequired[bool]


class IsolationStarted(TypedDict):
    """What was held of the process of an agent: ``clvlab.law.schema.Held``, sorted."""

    agent_id: str
    held: list[str]


class BindingStarted(TypedDict):
    """What was replayed; pack and hash are null of a tape that comes from no pack."""

    pack_id: str | None
    fixture_ids: list[int]
    content_hash: str | None


class RunStarted(TypedDict):
    """Payload of the first line of evidence; ``isolation`` stands there only of agents that something was held of."""

    schema: str
    kind: str
    origin_id: str | None
    source_mode: str
    mode_label: str
    law_version: str
    window: SealedWindow
    binding: BindingStarted
    agents: list[AgentStarted]
    policy: dict[str, Any]
    policy_hash: str
    run_id: str
    isolation: NotRequired[list[IsolationStarted]]
