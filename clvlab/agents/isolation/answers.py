"""Reading what the process of an agent answers: bytes by code that may be hostile, so every one of them is judged."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pyarrow as pa

from clvlab import errors
from clvlab.agents.isolation.columns import frame_in
from clvlab.engine.agent import Identity, sealable
from clvlab.errors import AgentError, AgentFailedError, ClvlabError, DecisionError, SchemaError

_MAX_TEXT = 4_000
_MAX_TRACE = 20_000
_MAX_KIND = 100


def identity_in(data: bytes) -> Identity:
    """Read an identity: the names and the config that the agent states.

    Raises
    ------
    AgentError
        They can't stand in a run.
    """
    try:
        stated = json.loads(data)
        names = ("agent_id", "strategy", "strategy_version", "proof_mode", "config")
        identity = Identity(**{name: stated[name] for name in names})
        sealable(identity)  # also as deep as a stack allows
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AgentError(f"the agent's process stated no identity: {error!r:.300}") from error
    return identity


def by_message_in(data: bytes) -> bool:
    """Read from an identity whether the agent says that it decides message by message; asked so, it can't do otherwise."""
    return json.loads(data).get("by_message") is True


def decisions_in(data: bytes, most: int) -> pl.DataFrame:
    """Read ``DECISIONS``, so many at most; their values are for the law to check.

    Raises
    ------
    AgentFailedError
        The bytes are no frame of these columns, or too much for what was asked.
    """
    try:
        return frame_in(data, most)
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError, OverflowError) as error:
        raise AgentFailedError("GarbledAnswer", f"its process answered with no decisions: {error!s:.300}") from error


def failure_in(data: bytes) -> ClvlabError:
    """Read why an agent failed; an error of ours keeps its class, any other is ``AgentFailedError``."""
    try:
        stated: Any = json.loads(data)
        kind, message, trace = (printable(str(stated[name])) for name in ("kind", "message", "trace"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return AgentFailedError("GarbledAnswer", "its process said that it failed, and not how")
    ours = vars(errors).get(kind)
    plain = isinstance(ours, type) and issubclass(ours, AgentError | DecisionError | SchemaError)
    if plain and ours is not None and "__init__" not in vars(ours):
        error: ClvlabError = ours(message[:_MAX_TEXT])
    else:
        name = kind if kind.isidentifier() and len(kind) <= _MAX_KIND else "AgentFailed"
        error = AgentFailedError(name, message[:_MAX_TEXT])
    if trace:
        error.add_note(f"In the agent's process:\n{trace[-_MAX_TRACE:]}")
    return error


def printable(text: str) -> str:
    """Spell out what would steer a terminal, or can't be encoded: an agent may not overwrite what others print."""
    return "".join(char if char.isprintable() or char in "\n\r\t" else repr(char)[1:-1] for char in text)
