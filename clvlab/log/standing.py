"""Where a run stands in a log: what the log's tree proves of it, and what is only stated beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import cast

from clvlab.api.runs import LogStanding
from clvlab.log.log import Claim, LogRows, claim, entry_of


@dataclass(frozen=True, slots=True)
class Standing:
    """The commitment to a run.

    Attributes
    ----------
    owner, content_hash, commit_index
        What the commitment says, and which entry it is; ``content_hash`` is null where it names no pack.
    tree_size
        How many entries the log had.
    claim
        The owner's other commitments over this pack, as whoever keeps the log counts them, or as a bundle states them, which
        nobody signed; null where nothing is stated.
    """

    owner: str
    content_hash: str | None
    commit_index: int
    tree_size: int
    claim: Claim | None

    def facts(self) -> LogStanding:
        """Return all of it as it is published."""
        return cast("LogStanding", asdict(self))

    def text(self, origin: str, witnesses: int) -> str:
        """Say what a bundle proves under a checkpoint of ``origin`` that so many trusted witnesses signed, and what it states.

        Whoever holds the bundle can write other counts into it, so they are told as its own; no owner signs, so an owner is the
        log's word.
        Names stand quoted and in ASCII: their maker could write sentences like these.
        """
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
    """Say where a commitment stands in a log as it is now."""
    entry, size = entry_of(rows, index), rows.size()
    return Standing(entry["owner"], entry.get("content_hash"), index, size, claim(rows, index, size))
