"""Opening packs by name, by folder or by URL, and the catalogs of operators."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from clvlab.errors import PackTamperedError, UnknownPackError
from clvlab.packs import opening
from clvlab.packs.catalog import Catalog
from clvlab.packs.opening import bundled_catalog, pack_folder
from clvlab.packs.reader import Pack
from clvlab.packs.remote.address import is_url
from clvlab.packs.verifying import verify_pack

__all__ = ["bundled_catalog", "catalog_at", "open_pack", "pack_folder", "packs_at", "pull_pack", "push_pack", "verified_pack"]


def open_pack(where: str | Path, *, content_hash: str | None = None) -> Pack:
    """Open a pack: by its id in the catalog, by the path of its folder, or by its URL.

    For callers on this machine alone: who asks a service names a pack of its catalog, and never a URL that it would then ask.

    Parameters
    ----------
    where
        A folder is verified whole; at a URL each fixture is when it is read.
    content_hash
        What the pack must be; whatever is there by default.

    Raises
    ------
    UnknownPackError
        No such pack.
    PackFormatError, PackTamperedError
        It is not sound, or not the one that was asked for.
    RemoteError
        It can't be read at its URL.
    """
    if is_url(where):
        from clvlab.packs.remote.opening import open_remote

        return open_remote(where, content_hash)
    pack = opening.open_pack(where)
    if content_hash is not None and pack.content_hash != content_hash:
        raise PackTamperedError(f"content_hash of {pack.pack_id!r}", content_hash, pack.content_hash)
    return pack


def verified_pack(where: str | Path) -> Pack:
    """Open a pack after recomputing every digest and rule of it; one at a URL is brought here for that, and not kept.

    Raises
    ------
    UnknownPackError, PackFormatError, PackTamperedError, RemoteError
    """
    if not is_url(where):
        return verify_pack(pack_folder(where))
    with TemporaryDirectory(prefix="clvlab-") as scratch:
        pack = pull_pack(where, Path(scratch) / "pack")
        _ = pack.is_genuine  # while its raw files are here
        return pack


def pull_pack(url: str, folder: Path) -> Pack:
    """Bring a pack from a URL, as ``clvlab.packs.remote.opening.pull_pack``."""
    from clvlab.packs.remote import opening as remote

    return remote.pull_pack(url, folder)


def packs_at(url: str) -> list[tuple[str, Pack]]:
    """Open the packs one level under a URL, as ``clvlab.packs.remote.opening.packs_at``."""
    from clvlab.packs.remote import opening as remote

    return remote.packs_at(url)


def push_pack(where: str | Path, url: str) -> Pack:
    """Put a pack, by its id or folder, under a URL, as ``clvlab.packs.remote.pushing.push_pack``."""
    from clvlab.packs.remote import pushing

    return pushing.push_pack(pack_folder(where), url)


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
