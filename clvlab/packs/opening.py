"""Opening packs by name or by folder."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import clvlab.packs as packs_package
from clvlab.errors import UnknownPackError
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import DESCRIPTOR
from clvlab.packs.reader import Pack
from clvlab.packs.verifying import verify_pack

_MAX_PATH = 4096


def bundled_catalog() -> Catalog:
    """The catalog of synthetic packs that comes with clvlab: inside an installed package, or beside a checkout's."""
    home = Path(packs_package.__path__[0])
    installed = home / "bundled"
    return Catalog(installed if installed.is_dir() else home.parent.parent / "packs")


def open_pack(where: str | Path, catalog: Catalog | None = None) -> Pack:
    """Open a pack: by its id in the catalog, or by the path of its folder, which is then verified whole.

    Raises
    ------
    UnknownPackError
        Neither a catalogued pack nor a pack folder.
    PackFormatError, PackTamperedError
        A folder that is not a sound pack.
    """
    catalog = catalog or bundled_catalog()
    folder = pack_folder(where, catalog)
    return catalog.open(where) if isinstance(where, str) and where in catalog.entries() else verify_pack(folder)


def pack_folder(where: str | Path, catalog: Catalog | None = None) -> Path:
    """Find the folder of a pack, unverified: by its id in the catalog, or by its path.

    Raises
    ------
    UnknownPackError
        Neither a catalogued pack nor a pack folder.
    """
    catalog = catalog or bundled_catalog()
    folder = Path(where)
    is_folder = len(str(where)) < _MAX_PATH and (folder / DESCRIPTOR).is_file()
    if isinstance(where, str) and where in catalog.entries():
        own = catalog.folder / where
        if is_folder and folder.resolve() != own.resolve():
            raise UnknownPackError(f"{where!r} is a pack of the catalog and a folder here: say './{where}' for the folder")
        return own
    if is_folder:
        return folder
    known = ", ".join(sorted(catalog.entries())) or "none"
    near = get_close_matches(str(where), catalog.entries(), n=1)
    said = f"; did you mean {near[0]!r}?" if near else ""
    raise UnknownPackError(
        f"no pack {str(where)!r}: neither a folder with a {DESCRIPTOR}, nor in the catalog, which has: {known}{said}"
    )
