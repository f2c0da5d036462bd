"""Making packs: of a provider's files, or of a synthetic recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clvlab.errors import ArgumentError, SourceError
from clvlab.naming import no_argument
from clvlab.packs.importers.frames import FRAME_FILE, frame_csv, is_frame
from clvlab.packs.importers.importing import ImportReport, import_source
from clvlab.packs.importers.mapping import read_mapping
from clvlab.packs.importers.source import Options

_OURS = ("reading_rule", "chunk_rows")
OPTIONS = tuple(one.name for one in fields(Options) if one.name not in _OURS)
"""Names of the options that a caller may give."""


def import_options(*, mapping: Mapping[str, Any] | str | Path | None = None, **named: Any) -> Options:
    """Return the options of an import that are given by name; ``lenient``, unless it is given otherwise.

    Raises
    ------
    ArgumentError
        There is no option of that name, or a value is of another kind than it must be.
    OddsError
        An unknown margin method or odds format.
    SourceError
        A mapping file that can't be read, or a value that is no mapping.
    WindowError
        A ``max_close_age_s`` that is no positive number of seconds.
    """
    for name in named:
        if name not in OPTIONS:
            raise ArgumentError(no_argument("import_odds", name, OPTIONS))
    columns = read_mapping(Path(mapping)) if isinstance(mapping, str | Path) else mapping
    return Options(**{"lenient": True} | named, mapping=columns)


def import_given(source: Any, given: Any, folder: Path, options: Options) -> ImportReport:
    """Import files, or a frame as the file ``frame.csv`` that it would be; see ``import_source`` and ``frame_csv``.

    Raises
    ------
    SourceError, OddsError, PackFormatError
    """
    if not isinstance(source, str | None):
        raise SourceError(f"a source is named by a text, such as 'csv', not {type(source).__name__}: the source comes first")
    if not is_frame(given):
        return import_source(source, paths_of(given), folder, options)
    if source is None:
        raise SourceError("a frame does not tell its source: name it, such as 'csv'")
    content = frame_csv(given, source, options.mapping)
    if options.mapping is not None:
        options = replace(options, mapping={name: value for name, value in options.mapping.items() if name != "delimiter"})
    with TemporaryDirectory(prefix="clvlab-") as scratch:
        file = Path(scratch) / FRAME_FILE
        file.write_bytes(content)
        return import_source("csv" if source == "parquet" else source, [file], folder, options)


def paths_of(given: Any) -> list[Path]:
    """Return one path or several as a list.

    Raises
    ------
    SourceError
        Something that is no path.
    """
    if isinstance(given, str | Path):
        return [Path(given)]
    if isinstance(given, Mapping):
        raise SourceError("a dictionary is no frame: give polars.DataFrame(...) of it, or the paths of files")
    paths = list(given) if isinstance(given, Iterable) else [given]
    strange = [one for one in paths if not isinstance(one, str | Path)]
    if strange:
        raise SourceError(f"odds are given as paths of files or folders, or as one frame, not as {strange[0]!r:.80}")
    return [Path(path) for path in paths]
