"""Anchoring of a manifest hash as a memo on a Solana chain, exactly once."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from urllib.parse import urlsplit

from solana.rpc.async_api import AsyncClient
from solders.errors import BincodeError
from solders.transaction import VersionedTransaction

from clvlab.anchor.anchorer import NullAnchor, blocking
from clvlab.anchor.chain import Chain, new_client
from clvlab.anchor.records import AnchorRecord, AnchorRecords
from clvlab.anchor.settings import AnchorSettings
from clvlab.anchor.transaction import keypair, read_seen, signed_memo, transaction_bytes
from clvlab.errors import AnchorConflictError, AnchorError
from clvlab.proof.anchor import GENESIS, Anchor, AnchorStatus, AnchorTrust, Seen
from clvlab.proof.checks import Check, Verdict, anchor_check

_MEMO = re.compile(r"sha256:[0-9a-f]{64}")
# Nodes behind one address may lag behind each other, so a signature counts as expired only after this many more blocks.
_EXPIRY_MARGIN = 16


class SolanaAnchor(NullAnchor):
    """Writes memos with a key. ``settings`` must name chain and key file. ``records`` are written before anything is sent.

    As a context manager it keeps its connection between memos. Only one thread may use it at a time.
    """

    def __init__(self, settings: AnchorSettings, records: AnchorRecords) -> None:
        if settings.keypair is None or not settings.rpc_url:
            raise AnchorError("anchoring needs CLVLAB_ANCHOR_RPC_URL and CLVLAB_ANCHOR_KEYPAIR")
        super().__init__(settings)
        self._key = keypair(settings.keypair)
        self._records = records
        self.signer = str(self._key.pubkey())
        self._runner: asyncio.Runner | None = None
        self._client: AsyncClient | None = None
        self._own = AnchorTrust(frozenset({self.signer}), settings.trust().genesis)

    def __enter__(self) -> SolanaAnchor:
        self._runner, self._client = asyncio.Runner(), new_client(self._settings)
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner and self._client:
            runner, client = self._runner, self._client
            blocking(lambda: runner.run(client.close()))
            blocking(runner.close)
        self._runner = self._client = None

    @property
    def enabled(self) -> bool:
        return True

    @property
    def trust(self) -> AnchorTrust:
        return self._settings.trust(self.signer)

    def commit(self, run_id: str, manifest_hash: str) -> Anchor:
        """Write the memo once, even after repeated or interrupted calls.

        1. Ask the chain about every transaction signed before.
        2. Send again, unchanged, the transactions that may still be accepted.
        3. When all have expired, look for the memo itself.
        4. Only then sign, and record the transaction before sending it.

        Raises
        ------
        AnchorUnavailableError
            The chain can't be reached or accepts nothing in time; the record stays pending, and a later call continues.
        AnchorError
            The payload is not a manifest hash, the chain is not the named one, or it refuses the memo.
        AnchorConflictError
            Another process anchors this run, or the record is about another manifest.
        """
        if not _MEMO.fullmatch(manifest_hash):
            raise AnchorError(f"only a manifest hash is anchored, sha256: and 64 hex digits, not {manifest_hash[:80]!r}")
        run = self._runner.run if self._runner else asyncio.run
        return blocking(lambda: run(self._commit(run_id, manifest_hash)).anchor())

    def recorded(self, run_id: str) -> Seen | None:
        record = self._records.get(run_id)
        if record is None or record.transaction is None:
            return None
        try:
            return read_seen(record.genesis_hash, VersionedTransaction.from_bytes(b64decode(record.transaction)), None)
        except (ValueError, BincodeError) as error:
            raise AnchorError(f"the record of the anchor of {run_id} holds no transaction: {error}") from error

    async def _commit(self, run_id: str, manifest_hash: str) -> AnchorRecord:
        async with Chain(self._settings, client=self._client) as chain:
            genesis = await chain.genesis_hash()
            if genesis != self.trust.genesis[self.cluster]:
                expected = self.trust.genesis[self.cluster]
                raise AnchorError(
                    f"{self._settings.rpc_url} is not {self.cluster}: its genesis hash is {genesis}, not {expected}"
                )
            record = self._start(run_id, manifest_hash, genesis)
            while True:
                height = await chain.block_height()  # asked first: the landings then cover every transaction up to this height
                landings = await chain.landings([attempt.signature for attempt in record.attempts])
                known = dict(zip(record.attempts, landings, strict=True))
                confirmed = [attempt.signature for attempt, at in known.items() if at and at.sure and not at.error]
                failed = next((at.error for at in landings if at and at.error), None)
                open_ = [
                    attempt
                    for attempt, at in known.items()
                    if not (at and at.error) and (at or height <= attempt.last_valid_block_height + _EXPIRY_MARGIN)
                ]
                for signature in confirmed:
                    seen = await chain.seen(signature)
                    if self._holds(seen, signature, manifest_hash):
                        return self._concluded(record, seen)
                if not confirmed and not open_:
                    found = await self._found(chain, manifest_hash)
                    if found:
                        return self._concluded(record, found)
                if failed:
                    return self._stored(replace(record, status=AnchorStatus.FAILED.value, detail=failed), record)
                if record.status == AnchorStatus.ANCHORED:  # the chain has dropped the transaction
                    record = self._stored(
                        replace(record, status=AnchorStatus.PENDING.value, signature=None, transaction=None), record
                    )
                if not confirmed and not open_:
                    record = await self._signed(chain, record)
                    open_ = [record.attempts[-1]]
                for attempt in open_:
                    if known.get(attempt) is None:
                        await chain.send(transaction_bytes(attempt))
                await chain.pause(f"the memo did not land ({len(record.attempts)} signed); it stays pending")

    def _start(self, run_id: str, manifest_hash: str, genesis: str) -> AnchorRecord:
        stored = self._records.get(run_id)
        record = AnchorRecord(run_id, manifest_hash, self.cluster, genesis, self.signer)
        if stored is None:
            return self._stored(record, None)
        for name in ("manifest_hash", "genesis_hash", "signer"):
            if getattr(stored, name) != getattr(record, name):
                raise AnchorConflictError(
                    f"the anchor of {run_id} is on record with {name} {getattr(stored, name)}, not {getattr(record, name)}"
                )
        return stored

    async def _signed(self, chain: Chain, record: AnchorRecord) -> AnchorRecord:
        """Sign once more and record the transaction. From here on its bytes may reach the chain."""
        blockhash, last = await chain.latest_blockhash()
        memo = record.manifest_hash.encode()
        attempt = signed_memo(self._key, memo, blockhash, last, self._settings.priority_fee)
        return self._stored(record.with_attempt(attempt), record)

    def _judged(self, seen: Seen, signature: str, manifest_hash: str) -> Check:
        return anchor_check(Anchor(AnchorStatus.ANCHORED.value, signature, self.cluster), manifest_hash, seen, self._own)

    def _holds(self, seen: Seen, signature: str, manifest_hash: str) -> bool:
        """Check a transaction signed here, as read back from the chain. It is false until the node shows the transaction."""
        check = self._judged(seen, signature, manifest_hash)
        if check.verdict == Verdict.FAIL:
            raise AnchorError(f"{self._settings.rpc_url} contradicts itself or the record: {check.detail}")
        return check.verdict == Verdict.PASS

    async def _found(self, chain: Chain, manifest_hash: str) -> Seen | None:
        """Find a memo of an earlier call that left no record. Others' transactions that name this key are skipped."""
        for signature in await chain.memos(self.signer, manifest_hash):
            seen = await chain.seen(signature)
            if self._judged(seen, signature, manifest_hash).verdict == Verdict.PASS:
                return seen
        return None

    def _concluded(self, record: AnchorRecord, seen: Seen) -> AnchorRecord:
        done = replace(
            record,
            status=AnchorStatus.ANCHORED.value,
            signature=seen.signature,
            explorer_url=explorer_url(str(seen.signature), self.cluster, str(self._settings.rpc_url)),
            transaction=b64encode(seen.transaction).decode(),
            detail=None,
        )
        return done if done == record else self._stored(done, record)

    def _stored(self, record: AnchorRecord, before: AnchorRecord | None) -> AnchorRecord:
        self._records.put(record, replaces=before)
        return record


def explorer_url(signature: str, cluster: str, rpc_url: str) -> str:
    """Return the page of a transaction in the public explorer, which can show a local chain too."""
    page = f"https://explorer.solana.com/tx/{signature}"
    if cluster == "mainnet-beta":
        return page
    if cluster in GENESIS:
        return f"{page}?cluster={cluster}"
    local = urlsplit(rpc_url).hostname in ("127.0.0.1", "::1", "localhost")  # other addresses may contain a key
    return f"{page}?cluster=custom" + (f"&customUrl={rpc_url}" if local else "")
