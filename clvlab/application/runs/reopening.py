"""Reading a stored run back: from its sealed bytes, over the pack that it was made of."""

from __future__ import annotations

import orjson

from clvlab.application.runs.perform import PerformedRun, matched
from clvlab.application.sharding import sharded
from clvlab.engine.run import RunResult
from clvlab.errors import PackTamperedError
from clvlab.law.clv import scores
from clvlab.law.metrics import outcomes
from clvlab.law.positions import positions
from clvlab.packs.reader import Pack
from clvlab.proof.evidence import read_evidence
from clvlab.proof.lines import read_receipts
from clvlab.proof.seal import SealedRun


def content_hash_of(sealed: SealedRun) -> str | None:
    """Return the content hash of the pack of a run whose bytes can be read: that of its binding, or of what it captured."""
    lines = sealed.events.partition(b"\n")[0], sealed.events.rstrip(b"\n").rpartition(b"\n")[2]
    started, ended = (orjson.loads(line)["payload"] for line in lines)
    found: str | None = ended.get("content_hash") or started["binding"]["content_hash"]
    return found


def reopen(pack: Pack, sealed: SealedRun, receipts: bytes = b"") -> PerformedRun:
    """Read a stored run back from its evidence; ``.verification`` says whether that is what was sealed.

    Raises
    ------
    EvidenceError
        The evidence can't be read.
    PackTamperedError
        The run was made over another pack than this one, or captured another.
    """
    evidence = read_evidence(sealed.events)
    bound = evidence.started["binding"]
    if evidence.content_hash != pack.content_hash:
        raise PackTamperedError(f"the pack of {sealed.run_id}", str(evidence.content_hash), pack.content_hash)
    window = evidence.window
    rows = scores(positions(evidence.decisions, evidence.closes), window, evidence.max_close_age_s)
    board = outcomes(rows, tuple(agent["agent_id"] for agent in evidence.started["agents"]))
    result = RunResult(sealed, evidence.decisions, evidence.closes, rows, board, read_receipts(receipts), evidence.errors)
    shards = sharded(pack, bound["fixture_ids"], ())
    return PerformedRun(pack, window, result, sum(matched(pack.tape(shard), window) for shard in shards))
