"""Packs that are held back: no catalog has them, and each of their fixtures is dealt to one seat, ever."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clvlab.api.seats import HeldPackInfo, HeldPackList
from clvlab.arena.runs.binding import open_catalogued
from clvlab.arena.uploads.packs import Packs
from clvlab.errors import HeldBackError, PackError, UnknownPackError
from clvlab.log.entries import HeldEntry
from clvlab.log.held import fixture_list, note_held, note_released
from clvlab.log.seats import Blind
from clvlab.packs.catalog import entry_of, open_entry
from clvlab.packs.manifest import Fixture
from clvlab.packs.matches import Match, by_root, matches_of, overlap_of, quotes_of, with_quotes
from clvlab.packs.reader import Pack
from clvlab.packs.verification import verify_pack
from clvlab.proof.canonical import JsonObject, sha256
from clvlab.store import held, uploads
from clvlab.store.database import Connection, Database
from clvlab.store.held import HeldPackRow
from clvlab.store.runlog import StoredLogRows
from clvlab.store.seats import SeatRow

_SALT_BYTES = 32
DEALT = "dealt"


@dataclass(frozen=True)
class HeldPacks:
    """All use cases of packs that are held back. ``catalog`` and uploads are the installation's other packs."""

    database: Database
    catalog: Packs
    clock: Callable[[], int]

    def hold_back(self, folder: Path) -> HeldPackInfo:
        """Verify a pack in a folder in full, and hold it back for seats, on the log.

        The folder stays where it is, readable to every process of the service and to nobody else.

        Raises
        ------
        HeldBackError
            ``known``: it or another pack of its id is held back already; ``public``: the catalog or an upload has the pack or
            its id; ``shared``: another pack has one of its matches.
        LogConflictError
            The log has a run over the pack, or holds it back already.
        PackError
            The pack is not valid.
        """
        pack = verify_pack(folder)
        self._require_new(pack)
        self._require_private(pack)
        self._require_own_matches(pack)
        listing = fixture_list(secrets.token_bytes(_SALT_BYTES).hex(), [_listed(one) for one in pack.manifest.fixtures])
        content_hash, now = pack.content_hash, self.clock()
        with self.database.write() as connection:
            log = StoredLogRows(connection, writing=True)
            index = note_held(log, HeldEntry(content_hash, len(pack.fixture_ids), sha256(listing)), now)
            row: HeldPackRow = {
                "content_hash": content_hash,
                "pack_id": pack.pack_id,
                "folder": str(folder.resolve()),
                "entry": entry_of(pack),
                "fixtures": len(pack.fixture_ids),
                "fixture_list": listing,
                "idx": index,
                "released_idx": None,
                "created_ts_ms": now,
            }
            held.add(connection, row)
        return _info(row, 0)

    def release(self, pack_id: str) -> HeldPackInfo:
        """Open the list of a pack's fixtures, on the log; no held-back seat over it is taken afterwards.

        Raises
        ------
        UnknownPackError
            No pack of this id is held back.
        """
        with self.database.write() as connection:
            log = StoredLogRows(connection, writing=True)
            row = _require(held.of_id(connection, pack_id), pack_id)
            held.release(connection, row["content_hash"], note_released(log, row["content_hash"], self.clock()))
        return self.info(pack_id)

    def all(self) -> HeldPackList:
        """List the packs that are or were held back, oldest first."""
        with self.database.read() as connection:
            found, counts = held.every(connection), held.count_dealt(connection)
            return {"packs": [_info(row, counts.get(row["content_hash"], 0)) for row in found]}

    def info(self, pack_id: str) -> HeldPackInfo:
        """Return what is public about a pack that is or was held back."""
        with self.database.read() as connection:
            row = _require(held.of_id(connection, pack_id), pack_id)
            return _info(row, len(held.dealt(connection, row["content_hash"])))

    def fixture_list(self, pack_id: str) -> bytes:
        """Return the salted list of a pack's fixtures, whose SHA-256 the log has; ``HeldBackError`` before it is opened."""
        with self.database.read() as connection:
            row = _require(held.of_id(connection, pack_id), pack_id)
        if row["released_idx"] is None:
            raise HeldBackError("unopened", f"the list of pack {pack_id!r} is not opened yet")
        return row["fixture_list"]

    def open(self, content_hash: str) -> Pack:
        """Open a pack that is held back, for a seat over it; the error names no path."""
        with self.database.read() as connection:
            row = held.of_content(connection, content_hash)
        row = _require(row, content_hash)
        try:
            return open_entry(Path(row["folder"]), row["entry"])
        except (PackError, OSError) as error:
            raise UnknownPackError(f"pack {row['pack_id']!r} is held back, and not available: {error}") from error

    def of_seat(self, row: SeatRow) -> Pack:
        """Open the pack of a seat, held back or not."""
        if row["request"]["blind"] == Blind.HELD_BACK:
            return self.open(row["content_hash"])
        return open_catalogued(self.catalog.seen_by(row["owner"]), row["pack_id"])

    def chosen(self, pack_id: str | None) -> Pack:
        """Open the pack of a new seat: the named one, or the only one that is held back now.

        Raises
        ------
        UnknownPackError
            No such pack, or there are several and none is named.
        HeldBackError
            ``opened``: its list is open already; ``public``: the catalog has it by now.
        """
        with self.database.read() as connection:
            now = [row for row in held.every(connection) if row["released_idx"] is None]
            named = held.of_id(connection, pack_id) if pack_id is not None else now[0] if len(now) == 1 else None
        if pack_id is None and named is None:
            known = ", ".join(row["pack_id"] for row in now) or "none"
            raise UnknownPackError(f"a pack_id is needed: {len(now)} packs are held back: {known:.200}")
        row = _require(named, str(pack_id))
        if row["released_idx"] is not None:
            raise _opened(row)
        pack = self.open(row["content_hash"])
        self._require_private(pack)
        return pack

    def undealt(self, pack: Pack) -> list[int]:
        """Return the fixtures of a pack that no seat got, in order of their ids."""
        with self.database.read() as connection:
            return sorted(set(pack.fixture_ids) - held.dealt(connection, pack.content_hash))

    def _require_new(self, pack: Pack) -> None:
        with self.database.read() as connection:
            known = held.of_content(connection, pack.content_hash) or held.of_id(connection, pack.pack_id)
        if known is not None:
            what = "it" if known["content_hash"] == pack.content_hash else "another pack of this id"
            raise HeldBackError(
                "known", f"pack {pack.pack_id!r} can't be held back: {what} is so already, by entry {known['idx']}"
            )

    def _require_private(self, pack: Pack) -> None:
        entries = self.catalog.entries()
        hashes = {entry.get("content_hash"): pack_id for pack_id, entry in entries.items()}
        if pack.pack_id in entries or pack.content_hash in hashes:
            there = pack.pack_id if pack.pack_id in entries else hashes[pack.content_hash]
            raise HeldBackError(
                "public", f"pack {pack.pack_id!r} can't be held back: the catalog, which is public, has {there!r}"
            )

    def _require_own_matches(self, pack: Pack) -> None:
        """Refuse a pack that shares a match with another one of the installation, whose owner knows its prices."""
        for name, other in self._others(pack):
            found = overlap_of(pack, other, quotes_of)
            if found.same:
                fixtures = ", ".join(map(str, sorted(found.same)[:5])) + (", ..." if len(found.same) > 5 else "")
                raise HeldBackError(
                    "shared", f"pack {pack.pack_id!r} can't be held back: {name} has matches of it, its fixtures {fixtures}"
                )
            if found.doubtful:
                warnings.warn(
                    f"{len(found.doubtful):,} fixtures of {pack.pack_id!r} may be matches of {name}: ids, teams, kickoff and "
                    "quotes do not tell",
                    stacklevel=3,
                )

    def _others(self, pack: Pack) -> Iterator[tuple[str, list[Match]]]:
        """Yield the matches of the catalog's packs, of uploads and of packs that are held back, with their quotes."""
        with self.database.read() as connection:
            uploaded = uploads.every(connection)
            known = held.every(connection)
        for one in self.catalog.packs():
            yield f"pack {one.pack_id!r} of the catalog", _matches(one)
        for row in uploaded:
            what = f"upload {row['pack_id']!r} of {row['owner']!r:.200}"
            if row["content_hash"] == pack.content_hash:
                raise HeldBackError("public", f"pack {pack.pack_id!r} can't be held back: it is {what}")
            if self.catalog.uploads is None:
                raise HeldBackError(
                    "public", f"{what} can't be read, so nothing shows that it has other matches: name --uploads"
                )
            yield what, _matches(self.catalog.uploads.open(row["owner"], row["pack_id"]))
        for own in known:
            yield f"pack {own['pack_id']!r}, held back as well,", _matches(self.open(own["content_hash"]))


def require_free(connection: Connection, pack: Pack, fixture_id: int, owner: str, most: int) -> None:
    """Refuse a fixture that a seat got already, while the run log is locked.

    Raises
    ------
    HeldBackError
        ``dealt``; ``opened``: the list was opened meanwhile; ``limit``: the owner has as many fixtures of the pack as allowed.
    """
    content_hash = pack.content_hash
    row = _require(held.of_content(connection, content_hash), content_hash)
    if row["released_idx"] is not None:
        raise _opened(row)
    own = len(held.dealt(connection, content_hash, owner))
    if own >= most:
        raise HeldBackError("limit", f"you were dealt {own:,} fixtures of {row['pack_id']!r}, and may have {most:,}")
    if fixture_id in held.dealt(connection, content_hash):
        raise HeldBackError(DEALT, f"fixture {fixture_id} of {row['pack_id']!r} was dealt to another seat")


def all_dealt(pack: Pack) -> HeldBackError:
    return HeldBackError(
        "dealt",
        f"each of the {len(pack.fixture_ids):,} fixtures of {pack.pack_id!r} was dealt to a seat, or is too long for one",
    )


def _opened(row: HeldPackRow) -> HeldBackError:
    return HeldBackError("opened", f"the list of pack {row['pack_id']!r} was opened by entry {row['released_idx']} of the log")


def _require(row: HeldPackRow | None, name: str) -> HeldPackRow:
    if row is None:
        raise UnknownPackError(f"no pack {name!r:.200} is held back")
    return row


def _matches(pack: Pack) -> list[Match]:
    return [one for root, _ in by_root(pack) for one in with_quotes(matches_of(root), quotes_of(root, root.fixture_ids))]


def _listed(fixture: Fixture) -> JsonObject:
    """Return what the salted list says of a fixture: enough to know the match, and that its ticks are those of the pack."""
    about = {"source_id": fixture.source_id, "kickoff_ts_ms": fixture.kickoff_ts_ms, "digest": fixture.digest}
    return {"fixture_id": fixture.fixture_id, "names": list(fixture.names), **about}


def _info(row: HeldPackRow, dealt: int) -> HeldPackInfo:
    return {
        "pack_id": row["pack_id"],
        "content_hash": row["content_hash"],
        "fixtures": row["fixtures"],
        "dealt": dealt,
        "fixtures_hash": sha256(row["fixture_list"]),
        "held_index": row["idx"],
        "released_index": row["released_idx"],
    }
