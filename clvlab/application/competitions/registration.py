"""Registration: who is on the roster of a competition, while that may still change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clvlab.answers.answer import ignored, pick
from clvlab.answers.competitions import AgentRegisterResponse
from clvlab.application.competitions.requests import AgentEntry
from clvlab.application.competitions.roster import pinned_entry, rostered_agent, unused_of
from clvlab.application.competitions.status import MUTABLE, require_owned
from clvlab.application.runs.binding import PackSource, bind
from clvlab.application.runs.misfits import misfits, names_ticks
from clvlab.errors import AlreadyRegisteredError, EntryError, PackError, RosterFrozenError, RosterFullError, UnknownEntryError
from clvlab.store import competitions as rows
from clvlab.store.database import Connection, Database

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Registration:
    """Puts agents on rosters, and takes them off.

    An agent is tried on the fixture that its competition is bound to before the competition's row is held: reading a tape takes
    time, in which others may register.
    """

    database: Database
    packs: PackSource

    def add(self, caller: str, competition_id: str, entry: AgentEntry) -> AgentRegisterResponse:
        """Pin an entry and put it at the end of the roster; see ``Competitions.register``."""
        with self.database.read() as connection:
            seen, _ = _vacancy(connection, caller, competition_id, entry.agent_id)
            pinned = pinned_entry(connection, entry, caller)
        self._try(seen, pinned)
        with self.database.write() as connection:
            row, position = _vacancy(connection, caller, competition_id, entry.agent_id, lock=True)
            if row["pack_id"] != seen["pack_id"]:  # a start bound it meanwhile, and failed
                self._try(row, pinned)
            place = {"competition_id": competition_id, "position": position, "roster_size": row["roster_size"]}
            rows.add_agent(connection, pinned | place)
        unread = [*entry.ignored, *(f"config.{key}" for key in unused_of(pinned))]
        return {**pick(AgentRegisterResponse, pinned), **ignored(unread)}

    def withdraw(self, caller: str, competition_id: str, agent_id: str) -> None:
        """Take an agent off the roster; see ``Competitions.withdraw``."""
        with self.database.write() as connection:
            _changeable(connection, caller, competition_id, lock=True)
            if not rows.remove_agent(connection, competition_id, agent_id):
                raise UnknownEntryError(f"no agent {agent_id!r} is on the roster of competition {competition_id}")

    def _try(self, row: _Row, pinned: _Row) -> None:
        """Refuse an agent that can't run over the fixture that a competition is bound to, if it is bound."""
        agent = rostered_agent(pinned)
        if row["pack_id"] is None or not names_ticks(agent):
            return
        try:
            own = bind(self.packs, row["pack_id"], row["fixture_id"])
        except PackError:  # which the start will say
            return
        for agent_id, cause in misfits([agent], own).items():
            raise EntryError(f"agent {agent_id!r} {cause}")


def _changeable(connection: Connection, caller: str, competition_id: str, *, lock: bool) -> _Row:
    row = require_owned(rows.row(connection, competition_id, lock=lock), competition_id, caller)
    if row["status"] not in MUTABLE:
        raise RosterFrozenError(f"competition {competition_id} is {row['status']}: its roster is frozen")
    return row


def _vacancy(
    connection: Connection, caller: str, competition_id: str, agent_id: str, *, lock: bool = False
) -> tuple[_Row, int]:
    """Return the competition's row, and the place on its roster that an agent would take."""
    row = _changeable(connection, caller, competition_id, lock=lock)
    agents = rows.agent_ids(connection, competition_id)
    if agent_id in agents:
        raise AlreadyRegisteredError(f"agent {agent_id!r} is registered already")
    if len(agents) >= row["roster_size"]:
        raise RosterFullError(f"competition {competition_id} has all its {row['roster_size']} agents")
    return row, len(agents)
