"""Reading of entries of the run log. An entry is canonical and has exactly the keys of its kind.

References
----------
``docs/reference/bundle-format.md``, "The run log".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from clvlab.errors import EvidenceError
from clvlab.proof.canonical import JsonObject, parsed

ENTRY_SCHEMA = "clvlab-log/6"
_WITHOUT_SOURCES = "clvlab-log/2"  # its commitments name no source, and its results no pack
_WITHOUT_PACK = "clvlab-log/1"  # its commitments name neither source nor pack
RESTART_SCHEMA = "clvlab-log/3"  # only for restarts, so that older readers still know the other kinds
SEGMENT_SCHEMA = "clvlab-log/4"  # only for segments of captures
PLAN_SCHEMA = "clvlab-log/5"  # only for plans and their openings
AUDITS_SCHEMA = "clvlab-log/7"  # only for attempts at audits, and answers before audits
SEAT_SCHEMA = "clvlab-log/8"  # only for seats
HELD_SCHEMA = "clvlab-log/9"  # only for packs that are held back


class EntryKind(StrEnum):
    COMMIT = "COMMIT"
    RESULT = "RESULT"
    ABANDONED = "ABANDONED"
    RESTART = "RESTART"
    SEGMENT = "SEGMENT"
    PLAN = "PLAN"
    OPENED = "OPENED"
    AUDITS = "AUDITS"
    ANSWERED = "ANSWERED"
    SEAT = "SEAT"
    HELD = "HELD"
    RELEASED = "RELEASED"


OF_RUNS = (EntryKind.COMMIT, EntryKind.RESULT, EntryKind.ABANDONED)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commitment to a run. ``sources_hash`` is ``None`` in an older entry without that field.

    ``content_hash`` is ``None`` for a run without a pack, and in an older entry without the field. ``names_pack`` tells these
    two apart.
    """

    run_id: str
    owner: str
    inputs_hash: str
    content_hash: str | None
    names_pack: bool
    sources_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a commitment: a manifest hash, or the cause of abandonment.

    ``names_pack`` is as for ``Commit``.
    """

    kind: EntryKind
    run_id: str
    commit_index: int
    manifest_hash: str | None
    cause: str | None
    content_hash: str | None = None
    names_pack: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """End of one origin, with its last published note ``before``, and start of another, which the key ``log`` names.

    ``kept`` is the number of the old origin's entries in this log, as its operator states.
    """

    before: str
    kept: int
    log: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Part ``number`` (from 1) of a capture, with the hash of its file. A part closes before the next one begins."""

    capture_id: str
    number: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PlanEntry:
    plan_id: str
    owner: str
    plan_hash: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class OpeningEntry:
    """Opening of a plan's hold-out for the configuration with hash ``trial``. ``again`` marks a repeated opening."""

    plan_id: str
    plan_index: int
    trial: str
    again: bool


@dataclass(frozen=True, slots=True)
class Audits:
    """Number of further audit attempts of a commitment.

    A commitment without a result counts as one attempt already, so the number is the audited agents minus one. With a
    result, it is the number of agents whose audits failed.
    """

    run_id: str
    commit_index: int
    agents: int


@dataclass(frozen=True, slots=True)
class AnswersEntry:
    """Hash of an agent's answers over the whole tape of a committed run, written before the audit was drawn."""

    run_id: str
    commit_index: int
    agent_id: str
    answers_hash: str


@dataclass(frozen=True, slots=True)
class SeatEntry:
    """Head of the chain of a seat after its first ``ticks`` decisions, under the commitment to the seat's run."""

    run_id: str
    commit_index: int
    ticks: int
    head: str


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """A pack that is held back for seats: its content hash, the number of its fixtures, and the hash of their salted list."""

    content_hash: str
    fixtures: int
    fixtures_hash: str


@dataclass(frozen=True, slots=True)
class ReleasedEntry:
    """Opening of the list of fixtures of the pack that entry ``held_index`` holds back; no seat over it is taken afterwards."""

    content_hash: str
    held_index: int


Entry = (
    Commit
    | Outcome
    | Restart
    | Segment
    | PlanEntry
    | OpeningEntry
    | Audits
    | AnswersEntry
    | SeatEntry
    | HeldEntry
    | ReleasedEntry
)

_ALL: dict[str, object] = {"kind": str, "schema": str, "ts_ms": int}
_OLDER = (_WITHOUT_PACK, _WITHOUT_SOURCES)
_OF_A_RUN: dict[str, object] = _ALL | {"run_id": str}
_PACK: dict[str, object] = {"content_hash": (str, type(None))}
_COMMIT: dict[str, object] = _OF_A_RUN | {"inputs_hash": str, "owner": str}
_RESULT: dict[str, object] = _OF_A_RUN | {"commit_index": int, "manifest_hash": str}
_KEYS: dict[tuple[str, str], dict[str, object]] = {
    (EntryKind.COMMIT, _WITHOUT_PACK): _COMMIT,
    (EntryKind.COMMIT, _WITHOUT_SOURCES): _COMMIT | _PACK,
    (EntryKind.COMMIT, ENTRY_SCHEMA): _COMMIT | _PACK | {"sources_hash": str},
    **{(EntryKind.RESULT, schema): _RESULT for schema in _OLDER},
    (EntryKind.RESULT, ENTRY_SCHEMA): _RESULT | _PACK,
    **{(EntryKind.ABANDONED, schema): _OF_A_RUN | {"cause": str, "commit_index": int} for schema in (*_OLDER, ENTRY_SCHEMA)},
    (EntryKind.RESTART, RESTART_SCHEMA): _ALL | {"before": str, "kept": int, "log": str},
    (EntryKind.SEGMENT, SEGMENT_SCHEMA): _ALL | {"capture_id": str, "number": int, "sha256": str},
    (EntryKind.PLAN, PLAN_SCHEMA): _ALL | {"content_hash": str, "owner": str, "plan_hash": str, "plan_id": str},
    (EntryKind.ANSWERED, AUDITS_SCHEMA): _OF_A_RUN | {"agent_id": str, "answers_hash": str, "commit_index": int},
    (EntryKind.AUDITS, AUDITS_SCHEMA): _OF_A_RUN | {"agents": int, "commit_index": int},
    (EntryKind.SEAT, SEAT_SCHEMA): _OF_A_RUN | {"commit_index": int, "head": str, "ticks": int},
    (EntryKind.HELD, HELD_SCHEMA): _ALL | {"content_hash": str, "fixtures": int, "fixtures_hash": str},
    (EntryKind.RELEASED, HELD_SCHEMA): _ALL | {"content_hash": str, "held_index": int},
    (EntryKind.OPENED, PLAN_SCHEMA): _ALL | {"again": bool, "plan_id": str, "plan_index": int, "trial": str},
}


def read_entry(data: bytes) -> Entry:
    return entry_and_time(data)[0]


def entry_and_time(data: bytes) -> tuple[Entry, int]:
    """Read an entry and its writer's time; ``EvidenceError`` unless it is canonical and of a known kind and schema."""
    entry = parsed(data)
    stated = {name: str(entry.get(name)) for name in ("kind", "schema")} if isinstance(entry, dict) else {}
    keys = _KEYS.get((stated.get("kind", ""), stated.get("schema", "")))
    if keys is None:
        raise EvidenceError(f"no entry of a run log: {data[:80]!r}")
    if entry.keys() != keys.keys() or not all(_is(entry[name], kind) for name, kind in keys.items()):
        raise EvidenceError(f"an entry of kind {entry['kind']} has other keys or values: {data[:80]!r}")
    return _entry(entry, stated["kind"]), entry["ts_ms"]


def _entry(entry: JsonObject, kind: str) -> Entry:
    if kind == EntryKind.RESTART:
        return Restart(entry["before"], entry["kept"], entry["log"])
    if kind == EntryKind.SEGMENT:
        return Segment(entry["capture_id"], entry["number"], entry["sha256"])
    if kind == EntryKind.PLAN:
        return PlanEntry(entry["plan_id"], entry["owner"], entry["plan_hash"], entry["content_hash"])
    if kind == EntryKind.OPENED:
        return OpeningEntry(entry["plan_id"], entry["plan_index"], entry["trial"], entry["again"])
    if kind == EntryKind.ANSWERED:
        return AnswersEntry(entry["run_id"], entry["commit_index"], entry["agent_id"], entry["answers_hash"])
    if kind == EntryKind.AUDITS:
        return Audits(entry["run_id"], entry["commit_index"], entry["agents"])
    if kind == EntryKind.SEAT:
        return SeatEntry(entry["run_id"], entry["commit_index"], entry["ticks"], entry["head"])
    if kind == EntryKind.HELD:
        return HeldEntry(entry["content_hash"], entry["fixtures"], entry["fixtures_hash"])
    if kind == EntryKind.RELEASED:
        return ReleasedEntry(entry["content_hash"], entry["held_index"])
    run_id, pack, names_pack = entry["run_id"], entry.get("content_hash"), "content_hash" in entry
    if kind == EntryKind.COMMIT:
        return Commit(run_id, entry["owner"], entry["inputs_hash"], pack, names_pack, entry.get("sources_hash"))
    result = (entry.get("manifest_hash"), entry.get("cause"))
    return Outcome(EntryKind(kind), run_id, entry["commit_index"], *result, pack, names_pack)


def _is(value: Any, kind: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return value >= 0 if type(value) is int and kind is int else isinstance(value, kind)
