"""For how long runs that were asked for without a token stay in the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clvlab.store import usage
from clvlab.store.database import Database
from clvlab.store.labels import ANYBODY

_AT_ONCE = 50
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Retention:
    """Removes the bytes of old runs that were asked for without a token.

    The log keeps its entries, the leaderboard its sums, the run its row with its hashes. Asked for again it is replayed under
    its commitment, and sealed if its bytes are those that were removed.
    """

    database: Database
    clock: Callable[[], int]

    def apply(self, days: float) -> tuple[int, int]:
        """Remove what was sealed more than so many days ago; returns the number of runs, and of bytes.

        Each run is removed in a transaction of its own: what is killed goes on when it is called again.
        """
        before, removed, freed = self.clock() - round(days * _DAY_MS), 0, 0
        while run_ids := self._old(before):
            for run_id in run_ids:
                with self.database.write() as connection:
                    freed += usage.remove(connection, run_id)
                removed += 1
        return removed, freed

    def _old(self, before_ts_ms: int) -> list[str]:
        with self.database.read() as connection:
            return usage.sealed_before(connection, ANYBODY, "backtest", before_ts_ms, _AT_ONCE)
