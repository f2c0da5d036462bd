"""Events of a competition, and the batches in which events are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import Any

from clvlab.proof.anchor import Anchor

_BATCH = 2000


class EventKind(StrEnum):
    COMPETITION_STARTED = "COMPETITION_STARTED"
    AGENT_ACTION = "AGENT_ACTION"
    POLICY_VERDICT = "POLICY_VERDICT"
    LAW_RESULT = "LAW_RESULT"
    AGENT_ERROR = "AGENT_ERROR"
    FEED_GAP = "FEED_GAP"
    FEED_HEALTH = "FEED_HEALTH"
    STATUS_CHANGED = "STATUS_CHANGED"
    SCORE_UPDATE = "SCORE_UPDATE"
    PROOF_ANCHOR = "PROOF_ANCHOR"
    COMPETITION_FINALIZED = "COMPETITION_FINALIZED"
    COMPETITION_FAILED = "COMPETITION_FAILED"


def event(kind: EventKind, run_id: str, payload: dict[str, Any], *, evidence: bool = False) -> dict[str, Any]:
    """Make an event; ``evidence`` says that its payload restates sealed bytes."""
    return {"kind": kind.value, "run_id": run_id, "evidence": evidence, "payload": payload}


def anchor_event(run_id: str, anchor: Anchor, manifest_hash: str) -> dict[str, Any]:
    """Say how far the anchor of a run is."""
    payload = {
        "anchor_status": anchor.status,
        "signature": anchor.signature,
        "cluster": anchor.cluster,
        "explorer_url": anchor.explorer_url,
        "manifest_hash": manifest_hash,
    }
    return event(EventKind.PROOF_ANCHOR, run_id, payload)


def in_batches(events: Iterable[dict[str, Any]], skipped: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Cut events into batches of one transaction each, after those that are stored already."""
    rest = islice(events, skipped, None)
    while batch := list(islice(rest, _BATCH)):
        yield batch
