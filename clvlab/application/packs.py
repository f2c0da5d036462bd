"""Opening packs by name or by folder, and the catalogs of operators."""

from __future__ import annotations

from pathlib import Path

from clvlab.errors import UnknownPackError
from clvlab.packs.catalog import Catalog
from clvlab.packs.opening import bundled_catalog, open_pack, pack_folder

__all__ = ["bundled_catalog", "catalog_at", "open_pack", "pack_folder"]


def catalog_at(folder: Path) -> Catalog:
    """The catalog in a folder of an operator's own.

    Raises
    ------
    UnknownPackError
        The folder's allowlist admits no pack, or there is none.
    PackFormatError
        The allowlist can't be read.
    """
    catalog = Catalog(folder)
    if not catalog.entries():
        raise UnknownPackError(
            f"{str(folder)!r} admits no pack: make one there and run clvlab packs admit PACK --catalog {folder}"
        )
    return catalog
