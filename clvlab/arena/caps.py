"""Limits of an owner's work, so that it does not delay others or flood the leaderboard."""

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
    """Limits of an owner. Finished work does not count, except for the names."""

    # starts: queued or running runs of competitions; deploys: queued or running runs of deployed agents
    starts: int = 8
    deploys: int = 200
    drafts: int = 1000  # competitions that are not started
    live: int = 4  # runs that follow a feed, of both kinds; each counts until its match is over, perhaps for days
    seats: int = 200  # seats that still play
    seat_competitions: int = 100  # competitions of seats that are open
    names: int = 100  # agent ids on the leaderboard, including runs under way

    def require_start(self, connection: Connection, owner: str) -> None:
        _require(
            jobs.open_of(connection, owner, ("competition", "live-competition")),
            self.starts,
            "starts that are not over",
            _SOON_S,
        )

    def require_deploy(self, connection: Connection, owner: str) -> None:
        there = jobs.open_of(connection, owner, ("deploy", "live-deploy"))
        _require(there, self.deploys, "deploys that are not over", _SOON_S)

    def require_live(self, connection: Connection, owner: str) -> None:
        there = jobs.open_of(connection, owner, _LIVE)
        _require(there, self.live, "live runs that are not over", _LATER_S)

    def require_seat(self, playing: int) -> None:
        _require(playing, self.seats, "seats that still play", _LATER_S)

    def require_seat_competition(self, there: int) -> None:
        _require(there, self.seat_competitions, "competitions of seats that are open", _LATER_S)

    def require_draft(self, connection: Connection, owner: str) -> None:
        _require(competitions.unstarted_of(connection, owner), self.drafts, "competitions that were not started", _LATER_S)

    def require_names(self, connection: Connection, owner: str, agent_ids: Iterable[str]) -> None:
        """Refuse a run that would give an owner too many rows of the leaderboard; existing names stay usable."""
        StoredLogRows(
            connection, writing=True
        )  # locked before the run is entered, so that the second of two concurrent runs sees the first's names
        there = standings.names_of(connection, owner)
        new = set(agent_ids) - there
        if new and len(there) + len(new) > self.names:
            raise OwnerLimitError(
                f"you have {len(there)} names on the leaderboard, and may have {self.names}: "
                f"{min(new)!r:.200} would be another; use an existing one",
                _LATER_S,
            )


def _require(there: int, most: int, what: str, retry_after_s: int) -> None:
    if there >= most:
        raise OwnerLimitError(f"you have {there} {what}, and may have {most} at once", retry_after_s)


# Bytes of runs in the store.


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of bytes: one for all runs without a token together, one for the runs of each owner.

    A run that starts below the limit is always sealed, so concurrent runs may together exceed the limit.
    """

    public_bytes: int = 4 << 30
    owner_bytes: int = 1 << 30

    def require_room(self, connection: Connection, owner: str) -> None:
        most, whose = (self.public_bytes, "runs without an owner") if owner == ANYBODY else (self.owner_bytes, "your runs")
        taken = usage.bytes_of(connection, owner)
        if taken >= most:
            raise StorageSpentError(f"{whose} take up {taken:,} bytes of the {most:,} allowed; nothing was started")
