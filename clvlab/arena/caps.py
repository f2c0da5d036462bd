"""How much an owner may have, so that nobody else waits behind all of it, or looks for themselves among it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clvlab.errors import OwnerLimitError, StorageSpentError
from clvlab.store import competitions, jobs, standings, usage
from clvlab.store.database import Connection
from clvlab.store.labels import ANYBODY
from clvlab.store.runlog import StoredLogRows

_SOON_S = 5
_LATER_S = 60
_LIVE = ("live-competition", "live-deploy")


@dataclass(frozen=True, slots=True)
class Caps:
    """What an owner may have at once; of all but names, what is over does not count.

    Attributes
    ----------
    starts, deploys
        Runs that are queued or running, of competitions and of deployed agents.
    drafts
        Competitions that were not started yet.
    live
        Runs that follow a feed, of both kinds: each holds its place until its match is over, which may be days away.
    names
        Agent ids on the leaderboard, those of runs under way included.
    """

    starts: int = 8
    deploys: int = 200
    drafts: int = 1000
    live: int = 4
    names: int = 100

    def require_start(self, connection: Connection, owner: str) -> None:
        """Refuse a start beyond the cap.

        Raises
        ------
        OwnerLimitError
        """
        _require(
            jobs.open_of(connection, owner, ("competition", "live-competition")),
            self.starts,
            "starts that are not over",
            _SOON_S,
        )

    def require_deploy(self, connection: Connection, owner: str) -> None:
        """Refuse a deploy beyond the cap.

        Raises
        ------
        OwnerLimitError
        """
        there = jobs.open_of(connection, owner, ("deploy", "live-deploy"))
        _require(there, self.deploys, "deploys that are not over", _SOON_S)

    def require_live(self, connection: Connection, owner: str) -> None:
        """Refuse a live run beyond the cap.

        Raises
        ------
        OwnerLimitError
        """
        there = jobs.open_of(connection, owner, _LIVE)
        _require(there, self.live, "live runs that are not over", _LATER_S)

    def require_draft(self, connection: Connection, owner: str) -> None:
        """Refuse a draft beyond the cap.

        Raises
        ------
        OwnerLimitError
        """
        _require(competitions.unstarted_of(connection, owner), self.drafts, "competitions that were not started", _LATER_S)

    def require_names(self, connection: Connection, owner: str, agent_ids: Iterable[str]) -> None:
        """Refuse a run that would give an owner more rows of the leaderboard than the cap; names that are there may go on.

        Raises
        ------
        OwnerLimitError
        """
        StoredLogRows(
            connection, writing=True
        )  # which a run is entered in next: of two at once, the second sees the first's names
        there = standings.names_of(connection, owner)
        new = set(agent_ids) - there
        if new and len(there) + len(new) > self.names:
            raise OwnerLimitError(
                f"you have {len(there)} names on the leaderboard, and may have {self.names}: "
                f"{min(new)!r:.200} would be another; take one that you have",
                _LATER_S,
            )


def _require(there: int, most: int, what: str, retry_after_s: int) -> None:
    if there >= most:
        raise OwnerLimitError(f"you have {there} {what}, and may have {most} at once", retry_after_s)


# How much runs may take up in the store.


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes that runs may take up: all that were asked for without a token together, and each owner's.

    A run that begins with room left is sealed; so a budget is overdrawn by what runs at once, at most.
    """

    public_bytes: int = 4 << 30
    owner_bytes: int = 1 << 30

    def require_room(self, connection: Connection, owner: str) -> None:
        """Refuse a run for which there is no room.

        Raises
        ------
        StorageSpentError
        """
        most, whose = (self.public_bytes, "runs without an owner") if owner == ANYBODY else (self.owner_bytes, "your runs")
        taken = usage.bytes_of(connection, owner)
        if taken >= most:
            raise StorageSpentError(f"{whose} take up {taken:,} bytes of the {most:,} that they may; nothing was started")
