"""Putting packs and runs into a bucket, where nothing is ever written over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clvlab.errors import RemoteConflictError, UnknownPackError
from clvlab.packs.manifest import DESCRIPTOR, pack_files
from clvlab.packs.reader import Pack
from clvlab.packs.remote.address import Address
from clvlab.packs.remote.bucket import Bucket
from clvlab.packs.remote.opening import open_remote
from clvlab.packs.verifying import verify_pack


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
