"""Ways to tamper with a copy of a run, from an edited byte to a seal that is closed again over a lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from clvlab.errors import EvidenceError
from clvlab.lab.proofs.difference import Difference, difference
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.events import Kind, score_lines
from clvlab.proof.merkle import root_of_lines
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import verify

FILES = ("events.jsonl", "scores.jsonl", "manifest.json", "receipts.jsonl")


@dataclass(frozen=True)
class Copy:
    """The bytes of a run, to be changed: every change returns another copy."""

    run: SealedRun
    receipts: bytes = b""

    def read(self, file: str) -> bytes:
        """Return the bytes of one of ``FILES``.

        Raises
        ------
        EvidenceError
            No such file.
        """
        run = self.run
        held = dict(zip(FILES, (run.events, run.scores, run.manifest, self.receipts), strict=True))
        if file not in held:
            raise _unknown(file)
        return held[file]

    def write(self, file: str, content: bytes) -> Copy:
        """Return a copy with another content of one of ``FILES``; refuses as ``read`` does."""
        match file:
            case "events.jsonl":
                return replace(self, run=replace(self.run, events=content))
            case "scores.jsonl":
                return replace(self, run=replace(self.run, scores=content))
            case "manifest.json":
                return replace(self, run=replace(self.run, manifest=content))
            case "receipts.jsonl":
                return replace(self, receipts=content)
        raise _unknown(file)

    def differences(self, other: Copy) -> list[Difference]:
        """Return where each of ``FILES`` differs from that of another copy, in their order, the other's bytes before."""
        found = (difference(file, other.read(file), self.read(file)) for file in FILES)
        return [own for own in found if own is not None]


def _unknown(file: str) -> EvidenceError:
    return EvidenceError(f"a run has no file {file!r} to tamper with, only {', '.join(FILES)}")


def closed_again(copy: Copy) -> Copy:
    """Close the seal over what was changed: scores re-derived where the evidence can be read, a manifest of the new hashes."""
    run = copy.run
    found = verify(run)
    scores = run.scores if found.scores is None else score_lines(found.scores)
    stated = _object(run.manifest) | {
        "evidence_hash": sha256(run.events),
        "evidence_root": root_of_lines(run.events),
        "event_count": run.events.count(b"\n"),
        "score_root": root_of_lines(scores),
    }
    return replace(copy, run=replace(run, scores=scores, manifest=canonical(stated)))


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise EvidenceError(f"the manifest can't be read, so no seal can be closed over it: {error}") from error
    if not isinstance(value, dict):
        raise EvidenceError("the manifest is no JSON object, so no seal can be closed over it")
    return value


def _changed(copy: Copy, file: str, wanted: Callable[[dict[str, Any]], bool], change: Callable[[dict[str, Any]], None]) -> Copy:
    """Change the first line that is wanted, and write it as canonical JSON again."""
    lines = copy.read(file).split(b"\n")
    for number, line in enumerate(lines[:-1]):
        value = orjson.loads(line)
        if wanted(value):
            change(value)
            lines[number] = canonical(value)
            return copy.write(file, b"\n".join(lines))
    raise EvidenceError(f"run {copy.run.run_id} has no line in {file} on which this could be tried")


def _raise_stake(copy: Copy) -> Copy:
    def change(event: dict[str, Any]) -> None:
        event["payload"]["action"]["stake"] += 800

    return _changed(copy, "events.jsonl", _is_back, change)


def _is_back(event: dict[str, Any]) -> bool:
    return event["kind"] == Kind.DECISION and type(event["payload"]["action"]["stake"]) is int


def _raise_score(copy: Copy) -> Copy:
    return _changed(copy, "scores.jsonl", _is_scored, lambda row: row.update(clv_bps=row["clv_bps"] + 500))


def _is_scored(row: dict[str, Any]) -> bool:
    return type(row["clv_bps"]) is int


def _drop_worst(copy: Copy) -> Copy:
    rows = copy.run.scores.split(b"\n")[:-1]
    scored = [row for row in rows if _is_scored(orjson.loads(row))]
    if not scored:
        raise EvidenceError(f"run {copy.run.run_id} has no scored decision to drop")
    worst = min(scored, key=lambda row: orjson.loads(row)["clv_bps"])
    return copy.write("scores.jsonl", b"".join(row + b"\n" for row in rows if row != worst))


def _relabel(copy: Copy) -> Copy:
    return _changed(
        copy,
        "events.jsonl",
        lambda event: event["kind"] == Kind.RUN_STARTED,
        lambda event: event["payload"]["agents"][0].update(strategy="another-strategy"),
    )


def _forge_receipt(copy: Copy) -> Copy:
    receipt = {"kind": "VENUE_RECEIPT", "payload": {"odds_milli": 9000}, "seq": 1}
    first, _, rest = copy.run.events.partition(b"\n")
    return copy.write("events.jsonl", first + b"\n" + canonical(receipt) + b"\n" + rest)


def _forge_execution(copy: Copy) -> Copy:
    receipt = {
        "agent_id": "nobody", "decision_seq": 0, "non_scoring": True, "odds_milli": 9000, "run_id": copy.run.run_id,
        "stake": 100, "status": "filled", "ts_ms": 0, "venue": "paper",
    }  # fmt: skip
    return copy.write("receipts.jsonl", copy.receipts + canonical(receipt) + b"\n")


def _rebind(copy: Copy) -> Copy:
    return copy.write("manifest.json", canonical(_object(copy.run.manifest) | {"run_id": "run_" + "0" * 32}))


ATTACKS: dict[str, Callable[[Copy], Copy]] = {
    "raise a stake": _raise_stake,
    "raise a score": _raise_score,
    "drop the worst score": _drop_worst,
    "relabel the strategy": _relabel,
    "put a receipt into the evidence": _forge_receipt,
    "add a receipt that no action stands behind": _forge_execution,
    "name another run in the manifest": _rebind,
}
