"""OpenTimestamps proofs over checkpoints: read without a network, and compared with block headers that the reader gives.

References
----------
The format is that of ``.ots`` files of OpenTimestamps, version 1: the digest of a file, and a tree of operations on it whose
leaves are attestations, by a calendar (a promise) or by a block of Bitcoin (its Merkle root is the message). Block headers:
Bitcoin developer reference, "Block Headers" and "Target nBits".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from clvlab.errors import LogError
from clvlab.proof.bundle import OTS_FILES

_MAGIC = b"\x00OpenTimestamps\x00\x00Proof\x00\xbf\x89\xe2\xe8\x84\xe8\x92\x94\x01"
_ATTESTATION, _FORK, _SHA1, _RIPEMD160, _SHA256, _APPEND, _PREPEND, _REVERSE, _HEXLIFY = (
    0x00, 0xFF, 0x02, 0x03, 0x08, 0xF0, 0xF1, 0xF2, 0xF3,
)  # fmt: skip
_PENDING, _BITCOIN = bytes.fromhex("83dfe30d2ef90c8e"), bytes.fromhex("0588960d73d71901")
_URI = re.compile(rb"[A-Za-z0-9._/:-]{1,1000}")
_MAX_MESSAGE, _MAX_PAYLOAD, _MAX_DEPTH, _MAX_ATTESTATIONS = 4096, 8192, 256, 64
_HEADER = re.compile(r"(0|[1-9][0-9]{0,7}) ([0-9a-f]{160})")


@dataclass(frozen=True, slots=True)
class Attestation:
    """A leaf: the message that a ``calendar`` promises to put into a block, or that block ``height`` has as Merkle root.

    Neither is there of an attestation of another kind.
    """

    message: bytes
    height: int | None = None
    calendar: str | None = None


@dataclass(frozen=True, slots=True)
class OtsProof:
    """A proof, as its file states it: the SHA-256 that it is over, and its attestations in order."""

    digest: bytes
    attestations: tuple[Attestation, ...]


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """A block header that the reader gave; ``hash_text`` and roots are written as block explorers do, last byte first."""

    root: bytes
    time: datetime
    hash_text: str


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise LogError(f"it is cut off at byte {len(self._data):,}")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        """Read an integer below 2**35, seven bits a byte, lowest first, in its shortest form."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if shift and not byte:
                    raise LogError("a number is not in its shortest form")
                return value
        raise LogError("a number is too large")

    def text(self, most: int) -> bytes:
        size = self.number()
        if size > most:
            raise LogError(f"{size:,} bytes in one piece, more than {most:,}")
        return self.take(size)

    def end(self) -> None:
        if self._at != len(self._data):
            raise LogError(f"{len(self._data) - self._at} bytes are left over")


def read_ots(data: bytes) -> OtsProof:
    """Read a proof over a SHA-256; ``LogError`` for anything else. Nothing is compared with a chain."""
    reader = _Bytes(data)
    if data[: len(_MAGIC)] != _MAGIC or reader.take(len(_MAGIC) + 1)[-1] != _SHA256:
        raise LogError("no proof of OpenTimestamps, version 1, over a SHA-256")
    digest = reader.take(32)
    found, branches = list[Attestation](), [(digest, 0)]  # a message for each branch of the tree that is not read yet
    while branches:
        message, depth = branches.pop()
        tag = reader.take(1)[0]
        if tag == _FORK:
            branches.append((message, depth))
            tag = reader.take(1)[0]
        if tag == _ATTESTATION:
            found.append(_attestation(reader, message))
        elif depth == _MAX_DEPTH:
            raise LogError(f"more than {_MAX_DEPTH} operations follow one another")
        else:
            branches.append((_applied(reader, tag, message), depth + 1))
        if len(found) + len(branches) > _MAX_ATTESTATIONS:
            raise LogError(f"more than {_MAX_ATTESTATIONS} attestations")
    reader.end()
    return OtsProof(digest, tuple(found))


def _attestation(reader: _Bytes, message: bytes) -> Attestation:
    kind, payload = reader.take(8), _Bytes(reader.text(_MAX_PAYLOAD))
    if kind == _PENDING:
        uri = payload.text(1000)
        if not _URI.fullmatch(uri):
            raise LogError(f"the address of a calendar is {uri[:80]!r}")
        found = Attestation(message, calendar=uri.decode())
    elif kind == _BITCOIN:
        found = Attestation(message, height=payload.number())
        if len(message) != 32:
            raise LogError(f"block {found.height:,} can't have a Merkle root of {len(message)} bytes")
    else:
        return Attestation(message)
    payload.end()
    return found


def _applied(reader: _Bytes, tag: int, message: bytes) -> bytes:
    if tag in (_APPEND, _PREPEND):
        other = reader.text(_MAX_MESSAGE)
        if not other:
            raise LogError("an operation appends nothing")
        result = message + other if tag == _APPEND else other + message
    elif tag in (_REVERSE, _HEXLIFY):
        result = message[::-1] if tag == _REVERSE else message.hex().encode()
    elif tag == _SHA256:
        result = hashlib.sha256(message).digest()
    elif tag == _SHA1:
        result = hashlib.sha1(message, usedforsecurity=False).digest()
    elif tag == _RIPEMD160:
        try:
            result = hashlib.new("ripemd160", message, usedforsecurity=False).digest()
        except ValueError as error:
            raise LogError("this Python has no RIPEMD-160") from error
    else:
        raise LogError(f"the operation 0x{tag:02x} is not known")
    if len(result) > _MAX_MESSAGE:
        raise LogError(f"a message of {len(result):,} bytes, more than {_MAX_MESSAGE:,}")
    return result


def read_headers(text: str) -> dict[int, BlockHeader]:
    """Read block headers by height, from lines of a height and 80 bytes in hex; ``LogError`` for another line.

    A header counts only with the work that it states. That it is a header of the chain is the reader's to know.
    """
    found: dict[int, BlockHeader] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stated = _HEADER.fullmatch(line)
        if stated is None or int(stated[1]) in found:
            raise LogError(f"line {number} has no new height and 80 bytes of a block header in hex: {line[:80]!r}")
        data = bytes.fromhex(stated[2])
        work, bits = hashlib.sha256(hashlib.sha256(data).digest()).digest(), int.from_bytes(data[72:76], "little")
        target = (bits & 0x7FFFFF) << 8 * (bits >> 24) >> 24 if bits >> 24 <= 32 else 0
        if bits & 0x800000 or int.from_bytes(work, "little") > target:
            raise LogError(f"line {number} has a block header without the work that it states: a digit is wrong")
        time = datetime.fromtimestamp(int.from_bytes(data[68:72], "little"), UTC)
        found[int(stated[1])] = BlockHeader(data[36:68], time, work[::-1].hex())
    return found


def ots_names(proof: bytes, notes: Mapping[str, tuple[bytes, ...]]) -> list[str]:
    """Return the parts that a proof can be, where ``notes`` has what each may be over; ``LogError`` if it is over none."""
    digest = read_ots(proof).digest
    names = [name for name in OTS_FILES if digest in map(_sha256, notes.get(name, ()))]
    if not names:
        raise LogError(f"it is over the SHA-256 {digest.hex()}, which no checkpoint of the bundle has")
    return names


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def attestation_texts(proof: OtsProof, headers: Mapping[int, BlockHeader]) -> tuple[list[str], bool]:
    """Return a sentence about each attestation, and whether a header that the reader gave has one of the roots.

    Raises
    ------
    LogError
        The header of an attested block has another root.
    """
    lines, checked = [], False
    for one in proof.attestations:
        root = one.message[::-1].hex()
        if one.calendar is not None:
            lines.append(f"the calendar {one.calendar} promises a block, by its word alone")
        elif one.height is None:
            lines.append("an attestation of a kind that is not read")
        elif (header := headers.get(one.height)) is None:
            lines.append(f"Bitcoin block {one.height:,}, if its Merkle root is {root}: not checked against the chain")
        elif header.root != one.message:
            raise LogError(f"the header that you gave for block {one.height:,} has another Merkle root than {root}")
        else:
            checked = True
            lines.append(
                f"Bitcoin block {one.height:,} of {header.time:%Y-%m-%d %H:%M} UTC by its miner's clock, "
                f"with the header that you gave (hash {header.hash_text})"
            )
    return lines, checked
