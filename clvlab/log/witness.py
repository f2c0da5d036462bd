"""A witness remembers the last signed state of each log, and signs only checkpoints that extend it.

References
----------
C2SP ``tlog-witness``, for the request and its refusals.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clvlab.base.files import lock, replace_file
from clvlab.errors import EvidenceError, LogError, LogForkError, WitnessRefusalError
from clvlab.log.note import Checkpoint, Signer, Verifier, checkpoint, decode, keep_signatures, open_note
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.merkle import check_consistency

_SCHEMA = "clvlab-witness/2"
_OLDER = "clvlab-witness/1"  # kept checkpoints without the log's signature
_MAX_PROOF = 63


def request(old_size: int, proof: Sequence[bytes], note: str) -> str:
    """Return a log's request to a witness: the size that it last saw, the proof from that size, and the new checkpoint."""
    hashes = "".join(f"{b64encode(value).decode()}\n" for value in proof)
    return f"old {old_size}\n{hashes}\n{note}"


@dataclass(frozen=True, slots=True)
class _Seen:
    """A checkpoint, and its note with the log's signature. An older state has the note's text only."""

    state: Checkpoint
    note: str


class Witness:
    """Signer of checkpoints of known logs.

    ``state`` is a file with the last signed checkpoint of each log. It belongs to the witness, never to a log. Contradictions
    are kept in files next to it.
    """

    def __init__(self, signer: Signer, logs: Sequence[Verifier], state: Path) -> None:
        if any(log.is_witness for log in logs):
            raise LogError("the key of a witness signs for no log: name the log's own")
        self._signer, self._state = signer, state.resolve()  # one file has one lock under all its names
        self._logs: dict[str, list[Verifier]] = {}
        for log in logs:
            self._logs.setdefault(log.name, []).append(log)

    @property
    def name(self) -> str:
        return self._signer.name

    def cosign(self, body: str, ts_s: int) -> str:
        """Return the signature line of a checkpoint that extends the last one.

        ``LogForkError`` if the log signed two roots of one size (status 409), or the proof of extension fails (422); both notes
        are then stored. ``WitnessRefusalError`` for a malformed request (400), an unknown log (404), one that did not sign
        (403), a size other than the last one seen (409, with that size), or a smaller tree (400).
        """
        try:
            old, proof, note = _read_request(body)
            state = checkpoint(open_note(note)[0])
        except LogError as error:
            raise WitnessRefusalError(str(error), 400) from error
        origin = state.origin
        if origin not in self._logs:
            raise WitnessRefusalError(f"the log {origin[:120]!r} is not watched here", 404)
        try:
            text, signers = open_note(note, *self._logs[origin])
        except LogError as error:
            raise WitnessRefusalError(str(error), 403) from error
        if not signers:
            raise WitnessRefusalError(f"the checkpoint is not signed by the key of {origin!r}", 403)
        new = _Seen(state, keep_signatures(note, *signers))
        with lock(self._state.parent):
            seen = self._seen()
            self._extends(seen.get(origin), new, old, proof)
            self._store(seen | {origin: new})  # stored first: a crash may lose a signature, but never a state
        return self._signer.line(text, ts_s)

    def _extends(self, before: _Seen | None, offered: _Seen, old: int, proof: list[bytes]) -> None:
        last, new = before.state if before else None, offered.state
        known = last.size if last else 0
        if before and last and (new.size, new.root != last.root) == (known, True):
            raise self._fork(before, offered, f"the log {new.origin!r} forked: it signed two roots of {known} entries", 409)
        if old != known:
            behind = f"the last checkpoint of {new.origin!r} seen here has {known} entries, the request starts at {old}"
            raise WitnessRefusalError(behind, 400 if old > new.size else 409, None if old > new.size else known)
        if new.size < known:
            raise WitnessRefusalError(f"the log {new.origin!r} shrank from {known} to {new.size} entries", 400)
        if before is None or last is None or known == 0:
            if proof:
                raise WitnessRefusalError("there is nothing to prove from an empty log", 422)
        elif not check_consistency(known, new.size, last.root, new.root, proof):
            # The sender may have sent a wrong proof about an honest log, so two notes of different sizes alone accuse no log.
            reason = f"the log {new.origin!r} forked, or the proof is wrong: nothing shows that its {new.size} entries extend"
            raise self._fork(before, offered, f"{reason} the {known} seen here", 422)

    def _fork(self, before: _Seen, offered: _Seen, reason: str, status: int) -> LogForkError:
        """Keep both notes in a file named by their hash, so that none is overwritten."""
        same_size = before.state.size == offered.state.size
        content = canonical(
            {"schema": "clvlab-fork/1", "seen": before.note, "offered": offered.note, "two_roots_of_one_size": same_size}
        )
        name = f"{self._state.name}.fork-{hashlib.sha256(content).hexdigest()[:32]}.json"
        evidence = self._state.with_name(name)
        if not evidence.exists():
            replace_file(evidence, content)
        return LogForkError(reason, str(evidence), status)

    def _seen(self) -> dict[str, _Seen]:
        if not self._state.exists():
            return {}
        try:
            state = parsed(self._state.read_bytes())
            if state["schema"] not in (_SCHEMA, _OLDER):
                raise KeyError("schema")
            found = [_Seen(checkpoint(_text(note)), note) for note in state["checkpoints"]]
        except (EvidenceError, KeyError, TypeError, AttributeError) as error:
            raise LogError(f"the state of the witness in {str(self._state)!r} can't be read: {error}") from error
        return {seen.state.origin: seen for seen in found}

    def _store(self, seen: Mapping[str, _Seen]) -> None:
        content = canonical({"schema": _SCHEMA, "checkpoints": [seen[origin].note for origin in sorted(seen)]})
        replace_file(self._state, content)


def _text(note: str) -> str:
    return open_note(note)[0] if "\n\n" in note else note


def _read_request(body: str) -> tuple[int, list[bytes], str]:
    head, blank, note = body.partition("\n\n")
    first, *hashes = head.split("\n")
    number = first.removeprefix("old ")
    if not blank or not first.startswith("old ") or not re.fullmatch("0|[1-9][0-9]{0,15}", number):
        raise LogError("not a request: it must begin with 'old <size>' and hashes, followed by an empty line and a checkpoint")
    proof = [decode(value) for value in hashes]
    if len(proof) > _MAX_PROOF or any(len(value) != 32 for value in proof):
        raise LogError("a proof has at most 63 hashes of 32 bytes")
    return int(number), proof, note
