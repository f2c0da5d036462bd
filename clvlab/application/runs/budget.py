"""How much runs may take up in the store."""

from __future__ import annotations

from dataclasses import dataclass

from clvlab.errors import StorageSpentError
from clvlab.store import usage
from clvlab.store.database import Connection
from clvlab.store.labels import ANYBODY


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
