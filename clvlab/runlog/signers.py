"""Whose signatures on a checkpoint count: keys that a reader trusts as logs, and keys that they trust as witnesses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from clvlab.errors import LogError
from clvlab.runlog.note import Checkpoint, Verifier, checkpoint, open_note

# Of the points of small order on edwards25519, the y: under such a key anybody can sign.
_FIELD = 2**255 - 19
_EIGHTH = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL_ORDER = {0, 1, _FIELD - 1, _EIGHTH, _FIELD - _EIGHTH}


@dataclass(frozen=True, slots=True)
class Keys:
    """Trusted keys, each for one purpose."""

    logs: tuple[Verifier, ...]
    witnesses: tuple[Verifier, ...]

    @classmethod
    def read(cls, logs: Collection[str], witnesses: Collection[str]) -> Keys:
        """Read public keys as ``Verifier`` writes them; the same text twice is one key.

        Raises
        ------
        LogError
            Not exactly a key, a witness's among the logs or a log's among the witnesses, one for which anybody can sign, or
            one key under two names.
        """
        keys = cls(
            tuple(_key(text, "log", is_witness=False) for text in dict.fromkeys(logs)),
            tuple(_key(text, "witness", is_witness=True) for text in dict.fromkeys(witnesses)),
        )
        names: dict[bytes, tuple[str, int]] = {}
        for key in (*keys.logs, *keys.witnesses):
            # One signer must not count as two: as two witnesses, or as a log and its own witness.
            if names.setdefault(key.public, (key.name, key.kind)) != (key.name, key.kind):
                raise LogError(f"the key of {key.name!r} stands under another name, or as a log and as a witness")
        return keys


def _key(text: str, role: str, *, is_witness: bool) -> Verifier:
    verifier = Verifier.parse(text)
    if verifier.is_witness != is_witness:
        raise LogError(f"{text[:120]!r} is not the key of a {role}")
    y = int.from_bytes(verifier.public, "little") % 2**255
    if y >= _FIELD or y in _SMALL_ORDER:
        raise LogError(f"the key of {verifier.name!r} is no point of the curve, or of small order: anybody can sign with it")
    return verifier


def trusted_checkpoint(note: str, keys: Keys) -> tuple[Checkpoint, tuple[str, ...]]:
    """Read a checkpoint that the log it names signed, by a trusted key; give also the names of trusted witnesses who did.

    Raises
    ------
    LogError
    """
    text, signed = open_note(note, *keys.logs, *keys.witnesses)
    found = checkpoint(text)
    if found.origin not in {key.name for key in signed if not key.is_witness}:
        raise LogError(f"the checkpoint of {found.origin!r} is not signed by that log, or you do not trust its key")
    return found, tuple(sorted({key.name for key in signed if key.is_witness}))
