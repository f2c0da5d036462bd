"""Events of a competition, and the batches in which they are stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import islice
from threading import Condition, Lock
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
    """Return an event; ``evidence`` marks a payload that repeats sealed bytes."""
    return {"kind": kind.value, "run_id": run_id, "evidence": evidence, "payload": payload}


def anchor_event(run_id: str, anchor: Anchor, manifest_hash: str | None) -> dict[str, Any]:
    payload = {
        "anchor_status": anchor.status,
        "signature": anchor.signature,
        "cluster": anchor.cluster,
        "explorer_url": anchor.explorer_url,
        "manifest_hash": manifest_hash,
    }
    return event(EventKind.PROOF_ANCHOR, run_id, payload)


def in_batches(events: Iterable[dict[str, Any]], skipped: int = 0) -> Iterator[list[dict[str, Any]]]:
    rest = islice(events, skipped, None)
    while batch := list(islice(rest, _BATCH)):
        yield batch


# News of appended events inside one process; the events themselves are read from the store.


class Hub:
    """Notifies subscribers and waiters of stored changes of a subject."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._changed: dict[str, Condition] = defaultdict(lambda: Condition(self._lock))
        self._versions: dict[str, int] = {}
        self._subscribers: dict[str, list[Callable[[], None]]] = {}

    def subscribe(self, subject: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify`` at every publication about a subject, on the publisher's thread; return the unsubscription."""
        with self._lock:
            self._subscribers.setdefault(subject, []).append(notify)

        def unsubscribe() -> None:
            with self._lock:
                others = [other for other in self._subscribers.get(subject, []) if other is not notify]
                self._subscribers[subject] = others
                if not others:
                    del self._subscribers[subject]

        return unsubscribe

    def publish(self, subject: str) -> None:
        with self._lock:
            notified = list(self._subscribers.get(subject, ()))
            if subject in self._versions:  # only subjects with waiters have a version, so that ended runs take no memory
                self._versions[subject] += 1
                self._changed[subject].notify_all()
        for notify in notified:
            notify()

    def version(self, subject: str) -> int:
        with self._lock:
            return self._versions.setdefault(subject, 0)

    def wait(self, subject: str, seen: int, timeout_s: float) -> None:
        with self._lock:
            self._changed[subject].wait_for(lambda: self._versions.get(subject, 0) != seen, timeout_s)
