"""Evidence beyond each limit that readers and the seal have; but for its size most is canonical, complete and in order."""

from __future__ import annotations

import json

from clvlab.proof.canonical import canonical
from clvlab.proof.limits import MAX_LINE_BYTES, MAX_STARTED_BYTES
from tests.factories import make_sealed_run

__all__ = ["EVENTS", "NAMES", "beyond", "written"]

EVENTS = [json.loads(line) for line in make_sealed_run().events.splitlines()]


def written(events: list[dict]) -> bytes:
    """Write events as lines, numbered and counted."""
    kinds = [event["kind"] for event in events]
    counts = {f"{name}s".lower(): kinds.count(name.upper()) for name in ("agent_error", "decision", "market_close")}
    counted = [*events[:-1], events[-1] | {"payload": counts}]
    return b"".join(canonical(event | {"seq": seq}) + b"\n" for seq, event in enumerate(counted))


def beyond(name: str) -> bytes:
    """Return evidence beyond the limit of this name."""
    return _BEYOND[name]()


def _changed(event: dict, **payload: object) -> dict:
    return event | {"payload": event["payload"] | payload}


def _long_reason() -> bytes:
    said = EVENTS[1]["payload"]["untrusted"] | {"reason": "x" * MAX_LINE_BYTES}
    return written([EVENTS[0], _changed(EVENTS[1], untrusted=said), *EVENTS[2:]])


def _started(**agent: object) -> bytes:
    agents = EVENTS[0]["payload"]["agents"]
    return written([_changed(EVENTS[0], agents=[agents[0] | agent, *agents[1:]]), *EVENTS[1:]])


def _many_failures() -> bytes:
    failed = next(event for event in EVENTS if event["kind"] == "AGENT_ERROR")
    at, count = EVENTS.index(failed), len(EVENTS[0]["payload"]["agents"]) + 1
    return written([*EVENTS[:at], *[failed] * count, *EVENTS[at + 1 :]])


_BEYOND = {
    "line feeds": lambda: written(EVENTS[:-1]) + b"\n" * 10_000,
    "a line": _long_reason,
    "a line without an end": lambda: b'{"' + b"\\" * (MAX_STARTED_BYTES + 1) + b"\n",
    "configurations": lambda: _started(config={"transcript": "x" * MAX_STARTED_BYTES}),
    "RUN_STARTED without configurations": lambda: _started(strategy="x" * MAX_LINE_BYTES),
    "failures": _many_failures,
}
NAMES = tuple(_BEYOND)
