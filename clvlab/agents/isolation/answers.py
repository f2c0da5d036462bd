"""Reading what the process of an agent answers: bytes by code that may be hostile, so every one of them is judged."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pyarrow as pa

from clvlab import errors
from clvlab.engine.agent import Identity
from clvlab.errors import AgentError, AgentFailedError, ClvlabError, DecisionError, SchemaError
from clvlab.law.schema import DECISIONS

__all__ = ["decisions_in", "failure_in", "identity_in"]

_SCHEMA = pl.DataFrame(schema=DECISIONS).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
_MAX_TEXT = 4_000
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
        return Identity(**{name: stated[name] for name in names})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AgentError(f"the agent's process stated no identity: {error!r:.300}") from error


def decisions_in(data: bytes) -> pl.DataFrame:
    """Read ``DECISIONS``; their values are for the law to check.

    Arrow believes offsets and lengths that a stream states, so all of them are validated before anything is looked at.

    Raises
    ------
    AgentFailedError
        The bytes are no Arrow stream of these columns.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            if not stream.schema.equals(_SCHEMA, check_metadata=False):
                raise AgentFailedError("GarbledAnswer", f"its process answered with columns {stream.schema!s:.300}")
            table = stream.read_all().replace_schema_metadata(None)
        table.validate(full=True)
        if table.nbytes > len(data):
            raise AgentFailedError("GarbledAnswer", "its process answered with a compressed stream")
        frame = pl.from_arrow(table)
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError, OSError) as error:
        raise AgentFailedError("GarbledAnswer", f"its process answered with no decisions: {error!s:.300}") from error
    if not isinstance(frame, pl.DataFrame):
        raise AgentFailedError("GarbledAnswer", "its process answered with no frame")
    return frame


def failure_in(data: bytes) -> ClvlabError:
    """Read why an agent failed; an error of ours keeps its class, any other is ``AgentFailedError``."""
    try:
        stated: Any = json.loads(data)
        kind, message, trace = (str(stated[name]) for name in ("kind", "message", "trace"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return AgentFailedError("GarbledAnswer", "its process said that it failed, and not how")
    ours = getattr(errors, kind, None) if kind in errors.__all__ else None
    plain = isinstance(ours, type) and issubclass(ours, AgentError | DecisionError | SchemaError)
    if plain and ours is not None and "__init__" not in vars(ours):
        error: ClvlabError = ours(message[:_MAX_TEXT])
    else:
        name = kind if kind.isidentifier() and len(kind) <= _MAX_KIND else "AgentFailed"
        error = AgentFailedError(name, message[:_MAX_TEXT])
    if trace:
        error.add_note(f"In the agent's process:\n{trace}")
    return error
