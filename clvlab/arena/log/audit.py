"""The audit of a run log: every entry is read and compared with the statements of the log's keeper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clvlab.arena.log.sources import EntryMissingError, Head, LogSource, SourceLimits, entries_of, opened_source
from clvlab.base.files import lock, replace_file
from clvlab.base.progress import each
from clvlab.errors import BundleError, EvidenceError, LogError
from clvlab.log.audit import Auditor, Broken, Falls, PackCounts, Recount
from clvlab.log.bundles import Trust, commit_of, log_part
from clvlab.log.log import Claim
from clvlab.log.note import Checkpoint, Keys, checkpoint, decode, open_note, trusted_checkpoint
from clvlab.log.plans import PlanHistory
from clvlab.log.restarts import RestartRecord
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.checks import Verdict
from clvlab.proof.verify import verify

# Statements about a run log: those of its keeper, of earlier checkpoints and of bundles.


class Statements:
    """Statements about a log, passed to the auditor and kept for the result.

    ``lost`` names statements about entries that a restart declares lost; they can't be compared.
    """

    def __init__(self, auditor: Auditor, keys: Keys, origin: str | None) -> None:
        self.auditor, self.origin, self.newest = auditor, origin, ""
        self.witnesses: tuple[str, ...] = ()
        self.sizes, self.extended = [0], 0
        self.lost: list[str] = []
        self._keys, self._largest = keys, -1
        self._restarts: list[RestartRecord] = []

    def keeper(self, head: Head) -> None:
        self._note_restarts(head)
        self.sizes.append(head.size)
        if head.root is None:
            self.auditor.fail(head.fault)
        else:
            self.auditor.expect_root(head.size, head.root, "the state of the log")
        if head.owners is not None:
            self.auditor.expect_owners(head.size, head.owners, "the log's keeper")
        if head.note is None:
            return
        current = self.signed_checkpoint("the log's checkpoint", head.note, current=True)
        if current is not None:
            self.sizes.append(current.size)
            if current.size < head.size:
                self.auditor.fail(f"the log's checkpoint has {current.size} entries, its state had {head.size} before")

    def _note_restarts(self, head: Head) -> None:
        """Record the restarts that the keeper states; the entries must confirm them."""
        for index, entry in head.restarts:
            self.auditor.expect_entry(index, entry, "the keeper's list of restarts")
            try:
                found = RestartRecord.read(index, entry)
            except LogError as error:
                self.auditor.fail(str(error), index)
                continue
            self._restarts.append(found)
            if found.before.origin in {key.name for key in self._keys.logs}:
                try:
                    trusted_checkpoint(found.note, self._keys)
                except LogError as error:
                    self.auditor.fail(
                        f"the checkpoint that entry {index} restarts the log after does not count: {error}", index
                    )
        if self._restarts and self.origin is None:
            self.origin = self._restarts[-1].key.name

    def shared_size(self, found: Checkpoint) -> int:
        """Return the number of first entries that a checkpoint and this log must share, given its restarts."""
        ended = [number for number, one in enumerate(self._restarts) if one.before.origin == found.origin]
        return min([found.size, *(one.kept for number in ended[:1] for one in self._restarts[number:])])

    def judge_restarts(self) -> None:
        """Require the entries to have exactly the restarts that the keeper stated; called at the end."""
        stated = {one.index for one in self._restarts}
        for one in self.auditor.restarts:
            if one.index not in stated:
                self.auditor.fail(f"entry {one.index} restarts the log, which its keeper does not say", one.index)

    def signed_checkpoint(self, whose: str, note: str, *, current: bool = False) -> Checkpoint | None:
        """Return the checkpoint of a note; its signature is judged if there are keys for it."""
        try:
            if self._keys.logs:
                found, witnesses = trusted_checkpoint(note, self._keys)
            else:
                found, witnesses = checkpoint(open_note(note)[0]), ()
        except LogError as error:
            self.auditor.fail(f"{whose} does not count: {error}")
            return None
        current_key = self._restarts[-1].key if self._restarts else None
        if current_key and found.origin == current_key.name and not open_note(note, current_key)[1]:
            self.auditor.fail(f"{whose} is not signed by the key that the log was restarted with")
            return None
        if found.size > self._largest and self.shared_size(found) == found.size:
            self._largest, self.witnesses, self.newest = found.size, witnesses, note
        self.expect(whose, found, current=current)
        return found

    def expect(self, whose: str, found: Checkpoint, *, current: bool = False) -> None:
        ended = next((one for one in self._restarts if one.before.origin == found.origin), None)
        self.origin = self.origin or found.origin or None
        if ended is not None and self.shared_size(found) < found.size:
            last = ended.before
            if found.size > last.size or (found.size == last.size and found.root != last.root):
                self.auditor.fail(f"{whose} is not the last checkpoint of {last.origin[:120]!a} that entry {ended.index} names")
            else:
                named = f"{found.size} entries of {found.origin[:120]!a}"
                self.lost.append(f"{whose} has {named}, of which {self.shared_size(found)} were kept")
            return
        if found.origin and found.origin != self.origin and ended is None:
            self.auditor.fail(f"{whose} is of the log {found.origin[:120]!a}, not of {(self.origin or '')[:120]!a}")
        self.extended += not current
        self.auditor.expect_root(found.size, found.root, whose)

    def bundle(self, name: str, content: bytes) -> None:
        """Verify a bundle's run, require its entries in the log, and recount its statements."""
        parts = read_bundle(content)
        if "log.json" not in parts:
            raise BundleError(f"{name} holds no proofs of a log")
        part = log_part(parts)
        found = self.signed_checkpoint(f"the checkpoint in {name}", part["checkpoint"])
        shared_size = None if found is None else self.shared_size(found)
        for which in ("commit", "outcome"):
            if found is not None and shared_size is not None and shared_size <= part[which]["index"] < found.size:
                continue  # a restart declared it lost, as for the checkpoint above
            self.auditor.expect_entry(part[which]["index"], part[which]["entry"].encode(), f"the {which} in {name}")
        verification = verify(run_of(parts), parts.get("receipts.jsonl", b""))
        wrong = next((check.detail for check in verification.checks.values() if check.verdict == Verdict.FAIL), None)
        if wrong is not None:
            self.auditor.fail(f"the run in {name} does not verify: {wrong}")
        try:
            commit = commit_of(parts, part, verification)
        except (BundleError, EvidenceError) as error:
            self.auditor.fail(f"the entries in {name} do not fit its run: {error}", part["commit"]["index"])
            return
        if found is not None and shared_size == found.size:
            stated = Claim(**part["claim"]) if "claim" in part else None
            self.auditor.recount(commit, part["commit"]["index"], found.size, stated, name)

    def judge_quorum(self, trust: Trust) -> None:
        if self._keys.logs and not self.newest:
            self.auditor.fail("no checkpoint of the log is signed by a key that you trust")
        fault = trust.quorum_fault(self.witnesses)
        if fault is not None:
            self.auditor.fail(fault)


_STATE = "clvlab-audit/1"


@dataclass(frozen=True, slots=True)
class LogAudit:
    """The result of an audit."""

    # place, origin: place of the log, and its name; ``None`` without a checkpoint
    place: str
    origin: str | None
    # size, root_hash: number of entries read, and their root
    size: int
    root_hash: str
    signature_judged: bool  # whether the caller's keys judged the log's signature; a bad one is in ``broken``
    witnesses: tuple[str, ...]  # names of trusted witnesses that signed the newest checkpoint
    # checkpoints: number of earlier checkpoints that the log extends
    # bundles: number of bundles whose runs, entries and counts were compared
    checkpoints: int
    bundles: int
    # restarts: restarts of the log under another name; lost: statements that can't be compared since then
    restarts: tuple[RestartRecord, ...]
    lost: tuple[str, ...]
    # Runs by owner and pack, counted from the entries. The operator alone vouches for owners' names, and for the packs of runs
    # without a compared bundle.
    counts: tuple[PackCounts, ...]
    recounts: tuple[Recount, ...]  # counts for the runs of the bundles
    falls: Falls  # when the times of entries fall; only the operator vouches for the times
    plans: tuple[PlanHistory, ...]  # planned searches with the openings of their hold-outs
    # broken: the first broken rules; broken_count: the number of all
    broken: tuple[Broken, ...]
    broken_count: int

    @property
    def sound(self) -> bool:
        return not self.broken_count

    def facts(self) -> dict[str, Any]:
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
    limits: SourceLimits | None = None,
) -> LogAudit:
    """Read a whole log and judge it by its entries alone.

    Steps: 1. collect the statements of its keeper, earlier checkpoints and bundles; 2. read every entry, check the rules of
    ``clvlab.log.log``, and compare each statement when its size is reached; 3. store the state. Without ``trust`` no signature
    is judged. ``checkpoints`` and ``bundles`` have names as keys. ``state`` is written only after a successful audit.

    Raises
    ------
    LogError, BundleError
        There is no log to audit, it can't be read in full, or a checkpoint or bundle can't be read.
    """
    trust, limits = trust or Trust(), limits or SourceLimits()
    keys = Keys.read(trust.logs, trust.witnesses)
    before = state.read_bytes() if state is not None and state.exists() else None
    with opened_source(place, limits) as source:
        head = source.head()
        claims = Statements(Auditor(), keys, head.origin)
        claims.keeper(head)
        for name, note in (checkpoints or {}).items():
            claims.signed_checkpoint(name, note)
        if trust.checkpoint is not None:
            claims.expect(
                "the checkpoint that you trust", checkpoint(trust.checkpoint.partition("\n\n")[0].rstrip("\n") + "\n")
            )
        if before is not None:
            claims.expect("the state of the last audit", _last_checkpoint(before, str(state)))
        for name, content in each("checking bundles", (bundles or {}).items(), len(bundles or {})):
            claims.bundle(name, content)
        claims.judge_quorum(trust)
        _read(source, claims.auditor, max(claims.sizes), limits)
    found = claims.auditor
    claims.judge_restarts()
    found.finish()
    if not found.size and not found.broken_count:
        raise LogError(f"nothing to audit: the log at {place!r} has no entries")
    done = LogAudit(
        place=place, origin=claims.origin, size=found.size, root_hash="sha256:" + found.root().hex(),
        signature_judged=bool(keys.logs), witnesses=claims.witnesses, checkpoints=claims.extended, bundles=len(bundles or {}),
        restarts=tuple(found.restarts), lost=tuple(claims.lost), counts=found.counts(), recounts=tuple(found.recounts),
        falls=found.falls, plans=found.plans(),
        broken=tuple(found.broken), broken_count=found.broken_count,
    )  # fmt: skip
    if state is not None and done.sound:
        _remember(state, before, Checkpoint(claims.origin or "", found.size, found.root()), claims.newest)
    return done


def _read(source: LogSource, auditor: Auditor, size: int, limits: SourceLimits) -> None:
    """Pass every entry to the auditor, up to a size; stop where the log does not return an entry that it should have."""
    try:
        for entry in each("reading entries", entries_of(source, size, limits), size):
            auditor.add(entry)
    except EntryMissingError as error:
        auditor.fail(str(error), error.index)
    for index, fault in source.faults:
        auditor.fail(fault, index)


def _last_checkpoint(content: bytes, name: str) -> Checkpoint:
    try:
        kept = parsed(content)
        if kept["schema"] != _STATE or type(kept["size"]) is not int or not isinstance(kept["origin"], str):
            raise KeyError("schema")
        return Checkpoint(kept["origin"], kept["size"], decode(kept["root"]))
    except (EvidenceError, LogError, KeyError, TypeError) as error:
        raise LogError(f"the state of an audit in {name!r} can't be read: {error!r}") from error


def _remember(state: Path, before: bytes | None, now: Checkpoint, note: str) -> None:
    """Write the state, unless another audit has written it in the meantime and may have seen more."""
    root = now.text.split("\n")[2]
    content = canonical({"schema": _STATE, "origin": now.origin, "size": now.size, "root": root, "note": note or None})
    place = state.resolve()
    with lock(place.parent):
        if (place.read_bytes() if place.exists() else None) != before:
            raise LogError(f"another audit wrote {str(state)!r} meanwhile: audit again")
        replace_file(place, content)
