"""Signed notes and checkpoints, in the formats of transparency logs.

References
----------
C2SP ``signed-note``, ``tlog-checkpoint`` and ``tlog-cosignature``. Keys are Ed25519, written as Go's ``note`` package does.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from clvlab.base.files import new_file
from clvlab.errors import LogError, MissingExtraError
from clvlab.law.schema import SAFE_INTEGER

_NOTE, _COSIGNATURE = 1, 4  # signature types: by the author of a note, and by a witness, with the time
_DASH = "\u2014 "
_MAX_SIGNATURES = 100  # as in Go's reader
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


def _library() -> Any:
    """Import the signature library at its first use, because all else works without the extra."""
    try:
        return import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError as error:
        raise MissingExtraError("anchor", error.name) from error


def _key_id(name: str, kind: int, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


def _is_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(char.isspace() for char in name)


def _checked_name(name: str) -> str:
    if not _is_name(name) or not name.isprintable():
        raise LogError(f"the name of a key must be text without spaces and '+', not {name!r}")
    return name


@dataclass(frozen=True, slots=True)
class Verifier:
    """A public key with its name: ``<name>+<hex key id>+<base64 of type and key>``."""

    name: str
    kind: int
    public: bytes

    @property
    def key_id(self) -> bytes:
        return _key_id(self.name, self.kind, self.public)

    @property
    def is_witness(self) -> bool:
        """Whether this is the key of a witness, which signs with the time."""
        return self.kind == _COSIGNATURE

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{b64encode(bytes([self.kind]) + self.public).decode()}"

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Read a public key without surrounding spaces; ``LogError`` for anything else."""
        parts = text.split("+", 2)
        key = decode(parts[-1])
        if len(parts) != 3 or len(key) != 33 or key[0] not in (_NOTE, _COSIGNATURE):
            raise LogError(f"no public key of a log or witness: {text[:120]!r}")
        verifier = cls(_checked_name(parts[0]), key[0], key[1:])
        if str(verifier) != text:
            raise LogError(f"the key id of {parts[0]!r} is {parts[1]}, its key gives {verifier.key_id.hex()}")
        return verifier

    def holds(self, text: str, signature: bytes) -> bool:
        message = text.encode()
        if self.kind == _COSIGNATURE:
            ts_s = int.from_bytes(signature[:8], "big")
            if ts_s >> 63:
                return False
            message, signature = cosigned_text(text, ts_s), signature[8:]
        library = _library()
        try:
            library.Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except import_module("cryptography.exceptions").InvalidSignature:
            return False
        return True


def is_of_other_type(text: str) -> bool:
    """Whether this is a public key of a type that is not read here, as ML-DSA-44."""
    parts = text.split("+", 2)
    if len(parts) != 3 or not _is_name(parts[0]) or len(parts[1]) != 8 or set(parts[1]) - set("0123456789abcdef"):
        return False
    key = decode(parts[2])
    return len(key) > 1 and key[0] not in (_NOTE, _COSIGNATURE)


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key with its name. The key of a witness signs with the time."""

    name: str
    kind: int
    seed: bytes

    @classmethod
    def new(cls, name: str, *, witness: bool = False) -> Signer:
        return cls(
            _checked_name(name), _COSIGNATURE if witness else _NOTE, _library().Ed25519PrivateKey.generate().private_bytes_raw()
        )

    @property
    def verifier(self) -> Verifier:
        return _verifier_of(self)

    @property
    def _key(self) -> Any:
        return _key_of(self)

    def line(self, text: str, ts_s: int = 0) -> str:
        if self.kind == _COSIGNATURE:
            signature = ts_s.to_bytes(8, "big") + self._key.sign(cosigned_text(text, ts_s))
        else:
            signature = self._key.sign(text.encode())
        return f"{_DASH}{self.name} {b64encode(self.verifier.key_id + signature).decode()}\n"


@lru_cache(maxsize=8)  # a service signs every receipt of a seat by one key
def _key_of(signer: Signer) -> Any:
    return _library().Ed25519PrivateKey.from_private_bytes(signer.seed)


@lru_cache(maxsize=8)
def _verifier_of(signer: Signer) -> Verifier:
    return Verifier(signer.name, signer.kind, _key_of(signer).public_key().public_bytes_raw())


def write_signer(signer: Signer, path: Path) -> None:
    """Write a private key to a new file that only its owner can read."""
    key = b64encode(bytes([signer.kind]) + signer.seed).decode()
    new_file(path, f"PRIVATE+KEY+{signer.name}+{signer.verifier.key_id.hex()}+{key}\n".encode(), 0o600)


def read_signer(path: Path) -> Signer:
    """Read a private key. An error never shows the file's content."""
    if not path.is_file():
        raise LogError(f"no key file at {str(path)!r}")
    parts = path.read_text(encoding="utf-8", errors="replace").strip().split("+", 4)
    key = decode(parts[-1])
    if parts[:2] != ["PRIVATE", "KEY"] or len(parts) != 5 or len(key) != 33 or key[0] not in (_NOTE, _COSIGNATURE):
        raise LogError(f"{str(path)!r} holds no private key of a log or witness")
    signer = Signer(_checked_name(parts[2]), key[0], key[1:])
    if signer.verifier.key_id.hex() != parts[3]:
        raise LogError(f"the private key in {str(path)!r} is damaged: its key id does not fit")
    return signer


def cosigned_text(text: str, ts_s: int) -> bytes:
    """Return the text that a witness signs, which states that it saw this checkpoint at this time."""
    return f"cosignature/v1\ntime {ts_s}\n{text}".encode()


def write_note(text: str, *lines: str) -> str:
    return f"{text}\n{''.join(lines)}"


def open_note(note: str, *trusted: Verifier) -> tuple[str, tuple[Verifier, ...]]:
    """Return a note's text and the trusted keys that signed it; ``LogError`` if a signature of a trusted key is invalid.

    Signatures of other keys are passed over, whatever their type and length.
    """
    text, blank, lines = note.rpartition("\n\n")
    if not blank or not lines.endswith("\n") or _CONTROL.search(note):
        raise LogError("no signed note: it must be text that ends with an empty line and signature lines")
    text += "\n"
    found: list[Verifier] = []
    signatures = lines[:-1].split("\n")
    if len(signatures) > _MAX_SIGNATURES:
        raise LogError(f"a note with {len(signatures)} signatures, more than {_MAX_SIGNATURES}")
    for line in signatures:
        name, _, encoded = line.removeprefix(_DASH).partition(" ")
        signature = decode(encoded)
        if not line.startswith(_DASH) or not _is_name(name) or len(signature) < 5:
            raise LogError(f"no signature line: {line[:120]!r}")
        for key in trusted:
            if (key.name, key.key_id) == (name, signature[:4]) and key not in found:
                if not key.holds(text, signature[4:]):
                    raise LogError(f"the signature by {name!r} does not hold")
                found.append(key)
    return text, tuple(found)


def keep_signatures(note: str, *signers: Verifier) -> str:
    """Return a note with only the first signature line of each of these keys, in their order."""
    text, _, lines = note.rpartition("\n\n")
    return write_note(f"{text}\n", *(_line_of(lines, signer) for signer in signers))


def _line_of(lines: str, signer: Verifier) -> str:
    for line in lines.split("\n"):
        name, _, encoded = line.removeprefix(_DASH).partition(" ")
        if name == signer.name and decode(encoded)[:4] == signer.key_id:
            return f"{line}\n"
    raise LogError(f"{signer.name!r} did not sign")


def decode(text: str) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except (Base64Error, ValueError) as error:
        raise LogError(f"no base64: {text[:80]!r}") from error
    if b64encode(data).decode() != text:
        raise LogError(f"not the canonical base64 of its bytes: {text[:80]!r}")
    return data


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state of a log. ``extension`` are the lines after the third, opaque and signed; they are no part of the state."""

    origin: str
    size: int
    root: bytes
    extension: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n{self.extension}"


def checkpoint(text: str) -> Checkpoint:
    """Read the text of a checkpoint, which must have three lines, and may have extension lines that are not empty."""
    lines = text.split("\n")
    if len(lines) < 4 or not all(lines[:-1]) or not lines[1].isascii() or not lines[1].isdigit():
        raise LogError(f"no checkpoint: {text[:120]!r}")
    found = Checkpoint(lines[0], int(lines[1][:16]), decode(lines[2]), "".join(f"{line}\n" for line in lines[3:-1]))
    if found.text != text or not found.origin or len(found.root) != 32 or found.size > SAFE_INTEGER:
        raise LogError(f"no checkpoint: {text[:120]!r}")
    return found


# Keys whose signatures on a checkpoint count: the reader trusts some as logs and some as witnesses.


# The y of each point of small order on edwards25519. Anybody can sign under such a key.
_FIELD = 2**255 - 19
_ORDER_8_Y = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL_ORDER = {0, 1, _FIELD - 1, _ORDER_8_Y, _FIELD - _ORDER_8_Y}


@dataclass(frozen=True, slots=True)
class Keys:
    logs: tuple[Verifier, ...]
    witnesses: tuple[Verifier, ...]

    @classmethod
    def read(cls, logs: Collection[str], witnesses: Collection[str]) -> Keys:
        """Read public keys as ``Verifier`` writes them; ``LogError`` for a key of the wrong kind or under two names."""
        keys = cls(
            tuple(_key(text, "log", is_witness=False) for text in dict.fromkeys(logs)),
            tuple(_key(text, "witness", is_witness=True) for text in dict.fromkeys(witnesses)),
        )
        names: dict[bytes, tuple[str, int]] = {}
        for key in (*keys.logs, *keys.witnesses):
            # One signer must not count twice, as two witnesses or as a log and its own witness.
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
    """Read a checkpoint that its log signed with a trusted key, and the names of trusted witnesses that signed it."""
    text, signed = open_note(note, *keys.logs, *keys.witnesses)
    found = checkpoint(text)
    if found.origin not in {key.name for key in signed if not key.is_witness}:
        raise LogError(f"the checkpoint of {found.origin!r} is not signed by that log, or you do not trust its key")
    return found, tuple(sorted({key.name for key in signed if key.is_witness}))
