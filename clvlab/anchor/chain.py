"""Requests to a Solana node, with rules on when to repeat them."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from solana.exceptions import SolanaRpcException
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Commitment
from solana.rpc.core import RPCException, RPCNoResultException
from solana.rpc.models import TxOpts
from solders.errors import BincodeError, SerdeJSONError
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.rpc.errors import InvalidParamsMessage, SendTransactionPreflightFailureMessage
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from solders.transaction_status import TransactionConfirmationStatus as Level

from clvlab.anchor.settings import AnchorSettings
from clvlab.anchor.transaction import read_seen
from clvlab.errors import AnchorError, AnchorUnavailableError
from clvlab.proof.anchor import Seen

T = TypeVar("T")
_PAGES, _PAGE = 10, 1000
_UNANSWERED = (SolanaRpcException, RPCException, RPCNoResultException, SerdeJSONError)


@dataclass(frozen=True, slots=True)
class Confirmation:
    sure: bool
    error: str | None


def new_client(settings: AnchorSettings) -> AsyncClient:
    return AsyncClient(
        str(settings.rpc_url), commitment=Commitment(settings.commitment), timeout=min(settings.timeout_s, settings.patience_s)
    )


class Chain:
    """One node with a deadline for all requests; ``AnchorUnavailableError`` if an answer is missing."""

    def __init__(self, settings: AnchorSettings, patience_s: float | None = None, client: AsyncClient | None = None) -> None:
        if not settings.rpc_url:
            raise AnchorError("no chain can be asked: CLVLAB_ANCHOR_RPC_URL is not set")
        self._settings = settings
        self._commitment = Commitment(settings.commitment)
        self._patience_s = settings.patience_s if patience_s is None else patience_s
        self._shared = client is not None
        self._client = client or new_client(settings)

    async def __aenter__(self) -> Chain:
        self._deadline = asyncio.get_running_loop().time() + self._patience_s
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._shared:
            await self._client.close()

    async def pause(self, why: str) -> None:
        if asyncio.get_running_loop().time() + self._settings.poll_s > self._deadline:
            raise AnchorUnavailableError(f"{self._settings.cluster} at {self._settings.rpc_url}: {why}")
        await asyncio.sleep(self._settings.poll_s)

    async def _answered(self, ask: Callable[[], Awaitable[Any]], read: Callable[[Any], T]) -> T:
        """Ask until an answer can be read, because the library rejects some answers only when it reads them."""
        while True:
            try:
                return read(await ask())
            except BaseException as error:
                if not _unanswered(error):
                    raise
                cause = error
            await self.pause(f"no answer: {_cause(cause)}")

    async def genesis_hash(self) -> str:
        return await self._answered(self._client.get_genesis_hash, lambda answer: str(answer.value))

    async def block_height(self) -> int:
        return await self._answered(lambda: self._client.get_block_height(self._commitment), lambda answer: int(answer.value))

    async def latest_blockhash(self) -> tuple[Hash, int]:
        """Return a block's hash to sign with, and the last height at which it is accepted."""
        return await self._answered(
            lambda: self._client.get_latest_blockhash(self._commitment),
            lambda answer: (answer.value.blockhash, answer.value.last_valid_block_height),
        )

    async def landings(self, signatures: Sequence[str]) -> list[Confirmation | None]:
        """Return the state of each signature; ``None`` if the chain does not know it."""
        if not signatures:
            return []
        wanted = [Signature.from_string(signature) for signature in signatures]
        return await self._answered(
            lambda: self._client.get_signature_statuses(wanted, search_transaction_history=True), self._landings
        )

    def _landings(self, answer: Any) -> list[Confirmation | None]:
        return [None if status is None else self._landing(status) for status in answer.value]

    def _landing(self, status: Any) -> Confirmation:
        enough = (Level.Finalized,) if self._commitment == Commitment.FINALIZED else (Level.Confirmed, Level.Finalized)
        sure = status.confirmation_status in enough or (status.confirmation_status is None and status.confirmations is None)
        return Confirmation(sure, None if status.err is None else str(status.err))

    async def send(self, transaction: bytes) -> None:
        """Send signed bytes. Only ``landings`` tells whether they arrived, so a lost answer is no reason to sign again.

        Raises
        ------
        AnchorError
            The node refuses the transaction, for a reason that will not go away.
        """
        options = TxOpts(preflight_commitment=self._commitment, max_retries=0)
        try:
            await self._client.send_raw_transaction(transaction, opts=options)
        except RPCException as error:
            refusal = error.args[0] if error.args else error
            if isinstance(refusal, SendTransactionPreflightFailureMessage):
                reason = str(refusal.data.err)
                if "BlockhashNotFound" not in reason and "AlreadyProcessed" not in reason:
                    raise AnchorError(f"{self._settings.cluster} refuses the memo: {refusal.message} ({reason})") from error
            elif isinstance(refusal, InvalidParamsMessage):
                raise AnchorError(f"{self._settings.cluster} refuses the memo: {refusal}") from error
        except BaseException as error:
            if not _unanswered(error):
                raise

    async def seen(self, signature: str) -> Seen:
        """Fetch a transaction as bytes and parse it here."""
        genesis = await self.genesis_hash()
        try:
            wanted = Signature.from_string(signature)
        except ValueError:  # a text that is not a signature is on no chain
            return Seen(genesis)
        return await self._answered(
            lambda: self._client.get_transaction(
                wanted, encoding="base64", commitment=self._commitment, max_supported_transaction_version=0
            ),
            lambda answer: _read(genesis, json.loads(answer.to_json())["result"]),
        )

    async def account(self, address: Pubkey, owner: str) -> bytes | None:
        """Fetch the data of an account of a program; ``None`` if it is not there or another program's."""
        found = await self._answered(
            lambda: self._client.get_account_info(address, self._commitment), lambda answer: answer.value
        )
        return None if found is None or str(found.owner) != owner else bytes(found.data)

    async def memos(self, signer: str, memo: str) -> list[str]:
        """List the signatures of this signer's successful transactions with this memo, newest first, as the node reports."""
        found: list[str] = []
        before: Signature | None = None
        for _ in range(_PAGES):
            page = await self._answered(
                lambda before=before: self._client.get_signatures_for_address(  # type: ignore[misc]
                    Pubkey.from_string(signer), before=before, limit=_PAGE, commitment=self._commitment
                ),
                lambda answer: [(entry.signature, entry.err is None and memo in (entry.memo or "")) for entry in answer.value],
            )
            found += [str(signature) for signature, holds in page if holds]
            if len(page) < _PAGE:
                break
            before = page[-1][0]
        return found


def _read(genesis: str, found: Any) -> Seen:
    """Parse an answer to getTransaction from its JSON, because the library panics over malformed transactions."""
    if found is None:
        return Seen(genesis)
    try:
        encoded, _ = found["transaction"]
        transaction = VersionedTransaction.from_bytes(b64decode(encoded, validate=True))
        error = found["meta"] and found["meta"]["err"]
    except (ValueError, KeyError, TypeError, BincodeError) as fault:
        raise RPCNoResultException(f"the transaction is not given as bytes: {fault!r}") from fault
    return read_seen(genesis, transaction, None if error is None else json.dumps(error))


def _unanswered(error: BaseException) -> bool:
    """Return whether a node gave no usable answer. The client panics over an error object without the expected data."""
    return isinstance(error, _UNANSWERED) or type(error).__name__ == "PanicException"


def _cause(error: BaseException) -> str:
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {cause}"[:300]
