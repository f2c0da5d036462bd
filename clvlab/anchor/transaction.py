"""Memo transactions: signing, and parsing from bytes."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta
from solders.instruction import Instruction as SolanaInstruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import SanitizeError, VersionedTransaction

from clvlab.anchor.records import AnchorAttempt
from clvlab.base.files import new_file
from clvlab.errors import AnchorError
from clvlab.proof.anchor import MEMO_PROGRAMS, Instruction, Seen

MEMO_PROGRAM = MEMO_PROGRAMS[1]  # every cluster has this one, old or new
_COMPUTE_UNITS = 50_000  # a memo of 71 bytes with one signer takes about 20,000


def keypair(path: Path) -> Keypair:
    """Read a key in the format of the Solana tools.

    Raises
    ------
    AnchorError
        The file is missing, or is not a JSON array of 64 numbers that form a key. The message never shows the content.
    """
    try:
        return Keypair.from_bytes(bytes(json.loads(path.read_text())))
    except FileNotFoundError as error:
        raise AnchorError(f"no key file at {str(path)!r}") from error
    except (OSError, ValueError, TypeError):
        raise AnchorError(f"{str(path)!r} is not a key file: it must hold a JSON array of 64 numbers") from None


def new_keypair(path: Path) -> Keypair:
    """Make a key and write it to a new file that only its owner can read. An existing file is never overwritten."""
    key = Keypair()
    new_file(path, json.dumps(list(bytes(key))).encode(), 0o600)
    return key


def signed_memo(key: Keypair, memo: bytes, blockhash: Hash, last_valid_block_height: int, priority_fee: int) -> AnchorAttempt:
    instructions = [
        set_compute_unit_limit(_COMPUTE_UNITS),
        set_compute_unit_price(priority_fee),
        SolanaInstruction(
            Pubkey.from_string(MEMO_PROGRAM), memo, [AccountMeta(key.pubkey(), is_signer=True, is_writable=True)]
        ),
    ]
    transaction = VersionedTransaction(MessageV0.try_compile(key.pubkey(), instructions, [], blockhash), [key])
    encoded = b64encode(bytes(transaction)).decode()
    return AnchorAttempt(str(transaction.signatures[0]), last_valid_block_height, encoded)


def transaction_bytes(attempt: AnchorAttempt) -> bytes:
    return b64decode(attempt.transaction)


def read_seen(genesis_hash: str, transaction: VersionedTransaction, error: str | None) -> Seen:
    """Parse a transaction from its own bytes. Logs and the node's parsing are ignored."""
    message = transaction.message
    keys = message.account_keys

    def key(number: int) -> str:
        return str(keys[number]) if number < len(keys) else "looked up"  # an address of a lookup table has no signature

    return Seen(
        genesis_hash,
        str(next(iter(transaction.signatures), "")),
        signed=_signed(transaction),
        error=error,
        instructions=tuple(
            Instruction(
                key(instruction.program_id_index),
                tuple(key(number) for number in instruction.accounts if number < message.header.num_required_signatures),
                bytes(instruction.data),
            )
            for instruction in message.instructions
        ),
        transaction=bytes(transaction),
    )


def _signed(transaction: VersionedTransaction) -> bool:
    """Return whether a transaction is valid for a chain, with a signature of every signer that its header counts.

    The library checks only the signatures that are present, and a header could count more signers.
    """
    try:
        transaction.sanitize()
    except SanitizeError:
        return False
    return all(transaction.verify_with_results())
