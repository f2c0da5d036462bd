"""The packs that a caller may name: those of the catalog, then the caller's uploads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clvlab.arena.uploads.uploads import Uploads
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import Pack
from clvlab.store.database import Connection


@dataclass(frozen=True)
class Packs:
    """A catalog as seen by one owner; without an owner it is the plain catalog.

    A pack of the catalog takes precedence over an upload; ``entries`` and ``packs`` list the catalog alone.
    """

    catalog: Catalog
    uploads: Uploads | None = None
    owner: str | None = None
    connection: Connection | None = None

    def seen_by(self, owner: str, connection: Connection | None = None) -> Packs:
        """Return the view of an owner; inside a transaction, with its connection."""
        return replace(self, owner=owner, connection=connection)

    def entries(self) -> dict[str, dict[str, str]]:
        return self.catalog.entries()

    def packs(self) -> list[Pack]:
        return self.catalog.packs()

    def open(self, pack_id: str) -> Pack:
        if self.uploads is None or self.owner is None or pack_id in self.catalog.entries():
            return self.catalog.open(pack_id)
        return self.uploads.open(self.owner, pack_id, self.connection)
