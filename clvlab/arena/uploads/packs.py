"""The packs that a caller may name: those of the catalog, and behind them what the caller uploaded."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clvlab.arena.uploads.uploads import Uploads
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import Pack
from clvlab.store.database import Connection


@dataclass(frozen=True)
class Packs:
    """A catalog as one owner sees it; as nobody in particular, it is the catalog.

    An upload never stands before a pack of the catalog, and is on no list: ``entries`` and ``packs`` are the catalog's.
    """

    catalog: Catalog
    uploads: Uploads | None = None
    owner: str | None = None
    connection: Connection | None = None

    def seen_by(self, owner: str, connection: Connection | None = None) -> Packs:
        """Return what an owner may name; inside a transaction, with its connection."""
        return replace(self, owner=owner, connection=connection)

    def entries(self) -> dict[str, dict[str, str]]:
        """The allowlist of the catalog."""
        return self.catalog.entries()

    def packs(self) -> list[Pack]:
        """All packs of the catalog that can be opened."""
        return self.catalog.packs()

    def open(self, pack_id: str) -> Pack:
        """Open a pack of the catalog, or else the owner's upload.

        Raises
        ------
        UnknownPackError
        """
        if self.uploads is None or self.owner is None or pack_id in self.catalog.entries():
            return self.catalog.open(pack_id)
        return self.uploads.open(self.owner, pack_id, self.connection)
