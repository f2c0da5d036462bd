"""A writer of OpenTimestamps proofs and of block headers, which shares no code with the reader."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Step", "block", "calendar", "mined", "ots_file", "run_steps", "step", "unknown", "varuint"]

Step: TypeAlias = tuple[str, bytes]
_CODES = {"sha1": 2, "ripemd160": 3, "sha256": 8, "append": 0xF0, "prepend": 0xF1, "reverse": 0xF2, "hexlify": 0xF3}


def varuint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([128 + number % 128]), number // 128
    return out + bytes([number])


def _piece(content: bytes) -> bytes:
    return varuint(len(content)) + content


def calendar(uri: str) -> bytes:
    """An attestation that a calendar promises a block."""
    return bytes.fromhex("0083dfe30d2ef90c8e") + _piece(_piece(uri.encode()))


def block(height: int) -> bytes:
    """An attestation that a block of Bitcoin has the message as Merkle root."""
    return bytes.fromhex("000588960d73d71901") + _piece(varuint(height))


def unknown(payload: bytes = b"any") -> bytes:
    return bytes.fromhex("000102030405060708") + _piece(payload)


def step(name: str, argument: bytes = b"") -> bytes:
    return bytes([_CODES[name]]) + (_piece(argument) if name in ("append", "prepend") else b"")


def ots_file(content: bytes, *branches: tuple[Iterable[Step], bytes]) -> bytes:
    """A proof over the SHA-256 of a content; each branch is a list of steps and the attestation at its end."""
    *forks, last = [b"".join(step(*one) for one in steps) + leaf for steps, leaf in branches]
    magic = b"\x00OpenTimestamps\x00\x00Proof\x00" + bytes.fromhex("bf89e2e884e89294") + b"\x01"
    return magic + b"\x08" + hashlib.sha256(content).digest() + b"".join(b"\xff" + fork for fork in forks) + last


def run_steps(content: bytes, steps: Iterable[Step]) -> bytes:
    """The message that steps make of the SHA-256 of a content."""
    message = hashlib.sha256(content).digest()
    for name, argument in steps:
        if name in ("append", "prepend"):
            message = message + argument if name == "append" else argument + message
        elif name in ("reverse", "hexlify"):
            message = bytes(reversed(message)) if name == "reverse" else message.hex().encode()
        else:
            message = hashlib.new(name, message).digest()
    return message


def mined(root: bytes, time_s: int = 1_690_168_629) -> str:
    """A block header with a Merkle root and the least work there is, in hex."""
    nonce = 0
    while True:
        header = struct.pack("<I32s32sIII", 2, b"\x07" * 32, root, time_s, 0x207FFFFF, nonce)
        if hashlib.sha256(hashlib.sha256(header).digest()).digest()[31] < 0x7F:
            return header.hex()
        nonce += 1
