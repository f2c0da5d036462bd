"""Opening packs by name or by folder."""

from __future__ import annotations

from pathlib import Path

import clvlab.packs as packs_package
from clvlab.base.names import did_you_mean
from clvlab.errors import UnknownPackError
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import DESCRIPTOR
from clvlab.packs.reader import Pack
from clvlab.packs.views.view_file import is_view_file

_MAX_PATH = 4096
_RUN_FILE = "events.jsonl"  # marks the folder of a run


def bundled_catalog() -> Catalog:
    home = Path(packs_package.__path__[0])
    installed = home / "bundled"
    return Catalog(installed if installed.is_dir() else home.parent.parent / "packs")


def open_pack(where: str | Path, catalog: Catalog | None = None) -> Pack:
    """Open a pack by its id in the catalog, or by the path of its folder, which is then verified in full.

    Raises
    ------
    UnknownPackError
        The name is neither a catalogued pack nor a pack folder.
    PackFormatError, PackTamperedError
        The folder is not a sound pack.
    """
    catalog = catalog or bundled_catalog()
    folder = pack_folder(where, catalog)
    if isinstance(where, str) and where in catalog.entries():
        return catalog.open(where)

    from clvlab.packs.verification import verify_pack  # a catalogued pack was verified when it was admitted

    return verify_pack(folder)


def pack_folder(where: str | Path, catalog: Catalog | None = None) -> Path:
    """Return the folder of a pack, unverified, by its id in the catalog or by its path."""
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
    known = sorted(catalog.entries())
    raise UnknownPackError(
        f"no pack {str(where)!r:.300}: neither a folder with a {DESCRIPTOR}, nor in the catalog, which has: "
        f"{', '.join(known) or 'none'}{_hint(folder) or did_you_mean(where, known)}"
    )


def _hint(folder: Path) -> str:
    try:
        if folder.is_dir():
            return _of_folder(folder)
        is_file = folder.is_file()
    except OSError:  # no file system accepts this path
        return ""
    if not is_file:
        return ""
    if folder.name.endswith((".zip", ".tar", ".tar.gz", ".tgz")):
        return "; that is an archive: unpack it, and name the folder"
    if is_view_file(folder):
        return "; that is a view, which has no files of its own: name the packs that it is of"
    return "; that is a file: if it holds odds, clvlab.import_odds(...), or the command 'packs import', makes a pack of it"


def _of_folder(folder: Path) -> str:
    if (folder / _RUN_FILE).is_file():
        return "; that is the folder of a run: clvlab.open_run(...) opens it"
    below = sorted(child.name for child in folder.iterdir() if (child / DESCRIPTOR).is_file())[:5]
    return f"; packs lie one level below: {', '.join(below)}" if below else ""
