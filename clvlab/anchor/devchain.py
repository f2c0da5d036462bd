"""A local test chain: the real memo program in ``LiteSVM``, with modelled slots, expiry and confirmation.

It needs no network, and can fail on request in the ways that nodes fail.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from typing import Any

from solders.account import Account
from solders.hash import Hash
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata

from clvlab.proof.anchor import MEMO_PROGRAMS
from clvlab.proof.canonical import JsonObject

GENESIS_HASH = str(Hash(sha256(b"clvlab devchain").digest()))
_MAX_AGE = 150  # number of blocks for which a blockhash is valid, as on the public clusters
_CONFIRMED, _FINALIZED = 1, 32  # depth in blocks
_LEVELS = ("processed", "confirmed", "finalized")
_MAX_BYTES = 1232
_LAMPORTS_PER_SIGNATURE = 5000


class NodeError(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


@dataclass
class ChainFault:
    """A fault that happens ``times`` times."""

    # ``drop`` (accept a transaction and lose it), ``lost_reply`` (execute it, then answer 504), ``http`` (answer ``status``),
    # ``hang`` (answer after ``seconds``), ``error`` (a JSON-RPC error of ``code``), ``lie`` (show another memo than the sent
    # one).
    kind: str
    method: str = "*"  # JSON-RPC method with the fault; ``*`` is every method
    times: int = 1
    status: int = 503
    code: int = -32005
    message: str = "Node is unhealthy"
    data: Any = None
    seconds: float = 5.0


@dataclass(frozen=True)
class _Transaction:
    slot: int
    raw: bytes
    error: Any


class DevChain:
    """A test chain. Slots pass with every status request, so that no test waits; ``pass_slots`` adds more slots."""

    def __init__(self) -> None:
        self._svm = LiteSVM().with_blockhash_check(check=False).with_transaction_history(0)
        self._lock = RLock()
        self._faults: list[ChainFault] = []
        self._transactions: dict[str, _Transaction] = {}
        self._born: dict[str, int] = {}
        self.slot = 1000
        self.pass_slots(1)

    def pass_slots(self, slots: int) -> None:
        with self._lock:
            for _ in range(slots):
                self.slot += 1
                self._svm.expire_blockhash()
                self._born[str(self._svm.latest_blockhash())] = self.slot

    def inject(self, *faults: ChainFault) -> None:
        self._faults += faults

    def fault(self, kind: str, method: str) -> ChainFault | None:
        """Consume and return a fault of a kind for a method; ``None`` if there is no such fault."""
        with self._lock:
            for fault in self._faults:
                if fault.times > 0 and fault.kind == kind and fault.method in (method, "*"):
                    fault.times -= 1
                    return fault
        return None

    def forget(self, signature: str) -> None:
        """Drop a transaction, as a fork does."""
        del self._transactions[signature]

    def memos(self) -> list[str]:
        return [memo for one in self._transactions.values() if one.error is None for memo in _memos(one.raw)]

    def signatures(self) -> list[str]:
        return list(self._transactions)

    def airdrop(self, address: str, lamports: int = 10**9) -> str:
        """Credit an account for fees. The returned signature has no status."""
        self._svm.airdrop(Pubkey.from_string(address), lamports)
        return "1" * 64

    def put_account(self, address: str, owner: str, data: bytes) -> None:
        """Store an account, as its program would."""
        self._svm.set_account(Pubkey.from_string(address), Account(10**9, data, Pubkey.from_string(owner)))

    def answer(self, method: str, params: list[Any]) -> Any:
        known: dict[str, Callable[..., Any]] = {
            "getHealth": lambda: "ok",
            "getVersion": lambda: {"solana-core": "0.0.0", "feature-set": 0},
            "getGenesisHash": lambda: GENESIS_HASH,
            "getSlot": lambda *_: self.slot,
            "getBlockHeight": lambda *_: self.slot,
            "getBalance": lambda address, *_: self._at(self._svm.get_balance(Pubkey.from_string(address)) or 0),
            "getAccountInfo": lambda address, *_: self._at(self._account(Pubkey.from_string(address))),
            "getFeeForMessage": lambda *_: self._at(_LAMPORTS_PER_SIGNATURE),
            "getLatestBlockhash": lambda *_: self._latest(),
            "getSignatureStatuses": lambda signatures, *_: self._statuses(signatures),
            "getSignaturesForAddress": self._history,
            "getTransaction": self._transaction,
            "sendTransaction": self._send,
            "requestAirdrop": lambda address, lamports, *_: self.airdrop(address, lamports),
        }
        with self._lock:
            if fault := self.fault("error", method):
                raise NodeError(fault.code, fault.message, fault.data)
            if method not in known:
                raise NodeError(-32601, "Method not found")
            try:
                return known[method](*params)
            except (TypeError, ValueError, KeyError) as error:
                raise NodeError(-32602, f"Invalid params: {error}") from error

    def _at(self, value: Any) -> Mapping[str, object]:
        return {"context": {"slot": self.slot}, "value": value}

    def _account(self, address: Pubkey) -> Mapping[str, object] | None:
        found = self._svm.get_account(address)
        if found is None:
            return None
        data = [b64encode(bytes(found.data)).decode(), "base64"]
        return {"data": data, "executable": False, "lamports": found.lamports, "owner": str(found.owner), "rentEpoch": 0}

    def _latest(self) -> Mapping[str, object]:
        latest = str(self._svm.latest_blockhash())
        return self._at({"blockhash": latest, "lastValidBlockHeight": self._born[latest] + _MAX_AGE})

    def _send(self, encoded: str, config: JsonObject) -> str:
        try:
            raw = b64decode(encoded, validate=True)
        except Base64Error as error:
            raise NodeError(-32602, f"invalid base64: {error}") from error
        if config.get("encoding") != "base64" or len(raw) > _MAX_BYTES:
            raise NodeError(-32602, f"only base64 of at most {_MAX_BYTES} bytes is taken, not {len(raw)}")
        transaction = VersionedTransaction.from_bytes(raw)
        signature = str(transaction.signatures[0])
        if not all(transaction.verify_with_results()):
            raise NodeError(-32003, "Transaction signature verification failure")
        born = self._born.get(str(transaction.message.recent_blockhash))
        alive = born is not None and self.slot - born <= _MAX_AGE
        if not config.get("skipPreflight"):
            self._preflight(transaction, signature, alive=alive)
        if alive and signature not in self._transactions and not self.fault("drop", "sendTransaction"):
            outcome = self._svm.send_transaction(transaction)
            failure = _error(outcome.err()) if isinstance(outcome, FailedTransactionMetadata) else None
            self.pass_slots(1)
            self._transactions[signature] = _Transaction(self.slot, raw, failure)
        return signature

    def _preflight(self, transaction: VersionedTransaction, signature: str, *, alive: bool) -> None:
        error: Any = None
        logs: list[str] = []
        if signature in self._transactions:
            error = "AlreadyProcessed"
        elif not alive:
            error = "BlockhashNotFound"
        else:
            outcome = self._svm.simulate_transaction(transaction)
            if isinstance(outcome, FailedTransactionMetadata):
                error, logs = _error(outcome.err()), outcome.meta().logs()
        if error is not None:
            data = {"accounts": None, "err": error, "logs": logs, "unitsConsumed": 0, "returnData": None}
            raise NodeError(-32002, f"Transaction simulation failed: {error}", data)

    def _level(self, transaction: _Transaction) -> str:
        depth = self.slot - transaction.slot
        return _LEVELS[(depth >= _CONFIRMED) + (depth >= _FINALIZED)]

    def _sure(self, transaction: _Transaction, config: JsonObject) -> bool:
        return _LEVELS.index(self._level(transaction)) >= _LEVELS.index(config.get("commitment") or "finalized")

    def _statuses(self, signatures: list[str]) -> Mapping[str, object]:
        self.pass_slots(1)
        return self._at([self._status(self._transactions.get(signature)) for signature in signatures])

    def _status(self, transaction: _Transaction | None) -> Mapping[str, object] | None:
        if transaction is None:
            return None
        level = self._level(transaction)
        return {
            "slot": transaction.slot,
            "confirmations": None if level == "finalized" else self.slot - transaction.slot,
            "err": transaction.error,
            "status": {"Ok": None} if transaction.error is None else {"Err": transaction.error},
            "confirmationStatus": level,
        }

    def _history(self, address: str, config: JsonObject) -> Sequence[Mapping[str, object]]:
        entries = []
        for signature, transaction in reversed(self._transactions.items()):
            keys = VersionedTransaction.from_bytes(transaction.raw).message.account_keys
            if Pubkey.from_string(address) in keys and self._sure(transaction, config):
                memo = "; ".join(f"[{len(memo.encode())}] {memo}" for memo in _memos(transaction.raw)) or None
                entry = {
                    "signature": signature,
                    "slot": transaction.slot,
                    "err": transaction.error,
                    "memo": memo,
                    "blockTime": None,
                }
                entries.append(entry | {"confirmationStatus": self._level(transaction)})
        names = [entry["signature"] for entry in entries]
        start = names.index(config["before"]) + 1 if config.get("before") else 0
        return entries[start : start + (config.get("limit") or 1000)]

    def _transaction(self, signature: str, config: JsonObject) -> Mapping[str, object] | None:
        found = self._transactions.get(signature)
        if config.get("encoding") != "base64":
            raise NodeError(-32602, "this chain gives transactions as base64 only")
        if found is None or not self._sure(found, config):
            return None
        if config.get("maxSupportedTransactionVersion") is None:
            raise NodeError(-32015, "Transaction version (0) is not supported by the requesting client")
        raw = found.raw.replace(b"sha256:", b"sha265:") if self.fault("lie", "getTransaction") else found.raw
        meta = {
            "err": found.error, "status": {"Ok": None} if found.error is None else {"Err": found.error},
            "fee": _LAMPORTS_PER_SIGNATURE, "preBalances": [], "postBalances": [], "innerInstructions": [], "logMessages": [],
        }  # fmt: skip
        encoded = [b64encode(raw).decode(), "base64"]
        return {"slot": found.slot, "blockTime": None, "version": 0, "transaction": encoded, "meta": meta}


def _memos(raw: bytes) -> list[str]:
    message = VersionedTransaction.from_bytes(raw).message
    return [
        bytes(instruction.data).decode("utf-8", "replace")
        for instruction in message.instructions
        if str(message.account_keys[instruction.program_id_index]) in MEMO_PROGRAMS
    ]


def _error(error: Any) -> Any:
    if type(error).__name__ != "TransactionErrorInstructionError":
        return str(error).rsplit(".", maxsplit=1)[-1]
    code = getattr(error.err, "code", None)
    return {"InstructionError": [error.index, str(error.err).rsplit(".", maxsplit=1)[-1] if code is None else {"Custom": code}]}


# A loopback server of a ``DevChain`` with JSON-RPC over HTTP, as on Solana nodes.


_MAX_REQUEST = 1 << 20


def server(chain: DevChain, port: int = 0) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet per answer
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            if length > _MAX_REQUEST:
                self._reply(413, {"error": "request too large"})
                self.close_connection = True
                return
            try:
                status, body = _answered(chain, json.loads(self.rfile.read(length)))
            except (ValueError, AttributeError) as error:
                status, body = 400, {"error": f"no JSON-RPC request: {error}"}
            self._reply(status, body)

        def _reply(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):  # the client has gone
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Stay silent."""

    made = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    made.daemon_threads = True
    return made


def _answered(chain: DevChain, request: JsonObject) -> tuple[int, Any]:
    method, number = request.get("method", ""), request.get("id")
    if fault := chain.fault("hang", method):
        time.sleep(fault.seconds)
    if fault := chain.fault("http", method):
        return fault.status, {"error": "injected"}
    try:
        answer: Mapping[str, object] = {"result": chain.answer(method, request.get("params") or [])}
    except NodeError as error:
        data = {} if error.data is None else {"data": error.data}
        answer = {"error": {"code": error.code, "message": error.message, **data}}
    if chain.fault("lost_reply", method):
        return 504, {"error": "injected"}
    return 200, {"jsonrpc": "2.0", "id": number, **answer}


@contextmanager
def serving(chain: DevChain, port: int = 0) -> Iterator[str]:
    with server(chain, port) as made:
        thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()
            thread.join()
