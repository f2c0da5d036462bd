"""Restarts of a run log: its operator states that a restored database lacks published entries.

If such a log continued as before, it would sign a second history under its own name, which looks like fraud. So the log gets a
new name and key, and the first entry under them names the last checkpoint under the old ones. Earlier entries stay in the same
tree. Their proofs hold under the new name, and the new log extends any old checkpoint of the kept part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clvlab.errors import EvidenceError, LogError, LogKeyError
from clvlab.log.entries import RESTART_SCHEMA, EntryKind, Restart, read_entry
from clvlab.log.log import LogRows
from clvlab.log.note import Checkpoint, Signer, Verifier, checkpoint, open_note
from clvlab.log.tree import completed_roots, tree_root
from clvlab.proof.canonical import canonical


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """A restart: the last checkpoint of the ended origin (``note`` as signed), the kept part, and the new key."""

    index: int
    note: str
    before: Checkpoint
    kept: int
    key: Verifier

    @classmethod
    def read(cls, index: int, data: bytes) -> RestartRecord:
        try:
            entry = read_entry(data)
        except EvidenceError as error:
            raise LogError(f"entry {index} is not a restart: {error}") from error
        if not isinstance(entry, Restart):
            raise LogError(f"entry {index} is no restart")
        before, key = checkpoint(open_note(entry.before)[0]), Verifier.parse(entry.log)
        if entry.kept > min(index, before.size):
            raise LogError(f"entry {index} keeps {entry.kept} of {before.size} entries, and is the {index + 1}th")
        if key.is_witness or key.name == before.origin:
            raise LogError(f"entry {index} restarts {before.origin!r} without a new name for a log")
        return cls(index, entry.before, before, entry.kept, key)


def restarts(rows: LogRows) -> list[RestartRecord]:
    return [RestartRecord.read(index, entry) for index, entry in rows.restarts()]


def require_key(rows: LogRows, key: Verifier) -> None:
    """Raise ``LogKeyError`` unless a restarted log continues under this key. A log without restarts accepts any key."""
    history = restarts(rows)
    if history and history[-1].key != key:
        current = history[-1].key
        raise LogKeyError(f"the log was restarted at entry {history[-1].index} and goes on as {current}, not as {key}")


def fault(rows: LogRows, note: str, key: Verifier | None) -> str | None:
    """Return why a log can't have published a checkpoint in its present state, or ``None``.

    ``key`` is the key of a log that was never restarted. Without it, the checkpoint must be of an ended origin.
    """
    try:
        found, history = checkpoint(open_note(note)[0]), restarts(rows)
        ended = next((one for one in history if one.before.origin == found.origin), None)
        if ended is not None:
            if found.size < ended.before.size or found == ended.before:
                return None
            return f"{_published_text(found)}, more than the restart at entry {ended.index} names, which is {ended.before.size}"
        current = history[-1].key if history else key
        if current is None or found.origin != current.name:
            return f"{_published_text(found)}, and this log is {current.name if current else 'without a name'!r}"
        if not open_note(note, current)[1]:
            return f"{_published_text(found)}, which the key of that log did not sign"
    except LogError as error:
        return f"the checkpoint can't be used: {error}"
    if found.size > rows.size():
        return f"{_published_text(found)}, and the log has {rows.size()}: it was restored from an older backup, or cut"
    if tree_root(rows, found.size) != found.root:
        return f"{_published_text(found)}, which are not the first ones of this log: it went on otherwise after it was restored"
    return None


def _published_text(found: Checkpoint) -> str:
    return f"a checkpoint of {found.origin!r} with {found.size} entries was published"


def restart(rows: LogRows, notes: Sequence[str], signer: Signer, ts_ms: int) -> RestartRecord:
    """End the origin that published these checkpoints, and start one under ``signer``. A repetition changes nothing.

    The entry names the newest checkpoint. If the log does not extend an older checkpoint either, no part is known to be kept.
    """
    found = {note: checkpoint(open_note(note)[0]) for note in notes}
    if not found or len({state.origin for state in found.values()}) != 1:
        raise LogError("a restart needs the newest checkpoint that was published, and others of the same log at most")
    before = max(found, key=lambda note: found[note].size)
    last, history, size = found[before], restarts(rows), rows.size()
    if history and (history[-1].before, history[-1].key) == (last, signer.verifier):
        return history[-1]
    if any(one.before.origin == last.origin for one in history):
        raise LogError(f"the log {last.origin!r} was ended by an earlier restart, and goes on as {history[-1].key.name!r}")
    if history and history[-1].key.name != last.origin:
        raise LogError(f"the checkpoint is of {last.origin!r}, and this log is {history[-1].key.name!r}")
    misfits = [state for state in found.values() if state.size > size or tree_root(rows, state.size) != state.root]
    if not misfits:
        raise LogError(f"there is nothing to restart: the log's {size} entries extend the {last.size} of the checkpoint")
    _require_new(signer, before, last, history)
    kept = size if all(state.size > size for state in misfits) else 0
    content = {"before": before, "kept": kept, "kind": EntryKind.RESTART.value, "log": str(signer.verifier)}
    entry = canonical(content | {"schema": RESTART_SCHEMA, "ts_ms": ts_ms})
    done = RestartRecord.read(size, entry)
    rows.add(size, EntryKind.RESTART.value, "", "", None, None, entry, completed_roots(rows, size, entry))
    return done


def _require_new(signer: Signer, note: str, last: Checkpoint, history: Sequence[RestartRecord]) -> None:
    """Require a name and a key that the log never had, because readers trust one key under one name."""
    key = signer.verifier
    before = Verifier(last.origin, key.kind, key.public)
    if key.is_witness:
        raise LogError(f"{key.name!r} is the key of a witness: make one of a log")
    if key.name in {last.origin, *(one.before.origin for one in history)}:
        raise LogError(f"the log was called {key.name!r} before: make a key of another name")
    if before in open_note(note, before)[1] or key.public in {one.key.public for one in history}:
        raise LogError("the log signed with this key before: make a new one")
