"""The audit of a run log: every entry read again, and all that its keeper says of it compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clvlab.application.log.said import Said
from clvlab.application.log.sources import EntryNotGivenError, Limits, LogSource, entries_of, opened_source
from clvlab.errors import EvidenceError, LogError
from clvlab.files import lock, replace_file
from clvlab.proof.canonical import canonical, parsed
from clvlab.runlog.audit import Auditor, Broken, Falls, PackCounts, Recount
from clvlab.runlog.bundled import Trust
from clvlab.runlog.note import Checkpoint, checkpoint, decode
from clvlab.runlog.plan_audit import PlanHistory
from clvlab.runlog.restarts import Restarted
from clvlab.runlog.signers import Keys

_STATE = "clvlab-audit/1"


@dataclass(frozen=True, slots=True)
class LogAudit:
    """What an audit found.

    Attributes
    ----------
    place, origin
        Where the log was read, and its name; null of one without a checkpoint.
    size, root_hash
        How many entries were read, and their root.
    signature_judged
        Whether the log's signature was judged by keys of the caller; one that does not hold is among ``broken``.
    witnesses
        Names of trusted witnesses that signed the newest checkpoint.
    checkpoints, bundles
        How many checkpoints seen before it extends, and bundles whose runs, entries and counts it was compared with.
    restarts, lost
        Where the log was restored and goes on under another name, and what of the above can't be compared with it since.
    counts
        Runs by owner and pack, counted from the entries. Owners' names are the operator's word, and so are the packs of runs
        whose bundle was not compared.
    recounts
        Counts beside the runs of the bundles.
    falls
        Where the times of entries fall, which are the operator's word too.
    plans
        Searches that were planned, and what opened their hold-outs.
    broken, broken_count
        The first rules that do not hold, and how many do not.
    """

    place: str
    origin: str | None
    size: int
    root_hash: str
    signature_judged: bool
    witnesses: tuple[str, ...]
    checkpoints: int
    bundles: int
    restarts: tuple[Restarted, ...]
    lost: tuple[str, ...]
    counts: tuple[PackCounts, ...]
    recounts: tuple[Recount, ...]
    falls: Falls
    plans: tuple[PlanHistory, ...]
    broken: tuple[Broken, ...]
    broken_count: int

    @property
    def sound(self) -> bool:
        """Whether every rule holds."""
        return not self.broken_count

    def facts(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        names = ("place", "origin", "size", "root_hash", "signature_judged", "witnesses", "checkpoints", "bundles")
        counted = [
            {"owner": one.owner, "content_hash": one.content_hash}
            | {name: getattr(one.runs, name) for name in ("committed", "sealed", "abandoned", "open")}
            | {"elsewhere": one.elsewhere}
            for one in self.counts
        ]
        broken = [{"index": rule.index, "rule": rule.rule} for rule in self.broken]
        return (
            {"sound": self.sound}
            | {name: getattr(self, name) for name in names}
            | {
                "restarts": [
                    {
                        "index": one.index,
                        "before": {"origin": one.before.origin, "size": one.before.size},
                        "kept": one.kept,
                        "log": str(one.key),
                    }
                    for one in self.restarts
                ],
                "lost": list(self.lost),
                "counts": counted,
                "recounts": [asdict(one) for one in self.recounts],
                "times_that_fall": asdict(self.falls),
                "plans": [
                    {
                        "plan_id": one.plan_id,
                        "owner": one.owner,
                        "content_hash": one.content_hash,
                        "index": one.index,
                        "opened": [{"index": index, "trial": trial} for index, trial in one.openings.items()],
                    }
                    for one in self.plans
                ],
                "broken": broken,
                "broken_count": self.broken_count,
            }
        )


def audit(
    place: str,
    *,
    trust: Trust | None = None,
    checkpoints: Mapping[str, str] | None = None,
    bundles: Mapping[str, bytes] | None = None,
    state: Path | None = None,
    limits: Limits | None = None,
) -> LogAudit:
    """Read a log whole and judge it by its entries alone.

    Steps: 1. gather what was said of the log: by its keeper, by checkpoints seen before, by bundles; 2. read every entry,
    keeping the rules of ``clvlab.runlog.log``, and compare what was said as its size is reached; 3. remember the state.

    Parameters
    ----------
    place
        File of SQLite, URL of a database, or http(s) URL of a service.
    trust
        Keys by which signatures are judged, and a checkpoint seen; without it no signature is judged.
    checkpoints, bundles
        Checkpoints seen before, and bundles whose runs must hold, whose entries must stand in the log and be about them, and
        whose counts must be true; by name.
    state
        File that remembers the log between audits: written after a sound one only.
    limits
        When to give up.

    Raises
    ------
    LogError, BundleError
        There is no log to audit, it can't be read whole, or what it is to be compared with can't be read.
    """
    trust, limits = trust or Trust(), limits or Limits()
    keys = Keys.read(trust.logs, trust.witnesses)
    before = state.read_bytes() if state is not None and state.exists() else None
    with opened_source(place, limits) as source:
        head = source.head()
        said = Said(Auditor(), keys, head.origin)
        said.keeper(head)
        for name, note in (checkpoints or {}).items():
            said.signed(name, note)
        if trust.checkpoint is not None:
            said.seen("the checkpoint that you trust", checkpoint(trust.checkpoint.partition("\n\n")[0].rstrip("\n") + "\n"))
        if before is not None:
            said.seen("the state of the last audit", _remembered(before, str(state)))
        for name, content in (bundles or {}).items():
            said.bundle(name, content)
        said.judge_quorum(trust)
        _read(source, said.auditor, max(said.sizes), limits)
    found = said.auditor
    said.judge_restarts()
    found.finish()
    if not found.size and not found.broken_count:
        raise LogError(f"nothing to audit: the log at {place!r} has no entries")
    done = LogAudit(
        place=place, origin=said.origin, size=found.size, root_hash="sha256:" + found.root().hex(),
        signature_judged=bool(keys.logs), witnesses=said.witnesses, checkpoints=said.extended, bundles=len(bundles or {}),
        restarts=tuple(found.restarts), lost=tuple(said.lost), counts=found.counts(), recounts=tuple(found.recounts),
        falls=found.falls, plans=found.plans(),
        broken=tuple(found.broken), broken_count=found.broken_count,
    )  # fmt: skip
    if state is not None and done.sound:
        _remember(state, before, Checkpoint(said.origin or "", found.size, found.root()), said.newest)
    return done


def _read(source: LogSource, auditor: Auditor, size: int, limits: Limits) -> None:
    """Hand every entry to the auditor, up to a size; stop where the log does not give what it should."""
    try:
        for entry in entries_of(source, size, limits):
            auditor.add(entry)
    except EntryNotGivenError as error:
        auditor.fail(str(error), error.index)


def _remembered(content: bytes, name: str) -> Checkpoint:
    try:
        kept = parsed(content)
        if kept["schema"] != _STATE or type(kept["size"]) is not int or not isinstance(kept["origin"], str):
            raise KeyError("schema")
        return Checkpoint(kept["origin"], kept["size"], decode(kept["root"]))
    except (EvidenceError, LogError, KeyError, TypeError) as error:
        raise LogError(f"the state of an audit in {name!r} can't be read: {error!r}") from error


def _remember(state: Path, before: bytes | None, now: Checkpoint, note: str) -> None:
    """Write the state, unless another audit did meanwhile: it might have seen more."""
    root = now.text.split("\n")[2]
    content = canonical({"schema": _STATE, "origin": now.origin, "size": now.size, "root": root, "note": note or None})
    place = state.resolve()
    with lock(place.parent):
        if (place.read_bytes() if place.exists() else None) != before:
            raise LogError(f"another audit wrote {str(state)!r} meanwhile: audit again")
        replace_file(place, content)
