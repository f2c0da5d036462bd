"""The run log: a run's commitment comes before its outcome. It has at most one outcome, a result or an abandonment.

The keeper of a log writes the commitment before the tape is opened. A reader can't check that, because entries show their order
but not the time of any computation. The rules work on ``LogRows``. A store implements them inside one of its transactions, so a
run and its entry are written together or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from clvlab.errors import LogConflictError, LogError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.log.entries import (
    AUDITS_SCHEMA,
    ENTRY_SCHEMA,
    OF_RUNS,
    SEAT_SCHEMA,
    SEGMENT_SCHEMA,
    EntryKind,
    Segment,
    read_entry,
)
from clvlab.log.tree import Nodes, completed_roots, inclusion, tree_root
from clvlab.proof.canonical import JsonObject, canonical, parsed
from clvlab.proof.manifest import sources_hash

_MAX_NAME = 300
_SCHEMAS = {EntryKind.AUDITS: AUDITS_SCHEMA, EntryKind.ANSWERED: AUDITS_SCHEMA, EntryKind.SEAT: SEAT_SCHEMA}


class LogRows(Nodes, Protocol):
    """Rows of a log within one transaction, which excludes every other writer."""

    def size(self) -> int: ...

    def nodes(self, level: int, first: int, count: int) -> list[bytes]:
        """Return this many roots of complete subtrees from number ``first`` on."""
        ...

    def entry(self, index: int) -> bytes: ...

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]: ...

    def about(self, run_id: str) -> list[tuple[int, str]]: ...

    def restarts(self) -> list[tuple[int, bytes]]: ...

    def held_out(self) -> Mapping[str, tuple[frozenset[str], Sequence[Sequence[Any]] | None]]:
        """Return the ticks and matches now held out by each plan: digests of ticks, and known matches as JSON."""
        ...

    def add(
        self,
        index: int,
        kind: str,
        run_id: str,
        owner: str,
        content_hash: str | None,
        commit_index: int | None,
        entry: bytes,
        nodes: dict[tuple[int, int], bytes],
    ) -> None:
        """Store an entry and the roots that it completes; ``LogBehindError`` if the log lacks published entries.

        An outcome has a unique ``commit_index``, and the owner and pack of its commitment. A restart has no run and no owner.
        """
        ...

    def tally(self) -> dict[str, dict[str, int]]: ...

    def pack_tally(self, owner: str, content_hash: str | None, kind: str, size: int) -> int:
        """Return the number of an owner's entries of a kind over a pack (``None`` for no named pack) in the first ``size``."""
        ...

    def pack_entries(self, owner: str, content_hash: str | None, kind: str, size: int) -> list[bytes]: ...

    def committed_over(self, content_hash: str) -> int | None:
        """Return the first commitment over a pack, or ``None``."""
        ...


class LogStore(Protocol):
    def write(self) -> AbstractContextManager[LogRows]:
        """Begin a transaction that appends. It is durable when the context ends."""
        ...

    def read(self) -> AbstractContextManager[LogRows]: ...


def commit(
    rows: LogRows,
    run_id: str,
    owner: str,
    inputs_hash: str,
    content_hash: str | None,
    ts_ms: int,
    *,
    sources: Sequence[str | None] = (),
    audited: int = 0,
    of_seat: bool = False,
) -> int:
    """Commit to a run before its tape is opened, and return the index that its manifest names.

    A repeated commitment returns the same index, so an interrupted run continues under it. An abandoned run gets a new index.
    ``sources`` are the ``source_sha256`` of its agents in roster order. ``audited`` is the number of agents that are audited
    for look-ahead. Over a pack that is held back only seats run (``of_seat``).
    """
    content = {"inputs_hash": inputs_hash, "owner": named(owner, "the owner of a run")}
    known, ended = _newest(rows, run_id)
    entry = content | {"content_hash": content_hash, "sources_hash": sources_hash(sources), "ts_ms": ts_ms}
    if known is None:
        _refuse_held(rows, content_hash, of_seat=of_seat)
        return _commit(rows, run_id, entry, content_hash, audited - 1)
    # If a commitment could change its pack or owner later, the owner could choose where it counts after seeing the result.
    stored = entry_of(rows, known)
    if stored.get("content_hash", content_hash) != content_hash:
        raise LogConflictError(f"run {run_id} is committed to as entry {known} over pack {stored['content_hash']}")
    if ended and ended[1] == EntryKind.ABANDONED:
        _refuse_held(rows, content_hash, of_seat=of_seat)
        return _commit(rows, run_id, entry, content_hash, audited - 1)
    if any(stored[name] != value for name, value in content.items()):
        raise LogConflictError(
            f"run {run_id} is committed to as entry {known} by {stored['owner']!r} from {stored['inputs_hash']}"
        )
    return known


def held_entries(rows: LogRows, content_hash: str) -> tuple[int | None, int | None]:
    """Return the entries that hold a pack back, and that open the list of its fixtures."""
    found = {kind: index for index, kind in rows.about(content_hash)}
    return found.get(EntryKind.HELD), found.get(EntryKind.RELEASED)


def _refuse_held(rows: LogRows, content_hash: str | None, *, of_seat: bool) -> None:
    if of_seat or content_hash is None:
        return
    index, released = held_entries(rows, content_hash)
    if index is not None and released is None:
        raise LogConflictError(
            f"pack {content_hash} is held back by entry {index} of the log: only seats run over it until its release"
        )


def recommit(rows: LogRows, run_id: str, ts_ms: int) -> int:
    """Commit to an abandoned run again, with the fields of its last commitment, and return the index.

    For a commitment that is open or has a result, return its existing index.
    """
    known, ended = _newest(rows, run_id)
    if known is None:
        raise LogConflictError(f"run {run_id} has no commitment to repeat")
    if ended is None or ended[1] != EntryKind.ABANDONED:
        return known
    before = entry_of(rows, known)
    return _commit(rows, run_id, before | {"ts_ms": ts_ms}, before.get("content_hash"), _further(rows, run_id, known))


def _commit(rows: LogRows, run_id: str, entry: JsonObject, content_hash: str | None, further: int) -> int:
    index = _append(rows, EntryKind.COMMIT, run_id, entry["owner"], entry, content_hash)
    if further > 0:
        _note_audits(rows, run_id, index, further, entry["ts_ms"])
    return index


def _note_audits(rows: LogRows, run_id: str, committed: int, further: int, ts_ms: int) -> None:
    known = entry_of(rows, committed)
    content: JsonObject = {"agents": further, "commit_index": committed, "ts_ms": ts_ms}
    _append(rows, EntryKind.AUDITS, run_id, known["owner"], content, known.get("content_hash"))


def _further(rows: LogRows, run_id: str, committed: int) -> int:
    """Return the further audit attempts of the newest commitment to a run, as in ``Audits``."""
    noted = [index for index, kind in rows.about(run_id) if kind == EntryKind.AUDITS and index > committed]
    return int(entry_of(rows, noted[-1])["agents"]) if noted else 0


def draw_audit(rows: LogRows, run_id: str, agent_id: str, answers_hash: str, ts_ms: int) -> tuple[int, int] | None:
    """Record an agent's answers in a committed run, and draw its audit: the seed, and the number of attempts.

    Return ``None`` for a run with a result. Three things count as attempts, over all of the owner's commitments over the pack:

    - each audited agent of a commitment that had no result when this one was made, and at least one for each commitment;
    - each failed audit in a run with a result;
    - each further answer of an agent under one commitment.

    This audit is the last attempt.
    """
    committed, ended = _newest(rows, run_id)
    if committed is None or (ended is not None and ended[1] == EntryKind.ABANDONED):
        raise LogConflictError(f"run {run_id} has no commitment under which it could be audited")
    known = entry_of(rows, committed)
    owner, pack = known["owner"], known.get("content_hash")
    answer = {"agent_id": agent_id, "answers_hash": answers_hash, "commit_index": committed}
    noted = [index for index, kind in rows.about(run_id) if kind == EntryKind.ANSWERED and index > committed]
    index = next((one for one in noted if answer.items() <= entry_of(rows, one).items()), None)
    if index is None and ended is not None:
        return None
    if index is None:
        index = _append(rows, EntryKind.ANSWERED, run_id, owner, answer | {"ts_ms": ts_ms}, pack)
    made, sealed = (rows.pack_tally(owner, pack, kind, committed) for kind in (EntryKind.COMMIT, EntryKind.RESULT))
    audits = map(parsed, rows.pack_entries(owner, pack, EntryKind.AUDITS, committed))
    further: dict[int, int] = {entry["commit_index"]: entry["agents"] for entry in audits}  # the last entry of each commitment
    answers = [parsed(entry) for entry in rows.pack_entries(owner, pack, EntryKind.ANSWERED, index)]
    again = len(answers) - len({(entry["commit_index"], entry["agent_id"]) for entry in answers})
    own = any(entry["commit_index"] == committed and entry["agent_id"] == agent_id for entry in answers)
    # The seed comes from the tree up to the answers, so it is unknown before them. An interrupted run with the same answers
    # gets the same seed again.
    return audit_seed(tree_root(rows, index + 1)), made - sealed + sum(further.values()) + again + own + 1


def audit_seed(root: bytes) -> int:
    """Return the seed of audits from the root of a tree. It has 53 bits, which every JSON reader keeps exactly."""
    return int.from_bytes(sha256(b"clvlab-audit-seed/1" + root).digest()[:8]) & SAFE_INTEGER


def conclude(
    rows: LogRows, run_id: str, manifest_hash: str, content_hash: str | None, ts_ms: int, *, failed_audits: int = 0
) -> int:
    """Write the number of failed audits, then the manifest hash and pack of a sealed run; return the last entry's index."""
    committed, ended = _newest(rows, run_id)
    if committed is not None and ended is None and failed_audits != _further(rows, run_id, committed):
        _note_audits(rows, run_id, committed, failed_audits, ts_ms)
    content = {"content_hash": content_hash, "manifest_hash": manifest_hash}
    return _end(rows, EntryKind.RESULT, run_id, content, ts_ms)


def abandon(rows: LogRows, run_id: str, cause: str, ts_ms: int) -> int:
    return _end(rows, EntryKind.ABANDONED, run_id, {"cause": named(cause, "the cause of a run")}, ts_ms)


def is_concluded(rows: LogRows, run_id: str) -> bool:
    _, ended = _newest(rows, run_id)
    return ended is not None and ended[1] == EntryKind.RESULT


def _newest(rows: LogRows, run_id: str, size: int | None = None) -> tuple[int | None, tuple[int, str] | None]:
    """Return the newest commitment to a run among the first ``size`` entries, and its outcome if it has one."""
    about = [(index, kind) for index, kind in rows.about(run_id) if kind in OF_RUNS and (size is None or index < size)]
    committed = max((index for index, kind in about if kind == EntryKind.COMMIT), default=None)
    return committed, about[-1] if about and about[-1][1] != EntryKind.COMMIT else None


def _end(rows: LogRows, kind: EntryKind, run_id: str, content: JsonObject, ts_ms: int) -> int:
    committed, ended = _newest(rows, run_id)
    if committed is None:
        raise LogConflictError(f"run {run_id} has no commitment; {kind} must follow one")
    if ended is not None:
        stored = entry_of(rows, ended[0])
        if ended[1] == kind and all(stored.get(name, value) == value for name, value in content.items()):
            return ended[0]
        if ended[1] == kind == EntryKind.RESULT and stored["manifest_hash"] != content["manifest_hash"]:
            raise LogConflictError(
                f"run {run_id} is in the log with another manifest: entry {ended[0]} has {stored['manifest_hash']}, and "
                f"this one {content['manifest_hash']}; nothing was added"
            )
        raise LogConflictError(f"run {run_id} has ended already: entry {ended[0]} says {ended[1]}")
    known = entry_of(rows, committed)
    pack = content.get("content_hash", known.get("content_hash"))
    if known.get("content_hash", pack) != pack:
        raise LogConflictError(
            f"run {run_id} is committed to as entry {committed} over pack {known['content_hash']}, not {pack}"
        )
    content = content | {"commit_index": committed, "ts_ms": ts_ms}
    return _append(rows, kind, run_id, known["owner"], content, known.get("content_hash"))


def _append(rows: LogRows, kind: EntryKind, run_id: str, owner: str, content: JsonObject, content_hash: str | None) -> int:
    if not 0 <= content["ts_ms"] <= SAFE_INTEGER:
        raise LogError(f"a time of {content['ts_ms']} ms is out of range")
    entry = canonical({"kind": kind.value, "run_id": run_id, "schema": _SCHEMAS.get(kind, ENTRY_SCHEMA), **content})
    index = rows.size()
    ends = content.get("commit_index") if kind in OF_RUNS else None
    rows.add(index, kind.value, run_id, owner, content_hash, ends, entry, completed_roots(rows, index, entry))
    return index


def append_unowned(rows: LogRows, schema: str, kind: EntryKind, about: str, stated: JsonObject, ts_ms: int) -> int:
    """Append an entry that is about no run, and so has no owner: the column counts runs by owner."""
    entry = canonical(stated | {"kind": kind.value, "schema": schema, "ts_ms": ts_ms})
    index = rows.size()
    rows.add(index, kind.value, about, "", None, None, entry, completed_roots(rows, index, entry))
    return index


def named(text: str, what: str) -> str:
    fault = name_fault(text)
    if fault is not None:
        raise LogError(f"{what} has {fault}")
    return text


def name_fault(name: str) -> str | None:
    size = len(name.encode(errors="surrogatepass"))
    if not 1 <= size <= _MAX_NAME:
        return f"a name of {size} bytes, not 1 to {_MAX_NAME}"
    # An unprintable name could overwrite other output in a terminal.
    return None if name.isprintable() else f"a name that can't be printed: {name[:80]!a}"


def entry_of(rows: LogRows, index: int) -> JsonObject:
    entry: JsonObject = parsed(rows.entry(index))
    return entry


@dataclass(frozen=True, slots=True)
class Proven:
    index: int
    entry: bytes
    proof: tuple[bytes, ...]


def proven(rows: LogRows, run_id: str, size: int) -> list[Proven]:
    """Return proofs of the newest commitment to a run, and of its outcome if it has one, in the first ``size`` entries."""
    committed, ended = _newest(rows, run_id, size)
    if committed is None:
        raise LogError(f"no entry about run {run_id} among the first {size} of the log")
    known = [committed, ended[0]] if ended else [committed]
    return [Proven(index, rows.entry(index), tuple(inclusion(rows, index, size))) for index in known]


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Numbers of runs committed to, sealed and abandoned. Other runs are running, or were dropped."""

    committed: int
    sealed: int
    abandoned: int

    @property
    def open(self) -> int:
        return self.committed - self.sealed - self.abandoned


def counts(rows: LogRows) -> dict[str, RunCounts]:
    """Return counts of runs by owner, in order of owner. Rankings never use them."""
    return {owner: RunCounts(*(kinds.get(kind.value, 0) for kind in OF_RUNS)) for owner, kinds in sorted(rows.tally().items())}


@dataclass(frozen=True, slots=True)
class Claim:
    """Stated counts of an owner's other commitments over one pack. ``unknown_pack`` counts those without a named pack."""

    earlier: int
    later: int
    abandoned: int
    unknown_pack: int


def claim(rows: LogRows, index: int, size: int) -> Claim | None:
    entry = entry_of(rows, index)
    owner, pack = entry["owner"], entry.get("content_hash")
    if pack is None:
        return None
    earlier = rows.pack_tally(owner, pack, EntryKind.COMMIT, index)
    return Claim(
        earlier=earlier,
        later=rows.pack_tally(owner, pack, EntryKind.COMMIT, size) - earlier - 1,
        abandoned=rows.pack_tally(owner, pack, EntryKind.ABANDONED, size),
        unknown_pack=rows.pack_tally(owner, None, EntryKind.COMMIT, size),
    )


# Seats in the run log: the head of the chain of decisions, from the start to the end of the seat.


def seat_entries(rows: LogRows, run_id: str) -> list[int]:
    """Return the indices of the entries with heads of a seat's chain, ascending."""
    return [index for index, kind in rows.about(run_id) if kind == EntryKind.SEAT]


def note_seat(rows: LogRows, run_id: str, ticks: int, head: str, ts_ms: int) -> int:
    """Record the head of a seat's chain after ``ticks`` decisions, and return the entry's index; repeating changes nothing.

    Raises
    ------
    LogConflictError
        The run has no open commitment, or the log has a head after as many decisions or more.
    """
    committed, ended = _newest(rows, run_id)
    if committed is None or ended is not None:
        raise LogConflictError(f"run {run_id} has no open commitment under which a seat could be recorded")
    for index in seat_entries(rows, run_id)[-1:]:  # of a long seat only the newest is read
        newest = entry_of(rows, index)
        if (newest["ticks"], newest["head"]) == (ticks, head):
            return index
        if newest["ticks"] >= ticks:
            place = f"in the log at tick {newest['ticks']} as {newest['head']}: entry {index}"
            raise LogConflictError(f"the seat of run {run_id} is {place}")
    owner, pack = (entry_of(rows, committed).get(name) for name in ("owner", "content_hash"))
    content: JsonObject = {"commit_index": committed, "head": head, "ticks": ticks, "ts_ms": ts_ms}
    return _append(rows, EntryKind.SEAT, run_id, str(owner), content, pack)


# Captures in the run log: each part is recorded when it is closed, before the next part begins.
#
# A reader of a checkpoint knows that the messages of a part existed by then, but not whether messages were left out.


def segments(rows: LogRows, capture_id: str) -> list[Segment]:
    found = [read_entry(rows.entry(index)) for index, kind in rows.about(capture_id) if kind == EntryKind.SEGMENT]
    return [entry for entry in found if isinstance(entry, Segment)]


def note_segment(rows: LogRows, capture_id: str, number: int, sha256: str, ts_ms: int) -> None:
    """Record a closed part of a capture. Recording the same part again changes nothing."""
    named(capture_id, "a capture")
    known = segments(rows, capture_id)
    if 1 <= number <= len(known):
        if known[number - 1].sha256 != sha256:
            raise LogConflictError(
                f"segment {number} of capture {capture_id} is in the log as {known[number - 1].sha256}, not {sha256}"
            )
        return
    if number != len(known) + 1:
        raise LogConflictError(f"segment {number} of capture {capture_id} follows {len(known)} in the log")
    stated = {"capture_id": capture_id, "number": number, "sha256": sha256}
    append_unowned(rows, SEGMENT_SCHEMA, EntryKind.SEGMENT, capture_id, stated, ts_ms)
