"""The public part of a store's run log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clvlab.api.leaderboard import ConsistencyResponse, LogEntriesResponse, LogResponse
from clvlab.arena.log.operations import count_runs, log_proofs, signed_checkpoint
from clvlab.errors import PageError, UnsignedLogError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.log.note import Signer
from clvlab.log.publication import Publication
from clvlab.log.tree import consistency, tree_root
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog, entries

MAX_ENTRIES = 1000


@dataclass(frozen=True)
class PublicLog:
    """The run log of a store; unsigned without ``signer``. ``published`` stores its newest checkpoint."""

    database: Database
    signer: Signer | None = None
    published: Publication = field(default_factory=Publication)

    def state(self) -> LogResponse:
        with RunLog(self.database).read() as rows:
            size = rows.size()
            root, owners, history = tree_root(rows, size), count_runs(rows), rows.restarts()
        return {
            "origin": self.signer.name if self.signer else None,
            "public_key": str(self.signer.verifier) if self.signer else None,
            "size": size,
            "root_hash": "sha256:" + root.hex(),
            "owners": owners,
            "restarts": [{"index": index, "entry": entry.decode()} for index, entry in history],
        }

    def checkpoint(self) -> str:
        if self.signer is None:
            raise UnsignedLogError("this log has no key to sign checkpoints with")
        return signed_checkpoint(RunLog(self.database), self.signer, self.published)

    def entries(self, since: int = 0, limit: int = 100) -> LogEntriesResponse:
        """Return entries from an index on; an entry is the text that is hashed."""
        return self.page(since, limit)[0]

    def page(self, since: int = 0, limit: int = 100) -> tuple[LogEntriesResponse, int | None]:
        """Return entries from an index on, and the index of the next page; ``None`` at the end."""
        if not 0 <= since <= SAFE_INTEGER or not 1 <= limit <= MAX_ENTRIES:
            raise PageError(f"since must not be negative, and limit be 1 to {MAX_ENTRIES}, not {since} and {limit}")
        with self.database.read() as connection:
            found = entries(connection, since, limit + 1)
        listed: LogEntriesResponse = {"entries": [{"index": index, "entry": entry.decode()} for index, entry in found[:limit]]}
        return listed, found[limit][0] if len(found) > limit else None

    def consistency(self, first: int, second: int) -> ConsistencyResponse:
        """Return hashes that prove that the log at ``second`` entries extends the log at ``first`` entries.

        Raises
        ------
        PageError
            The log never had one of the sizes.
        """
        with RunLog(self.database).read() as rows:
            size = rows.size()
            if not 0 <= first <= second <= size:
                raise PageError(f"sizes must rise from 0 to {size}, not from {first} to {second}")
            proof = consistency(rows, first, second)
        return {"first": first, "second": second, "proof": [value.hex() for value in proof]}

    def proofs(self, run_id: str) -> dict[str, Any] | None:
        """Prove a sealed run's entries under a new checkpoint; ``None`` without a key."""
        return log_proofs(RunLog(self.database), run_id, self.signer, published=self.published) if self.signer else None

    def require_whole(self) -> None:
        """Raise ``LogBehindError`` unless the log has all its published entries."""
        self.published.require(RunLog(self.database))
