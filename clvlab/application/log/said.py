"""What was said of a run log: by its keeper, by checkpoints that were seen before, and by bundles."""

from __future__ import annotations

from clvlab.application.log.sources import Head
from clvlab.errors import BundleError, EvidenceError, LogError
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.checks import Verdict
from clvlab.proof.verify import verify
from clvlab.runlog.audit import Auditor
from clvlab.runlog.bundled import Trust, commit_of, log_part
from clvlab.runlog.log import Claim
from clvlab.runlog.note import Checkpoint, checkpoint, open_note
from clvlab.runlog.restarts import Restarted
from clvlab.runlog.signers import Keys, trusted_checkpoint


class Said:
    """What was said of a log: handed to the auditor, and kept as far as the result shows it.

    ``lost`` names what a restart confesses to have lost, which therefore nothing can be compared with.
    """

    def __init__(self, auditor: Auditor, keys: Keys, origin: str | None) -> None:
        self.auditor, self.origin, self.newest = auditor, origin, ""
        self.witnesses: tuple[str, ...] = ()
        self.sizes, self.extended = [0], 0
        self.lost: list[str] = []
        self._keys, self._largest = keys, -1
        self._restarts: list[Restarted] = []

    def keeper(self, head: Head) -> None:
        self._restarted(head)
        self.sizes.append(head.size)
        if head.root is None:
            self.auditor.fail(head.fault)
        else:
            self.auditor.expect_root(head.size, head.root, "the state of the log")
        self.auditor.expect_owners(head.size, head.owners, "the log's keeper")
        if head.note is None:
            return
        current = self.signed("the log's checkpoint", head.note, current=True)
        if current is not None:
            self.sizes.append(current.size)
            if current.size < head.size:
                self.auditor.fail(f"the log's checkpoint has {current.size} entries, its state had {head.size} before")

    def _restarted(self, head: Head) -> None:
        """Take the keeper's word for where the log was restarted; the entries must then say the same."""
        for index, entry in head.restarts:
            self.auditor.expect_entry(index, entry, "the keeper's list of restarts")
            try:
                found = Restarted.read(index, entry)
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

    def kept(self, found: Checkpoint) -> int:
        """Count the first entries that a checkpoint and this log must have in common, as its restarts say."""
        ended = [number for number, one in enumerate(self._restarts) if one.before.origin == found.origin]
        return min([found.size, *(one.kept for number in ended[:1] for one in self._restarts[number:])])

    def judge_restarts(self) -> None:
        """Require the entries to hold the restarts that the keeper told of, and no other; to be asked at the end."""
        told = {one.index for one in self._restarts}
        for one in self.auditor.restarts:
            if one.index not in told:
                self.auditor.fail(f"entry {one.index} restarts the log, which its keeper does not say", one.index)

    def signed(self, whose: str, note: str, *, current: bool = False) -> Checkpoint | None:
        """Take a checkpoint that is a note; its signature is judged if there are keys to judge it by."""
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
        if found.size > self._largest and self.kept(found) == found.size:
            self._largest, self.witnesses, self.newest = found.size, witnesses, note
        self.seen(whose, found, current=current)
        return found

    def seen(self, whose: str, found: Checkpoint, *, current: bool = False) -> None:
        ended = next((one for one in self._restarts if one.before.origin == found.origin), None)
        self.origin = self.origin or found.origin or None
        if ended is not None and self.kept(found) < found.size:
            last = ended.before
            if found.size > last.size or (found.size == last.size and found.root != last.root):
                self.auditor.fail(
                    f"{whose} is not what entry {ended.index} names as the last checkpoint of {last.origin[:120]!a}"
                )
            else:
                named = f"{found.size} entries of {found.origin[:120]!a}"
                self.lost.append(f"{whose} has {named}, of which {self.kept(found)} were kept")
            return
        if found.origin and found.origin != self.origin and ended is None:
            self.auditor.fail(f"{whose} is of the log {found.origin[:120]!a}, not of {(self.origin or '')[:120]!a}")
        self.extended += not current
        self.auditor.expect_root(found.size, found.root, whose)

    def bundle(self, name: str, content: bytes) -> None:
        """Require a bundle's run to hold, its entries to be about it and to stand in the log, and count again beside it."""
        parts = read_bundle(content)
        if "log.json" not in parts:
            raise BundleError(f"{name} holds no proofs of a log")
        part = log_part(parts)
        found = self.signed(f"the checkpoint in {name}", part["checkpoint"])
        kept = None if found is None else self.kept(found)
        for which in ("commit", "outcome"):
            if found is not None and kept is not None and kept <= part[which]["index"] < found.size:
                continue  # it was lost, as the checkpoint above is said to be
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
        if found is not None and kept == found.size:
            stated = Claim(**part["claim"]) if "claim" in part else None
            self.auditor.recount(commit, part["commit"]["index"], found.size, stated, name)

    def judge_quorum(self, trust: Trust) -> None:
        if self._keys.logs and not self.newest:
            self.auditor.fail("no checkpoint of the log is signed by a key that you trust")
        if len(self.witnesses) < trust.witness_quorum:
            signed = f"{len(self.witnesses)} trusted witnesses signed the newest checkpoint"
            self.auditor.fail(f"{signed}, {trust.witness_quorum} must")
