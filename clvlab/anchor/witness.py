"""A witness: remembers the last state of each log that it saw, and signs only what extends it.

References
----------
C2SP ``tlog-witness``: the request, and when it is refused.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from clvlab.anchor.durable import locked, replace_file
from clvlab.anchor.note import Checkpoint, Signer, Verifier, checkpoint, decoded, opened
from clvlab.errors import EvidenceError, LogError
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.merkle import check_consistency

__all__ = ["Witness", "request"]

_SCHEMA = "clvlab-witness/1"
_MAX_PROOF = 63


def request(old_size: int, proof: Sequence[bytes], note: str) -> str:
    """Write what a log sends a witness: the size it last saw, the proof from there, and the new checkpoint."""
    hashes = "".join(f"{b64encode(value).decode()}\n" for value in proof)
    return f"old {old_size}\n{hashes}\n{note}"


class Witness:
    """Signs checkpoints of logs that it knows.

    Parameters
    ----------
    signer
        Its own key.
    logs
        Keys of the logs it watches; a log's name is its checkpoints' first line.
    state
        File in which it keeps the last checkpoint of each log; its own, never the log's.
    """

    def __init__(self, signer: Signer, logs: Sequence[Verifier], state: Path) -> None:
        self._signer, self._state = signer, state
        self._logs = {log.name: log for log in logs}

    def cosign(self, asked: str, ts_s: int) -> str:
        """Sign a checkpoint that extends the last one; gives the signature line.

        Raises
        ------
        LogError
            Not a request; an unknown or unsigned log; a size other than the last one seen, a smaller tree, or a forked one.
        """
        old, proof, note = _read_request(asked)
        origin = note.split("\n", 1)[0]
        if origin not in self._logs:
            raise LogError(f"the log {origin[:120]!r} is not watched here")
        text, signers = opened(note, self._logs[origin])
        new = checkpoint(text)
        if not signers:
            raise LogError(f"the checkpoint is not signed by the key of {origin!r}")
        with locked(self._state.parent):
            seen = self._seen()
            self._extends(seen.get(origin), new, old, proof)
            self._store(seen | {origin: new})  # before the signature leaves: a crash may lose a signature, never a state
        return self._signer.line(text, ts_s)

    def _extends(self, last: Checkpoint | None, new: Checkpoint, old: int, proof: list[bytes]) -> None:
        known = last.size if last else 0
        if old != known:
            raise LogError(f"the last checkpoint of {new.origin!r} seen here has {known} entries, the request starts at {old}")
        if new.size < known:
            raise LogError(f"the log {new.origin!r} shrank from {known} to {new.size} entries")
        if last is None or known == 0:
            if proof:
                raise LogError("nothing is to be proved from an empty log")
        elif not check_consistency(known, new.size, last.root, new.root, proof):
            raise LogError(f"the log {new.origin!r} forked: its {new.size} entries do not extend the {known} seen here")

    def _seen(self) -> dict[str, Checkpoint]:
        if not self._state.exists():
            return {}
        try:
            state = parsed(self._state.read_bytes())
            if state["schema"] != _SCHEMA:
                raise KeyError("schema")
            return {text.split("\n", 1)[0]: checkpoint(text) for text in state["checkpoints"]}
        except (EvidenceError, KeyError, TypeError, AttributeError) as error:
            raise LogError(f"the state of the witness in {str(self._state)!r} can't be read: {error}") from error

    def _store(self, seen: dict[str, Checkpoint]) -> None:
        content = canonical({"schema": _SCHEMA, "checkpoints": [seen[origin].text for origin in sorted(seen)]})
        replace_file(self._state, content)


def _read_request(asked: str) -> tuple[int, list[bytes], str]:
    head, blank, note = asked.partition("\n\n")
    first, *hashes = head.split("\n")
    number = first.removeprefix("old ")
    if not blank or not first.startswith("old ") or not number.isascii() or not number.isdigit() or len(number) > 16:
        raise LogError("no request: it must begin with 'old <size>' and hashes, and go on with an empty line and a checkpoint")
    proof = [decoded(value) for value in hashes]
    if len(proof) > _MAX_PROOF or any(len(value) != 32 for value in proof):
        raise LogError("a proof has at most 63 hashes of 32 bytes")
    return int(number), proof, note
