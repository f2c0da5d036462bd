"""Opening packs by name, folder or URL, and operators' catalogs."""

from __future__ import annotations

from pathlib import Path

from clvlab.base.files import scratch_folder
from clvlab.base.invocation import command
from clvlab.errors import PackTamperedError, UnknownPackError
from clvlab.packs import lookup
from clvlab.packs.catalog import Catalog
from clvlab.packs.lookup import bundled_catalog, pack_folder
from clvlab.packs.manifest import DESCRIPTOR
from clvlab.packs.reader import Pack
from clvlab.packs.remote.bucket import is_url
from clvlab.packs.views.view_file import VIEW_FILE, finder, folders_of, is_view_file, made_again, open_view, read_view

__all__ = [
    "bundled_catalog", "catalog_at", "open_pack", "pack_folder", "pack_of_run", "packs_at", "pull_pack", "push_pack",
    "verified_pack",
]  # fmt: skip


def open_pack(where: str | Path, *, content_hash: str | None = None) -> Pack:
    """Open a pack: by its id in the catalog, by the path of its folder or of a view file, or by its URL.

    A service must not pass names from requests; otherwise it would fetch URLs for its clients.

    Parameters
    ----------
    where
        Id, path or URL. A folder is verified in full; at a URL each fixture is verified when it is read. The packs of a view
        file are found next to it, or in the catalog.
    content_hash
        Required content hash; any by default.

    Raises
    ------
    UnknownPackError
        There is no such pack.
    PackFormatError, PackTamperedError
        The pack is malformed or altered, or does not have the required hash.
    RemoteError
        The URL can't be read.
    """
    if is_url(where):
        from clvlab.packs.remote.packs import open_remote

        return open_remote(where, content_hash)
    pack = open_view(Path(where), lambda _, of: _in_catalog(of)) if is_view_file(where) else lookup.open_pack(where)
    if content_hash is not None and pack.content_hash != content_hash:
        raise PackTamperedError(f"content_hash of {pack.pack_id!r}", content_hash, pack.content_hash)
    return pack


def _in_catalog(content_hash: str) -> Pack | None:
    return next((pack for pack in bundled_catalog().packs() if pack.content_hash == content_hash), None)


def pack_of_run(content_hash: str | None, where: str | Path | None = None, view: bytes = b"") -> Pack | None:
    """Return the pack of a run; ``None`` if no pack is found.

    ``where`` is the pack, or for a run over a derived pack, its parents or their folder. By default the catalog is searched.
    The hash of a pack at ``where`` is not checked, unless the run's ``view`` file derives the pack from it.
    """
    if not view:
        return open_pack(where) if where is not None else _in_catalog(str(content_hash))
    described = read_view(view, VIEW_FILE)
    if described.content_hash != content_hash:
        raise PackTamperedError(f"{VIEW_FILE} of the run", str(content_hash), described.content_hash)
    folder = where is not None and Path(where).is_dir() and not (Path(where) / DESCRIPTOR).is_file()
    packs = [] if where is None or folder else [open_pack(where)]
    at_hand = finder(*([Path(str(where))] if folder else []), packs=packs)
    return made_again(described, lambda pack_id, of: at_hand(pack_id, of) or _in_catalog(of))


def verified_pack(where: str | Path) -> Pack:
    """Open a pack and recompute every digest and rule; a remote pack is downloaded for that, and not kept.

    For a view file all its packs are verified.
    """
    from clvlab.packs.verification import verify_pack  # opening a catalogued pack needs none of it

    if is_view_file(where):
        pack = open_pack(where)
        for folder in folders_of(pack):
            verify_pack(folder)
        return pack
    if not is_url(where):
        return verify_pack(pack_folder(where))
    with scratch_folder() as scratch:
        pack = pull_pack(where, scratch / "pack")
        _ = pack.is_genuine  # read while the raw files exist
        return pack


def pull_pack(url: str, folder: Path) -> Pack:
    """Download a pack from a URL, as ``clvlab.packs.remote.packs.pull_pack``."""
    from clvlab.packs.remote import packs as remote

    return remote.pull_pack(url, folder)


def packs_at(url: str) -> list[tuple[str, Pack]]:
    """Open the packs one level under a URL, as ``clvlab.packs.remote.packs.packs_at``."""
    from clvlab.packs.remote import packs as remote

    return remote.packs_at(url)


def push_pack(where: str | Path, url: str) -> Pack:
    """Upload a pack, by its id or folder, as ``clvlab.packs.remote.packs.push_pack``."""
    from clvlab.packs.remote import packs

    return packs.push_pack(pack_folder(where), url)


def catalog_at(folder: Path) -> Catalog:
    """Return the catalog in an operator's folder.

    Raises
    ------
    UnknownPackError
        The folder's allowlist is missing or empty.
    PackFormatError
        The allowlist can't be read.
    """
    catalog = Catalog(folder)
    if not catalog.entries():
        raise UnknownPackError(
            f"{str(folder)!r} admits no pack: make one there and run {command('packs', 'admit', 'PACK', '--catalog', folder)}"
        )
    return catalog
