"""Transactions of every shape: well signed, under-signed, cut, with any header, and with indices that lead nowhere."""

from __future__ import annotations

from random import Random

from solders.keypair import Keypair
from solders.pubkey import Pubkey

from clvlab.errors import BundleError
from clvlab.log.bundles import read_transaction
from clvlab.proof import clv_verify
from clvlab.proof.anchor import MEMO_PROGRAMS

__all__ = ["KEYS", "MEMO", "forged_transaction", "transaction", "transaction_disagreement"]

KEYS = [Keypair.from_seed(bytes([number]) * 32) for number in range(4)]
MEMO = bytes(Pubkey.from_string(MEMO_PROGRAMS[1]))
Calls = list[tuple[int, list[int], bytes]]


def transaction(
    signers: list[Keypair], header: tuple[int, int, int], keys: list[bytes], calls: Calls, version: bytes = b"\x80",
    tables: bytes = b"\0",
) -> bytes:  # fmt: skip
    """Write a transaction byte by byte, signed by these keys, whatever its header says; a legacy one has no version."""
    message = version + bytes(header) + bytes([len(keys)]) + b"".join(keys) + bytes(32) + bytes([len(calls)])
    for program, accounts, data in calls:
        message += bytes([program, len(accounts), *accounts, len(data)]) + data
    message += tables if version else b""
    return bytes([len(signers)]) + b"".join(bytes(key.sign_message(message)) for key in signers) + message


def forged_transaction(rng: Random, memo: bytes) -> bytes:
    """Write one that a chain may take, or may not."""
    own = rng.choices(KEYS, k=rng.randint(1, 3))
    keys = [bytes(key.pubkey()) for key in own] + [MEMO] * rng.randint(0, 1) + [rng.randbytes(32)] * rng.randint(0, 1)
    count = len(keys)
    header = (rng.choice([0, 1, 1, 1, 2, 2, 3, count]), rng.choice([0, 0, 0, 1, 2]), rng.choice([0, 1, 1, 2, count, 200]))
    program = keys.index(MEMO) if MEMO in keys else 1
    calls = [
        (rng.choice([program] * 5 + [0, count, 255]), rng.choices([0, 0, 0, 1, 2, count], k=rng.randint(0, 2)), text)
        for text in rng.choices([memo, memo, b"", b"x"], k=rng.randint(0, 2))
    ]
    signers = own[: header[0]]
    if rng.random() < 0.2:
        signers = signers[: rng.randint(0, 3)] + rng.choices(KEYS, k=rng.randint(0, 1))
    version = rng.choice([b"\x80", b"\x80", b"", b"\x81"])
    tables = rng.choice([b"\0"] * 6 + [b"\1" + bytes(32) + b"\1\0\0", b"", b"\x80\0"])
    text = bytearray(transaction(signers, header, keys, calls, version, tables))
    if rng.random() < 0.3:
        text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    if rng.random() < 0.1:
        text = text[: rng.randrange(len(text))] + bytes(rng.randint(0, 2))
    return bytes(text)


def transaction_disagreement(data: bytes) -> str | None:
    """Say how package and file differ over the memos of a transaction and who signed them, or null."""
    ours, alone = _by_package(data), _by_file(data)
    return None if ours == alone else f"the package reads {ours}, the file {alone}"


def _by_package(data: bytes) -> object:
    try:
        found = read_transaction(data)
    except BundleError:
        return None
    memos = [(memo.data, list(memo.signers)) for memo in found.instructions if memo.program_id in MEMO_PROGRAMS]
    return (found.signature, memos) if found.signed else None


def _by_file(data: bytes) -> object:
    try:
        found = clv_verify.Transaction(data)
    except clv_verify.BrokenError:
        return None
    return found.signature, found.memos
