"""Proof bundles and disclosures of stored runs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clvlab.base.files import MAX_KEYS_BYTES, file_bytes
from clvlab.base.progress import report
from clvlab.errors import BundleError, EvidenceError, LogError, UnknownAgentError
from clvlab.proof.anchor import Anchor, AnchorStatus
from clvlab.proof.bundle import OTS_FILES, anchor_of, bundle, proof_files, read_bundle, run_of
from clvlab.proof.canonical import JsonObject, canonical
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.limits import MAX_DISCLOSURE_BYTES
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.runs.run_folder import record_of
from clvlab.store.folder import not_a_run, read_receipts, read_run, read_view, run_files

if TYPE_CHECKING:  # imported where it is used, so that a first verification waits for nothing else
    from clvlab.anchor.records import AnchorRecord
    from clvlab.anchor.settings import AnchorSettings
    from clvlab.api.runs import LogCommitment
    from clvlab.log.bundles import Trust
    from clvlab.log.seats import TickViews
    from clvlab.runs.run import Run


def part_of(whole: Run, agent_id: str | None, how: str = "") -> Run:
    """Return a run reduced to one agent, which is to be named if there are several: their means are no mean of one."""
    own = [agent["agent_id"] for agent in whole.started["agents"]]
    named = own[0] if agent_id is None and len(own) == 1 else agent_id
    if named not in own:
        missing = f"has {len(own)} agents" if named is None else f"has no agent {named!r:.200}"
        raise UnknownAgentError(f"run {whole.run_id} {missing}: name one of {', '.join(own)}{how}")
    return whole if len(own) == 1 else whole.part(named)


def bundle_run(
    path: Path, *, log: dict[str, Any] | None = None, stamps: bytes | None = None, ots: Sequence[bytes] = ()
) -> bytes:
    """Return one file with everything about a run folder: evidence, scores, manifest, receipts, anchor, log proofs.

    ``log`` has the proofs of the run's entries; it is required if the manifest names a commitment. Of a file of ``stamps``,
    those over the checkpoints of the proofs are kept. ``ots`` are proofs of OpenTimestamps, at most one over each checkpoint.
    """
    run = read_run(path)
    if run.commit_index is not None and log is None:
        raise BundleError(f"run {run.run_id} was committed to in a log: name the log, to prove it")
    files = {} if log is None else proof_files(log) | _own_ots(log, ots)
    anchor, own = anchor_part(record_of(path, run.run_id)), _own_stamps(log, stamps)
    return bundle(run, read_receipts(path), anchor=anchor, log=log, stamps=own, files=files)


def _own_ots(log: JsonObject, proofs: Sequence[bytes]) -> dict[str, bytes]:
    """Return proofs of OpenTimestamps as parts; ``BundleError`` for one over something else, or for two over one checkpoint."""
    from clvlab.log.bundles import ots_messages
    from clvlab.log.ots import ots_names

    files: dict[str, bytes] = {}
    for number, content in enumerate(proofs, 1):
        try:
            names = [name for name in ots_names(content, ots_messages(log)) if name not in files]
        except LogError as error:
            raise BundleError(f"proof {number} of {len(proofs)} of OpenTimestamps can't be bundled: {error}") from error
        if not names:
            raise BundleError("two proofs of OpenTimestamps are over one checkpoint: a bundle keeps one of each")
        files[names[0]] = content
    return files


def _own_stamps(log: JsonObject | None, stamps: bytes | None) -> JsonObject | None:
    """Return the part of the stamps over the checkpoints of log proofs; ``BundleError`` without any."""
    if stamps is None:
        return None
    from clvlab.log.bundles import note_text
    from clvlab.log.stamps import imprint, part_of, read_part

    notes = [] if log is None else [log["checkpoint"], *([log["earlier"]["checkpoint"]] if log["earlier"] else [])]
    digests = {hashlib.sha256(note_text(note).encode()).digest() for note in notes}
    found, certificates = read_part(stamps)
    own = [one for one in found if imprint(one) in digests]
    if not own:
        raise BundleError("no stamp is over a checkpoint of the bundle: name the stamped one with --checkpoint or --since")
    return part_of(own, certificates)


def anchor_part(record: AnchorRecord | None) -> dict[str, Any] | None:
    """Return a bundle's part about an anchor, ``None`` if the anchor is not on the chain."""
    if record is None or record.status != AnchorStatus.ANCHORED:
        return None
    signed = {"signature": str(record.signature), "transaction": str(record.transaction)}
    return {"schema": "clvlab-bundle-anchor/1", "cluster": record.cluster} | signed


def read_parts(path: Path) -> dict[str, bytes]:
    """Read the parts of a bundle; ``UnknownRunError`` says what a file of another kind is."""
    content = file_bytes(path)
    try:
        return read_bundle(content)
    except BundleError:
        from clvlab.proof.clv_verify import no_run  # a large module, which no bundle that holds waits for

        if no_run(content[:MAX_KEYS_BYTES], len(content)) is None:
            raise
        raise not_a_run(path) from None


def verify_bundle(path: Path, settings: AnchorSettings | None = None) -> Verification:
    """Recompute the proof of a bundled run; its anchor is checked on the chain if settings name one."""
    contents = read_parts(path)
    anchor = None
    if "anchor.json" in contents:
        stated = anchor_of(contents)
        anchor = Anchor(AnchorStatus.ANCHORED.value, stated["signature"], stated["cluster"])
    receipts = contents.get("receipts.jsonl", b"")
    if settings is None:
        return verify(run_of(contents), receipts, anchor=anchor)

    from clvlab.anchor.anchorer import NullAnchor

    asker = NullAnchor(settings)
    anchor = anchor or Anchor(cluster=asker.cluster)
    return verify(run_of(contents), receipts, anchor=anchor, seen=asker.seen(anchor), trust=asker.trust)


def judge_proofs(
    path: Path,
    verification: Verification,
    trust: Path | None = None,
    required: Sequence[str] = (),
    *,
    without_witness: bool = False,
    views: TickViews | None = None,
    tsa_roots: Path | None = None,
    policy: Path | None = None,
    bitcoin_headers: Path | None = None,
) -> tuple[dict[str, Check], LogCommitment | None]:
    """Judge the anchor, log and seat proofs of a verified run offline, by the reader's keys.

    Without the file ``trust`` no key is trusted. ``required`` names proofs without which the run fails. ``without_witness``
    accepts a required log without a trusted witness. ``views`` makes the ticks of a seat again. Stamps count by the
    certificates in the file ``tsa_roots``. A ``policy`` of C2SP names logs and witnesses in place of ``trust``. Proofs of
    OpenTimestamps are compared with the block headers in a file. Returns the checks, and block ``log`` of the proof card, if
    the log proofs hold.
    """
    from clvlab.log.bundles import judge, standing_in

    whom = read_trust(trust, policy=policy)
    parts = read_parts(path) if path.is_file() else {}
    roots = None if tsa_roots is None else file_bytes(tsa_roots, MAX_KEYS_BYTES)
    headers = None if bitcoin_headers is None else file_bytes(bitcoin_headers, MAX_KEYS_BYTES).decode(errors="replace")
    checks = judge(
        parts,
        verification,
        whom,
        _known_proofs(required),
        without_witness=without_witness,
        views=views,
        tsa_roots=roots,
        bitcoin_headers=headers,
    )
    holds = "log" in checks and checks["log"].verdict == Verdict.PASS
    return checks, standing_in(parts, verification, whom)[0].commitment() if holds else None


def read_trust(path: Path | None, logs: Sequence[str] = (), *, policy: Path | None = None) -> Trust:
    """Return the trusted keys of a file and of ``logs``, or of a ``policy``; without any, no key is trusted.

    Raises
    ------
    BundleError
        A file can't be read, or both name logs or witnesses.
    """
    from clvlab.log.bundles import Trust

    trust = Trust() if path is None else Trust.read(file_bytes(path, MAX_KEYS_BYTES))
    if policy is not None:
        if trust.logs or trust.witnesses:
            raise BundleError("--policy names logs and witnesses, so the file of --trust can't name others")
        under = Trust.under_policy(file_bytes(policy, MAX_KEYS_BYTES))
        trust = replace(trust, logs=under.logs, witnesses=under.witnesses, policy=under.policy)
    return replace(trust, logs=(*trust.logs, *logs))


def parts_of(path: Path) -> frozenset[str]:
    """Return the names of the parts of a bundle; none of a run folder."""
    return frozenset(read_parts(path) if path.is_file() else ())


def judged_without_keys(names: Collection[str]) -> bool:
    """Whether one of these parts is judged whomever a reader trusts: a seat, or a proof of OpenTimestamps."""
    return not {"seat.json", *OTS_FILES}.isdisjoint(names)


def read_stored(path: Path) -> tuple[SealedRun, bytes]:
    """Read a run and its receipts, unverified, from a run folder or a bundle."""
    if path.is_file():
        contents = read_parts(path)
        return run_of(contents), contents.get("receipts.jsonl", b"")
    return read_run(path), read_receipts(path)


def disclose(path: Path, seq: int) -> bytes:
    """Return a proof of one decision of a stored run and its score, without the other decisions, as canonical JSON.

    Raises
    ------
    BundleError
        The run does not verify, so a disclosure would prove nothing.
    """
    from clvlab.proof.disclosure import disclosure

    run, receipts = read_stored(path)
    verification = verify(run, receipts)
    if not verification.passed:
        wrong = next(check.detail for check in verification.checks.values() if check.verdict == Verdict.FAIL)
        raise BundleError(f"run {run.run_id} does not verify, so nothing is disclosed: {wrong}")
    return canonical(disclosure(run, seq))


def is_disclosure(path: Path) -> bool:
    return path.is_file() and file_bytes(path, most=12).startswith((b'{"close":', b'{"decision":'))


def judge_disclosure(path: Path, required: Sequence[str] = ()) -> dict[str, Check]:
    """Judge the disclosure of one decision: the check ``disclosed``, and required proofs, which a disclosure never has."""
    from clvlab.proof.disclosure import check_disclosure

    found = {name: Check(Verdict.FAIL, "a disclosure holds no such proof") for name in _known_proofs(required)}
    try:
        manifest_hash = check_disclosure(file_bytes(path, MAX_DISCLOSURE_BYTES))
        good = f"the score follows from the decision and its close, under manifest {manifest_hash}"
    except EvidenceError as error:
        return found | {"disclosed": Check(Verdict.FAIL, str(error))}
    return found | {"disclosed": Check(Verdict.PASS, good)}


def _known_proofs(required: Sequence[str]) -> Sequence[str]:
    from clvlab.log.bundles import PROOFS

    unknown = set(required) - set(PROOFS)
    if unknown:
        raise BundleError(f"no proof is called {min(unknown)!r}: name one or more of {', '.join(PROOFS)}")
    return required


def verifier_source(*, states: bool = False) -> bytes:
    """Return the stand-alone verifier, one file of plain Python; with ``states`` the companion that reads ticks."""
    from clvlab.proof import clv_states, clv_verify

    return Path(clv_states.__file__ if states else clv_verify.__file__).read_bytes()


# Sealed runs are put into a bucket under their ids.


def push_run(run: SealedRun, url: str, receipts: bytes = b"", view: bytes = b"") -> str:
    """Upload the files of a verified run to ``<url>/<run_id>/``, the manifest last, and return that URL; repeating is safe."""
    report("recomputing the proof")
    _check(verify(run, receipts))
    files = run_files(run, receipts, view)
    return _put({f"{run.run_id}/{name}": content for name, content in files.items()}, url, run.run_id)


def push_stored(path: Path, url: str) -> str:
    """Upload a stored run: a run folder as ``push_run``, a bundle as ``<url>/<run_id>.clv``."""
    if not path.is_file():
        return push_run(read_run(path), url, read_receipts(path), read_view(path))
    verification = verify_bundle(path)
    _check(verification)
    name = f"{verification.run_id}.clv"
    return _put({name: file_bytes(path)}, url, name)


def _check(verification: Verification) -> None:
    if not verification.passed:
        wrong = next(check.detail for check in verification.checks.values() if check.verdict == Verdict.FAIL)
        raise BundleError(f"run {verification.run_id} does not verify, so nothing is pushed: {wrong}")


def _put(files: dict[str, bytes], url: str, name: str) -> str:
    from clvlab.packs.remote.bucket import Address
    from clvlab.packs.remote.packs import push_files

    push_files(files, url)
    return str(Address(url).under(name))
