"""Standing of a run in a log: what the log's tree proves of it, and what is only stated."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import cast

from clvlab.api.runs import LogStanding
from clvlab.log.log import Claim, LogRows, claim, entry_of


@dataclass(frozen=True, slots=True)
class Standing:
    """The commitment to a run in a log of ``tree_size`` entries, and the unsigned ``claim`` about the owner's others."""

    owner: str
    content_hash: str | None
    commit_index: int
    tree_size: int
    claim: Claim | None

    def facts(self) -> LogStanding:
        return cast("LogStanding", asdict(self))

    def text(self, origin: str, witnesses: int) -> str:
        """Return what a bundle proves under a checkpoint of ``origin`` signed by ``witnesses``, and what it only states."""
        # The holder of a bundle can write other counts into it, so they are called unsigned. Names are quoted and in ASCII, as
        # their
        # their maker could write sentences like these.
        proved = (
            f"proved: entry {self.commit_index} of {self.tree_size} that {origin!a} signed commits to this run, ahead of the "
            f"entry of its result; trusted witnesses that signed: {witnesses}; by that log's word its owner is {self.owner!a}"
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
