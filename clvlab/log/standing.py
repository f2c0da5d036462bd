"""Standing of a run in a log: facts that the log's tree proves, and claims that are only stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

from clvlab.api.runs import LogCommitment, LogStanding
from clvlab.log.log import Claim, LogRows, claim, entry_of


@dataclass(frozen=True, slots=True)
class Standing:
    """The commitment to a run in a log of ``tree_size`` entries, and the unsigned ``claim`` of the owner's other ones."""

    owner: str
    content_hash: str | None
    commit_index: int
    tree_size: int
    claim: Claim | None

    def of_run(self, run_id: str) -> LogStanding:
        return cast("LogStanding", {"run_id": run_id, **asdict(self)})

    def commitment(self) -> LogCommitment:
        return {"owner": self.owner, "content_hash": self.content_hash, "commit_index": self.commit_index}

    def text(self, origin: str, witnesses: Sequence[str]) -> str:
        """Return the proofs and claims of a bundle as text, under a checkpoint of ``origin`` signed by ``witnesses``."""
        # The text calls the counts unsigned, because the holder of a bundle can change them. Names are quoted and in ASCII,
        # because their maker could imitate these sentences.
        names = f" ({', '.join(map(ascii, witnesses))})" if witnesses else ""
        proved = (
            f"proved: entry {self.commit_index} of {self.tree_size} that {origin!a} signed commits to this run, ahead of the "
            f"entry of its result; trusted witnesses that signed: {len(witnesses)}{names}; by that log's word its owner is "
            f"{self.owner!a}"
        )
        if self.claim is None:
            return f"{proved}; the bundle states nothing of this owner's other runs"
        other = f"; {self.claim.unknown_pack} more name no pack" if self.claim.unknown_pack else ""
        return (
            f"{proved}; the bundle states, unsigned: {self.claim.earlier} earlier and {self.claim.later} later commitments "
            f"over this pack by this owner, {self.claim.abandoned} abandoned{other}; 'clvlab log audit --bundle' counts them"
        )


def standing(rows: LogRows, index: int) -> Standing:
    entry, size = entry_of(rows, index), rows.size()
    return Standing(entry["owner"], entry.get("content_hash"), index, size, claim(rows, index, size))


def commitment(rows: LogRows, index: int) -> LogCommitment:
    """Return the commitment of an entry, which never changes."""
    entry = entry_of(rows, index)
    return {"owner": entry["owner"], "content_hash": entry.get("content_hash"), "commit_index": index}
