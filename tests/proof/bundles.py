"""A bundle with every proof, made without a network: fixed keys, a log in memory, a memo signed for no chain."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from solders.hash import Hash
from solders.keypair import Keypair

from clvlab.anchor.transaction import signed_memo
from clvlab.arena.log.operations import log_proofs, open_log
from clvlab.log.log import LogStore, abandon, commit, conclude
from clvlab.log.note import Checkpoint, Signer, write_note
from clvlab.log.tree import tree_root
from clvlab.proof.bundle import bundle
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.events import receipt_lines
from clvlab.proof.manifest import inputs_hash
from clvlab.proof.seal import SealedRun
from clvlab.store.runlog import RunLog
from tests.factories import make_mixed_run
from tests.logs import hashed, run_of

__all__ = [
    "ANCHOR_KEY",
    "LOG_KEY",
    "OTHER_PACK",
    "PACK",
    "WITNESS_KEY",
    "anchor_part",
    "bundled",
    "logged",
    "make_bundle",
    "note",
    "receipts",
    "trust",
]

ANCHOR_KEY = Keypair.from_seed(bytes(range(32)))
LOG_KEY = Signer("log.example", 1, bytes(range(1, 33)))
WITNESS_KEY = Signer("witness.example", 4, bytes(range(2, 34)))
PACK, OTHER_PACK = "sha256:" + "c" * 64, "sha256:" + "d" * 64


@cache
def logged() -> tuple[SealedRun, RunLog, str]:
    """The mixed run, committed to amid others; its log, to be read only, and the checkpoint from before its commitment.

    Its owner has one commitment over the same pack before and two after it, one of them abandoned, and one over another.
    """
    run, log = make_mixed_run(PACK).sealed, RunLog()
    started = parsed(run.events.split(b"\n", 1)[0])["payload"]
    with log.write() as rows:
        commit(rows, "run_before", "did:x:me", "sha256:1", PACK, 1_000)
        before = note(rows, witness=False)
        index = commit(rows, run.run_id, "did:x:me", inputs_hash(started), PACK, 2_000, sources=sources_of(started))
        run = replace(run, manifest=canonical(parsed(run.manifest) | {"commit_index": index}))
        commit(rows, "run_after", "did:x:other", "sha256:2", PACK, 3_000)
        commit(rows, "run_worse", "did:x:me", "sha256:3", PACK, 3_500)
        conclude(rows, run.run_id, run.manifest_hash, PACK, 4_000)
        abandon(rows, "run_worse", "failed", 4_500)
        commit(rows, "run_later", "did:x:me", "sha256:4", PACK, 5_000)
        commit(rows, "run_elsewhere", "did:x:me", "sha256:5", OTHER_PACK, 6_000)
    return run, log, before


def bundled(place: Path, committed_pack: str = PACK) -> bytes:
    """A bundle of the mixed run, whose log in a file an audit finds sound if the run is committed to over its own pack.

    Its owner has one commitment over the same pack before, one after it that was abandoned, and one over another pack.
    """
    run = make_mixed_run(PACK).sealed
    started = parsed(run.events.split(b"\n", 1)[0])["payload"]
    with open_log(place, create=True) as log:
        with log.write() as rows:
            commit(rows, run_of("before"), "did:x:me", hashed("before"), PACK, 1_000)
            before = note(rows, witness=False)
            sources = sources_of(started)
            index = commit(rows, run.run_id, "did:x:me", inputs_hash(started), committed_pack, 2_000, sources=sources)
            run = replace(run, manifest=canonical(parsed(run.manifest) | {"commit_index": index}))
            commit(rows, run_of("worse"), "did:x:me", hashed("worse"), PACK, 3_000)
            conclude(rows, run.run_id, run.manifest_hash, committed_pack, 4_000)
            abandon(rows, run_of("worse"), "failed", 5_000)
            commit(rows, run_of("elsewhere"), "did:x:me", hashed("elsewhere"), OTHER_PACK, 6_000)
            commit(rows, run_of("another"), "did:x:other", hashed("another"), PACK, 5_500)
        return bundle(run, receipts(), log=log_part(run, log, before))


def sources_of(started: Any) -> list[str | None]:
    return [agent["source_sha256"] for agent in started["agents"]]


def note(rows: Any, *, witness: bool = True) -> str:
    text = Checkpoint("log.example", rows.size(), tree_root(rows, rows.size())).text
    return write_note(text, LOG_KEY.line(text), *([WITNESS_KEY.line(text, 1_700_000_000)] if witness else []))


def log_part(run: SealedRun, log: LogStore, before: str) -> dict[str, Any]:
    with log.read() as rows:
        newest = note(rows)
    return log_proofs(log, run.run_id, newest, before)


def receipts() -> bytes:
    return receipt_lines(make_mixed_run(PACK).receipts)


def anchor_part(memo: str, key: Keypair = ANCHOR_KEY) -> dict[str, str]:
    attempt = signed_memo(key, memo.encode(), Hash.default(), 0, 1000)
    return {
        "schema": "clvlab-bundle-anchor/1",
        "cluster": "localnet",
        "signature": attempt.signature,
        "transaction": attempt.transaction,
    }


def make_bundle(**changed: Any) -> bytes:
    """A bundle of the mixed run; ``anchor`` and ``log`` may be replaced."""
    run, log, before = logged()
    parts = {"anchor": anchor_part(run.manifest_hash), "log": log_part(run, log, before)} | changed
    return bundle(run, receipts(), **parts)


def trust(**changed: Any) -> dict[str, Any]:
    """Whom a caller may trust."""
    return {
        "anchor_signers": {"localnet": [str(ANCHOR_KEY.pubkey())]},
        "logs": [str(LOG_KEY.verifier)],
        "witnesses": [str(WITNESS_KEY.verifier)],
        "witness_quorum": 1,
        "checkpoint": logged()[2],
    } | changed
