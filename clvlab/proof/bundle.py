"""Proof bundles: one run in one file, with every byte accounted for (``docs/reference/bundle-format.md``)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from clvlab.errors import BundleError, EvidenceError
from clvlab.proof.canonical import canonical, parsed, sha256
from clvlab.proof.limits import MAX_BYTES, PART_LIMITS, first_line
from clvlab.proof.seal import SealedRun

BUNDLE_SCHEMA = "clvlab-bundle/1"
# Parts are in this order. The first four are always there.
PARTS = (
    "context.json",
    "manifest.json",
    "events.jsonl",
    "scores.jsonl",
    "receipts.jsonl",
    "anchor.json",
    "log.json",
    "seat.json",
    "stamps.json",
    "commit.tlog-proof",
    "outcome.tlog-proof",
    "checkpoint.ots",
    "earlier.ots",
)
PROOF_FILES = PARTS[9:11]
OTS_FILES = PARTS[11:]
_PROOF_HASH = re.compile("[0-9a-f]{64}")
_REQUIRED = PARTS[:4]
_ANCHOR_SCHEMA = "clvlab-bundle-anchor/1"
_MAX_HEADER = 1 << 20


def bundle(
    run: SealedRun,
    receipts: bytes = b"",
    *,
    anchor: Any = None,
    log: Any = None,
    seat: Any = None,
    stamps: Any = None,
    files: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a bundle: a header line that lists the parts, then the parts. Those by name are JSON, ``files`` bytes."""
    contents: dict[str, bytes | None] = {
        "context.json": canonical(context(run)),
        "manifest.json": run.manifest,
        "events.jsonl": run.events,
        "scores.jsonl": run.scores,
        "receipts.jsonl": receipts or None,
        "anchor.json": None if anchor is None else canonical(anchor),
        "log.json": None if log is None else canonical(log),
        "seat.json": None if seat is None else canonical(seat),
        "stamps.json": None if stamps is None else canonical(stamps),
        **(files or {}),
    }
    parts = [(name, content) for name in PARTS if (content := contents.get(name)) is not None]
    listed = [{"name": name, "sha256": sha256(content), "size": len(content)} for name, content in parts]
    return canonical({"parts": listed, "schema": BUNDLE_SCHEMA}) + b"\n" + b"".join(content for _, content in parts)


def context(run: SealedRun) -> Mapping[str, object]:
    """Return run and pack of a bundle, for readers who read no further. Manifest and evidence repeat them."""
    started = parsed(first_line(run.events))["payload"]
    names = ("pack_id", "fixture_ids", "content_hash")
    return {
        "schema": "clvlab-context/1",
        "run_id": run.run_id,
        "manifest_hash": run.manifest_hash,
        **{name: started["binding"][name] for name in names},
    }


def read_bundle(text: bytes) -> dict[str, bytes]:
    at = text.find(b"\n", 0, _MAX_HEADER) + 1
    head = text[: max(at - 1, 0)]
    try:
        header = parsed(head)
        if header.keys() != {"parts", "schema"} or header["schema"] != BUNDLE_SCHEMA:
            raise BundleError(f"no bundle of {BUNDLE_SCHEMA}: {head[:80]!r}")
        parts = [
            (part["name"], part["sha256"], part["size"])
            for part in header["parts"]
            if part.keys() == {"name", "sha256", "size"}
        ]
        well_formed = len(parts) == len(header["parts"]) and all(type(size) is int and size >= 0 for *_, size in parts)
    except (EvidenceError, AttributeError, KeyError, TypeError) as error:
        raise BundleError(f"no bundle of {BUNDLE_SCHEMA}: {error}") from error
    names = [name for name, *_ in parts]
    if not well_formed or names != [name for name in PARTS if name in names] or not set(_REQUIRED) <= set(names):
        raise BundleError(f"a bundle has the parts {', '.join(PARTS)} in this order, the first four always, not {names}")
    contents: dict[str, bytes] = {}
    for name, digest, size in parts:
        if size > PART_LIMITS.get(name, MAX_BYTES):
            raise BundleError(f"{name} has {size:,} bytes, the limit is {PART_LIMITS.get(name, MAX_BYTES):,}")
        contents[name], at = text[at : at + size], at + size
        if len(contents[name]) != size or sha256(contents[name]) != digest:
            raise BundleError(f"{name} is not what the header says: it has {sha256(contents[name])}, not {digest}")
    # A byte outside all parts could differ between two bundles of one run, or hide something.
    if at != len(text):
        raise BundleError(f"{len(text) - at} bytes follow the last part")
    try:
        expected = canonical(context(run_of(contents)))
    except (EvidenceError, KeyError, TypeError) as error:
        raise BundleError(f"the first line of events.jsonl can't be read: {error!r}") from error
    # Hurried readers see only the context, so it must name the same run and pack as the evidence.
    if contents["context.json"] != expected:
        raise BundleError("context.json does not say what the manifest and the evidence say")
    if "anchor.json" in contents:
        anchor_of(contents)
    _check_proof_files(contents)
    return contents


def proof_files(log: Any) -> dict[str, bytes]:
    """Return the proofs in ``log.json`` as parts: files in the form of C2SP ``tlog-proof``, for programs that read no JSON."""
    return {name: _proof_file(log, name.removesuffix(".tlog-proof")) for name in PROOF_FILES}


def _proof_file(log: Any, name: str) -> bytes:
    try:
        index, proof, note = log[name]["index"], log[name]["proof"], log["checkpoint"]
    except (KeyError, TypeError) as error:
        raise BundleError(f"log.json has no proof of the {name}: {error!r}") from error
    hashes = isinstance(proof, list) and all(type(one) is str and _PROOF_HASH.fullmatch(one) for one in proof)
    if not hashes or type(index) is not int or index < 0 or type(note) is not str:
        raise BundleError(f"log.json has no index, hashes and checkpoint of the {name}")
    lines = "".join(f"{b64encode(bytes.fromhex(one)).decode()}\n" for one in proof)
    return f"c2sp.org/tlog-proof@v1\nindex {index}\n{lines}\n{note}".encode()


def _check_proof_files(contents: Mapping[str, bytes]) -> None:
    """Require files of proofs to be those of ``log.json``, byte by byte: who takes one out has the proof that was judged."""
    for name in PROOF_FILES:
        if name in contents:
            try:
                log = parsed(contents["log.json"])
            except (EvidenceError, KeyError) as error:
                raise BundleError(f"{name} is here, and log.json can't be read, whose proof it is: {error}") from error
            if contents[name] != _proof_file(log, name.removesuffix(".tlog-proof")):
                raise BundleError(f"{name} is not the proof in log.json")


def anchor_of(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Return ``anchor.json`` of a bundle: cluster, signature and transaction, as texts; ``BundleError`` for another schema."""
    try:
        anchor = parsed(contents["anchor.json"])
    except EvidenceError as error:
        raise BundleError(f"anchor.json can't be read: {error}") from error
    keys = {"cluster", "schema", "signature", "transaction"}
    if not isinstance(anchor, dict) or anchor.keys() != keys or not all(isinstance(text, str) for text in anchor.values()):
        raise BundleError(f"anchor.json does not have the keys {', '.join(sorted(keys))}, each with a text")
    if anchor["schema"] != _ANCHOR_SCHEMA:
        raise BundleError(f"anchor.json has the schema {anchor['schema']!r:.80}, not {_ANCHOR_SCHEMA}")
    return anchor


def run_of(contents: Mapping[str, bytes]) -> SealedRun:
    try:
        run_id = str(parsed(contents["manifest.json"])["run_id"])
    except (EvidenceError, KeyError, TypeError) as error:
        raise BundleError(f"manifest.json can't be read: {error}") from error
    return SealedRun(run_id, contents["events.jsonl"], contents["scores.jsonl"], contents["manifest.json"])
