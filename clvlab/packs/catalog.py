"""The catalog: the packs that a service or a notebook may open by name.

``catalog.json`` is the operator's allowlist: pack_id -> content_hash and file hashes. Packs are found by pack_id alone. A pack
that does not match its entry counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import orjson

from clvlab.base.files import replace_file
from clvlab.errors import PackError, PackFormatError, UnknownPackError
from clvlab.packs.files import file_sha256
from clvlab.packs.folder import Stamps, stamps_of
from clvlab.packs.manifest import DESCRIPTOR, TICKS_FILE
from clvlab.packs.reader import Pack, load_pack

_ALLOWLIST = "catalog.json"


@dataclass(frozen=True, slots=True)
class Catalog:
    """A folder of packs with its allowlist."""

    folder: Path

    def entries(self) -> dict[str, dict[str, str]]:
        """Return the allowlist: pack_id -> {content_hash, file name: SHA-256}; empty without a ``catalog.json``."""
        path = self.folder / _ALLOWLIST
        if not path.is_file():
            return {}
        try:
            entries = orjson.loads(path.read_bytes())
            return {pack_id: {key: str(value) for key, value in entry.items()} for pack_id, entry in entries.items()}
        except (orjson.JSONDecodeError, AttributeError) as error:
            raise PackFormatError(f"the catalog's {_ALLOWLIST} can't be read: {error}") from error  # paths stay here

    def open(self, pack_id: str) -> Pack:
        """Open an allowlisted pack, if its files are the admitted ones.

        Raises
        ------
        UnknownPackError
            The pack_id is not listed, or the pack differs from its entry: callers can't tell these apart.
        """
        entries = self.entries()
        known = ", ".join(sorted(entries)) or "none"
        if pack_id not in entries:
            raise UnknownPackError(f"unknown pack {pack_id!r}; the catalog has: {known}")
        try:
            return self._admitted(pack_id, entries[pack_id])
        except PackError as error:
            raise UnknownPackError(f"pack {pack_id!r} is not verified and so not available: {error}") from error

    def _admitted(self, pack_id: str, entry: dict[str, str]) -> Pack:
        return open_entry(self.folder / pack_id, entry)  # safe: the key comes from the operator's own allowlist

    def packs(self) -> list[Pack]:
        """Return all packs that can be opened, by pack_id; tampered ones are left out."""
        found = []
        for pack_id, entry in sorted(self.entries().items()):
            try:
                found.append(self._admitted(pack_id, entry))
            except PackError:  # the catalog leaves it out; ``packs verify`` says why
                continue
        return found

    def admit(self, pack_id: str) -> Pack:
        from clvlab.packs.verification import verify_pack  # opening an admitted pack needs none of it

        pack = verify_pack(self.folder / pack_id)
        if pack.pack_id != pack_id:
            raise PackFormatError(f"the folder {pack_id!r} holds the pack {pack.pack_id!r}")
        entries = self.entries() | {pack_id: entry_of(pack)}
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        replace_file(self.folder / _ALLOWLIST, orjson.dumps(entries, option=options))
        return pack


def entry_of(pack: Pack) -> dict[str, str]:
    """Return the allowlist entry of a pack: its content_hash, and the SHA-256 of its files by name."""
    return {"content_hash": pack.content_hash} | {name: file_sha256(pack.folder / name) for name in (DESCRIPTOR, TICKS_FILE)}


def open_entry(folder: Path, entry: Mapping[str, str]) -> Pack:
    """Open the pack in a folder if its files have the hashes of an entry; files are hashed again once they may have changed."""
    stamps, named = _stamps(folder), tuple(sorted(entry.items()))
    return _verified(folder, named) if stamps is None else replace(_kept(folder, named, stamps))  # shares no cached values


def _stamps(folder: Path) -> Stamps | None:
    raw = folder / "raw"
    return stamps_of([folder, folder / DESCRIPTOR, folder / TICKS_FILE, *([raw] if raw.is_dir() else [])])


@lru_cache(maxsize=8)
def _kept(folder: Path, entry: tuple[tuple[str, str], ...], stamps: Stamps) -> Pack:  # noqa: ARG001
    return _verified(folder, entry)


def _verified(folder: Path, named: tuple[tuple[str, str], ...]) -> Pack:
    entry = dict(named)
    descriptor = folder / DESCRIPTOR
    if not descriptor.is_file() or file_sha256(descriptor) != entry.get(DESCRIPTOR):
        raise PackFormatError(f"{DESCRIPTOR} is not the file that was admitted")
    pack = load_pack(folder)  # its ticks file has the hash that the descriptor names
    if pack.manifest.ticks_sha256 != entry.get(TICKS_FILE):
        raise PackFormatError(f"{TICKS_FILE} is not the file that was admitted")
    if pack.content_hash != entry.get("content_hash"):
        raise PackFormatError("its content_hash is not the one that was admitted")
    return pack
