"""Importing a source: find its files, normalise them, write the pack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clvlab.errors import SourceError
from clvlab.packs.importers import IMPORTERS
from clvlab.packs.importers.source import Refused
from clvlab.packs.manifest import PackManifest, pack_id_of
from clvlab.packs.writer import write_pack

__all__ = ["ImportReport", "import_source"]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import read, refused, and left unread in the folders it was given."""

    manifest: PackManifest
    files: int
    messages: int
    ticks: int
    suspended: int
    refused: tuple[Refused, ...]
    unread: tuple[str, ...]


def import_source(source: str, paths: Sequence[Path], folder: Path, *, lenient: bool = False) -> ImportReport:
    """Make a pack of a provider's files.

    Parameters
    ----------
    source
        ``txline`` or ``polymarket``.
    paths
        Files or folders of the source.
    folder
        Where the pack will stand; its name becomes the pack id.
    lenient
        Count rows that can't be read and go on, instead of stopping at the first.

    Raises
    ------
    SourceError
        Unknown source, nothing to read, or a row that can't be read; the message names file, line and reason.
    PackFormatError
        The folder exists, or the ticks break a rule of the format.
    """
    if source not in IMPORTERS:
        raise SourceError(f"unknown source {source!r}: use one of {', '.join(sorted(IMPORTERS))}")
    missing = [str(path) for path in paths if not path.exists()]
    if missing or not paths:
        raise SourceError(f"no such file or folder: {', '.join(missing) or 'none given'}")
    find, normalise = IMPORTERS[source]
    files = find(paths)
    result = normalise(files, lenient=lenient)
    manifest = PackManifest(
        pack_id=pack_id_of(folder),
        provenance=result.provenance,
        closing_source=result.closing_source,
        margin=result.margin,
        consensus=result.consensus,
        normaliser=result.normaliser,
        capture=result.capture,
        fixtures=result.fixtures,
    )
    written = write_pack(result.ticks, manifest, folder, files)
    per_message = result.ticks.unique(["fixture_id", "tick_seq"])
    suspended = int(per_message["suspended"].sum())
    return ImportReport(
        written, len(files), result.messages, per_message.height, suspended, result.refused, _unread(paths, files.values())
    )


def _unread(paths: Sequence[Path], read: Iterable[Path]) -> tuple[str, ...]:
    below = {file for path in paths if path.is_dir() for file in path.rglob("*") if file.is_file()}
    return tuple(sorted(file.name for file in below - set(read)))
