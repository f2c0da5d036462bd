"""Principals: who a verified token speaks for, and what is theirs."""

from __future__ import annotations

from dataclasses import dataclass

from clvlab.answers.me import Belongings
from clvlab.runlog.entries import EntryKind
from clvlab.store import principals
from clvlab.store.database import Database


@dataclass(frozen=True)
class Principals:
    """Use cases of principals."""

    database: Database

    def belongings(self, principal: str) -> Belongings:
        """Count what a principal has in the store, and its runs as the log counts them."""
        with self.database.read() as connection:
            counted, tally = principals.counts(connection, principal), principals.tally(connection, principal)
        return {
            "instances": counted["instances"],
            "competitions": counted["competitions"],
            "runs": {
                "committed": tally.get(EntryKind.COMMIT, 0),
                "sealed": tally.get(EntryKind.RESULT, 0),
                "abandoned": tally.get(EntryKind.ABANDONED, 0),
            },
        }
