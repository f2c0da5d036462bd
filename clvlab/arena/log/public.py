"""The public part of a store's run log."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from clvlab.api.answer import pick
from clvlab.api.leaderboard import ConsistencyResponse, LogEntriesResponse, LogResponse, WitnessState
from clvlab.arena.log.operations import count_runs, log_proofs, signed_checkpoint
from clvlab.errors import LogError, PageError, UnknownTileError, UnsignedLogError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.log.note import Signer
from clvlab.log.publication import Publication, signed
from clvlab.log.tiles import Tile, restarts_json, tile_bytes
from clvlab.log.tree import consistency, tree_root
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog, entries

if TYPE_CHECKING:  # it asks over HTTP, which a store alone does not
    from clvlab.arena.log.witnesses import Cosigners

logger = logging.getLogger("clvlab.log")
MAX_ENTRIES = 1000


@dataclass(frozen=True)
class PublicLog:
    """The run log of a store; unsigned without ``signer``. ``published`` stores its newest checkpoint.

    ``cosigners`` are the witnesses that are asked to cosign its checkpoints.
    """

    database: Database
    signer: Signer | None = None
    published: Publication = field(default_factory=Publication)
    cosigners: Cosigners | None = None

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
            "witnesses": [pick(WitnessState, asdict(reply)) for reply in self.cosigners.replies] if self.cosigners else [],
        }

    def checkpoint(self) -> str:
        return signed_checkpoint(RunLog(self.database), self._key(), self.published)

    def tiles_checkpoint(self) -> str:
        """Return the newest checkpoint that the witnesses were asked to cosign; without witnesses a new one."""
        return self.published.cosigned or self.checkpoint()

    def tile(self, path: str) -> bytes:
        """Return the content of a path below a host of tiles, as ``tile/0/000``; it never changes.

        Raises
        ------
        UnknownTileError
            There is no such path, or the log does not have so many entries yet.
        """
        tile = Tile.parse(path)
        # The checkpoint is published first, so that after a restore no cache holds what the log could contradict.
        with self.published.state(RunLog(self.database), partial(signed, signer=self._key())) as (rows, _):
            if tile is None or tile.size > rows.size():
                raise UnknownTileError(f"this log has no tile {path[:120]!a}")
            return tile_bytes(rows, tile)

    def restarts(self) -> bytes:
        """Return the restarts of the log as ``restarts.json`` of its tiles."""
        with RunLog(self.database).read() as rows:
            return restarts_json(rows, rows.size()) or b"[]"

    def _key(self) -> Signer:
        if self.signer is None:
            raise UnsignedLogError("this log has no key to sign checkpoints with")
        return self.signer

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
        """Prove a sealed run's entries under a new checkpoint; ``None`` without a key.

        A cosigned checkpoint is taken instead if it covers the run, because a reader who needs witnesses has no use for others.
        """
        if self.signer is None:
            return None
        log = RunLog(self.database)
        if self.published.cosigned is not None:
            try:
                return log_proofs(log, run_id, self.published.cosigned)
            except LogError as error:
                logger.info("the cosigned checkpoint does not prove run %s: %s", run_id, error)
        return log_proofs(log, run_id, self.signer, published=self.published)

    def require_whole(self) -> None:
        """Raise ``LogBehindError`` unless the log has all its published entries."""
        self.published.require(RunLog(self.database))
