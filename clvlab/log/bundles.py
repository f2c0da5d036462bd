"""Judge the anchor and the log proofs in a bundle by the keys that its reader trusts, without a network.

``docs/reference/bundle-format.md`` describes the format. ``clv_verify.py`` makes the same checks with separate code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import orjson

from clvlab.errors import BundleError, ClvlabError, EvidenceError, LogError, MissingExtraError
from clvlab.log.entries import Commit, EntryKind, Outcome, read_entry
from clvlab.log.log import Claim
from clvlab.log.note import Checkpoint, Keys, checkpoint, decode, trusted_checkpoint
from clvlab.log.ots import attestation_texts, ots_names, read_headers, read_ots
from clvlab.log.policy import Policy
from clvlab.log.seats import KIND, SEAT_PART, Blind, TickViews, check_chain, check_entries, check_held, read_chain
from clvlab.log.stamps import STAMPS_PART, dated, judged
from clvlab.log.standing import Standing
from clvlab.proof.anchor import MEMO_PROGRAMS
from clvlab.proof.bundle import OTS_FILES, anchor_of, run_of
from clvlab.proof.canonical import JsonObject, canonical, parsed
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.manifest import inputs_hash, sources_hash
from clvlab.proof.merkle import check_consistency, check_inclusion, leaf_hash
from clvlab.proof.verify import Verification

PROOFS = ("anchor", "log", "seat")
LOG_PART, LOG_PART_WITHOUT_CLAIM = "clvlab-bundle-log/2", "clvlab-bundle-log/1"

_PROVED = {"entry": str, "index": int, "proof": list}
_LOG = {"checkpoint": str, "commit": dict, "earlier": (dict, type(None)), "outcome": dict, "schema": str}
_EARLIER = {"checkpoint": str, "proof": list}
_SCHEMAS = {True: LOG_PART, False: LOG_PART_WITHOUT_CLAIM}
_CLAIM = {"abandoned": int, "earlier": int, "later": int, "unknown_pack": int}
_TRUST = {"anchor_signers": dict, "checkpoint": (str, type(None)), "logs": list, "witness_quorum": int, "witnesses": list}


@dataclass(frozen=True, slots=True)
class Trust:
    """Public keys and a checkpoint that the reader of a bundle trusts, none by default. A log must equal or extend it."""

    anchor_signers: Mapping[str, Collection[str]] = field(default_factory=dict)
    logs: Collection[str] = ()
    witnesses: Collection[str] = ()
    witness_quorum: int = 0
    checkpoint: str | None = None
    policy: Policy | None = None

    @classmethod
    def read(cls, text: bytes) -> Trust:
        """Read a JSON object with these names, all optional, or a policy of C2SP; ``BundleError`` for anything else."""
        if text.lstrip()[:1] not in (b"{", b""):
            return cls.under_policy(text, "the file of trusted keys, neither as JSON nor as a policy")
        try:
            stated_keys = orjson.loads(text)
            default = {name: kind() for name, kind in _TRUST.items() if isinstance(kind, type)} | {"checkpoint": None}
            stated = _typed(default | stated_keys, _TRUST, "the file")
        except (orjson.JSONDecodeError, TypeError, EvidenceError) as error:
            raise BundleError(f"can't read the file of trusted keys: {error}") from error
        signers = stated["anchor_signers"].values()
        texts = [text for keys in (stated["logs"], stated["witnesses"], *signers) for text in keys]
        if any(type(keys) is not list for keys in signers) or any(type(text) is not str for text in texts):
            raise BundleError("can't read the file of trusted keys: keys must be in lists of texts")
        return cls(**stated)

    @classmethod
    def under_policy(cls, text: bytes, called: str = "the policy") -> Trust:
        """Return the trust that a policy of C2SP states; ``BundleError`` if it can't be read."""
        try:
            policy = Policy.read(text.decode("utf-8", "surrogateescape"))
        except LogError as error:
            raise BundleError(f"can't read {called}: {error}") from error
        logs, witnesses = ([str(one.key) for one in members] for members in (policy.logs, policy.witnesses.values()))
        return cls(logs=logs, witnesses=witnesses, policy=policy)

    def quorum_fault(self, witnesses: Collection[str]) -> str | None:
        """Return why these trusted witnesses are too few, or ``None``."""
        fault = None if self.policy is None else self.policy.fault(witnesses)
        if fault is None and len(witnesses) < self.witness_quorum:
            return f"{len(witnesses)} trusted witnesses signed the checkpoint, {self.witness_quorum} must"
        return fault


def judge(
    parts: Mapping[str, bytes],
    verification: Verification,
    trust: Trust,
    required: Collection[str] = (),
    *,
    without_witness: bool = False,
    views: TickViews | None = None,
    tsa_roots: bytes | None = None,
    bitcoin_headers: str | None = None,
) -> dict[str, Check]:
    """Return the checks ``anchor``, ``log``, ``seat``, ``stamps`` and ``opentimestamps`` of a bundle's parts.

    A ``required`` one must be present.

    ``without_witness`` accepts a required log without a trusted witness. A seat's part that contradicts the evidence fails
    without a trusted log too; ``views`` makes its ticks again from a pack at hand. Stamps count by the certificates in
    ``tsa_roots``, in PEM. Proofs of OpenTimestamps are compared with ``bitcoin_headers``, as ``read_headers`` takes them.
    """
    if verification.started is None:
        return {}
    # Without a witness, the operator of a log can keep two logs, one for each reader.
    if {"log", "seat"} & set(required) and not without_witness:
        trust = replace(trust, witness_quorum=max(1, trust.witness_quorum))
    keys: dict[str, Collection[Any]] = {"anchor": trust.anchor_signers, "log": trust.logs, "seat": trust.logs}
    checks: dict[str, Callable[[Mapping[str, bytes], Verification, Trust], str]] = {"anchor": _anchor, "log": _log}
    found = {}
    for name in PROOFS:
        here = f"{name}.json" in parts
        if name == "seat" and not here and name not in required and verification.started["kind"] != KIND:
            continue  # nobody expects a seat of another run
        if name == "seat" and here:
            found[name] = _seat(parts, verification, trust, views, is_required=name in required)
            continue
        if not here or not keys[name]:
            why = "the proof is here, but you trust no key for it" if here else "the proof is not here"
            found[name] = Check(Verdict.FAIL if name in required else Verdict.NOT_APPLICABLE, why)
            continue
        try:
            found[name] = Check(Verdict.PASS, checks[name](parts, verification, trust))
        except MissingExtraError:  # a missing extra says nothing about the proof
            raise
        except ClvlabError as error:
            found[name] = Check(Verdict.FAIL, str(error))
    if STAMPS_PART in parts or tsa_roots is not None:
        found["stamps"] = _stamps(parts, verification, tsa_roots)
    if any(name in parts for name in OTS_FILES) or bitcoin_headers is not None:
        found["opentimestamps"] = _opentimestamps(parts, verification, bitcoin_headers)
    return found


def _checkpoints(parts: Mapping[str, bytes], verification: Verification) -> tuple[JsonObject, dict[str, tuple[str, int]]]:
    """Return the log proofs, which must hold under their checkpoint, and note and size of it and of the earlier one.

    Stamps need no key of the log: they date what its tree holds.
    """
    log = log_part(parts)
    commit_of(parts, log, verification)
    newest = checkpoint(note_text(log["checkpoint"]))
    for name in ("commit", "outcome"):
        _prove(log[name], newest, f"the {name}")
    notes: dict[str, tuple[str, int]] = {"checkpoint": (log["checkpoint"], newest.size)}
    if log["earlier"] is not None:
        earlier = _typed(log["earlier"], _EARLIER, "the earlier checkpoint")
        before = checkpoint(note_text(earlier["checkpoint"]))
        if not check_consistency(before.size, newest.size, before.root, newest.root, proof_hashes(earlier["proof"])):
            raise BundleError("the log forked: it does not begin with its earlier entries")
        notes["earlier"] = earlier["checkpoint"], before.size
    return log, notes


def _stamps(parts: Mapping[str, bytes], verification: Verification, roots: bytes | None) -> Check:
    """Judge the stamps over a log's checkpoints."""
    if STAMPS_PART not in parts or roots is None:
        why = "stamps are here, but you name no root" if roots is None else "no stamp is here"
        return Check(Verdict.NOT_APPLICABLE if roots is None else Verdict.FAIL, why)
    try:
        log, notes = _checkpoints(parts, verification)
        texts = {name: note_text(note) for name, (note, _) in notes.items()}
        lines = [
            f"{_dated(log, notes[name][1])}, by {stamp.time:%Y-%m-%d %H:%M:%S} UTC: {stamp.authority}, under your root "
            f"{stamp.root}"
            for name, stamp in dated(texts, judged(parts[STAMPS_PART], roots))
        ]
    except MissingExtraError:
        raise
    except (ClvlabError, KeyError) as error:
        return Check(Verdict.FAIL, str(error))
    return Check(Verdict.PASS, "stamped: " + "; ".join(lines))


def _dated(log: JsonObject, size: int) -> str:
    held = [text for name, text in (("commit", "the commitment"), ("outcome", "the result")) if log[name]["index"] < size]
    return f"the checkpoint of {size:,} entries, with {' and '.join(held) or 'neither commitment nor result'}"


def _opentimestamps(parts: Mapping[str, bytes], verification: Verification, headers: str | None) -> Check:
    """Show which blocks or calendars the proofs name, and compare them with the headers that the reader gave."""
    names = [name for name in OTS_FILES if name in parts]
    if not names:
        return Check(Verdict.FAIL, "no proof of OpenTimestamps is here")
    lines, checked = [], False
    try:
        blocks = {} if headers is None else read_headers(headers)
        log, notes = _checkpoints(parts, verification)
        over = ots_messages(log)
        for name in names:
            try:
                if name not in ots_names(parts[name], over):
                    raise LogError("it is over the other checkpoint")
                found, is_checked = attestation_texts(read_ots(parts[name]), blocks)
            except LogError as error:
                raise BundleError(f"{name}: {error}") from error
            checked = checked or is_checked
            lines.append(f"{_dated(log, notes[name.removesuffix('.ots')][1])}: {'; '.join(found)}")
    except (ClvlabError, KeyError) as error:
        return Check(Verdict.FAIL, str(error))
    return Check(Verdict.PASS if checked else Verdict.PENDING, ". ".join(lines))


def ots_messages(log: JsonObject) -> dict[str, tuple[bytes, ...]]:
    """Return what a proof of OpenTimestamps may be over, by part: the note of a checkpoint as it is, or its text."""
    notes = {"checkpoint.ots": log["checkpoint"]} | ({"earlier.ots": log["earlier"]["checkpoint"]} if log["earlier"] else {})
    return {name: (note.encode(), note_text(note).encode()) for name, note in notes.items()}


def note_text(note: str) -> str:
    """Return the text that a note's signatures are over, unjudged."""
    return note.rpartition("\n\n")[0] + "\n"


def _anchor(parts: Mapping[str, bytes], verification: Verification, trust: Trust) -> str:
    record = anchor_of(parts)
    data, manifest_hash = decode(record["transaction"]), verification.manifest_hash
    sent = read_transaction(data)
    if sent.signature != record["signature"] or not sent.signed:
        raise BundleError(f"the transaction does not carry the signature {record['signature']}, or it does not hold")
    memos = [memo for memo in sent.instructions if memo.program_id in MEMO_PROGRAMS and memo.data == manifest_hash.encode()]
    signers = {signer for memo in memos for signer in memo.signers}
    if not signers & set(trust.anchor_signers.get(record["cluster"], ())):
        named = ", ".join(sorted(signers)) or "nobody"
        raise BundleError(f"{named} signed {manifest_hash} as a memo, whom you do not trust to anchor on {record['cluster']!r}")
    return f"a key that you trust signed {manifest_hash} as a memo, for {record['cluster']!r} to take"


def read_transaction(data: bytes) -> Any:
    """Read a transaction as ``Seen``; refuse one with address tables or trailing bytes."""
    try:
        library, faults = import_module("solders.transaction"), import_module("solders.errors")
        reader = import_module("clvlab.anchor.transaction")
    except ImportError as error:
        raise MissingExtraError("anchor", error.name) from error
    try:
        transaction = library.VersionedTransaction.from_bytes(data)
        tables = getattr(transaction.message, "address_table_lookups", ())
        if bytes(transaction) != data or tables or not transaction.signatures:
            raise ValueError("it has no signature, names tables, or has bytes left over")
        return reader.read_seen("", transaction, None)
    except (ValueError, faults.BincodeError, faults.SignerError) as error:
        raise BundleError(f"no transaction: {error}") from error


def _log(parts: Mapping[str, bytes], verification: Verification, trust: Trust) -> str:
    found, newest, witnesses = standing_in(parts, verification, trust)
    return found.text(newest.origin, witnesses)


def _seat(
    parts: Mapping[str, bytes], verification: Verification, trust: Trust, views: TickViews | None, *, is_required: bool
) -> Check:
    try:
        chain = read_chain(parts[SEAT_PART])
        check_chain(chain, verification, views)
        log = log_part(parts) if "log.json" in parts else None
        check_entries(chain, parts, None if log is None else log["outcome"]["index"])
        remade = "its ticks are those of the pack" if views else "its ticks were not made again, as no pack was named"
        agrees = (
            f"the chain of {len(chain.ticks):,} ticks, {chain.blind}, has every decision of the evidence in order; {remade}"
        )
        if log is not None and not chain.entries:
            raise BundleError("the log holds no entry of the seat")
        if log is None or not trust.logs:
            why = "no log holds it" if log is None else "you trust no key for its log"
            return Check(Verdict.FAIL if is_required else Verdict.NOT_APPLICABLE, f"{agrees}; {why}")
        newest, witnesses = trusted_checkpoint(log["checkpoint"], Keys.read(trust.logs, trust.witnesses))
        _require_quorum(witnesses, trust)
        for entry in (*chain.held, *chain.entries):
            _prove(_typed(entry, _PROVED, "an entry of the seat"), newest, f"entry {entry['index']} of the seat")
        if chain.blind == Blind.HELD_BACK:
            started = verification.started
            held = check_held(chain, parts, None if started is None else started["binding"]["content_hash"])
            agrees = f"{agrees}; {held}; that nobody else had the pack is the word of the log's operator"
    except MissingExtraError:
        raise
    except ClvlabError as error:
        return Check(Verdict.FAIL, str(error))
    return Check(Verdict.PASS, f"{agrees}; its head stands in {len(chain.entries)} entries that {newest.origin!a} signed")


def _require_quorum(witnesses: Collection[str], trust: Trust) -> None:
    fault = trust.quorum_fault(witnesses)
    if fault is not None:
        raise BundleError(fault)


def standing_in(
    parts: Mapping[str, bytes], verification: Verification, trust: Trust
) -> tuple[Standing, Checkpoint, tuple[str, ...]]:
    """Return a run's standing in a trusted log, the checkpoint, and the names of trusted witnesses that signed it."""
    keys, log = Keys.read(trust.logs, trust.witnesses), log_part(parts)
    newest, witnesses = trusted_checkpoint(log["checkpoint"], keys)
    _require_quorum(witnesses, trust)
    for name in ("commit", "outcome"):
        _prove(log[name], newest, f"the {name}")
    commit = commit_of(parts, log, verification)
    _seen(log, newest, keys, trust.checkpoint)
    stated = Claim(**log["claim"]) if "claim" in log else None
    return Standing(commit.owner, commit.content_hash, log["commit"]["index"], newest.size, stated), newest, witnesses


def commit_of(parts: Mapping[str, bytes], log: Mapping[str, Any], verification: Verification) -> Commit:
    """Return the commitment in the log proofs. It must be about the verified run and its pack. Proofs are not judged."""
    index, at = log["commit"]["index"], log["outcome"]["index"]
    commit, result = (read_entry(log[name]["entry"].encode()) for name in ("commit", "outcome"))
    started, named = verification.started, run_of(parts).commit_index
    if started is None:
        raise BundleError("the evidence can't be read, so no entry can be about it")
    if not isinstance(commit, Commit) or not isinstance(result, Outcome) or result.kind != EntryKind.RESULT:
        raise BundleError(f"entries {index} and {at} of the log are not a commitment and its result")
    if not commit.run_id == result.run_id == started["run_id"]:
        raise BundleError(f"the entries are about {commit.run_id} and {result.run_id}, not about {started['run_id']}")
    if commit.inputs_hash != inputs_hash(started):
        raise BundleError(f"entry {index} commits to other inputs, {commit.inputs_hash}")
    if commit.names_pack and commit.content_hash != started["binding"]["content_hash"]:
        raise BundleError(f"entry {index} commits to a run over another pack, {commit.content_hash}")
    sources = sources_hash([agent["source_sha256"] for agent in started["agents"]])
    if commit.sources_hash not in (None, sources):
        raise BundleError(f"entry {index} commits to other sources, {commit.sources_hash}")
    if result.names_pack and result.content_hash != started["binding"]["content_hash"]:
        raise BundleError(f"entry {at} says that the run was over another pack, {result.content_hash}")
    if result.manifest_hash != verification.manifest_hash:
        raise BundleError(f"the log says that the result is {result.manifest_hash}, not {verification.manifest_hash}")
    if not named == result.commit_index == index < at:
        raise BundleError(f"manifest and result name entries {named} and {result.commit_index}, proved is {index}")
    return commit


def log_part(parts: Mapping[str, bytes]) -> JsonObject:
    log = parsed(parts["log.json"])
    claims = isinstance(log, dict) and "claim" in log
    log = _typed(log, _LOG | ({"claim": dict} if claims else {}), "the log proofs", schema=_SCHEMAS[claims])
    for name in ("commit", "outcome"):
        _typed(log[name], _PROVED, f"the {name}")
    if claims:
        _typed(log["claim"], _CLAIM, "the claim")
    return log


def _seen(log: JsonObject, newest: Checkpoint, keys: Keys, seen: str | None) -> None:
    """Require the newest checkpoint to extend the earlier one, and the reader's checkpoint to be one of the two."""
    notes = [newest.text]
    if log["earlier"] is not None:
        earlier = _typed(log["earlier"], _EARLIER, "the earlier checkpoint")
        before, _ = trusted_checkpoint(earlier["checkpoint"], keys)
        same = before.origin == newest.origin
        if not same or not check_consistency(
            before.size, newest.size, before.root, newest.root, proof_hashes(earlier["proof"])
        ):
            raise BundleError("the log forked: it does not begin with its earlier entries, or they are another log's")
        notes.append(before.text)
    if seen is not None and seen.partition("\n\n")[0].rstrip("\n") + "\n" not in notes:
        raise BundleError("no proof from the checkpoint that you have seen")


def _prove(value: JsonObject, newest: Checkpoint, name: str) -> None:
    leaf, proof = leaf_hash(value["entry"].encode()), proof_hashes(value["proof"])
    if not check_inclusion(leaf, value["index"], newest.size, proof, newest.root):
        raise BundleError(f"{name} does not stand in the log")


def proof_hashes(texts: list[Any]) -> list[bytes]:
    if any(type(text) is not str or len(text) != 64 or set(text) - set("0123456789abcdef") for text in texts):
        raise BundleError("a proof is no list of hashes")
    return [bytes.fromhex(text) for text in texts]


def _typed(value: Any, types: Mapping[str, Any], name: str, **exactly: str) -> JsonObject:
    """Require exactly these keys and types, integers from 0, and the values in ``exactly``. ``True`` is not an integer."""
    kinds = {key: kind if isinstance(kind, tuple) else (kind,) for key, kind in types.items()}
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise EvidenceError(f"{name} does not have the keys {sorted(types)}")
    for key, item in value.items():
        if type(item) not in kinds[key] or (type(item) is int and item < 0) or item != exactly.get(key, item):
            raise EvidenceError(f"{key} of {name} is {str(item)[:80]!r}")
    canonical(value)  # refuses integers beyond 2**53 - 1
    return value
