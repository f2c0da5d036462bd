"""The run log on disk: checkpoints, counts, and what a witness is asked and signs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clvlab.anchor.log import LogRows, RunCounts, consistency, counts, proven, tree_root
from clvlab.anchor.log_stores import SqliteLog
from clvlab.anchor.note import Checkpoint, Signer, Verifier, checkpoint, opened, read_signer, signed, write_signer
from clvlab.anchor.witness import Witness, request
from clvlab.errors import LogError

__all__ = ["SqliteLog", "cosign", "log_counts", "log_proofs", "new_key", "signed_checkpoint", "witness_request"]


def new_key(name: str, path: Path, *, witness: bool = False) -> str:
    """Make a key of a log or witness, write it to a file, and give the public part."""
    signer = Signer.new(name, witness=witness)
    write_signer(signer, path)
    return str(signer.verifier)


def signed_checkpoint(log: Path, key: Path) -> str:
    """Sign the state of a log as it is now; the key's name is the log's."""
    signer = read_signer(key)
    with SqliteLog(log).read() as rows:
        text = Checkpoint(signer.name, rows.size(), tree_root(rows, rows.size())).text
    return signed(text, signer.line(text))


def log_counts(log: Path) -> dict[str, RunCounts]:
    """Count runs committed to, sealed and abandoned, by owner."""
    with SqliteLog(log).read() as rows:
        return counts(rows)


def witness_request(log: Path, note: str, old_size: int) -> str:
    """Write the request that asks a witness, who saw ``old_size`` entries last, to sign a checkpoint."""
    with SqliteLog(log).read() as rows:
        new = _own(rows, note)
        return request(old_size, consistency(rows, old_size, new.size), note)


def cosign(asked: str, key: Path, logs: Sequence[str], state: Path, ts_s: int) -> str:
    """Answer a request as a witness: the signature line, or a ``LogError`` that says why not."""
    return Witness(read_signer(key), [Verifier.parse(log) for log in logs], state).cosign(asked, ts_s)


def log_proofs(log: Path, run_id: str, note: str, since: str | None = None) -> dict[str, Any]:
    """Prove a run's commitment and outcome under a signed checkpoint, and that this one extends an earlier one.

    Raises
    ------
    LogError
        The checkpoint is not this log's, or the run has no outcome under it.
    """
    with SqliteLog(log).read() as rows:
        size = _own(rows, note).size
        found = proven(rows, run_id, size)
        if len(found) != 2:
            raise LogError(f"run {run_id} has no outcome yet among the first {size} entries of the log")
        entries = [
            {"entry": entry.entry.decode(), "index": entry.index, "proof": [value.hex() for value in entry.proof]}
            for entry in found
        ]
        earlier = None
        if since is not None:
            proof = consistency(rows, _own(rows, since).size, size)
            earlier = {"checkpoint": since, "proof": [value.hex() for value in proof]}
    return {
        "schema": "clvlab-bundle-log/1",
        "checkpoint": note,
        "commit": entries[0],
        "outcome": entries[1],
        "earlier": earlier,
    }


def _own(rows: LogRows, note: str) -> Checkpoint:
    """Read a checkpoint of this log; its signatures are for others to judge."""
    found = checkpoint(opened(note)[0])
    if found.size > rows.size() or tree_root(rows, found.size) != found.root:
        raise LogError(f"the checkpoint of {found.origin!r} at {found.size} entries is not of this log")
    return found
