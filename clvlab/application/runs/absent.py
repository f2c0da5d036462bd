"""Why a run is not there: unknown, not sealed, or removed since, which its hashes outlive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clvlab.errors import RunRemovedError, UnknownRunError
from clvlab.store import runs
from clvlab.store.database import Connection
from clvlab.store.runs import RunStatus


def require(row: Mapping[str, Any] | None, run_id: str) -> Mapping[str, Any]:
    """Return the row of a run that is on record, and was not removed.

    Raises
    ------
    UnknownRunError, RunRemovedError
    """
    if row is None:
        raise UnknownRunError(f"unknown run {run_id!r}")
    if row["status"] == RunStatus.REMOVED:
        raise RunRemovedError(run_id, row["evidence_hash"], row["manifest_hash"])
    return row


def not_sealed(connection: Connection, run_id: str) -> UnknownRunError | RunRemovedError:
    """Return why nothing sealed of a run can be read."""
    try:
        require(runs.row(connection, run_id), run_id)
    except (UnknownRunError, RunRemovedError) as error:
        return error
    return UnknownRunError(f"run {run_id!r} is not sealed")
