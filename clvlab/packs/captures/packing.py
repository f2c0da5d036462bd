"""From the segments of a capture to a pack that keeps them, and shows how they became its ticks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clvlab.errors import SourceError
from clvlab.packs.captures.records import Header, records_of
from clvlab.packs.captures.sources import SOURCES
from clvlab.packs.importers.importing import import_files
from clvlab.packs.importers.source import Options
from clvlab.packs.manifest import PackManifest


def pack_capture(segments: Sequence[Path], folder: Path, options: Options | None = None) -> PackManifest:
    """Make a pack of a capture that has ended.

    Parameters
    ----------
    segments
        Its files.
    folder
        Where the pack will stand; its name becomes the pack id.
    options
        How many rows are held at a time.

    Raises
    ------
    SourceError
        No segment, or one that can't be read, or no tick in all of them.
    PackFormatError
        The folder exists.
    """
    files = {path.name: path for path in segments}
    header = next(records_of(segments[0]), None) if segments else None
    if not isinstance(header, Header):
        raise SourceError(f"no segment of a capture for {str(folder)!r}")
    if header.feed not in SOURCES:
        raise SourceError(f"captures of {header.feed!r} can't be read: they are of one of {', '.join(SOURCES)}")
    return import_files(files, SOURCES[header.feed].normalise, folder, options)[0]
