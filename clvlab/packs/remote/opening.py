"""Opening packs that lie elsewhere, listing them, and bringing them here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clvlab.base.files import Unfinished, flush, flush_all
from clvlab.errors import (
    PackError,
    PackFormatError,
    PackTamperedError,
    RemoteConflictError,
    RemoteMissingError,
    UnknownPackError,
)
from clvlab.packs.folder import PackFolder
from clvlab.packs.manifest import DESCRIPTOR, PackManifest, pack_files, parse_manifest
from clvlab.packs.reader import Pack
from clvlab.packs.remote.bucket import Address, Bucket
from clvlab.packs.remote.fixtures import RemoteFiles, cache_of_environment
from clvlab.packs.verifying import verify_pack


def open_remote(url: str, content_hash: str | None = None) -> Pack:
    """Open a pack at a URL: its descriptor is read, and each fixture when a tape is asked for.

    Parameters
    ----------
    url
        Where its files lie.
    content_hash
        What it must be; whatever is there by default.

    Raises
    ------
    UnknownPackError
        No descriptor is there.
    PackFormatError, PackTamperedError
        A descriptor that breaks the format, is not what its hash says, or is not the one that was asked for.
    RemoteError
        It can't be read.
    """
    return _opened(Bucket(Address(url)), content_hash)


def _opened(bucket: Bucket, content_hash: str | None = None) -> Pack:
    manifest, stated = _manifest(bucket)
    if content_hash is not None and stated != content_hash:
        raise PackTamperedError(f"content_hash of {manifest.pack_id!r} at {bucket.address}", content_hash, stated)
    return Pack(RemoteFiles(bucket, manifest, cache_of_environment()), manifest, stated)


def _manifest(bucket: Bucket) -> tuple[PackManifest, str]:
    try:
        content = bucket.whole(DESCRIPTOR)
    except RemoteMissingError as error:
        raise UnknownPackError(f"no pack: {error}") from error
    manifest, stated = parse_manifest(content, f"{bucket.address}/{DESCRIPTOR}")
    if manifest.content_hash != stated:
        raise PackTamperedError(f"content_hash of {manifest.pack_id!r} at {bucket.address}", stated, manifest.content_hash)
    return manifest, stated


def packs_at(url: str) -> list[tuple[str, Pack]]:
    """Open the packs one level under a URL, by their URLs; what has no descriptor yet, or no sound one, is left out.

    Raises
    ------
    RemoteError
        It can't be listed.
    """
    bucket, found = Bucket(Address(url)), []
    for name in bucket.folders():
        place = Bucket(bucket.address.under(name))
        try:
            found.append((str(place.address), _opened(place)))
        except PackError:  # other objects, or a pack that is being pushed; ``packs verify`` says what is wrong
            continue
    return found


def pull_pack(url: str, folder: Path, content_hash: str | None = None) -> Pack:
    """Bring a pack here, and verify it whole before it stands there.

    Raises
    ------
    PackFormatError
        The folder exists.
    UnknownPackError, PackFormatError, PackTamperedError, RemoteError
        As for ``open_remote``, or the pack is not sound.
    """
    if folder.exists() or folder.is_symlink():
        raise PackFormatError(f"{str(folder)!r} exists; a pack is never overwritten")
    pack = open_remote(url, content_hash)
    bucket = Bucket(Address(url))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Unfinished(folder.parent, 0o777) as unfinished:
        for name in (*pack_files(pack.manifest), DESCRIPTOR):
            path = unfinished / name
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                for part in bucket.parts(name):
                    file.write(part)
        found = verify_pack(unfinished)
        if found.content_hash != pack.content_hash:
            raise PackTamperedError(
                f"content_hash of {pack.pack_id!r} at {bucket.address}", pack.content_hash, found.content_hash
            )
        flush_all(unfinished)
        unfinished.rename(folder)
    flush(folder.parent)
    return Pack(PackFolder(folder, found.manifest), found.manifest, found.content_hash)


# Putting packs and runs into a bucket, where nothing is ever written over.


def push_pack(folder: Path, url: str) -> Pack:
    """Verify a pack whole, and put it under a URL: the descriptor last, so that half a pack is none.

    The same content again is fine, also from several machines at once.

    Raises
    ------
    PackFormatError, PackTamperedError
        The folder is no sound pack.
    RemoteConflictError
        Another pack is there, or a file of one; nothing of it was touched.
    RemoteError
        It can't be written.
    """
    bucket, pack = Bucket(Address(url)), verify_pack(folder)
    if _is_there(pack, bucket):
        return pack
    for name in pack_files(pack.manifest):
        bucket.create_or_compare(name, folder / name)
    if not bucket.create(DESCRIPTOR, folder / DESCRIPTOR):  # another process was first
        _is_there(pack, bucket)
    return pack


def _is_there(pack: Pack, bucket: Bucket) -> bool:
    try:
        there = open_remote(bucket.address.url)
    except UnknownPackError:
        return False
    if there.content_hash != pack.content_hash:
        raise RemoteConflictError(
            f"{bucket.address} holds the pack {there.pack_id!r} of {there.content_hash}, and this one, {pack.pack_id!r}, is of "
            f"{pack.content_hash}: nothing was written"
        )
    return True


def push_files(files: Mapping[str, bytes], url: str) -> None:
    """Put files under a URL, in their order; one that is there already must have the same bytes.

    Raises
    ------
    RemoteConflictError
        One of them is there with other bytes.
    RemoteError
        It can't be written.
    """
    bucket = Bucket(Address(url))
    for name, content in files.items():
        bucket.create_or_compare(name, content)
