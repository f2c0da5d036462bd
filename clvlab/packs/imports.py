"""Import of packs from a provider's files or a synthetic recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clvlab.base.names import no_argument
from clvlab.base.parallel import Work, parallel_map
from clvlab.errors import ArgumentError, PackFormatError, SourceError
from clvlab.packs.importers.frames import FRAME_FILE, frame_csv, is_frame
from clvlab.packs.importers.importing import ImportReport, import_source
from clvlab.packs.importers.mapping import read_mapping
from clvlab.packs.importers.source import Options, silent

_OURS = ("reading_rule", "chunk_rows")
OPTIONS = tuple(one.name for one in fields(Options) if one.name not in _OURS)
"""Names of the options of an import."""


def import_options(*, mapping: Mapping[str, Any] | str | Path | None = None, **named: Any) -> Options:
    """Return the named options of an import; ``lenient`` by default."""
    for name in named:
        if name not in OPTIONS:
            raise ArgumentError(no_argument("import_odds", name, OPTIONS))
    columns = read_mapping(Path(mapping)) if isinstance(mapping, str | Path) else mapping
    return Options(**{"lenient": True} | named, mapping=columns)


def import_from(source: Any, paths: Any, folder: Path, options: Options) -> ImportReport:
    """Import files, or a frame as if it were the file ``frame.csv``; see ``import_source`` and ``frame_csv``."""
    if not isinstance(source, str | None):
        raise SourceError(f"a source is named by a text, such as 'csv', not {type(source).__name__}: the source comes first")
    if not is_frame(paths):
        return import_source(source, paths_of(paths), folder, options)
    if source is None:
        raise SourceError("a frame does not tell its source: name it, such as 'csv'")
    content = frame_csv(paths, source, options.mapping)
    if options.mapping is not None:
        options = replace(options, mapping={name: value for name, value in options.mapping.items() if name != "delimiter"})
    with TemporaryDirectory(prefix="clvlab-") as scratch:
        file = Path(scratch) / FRAME_FILE
        file.write_bytes(content)
        return import_source("csv" if source == "parquet" else source, [file], folder, options)


def paths_of(value: Any) -> list[Path]:
    """Return one path or several as a list; ``SourceError`` for a value that is not a path."""
    if isinstance(value, str | Path):
        return [Path(value)]
    if isinstance(value, Mapping):
        raise SourceError("a dictionary is no frame: give polars.DataFrame(...) of it, or the paths of files")
    paths = list(value) if isinstance(value, Iterable) else [value]
    strange = [one for one in paths if not isinstance(one, str | Path)]
    if strange:
        raise SourceError(f"odds are given as paths of files or folders, or as one frame, not as {strange[0]!r:.80}")
    return [Path(path) for path in paths]


# Several imports, each into a pack of its own, run in parallel.


@dataclass(frozen=True, slots=True)
class Import:
    source: str
    paths: tuple[Path, ...]
    folder: Path
    options: Options


def import_all(imports: Sequence[Import], executor: Executor | None = None) -> Iterator[Path]:
    """Make packs and yield their folders in order; the content of one does not depend on the process that makes it.

    Packs that were made before another failed remain. ``PackFormatError``, before anything is read, if two packs share a
    folder.
    """
    places = Counter(one.folder.resolve() for one in imports)
    twice = next((one.folder for one in imports if places[one.folder.resolve()] > 1), None)
    if twice is not None:
        raise PackFormatError(f"two packs would stand in {str(twice)!r}: give each a folder of its own")
    quiet = (replace(one, options=replace(one.options, progress=silent)) for one in imports)  # several would talk at once
    return parallel_map(Work(_here, _here, _target), quiet, len(imports), executor)


def _here(imports: Sequence[Import]) -> list[Path]:
    for one in imports:
        import_source(one.source, one.paths, one.folder, one.options)
    return [one.folder for one in imports]


def _target(one: Import) -> str:
    return f"of the import to {str(one.folder)!r}"
