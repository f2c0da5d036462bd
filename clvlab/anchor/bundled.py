"""Judging the anchor and the log proofs in a bundle by the keys that its reader trusts; nobody is asked.

``docs/reference/bundle-format.md`` is the format in words. ``clv_verify.py`` judges the same by code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import orjson

from clvlab.anchor.note import Checkpoint, Verifier, checkpoint, decoded, opened
from clvlab.errors import BundleError, ClvlabError, EvidenceError
from clvlab.proof.anchor import MEMO_PROGRAMS
from clvlab.proof.bundle import anchor_of, run_of
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.manifest import inputs_hash
from clvlab.proof.merkle import check_consistency, check_inclusion, leaf_hash
from clvlab.proof.verify import Verification

__all__ = ["PROOFS", "Trust", "judged", "transaction_seen"]

PROOFS = ("anchor", "log")

_PROVED = {"entry": str, "index": int, "proof": list}
_LOG = {"checkpoint": str, "commit": dict, "earlier": (dict, type(None)), "outcome": dict, "schema": str}
_ENTRY = {"kind": str, "run_id": str, "schema": str, "ts_ms": int}
_COMMIT, _RESULT = {**_ENTRY, "inputs_hash": str, "owner": str}, {**_ENTRY, "commit_index": int, "manifest_hash": str}
_TRUST = {"anchor_signers": dict, "checkpoint": (str, type(None)), "logs": list, "witness_quorum": int, "witnesses": list}
# Of the points of small order on edwards25519, the y: under such a key anybody can sign.
_FIELD = 2**255 - 19
_EIGHTH = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL_ORDER = {0, 1, _FIELD - 1, _EIGHTH, _FIELD - _EIGHTH}


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom the reader of a bundle trusts: public keys as text, and what they have seen; by default nobody.

    Attributes
    ----------
    anchor_signers
        Keys in base58, by name of the cluster.
    logs, witnesses
        Keys as ``Verifier`` writes them.
    witness_quorum
        How many of the witnesses must have signed.
    checkpoint
        A checkpoint that the bundle's must be, or extend.
    """

    anchor_signers: Mapping[str, Collection[str]] = field(default_factory=dict)
    logs: Collection[str] = ()
    witnesses: Collection[str] = ()
    witness_quorum: int = 0
    checkpoint: str | None = None

    @classmethod
    def read(cls, text: bytes) -> Trust:
        """Read a JSON object of these names, each of which may be left out.

        Raises
        ------
        BundleError
        """
        try:
            given = orjson.loads(text)
            default = {name: kind() for name, kind in _TRUST.items() if isinstance(kind, type)} | {"checkpoint": None}
            stated = _typed(default | given, _TRUST, "the file")
        except (orjson.JSONDecodeError, TypeError, EvidenceError) as error:
            raise BundleError(f"can't read whom to trust: {error}") from error
        signers = stated["anchor_signers"].values()
        texts = [text for keys in (stated["logs"], stated["witnesses"], *signers) for text in keys]
        if any(type(keys) is not list for keys in signers) or any(type(text) is not str for text in texts):
            raise BundleError("can't read whom to trust: keys must stand in lists of texts")
        return cls(**stated)


def judged(
    parts: Mapping[str, bytes], verification: Verification, trust: Trust, required: Collection[str] = ()
) -> dict[str, Check]:
    """Judge the proofs of a run: ``anchor`` and ``log``.

    Parameters
    ----------
    parts
        Parts of a bundle; a run folder has none of these.
    verification
        Of the run in it. Nothing is judged of evidence that can't be read.
    trust
        Whose keys count.
    required
        Proofs that must be there and count; others are ``not_applicable`` where they are not.
    """
    if not verification.started:
        return {}
    keys: dict[str, Collection[Any]] = {"anchor": trust.anchor_signers, "log": trust.logs}
    checks: dict[str, Callable[[Mapping[str, bytes], Verification, Trust], str]] = {"anchor": _anchor, "log": _log}
    found = {}
    for name in PROOFS:
        here = f"{name}.json" in parts
        if not here or not keys[name]:
            why = "the proof is here, but you trust no key for it" if here else "the proof is not here"
            found[name] = Check(Verdict.FAIL if name in required else Verdict.NOT_APPLICABLE, why)
            continue
        try:
            found[name] = Check(Verdict.PASS, checks[name](parts, verification, trust))
        except ClvlabError as error:
            found[name] = Check(Verdict.FAIL, str(error))
    return found


def _anchor(parts: Mapping[str, bytes], verification: Verification, trust: Trust) -> str:
    """Require a transaction whose memo is the manifest hash, signed by a trusted key; whether a chain took it is not asked."""
    record = anchor_of(parts)
    data, manifest_hash = decoded(record["transaction"]), verification.manifest_hash
    sent = transaction_seen(data)
    if sent.signature != record["signature"] or not sent.signed:
        raise BundleError(f"the transaction does not carry the signature {record['signature']}, or it does not hold")
    memos = [memo for memo in sent.instructions if memo.program_id in MEMO_PROGRAMS and memo.data == manifest_hash.encode()]
    signers = {signer for memo in memos for signer in memo.signers}
    if not signers & set(trust.anchor_signers.get(record["cluster"], ())):
        named = ", ".join(sorted(signers)) or "nobody"
        raise BundleError(f"{named} signed {manifest_hash} as a memo, whom you do not trust to anchor on {record['cluster']!r}")
    return f"a key that you trust signed {manifest_hash} as a memo, for {record['cluster']!r} to take"


def transaction_seen(data: bytes) -> Any:
    """Read a transaction as ``Seen``; one that names tables, or has bytes left over, is refused."""
    try:
        library, faults = import_module("solders.transaction"), import_module("solders.errors")
        reader = import_module("clvlab.anchor.transaction")
    except ImportError as error:
        raise BundleError(f"reading an anchor needs the extra 'anchor': pip install 'clvlab[anchor]' ({error})") from error
    try:
        transaction = library.VersionedTransaction.from_bytes(data)
        tables = getattr(transaction.message, "address_table_lookups", ())
        if bytes(transaction) != data or tables or not transaction.signatures:
            raise ValueError("it has no signature, names tables, or has bytes left over")
        return reader.seen("", transaction, None)
    except (ValueError, faults.BincodeError, faults.SignerError) as error:
        raise BundleError(f"no transaction: {error}") from error


def _log(parts: Mapping[str, bytes], verification: Verification, trust: Trust) -> str:
    """Require a trusted log to hold the commitment that the manifest names, and after it this result."""
    log = _typed(parsed(parts["log.json"]), _LOG, "the log proofs", schema="clvlab-bundle-log/1")
    newest, witnesses = _checkpoint(log["checkpoint"], trust)
    if witnesses < trust.witness_quorum:
        raise BundleError(f"{witnesses} witnesses signed, you ask for {trust.witness_quorum}")
    commit, outcome = (_proved(log[name], newest, f"the {name}") for name in ("commit", "outcome"))
    committed = _typed(parsed(commit), _COMMIT, "the commitment", schema="clvlab-log/1", kind="COMMIT")
    result = _typed(parsed(outcome), _RESULT, "the outcome", schema="clvlab-log/1", kind="RESULT")
    index, named, run_id = log["commit"]["index"], run_of(parts).commit_index, verification.started["run_id"]
    if not committed["run_id"] == result["run_id"] == run_id:
        raise BundleError(f"the entries are about {committed['run_id']} and {result['run_id']}, not about {run_id}")
    if committed["inputs_hash"] != inputs_hash(verification.started):
        raise BundleError(f"entry {index} commits to other inputs, {committed['inputs_hash']}")
    if result["manifest_hash"] != verification.manifest_hash:
        raise BundleError(f"the log says that the result is {result['manifest_hash']}, not {verification.manifest_hash}")
    if not named == result["commit_index"] == index < log["outcome"]["index"]:
        raise BundleError(f"manifest and result name entries {named} and {result['commit_index']}, proved is {index}")
    _seen(log, newest, trust)
    return f"{newest.origin} took the commitment as entry {index} before the result, and its tree of {newest.size} holds both"


def _seen(log: dict[str, Any], newest: Checkpoint, trust: Trust) -> None:
    """Require the newest checkpoint to extend the earlier one, and one of them to be what the reader has seen."""
    shown = [newest.text]
    if log["earlier"] is not None:
        earlier = _typed(log["earlier"], {"checkpoint": str, "proof": list}, "the earlier checkpoint")
        before, _ = _checkpoint(earlier["checkpoint"], trust)
        same = before.origin == newest.origin
        if not same or not check_consistency(before.size, newest.size, before.root, newest.root, _hashes(earlier["proof"])):
            raise BundleError("the log forked: it does not begin with its earlier entries, or they are another log's")
        shown.append(before.text)
    if trust.checkpoint is not None and trust.checkpoint.partition("\n\n")[0].rstrip("\n") + "\n" not in shown:
        raise BundleError("no proof from the checkpoint that you have seen")


def _checkpoint(note: str, trust: Trust) -> tuple[Checkpoint, int]:
    """Read a checkpoint that the log it names signed, by a trusted key; give also how many trusted witnesses did."""
    logs, witnesses = ([_verifier(text) for text in dict.fromkeys(keys)] for keys in (trust.logs, trust.witnesses))
    text, signed = opened(note, *logs)
    found = checkpoint(text)
    if found.origin not in [verifier.name for verifier in signed]:
        raise BundleError(f"the checkpoint of {found.origin!r} is not signed by that log, or you do not trust its key")
    return found, len(opened(note, *witnesses)[1])


def _verifier(text: str) -> Verifier:
    verifier = Verifier.parse(text)
    if int.from_bytes(verifier.public, "little") % 2**255 % _FIELD in _SMALL_ORDER:
        raise BundleError(f"the key of {verifier.name!r} is of small order: anybody can sign with it")
    return verifier


def _proved(value: Any, newest: Checkpoint, name: str) -> bytes:
    """Give an entry, which must stand in the tree."""
    proved = _typed(value, _PROVED, name)
    entry: bytes = proved["entry"].encode()
    if not check_inclusion(leaf_hash(entry), proved["index"], newest.size, _hashes(proved["proof"]), newest.root):
        raise BundleError(f"{name} does not stand in the log")
    return entry


def _hashes(texts: list[Any]) -> list[bytes]:
    if any(type(text) is not str or len(text) != 64 or set(text) - set("0123456789abcdef") for text in texts):
        raise BundleError("a proof is no list of hashes")
    return [bytes.fromhex(text) for text in texts]


def _typed(value: Any, types: Mapping[str, Any], name: str, **exactly: str) -> dict[str, Any]:
    """Require exactly these keys and types, integers from 0, and some values; True is no integer."""
    kinds = {key: kind if isinstance(kind, tuple) else (kind,) for key, kind in types.items()}
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise EvidenceError(f"{name} does not have the keys {sorted(types)}")
    for key, item in value.items():
        if type(item) not in kinds[key] or (type(item) is int and item < 0) or item != exactly.get(key, item):
            raise EvidenceError(f"{key} of {name} is {str(item)[:80]!r}")
    canonical(value)  # which refuses integers beyond 2**53 - 1
    return value
