"""Packs made from files, frames and captures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.base import progress
from clvlab.base.files import StagingPath, scratch_folder
from clvlab.base.names import did_you_mean, no_argument
from clvlab.base.parallel import Work, parallel_map
from clvlab.errors import ArgumentError, PackFormatError, SourceError
from clvlab.law.tape import Tape
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import LADDERS_FILE, PackManifest, SourceFile, pack_id_of
from clvlab.packs.quality import Quality, QualityAccount, RefusedRows
from clvlab.packs.writer import PackWriter
from clvlab.sources.archives import Archives, archives_in, is_archive
from clvlab.sources.capture.records import Header, records_of
from clvlab.sources.mapping import read_mapping
from clvlab.sources.providers import IMPORTERS, SOURCES, Normaliser
from clvlab.sources.recognition import Recognition, content_of, is_of_betfair, probabilities_in, recognition_of
from clvlab.sources.source import Options, SourceData, SourcePart, as_part, left_files, silent
from clvlab.sources.tables.files import FRAME_FILE, frame_csv, is_frame
from clvlab.words import counted

# An import finds a source's files, normalises them, and writes the pack a few fixtures after another.


_TABLES = ("csv", "parquet")
_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The pack and quality report of an import, the unread files by reason, and the source if it was recognised."""

    manifest: PackManifest
    quality: Quality
    unread: tuple[RefusedRows, ...]
    recognised: Recognition | None = None


def import_source(source: str | None, paths: Sequence[Path], folder: Path, options: Options | None = None) -> ImportReport:
    """Make a pack of a provider's files.

    Parameters
    ----------
    source
        Name of an importer; recognised by the content of the files if ``None``.
    paths
        Files or folders of the source.
    folder
        Folder of the new pack; its name becomes the pack id. Nothing is left there if anything fails.
    options
        Strict, with the source's defaults, if ``None``.

    Raises
    ------
    SourceError
        The source is unknown, there are no files to read, or a row can't be read. The message names file, line and reason, and
        the source that the files look like if it is another one.
    PackFormatError
        The folder exists, or the ticks break a rule of the format.
    """
    if source is not None and source not in IMPORTERS:
        raise SourceError(f"unknown source {source!r:.200}: use one of {', '.join(sorted(IMPORTERS))}{_hint(source, paths)}")
    missing = [str(path) for path in paths if not path.exists()]
    if not paths:
        raise SourceError("no file is named: name a file or folder of odds")
    if missing:
        raise SourceError(f"no such file or folder: {', '.join(missing)}")
    options = options or Options()
    pack_id_of(folder)
    archives = archives_in(paths, partial(_is_kept, source))
    if not archives:
        return _import_paths(source, paths, folder, options)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with StagingPath(folder.parent) as scratch:
        unpacked = Archives(scratch)
        files = unpacked.extract(paths, archives)
        if unpacked.left and not options.lenient:
            raise SourceError("{}: {}".format(*unpacked.left[0]))
        try:
            return _import_paths(source, files, folder, options, left_files(unpacked.left))
        except SourceError as error:  # the error names files as the archive does
            raise SourceError(str(error).replace(f"{scratch}{os.sep}", "")) from error


def _is_kept(source: str | None, archive: Path) -> bool:
    """Return whether an archive is a Betfair tar, which its importer reads without unpacking."""
    return archive.suffix == ".tar" and (source == "betfair" or (source is None and is_of_betfair(archive)))


def _import_paths(
    source: str | None, paths: Sequence[Path], folder: Path, options: Options, left: tuple[RefusedRows, ...] = ()
) -> ImportReport:
    """Import paths; ``left``, the entries that archives could not unpack, is counted with the refused rows."""
    if source is None:
        form = {"odds_format": options.odds_format} if options.odds_format else {}
        found = recognition_of(paths, {**form, **(options.mapping or {})})
        return replace(_import_found(found.source, paths, folder, _options_for(found, options), left), recognised=found)
    try:
        return _import_found(source, paths, folder, options, left)
    except SourceError as error:
        looks = _recognition_of(paths, options)
        fair = None if options.odds_format or options.mapping else next(filter(None, map(probabilities_in, paths)), None)
        if fair is not None:
            raise SourceError(f"{error}; {fair}: leave out the source to be told what can be done with them") from error
        if looks is None or looks.source == source or (source in _TABLES and options.mapping):
            raise
        raise SourceError(f"{error}; by its content this is {looks}") from error


def _import_found(
    source: str, paths: Sequence[Path], folder: Path, options: Options, left: tuple[RefusedRows, ...]
) -> ImportReport:
    find, normalise = IMPORTERS[source]
    files = find(paths)
    manifest, quality = import_files(files, normalise, folder, options, left)
    return ImportReport(manifest, quality, _unread_files(paths, files.values()))


def _options_for(recognition: Recognition, options: Options) -> Options:
    """Return the options with the recognised delimiter and columns of a table."""
    own, chosen = dict(recognition.mapping or {}), dict(options.mapping or {})
    if recognition.source == "csv" and recognition.delimiter != ",":
        own["delimiter"] = recognition.delimiter
    if "columns" in own and isinstance(chosen.get("columns"), Mapping):
        chosen["columns"] = {**own["columns"], **chosen["columns"]}
    return replace(options, mapping={**own, **chosen} or None)


def _recognition_of(paths: Sequence[Path], options: Options) -> Recognition | None:
    try:
        return recognition_of(paths, options.mapping)
    except SourceError:  # no source is recognised: the first error says all
        return None


def _hint(source: str, paths: Sequence[Path]) -> str:
    """Return the source that was probably meant, which is named among the paths or has a similar name."""
    swapped = next((str(path) for path in paths if str(path) in IMPORTERS), None)
    return did_you_mean(source, IMPORTERS) if swapped is None else f"; the source comes first, then the files: {swapped!r}, ..."


def import_files(
    files: Mapping[str, Path],
    normalise: Normaliser,
    folder: Path,
    options: Options | None = None,
    left: tuple[RefusedRows, ...] = (),
    proofs: Path | None = None,
) -> tuple[PackManifest, Quality]:
    """Make a pack of files by name, as ``import_source`` does, and return it with its quality; ``proofs`` is a layer of it."""
    pack_id = pack_id_of(folder)
    if folder.exists() or folder.is_symlink():
        raise PackFormatError(f"{str(folder)!r} exists; a pack is never overwritten: name another folder")
    options = options or Options()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with StagingPath(folder.parent) as scratch:
        result = normalise(files, options, scratch)
        with PackWriter(folder, result.fixtures) as writer:
            quality, written_fixtures = QualityAccount(), 0
            progress.report("writing fixtures", 0, len(result.fixtures))
            for tape, books, ladders in map(partial(_tape, writer.kickoffs, result), result.parts):  # nothing else holds ticks
                if options.books and books is None:
                    raise SourceError(f"{result.normaliser} reads no single books: leave books out")
                if options.ladders and ladders is None:
                    raise SourceError(f"{result.normaliser} reads no ladders: leave ladders out")
                writer.add(tape, books, ladders)
                quality.add(tape)  # it reads only ticks that break no rule
                written_fixtures += tape.series["fixture_id"].n_unique()
                done = f"{written_fixtures:,} of {counted(len(result.fixtures), 'fixture')}"
                options.progress(f"{done}, {counted(quality.counts['ticks'], 'tick')} written")
                progress.report("writing fixtures", written_fixtures, len(result.fixtures))
            _check_some(quality, result, files, left)
            _check_weights(options, result)
            if options.max_overround is not None and not result.account.book_names:
                raise SourceError(f"{result.normaliser} reads no single books whose overround has a limit: leave it out")
            report = _report(quality, result, len(files), left)
            sources = tuple(SourceFile(name=name, digest=file_sha256(path)) for name, path in sorted(files.items()))
            manifest = PackManifest(
                pack_id=pack_id,
                provenance=result.provenance,
                closing_policy=result.closing_policy,
                closing_source=result.closing_source,
                margin=result.margin,
                consensus=_consensus(result, options),
                normaliser=result.normaliser,
                capture=result.capture,
                kickoff=result.kickoff,
                reading=result.reading,
                max_close_age_s=options.max_close_age_s,
                fixtures=result.fixtures,
                sources=None if result.keep_raw else sources,
                margin_fallbacks=result.account.margin_fallbacks or None,
            )
            if options.ladders and LADDERS_FILE not in writer.files:
                some = ", ".join(sorted(files)[:5])
                raise SourceError(f"no offer with a size is in {some}: a file without depth has no ladders, leave ladders out")
            written = writer.finish(manifest, files if result.keep_raw else {}, result.results, report, proofs)
    return written, report


def _consensus(result: SourceData, options: Options) -> str:
    limit = options.max_overround
    return result.consensus if limit is None else f"{result.consensus}; books beyond an overround of {limit:g} are suspended"


_Layer = pl.DataFrame | None


def _tape(kickoffs: pl.DataFrame, result: SourceData, part: pl.DataFrame | SourcePart) -> tuple[Tape, _Layer, _Layer]:
    ticks, books, ladders = as_part(part)
    own = kickoffs.filter(pl.col("fixture_id").is_in(ticks["fixture_id"].unique().implode()))
    return Tape.from_ticks(ticks, own, closing_policy=result.closing_policy), books, ladders


def _check_some(quality: QualityAccount, result: SourceData, files: Mapping[str, Path], left: tuple[RefusedRows, ...]) -> None:
    refused = [*result.account.refused_rows(), *left]
    if quality.counts["ticks"] > (quality.counts["suspended"] if refused else 0):
        return
    if result.account.broken is not None and len(files) == sum(row.count for row in refused) == 1:
        raise result.account.broken
    why = f"; refused {sum(row.count for row in refused):,}" if refused else ""
    why += (
        "".join(f"\n  {row}" for row in refused) if len(refused) > 1 else f", as {refused[0].first_examples}" if refused else ""
    )
    some = sorted(files)[:5]
    raise SourceError(
        f"no tick could be made of {', '.join(some)}{f' and {len(files) - 5:,} more' if len(files) > 5 else ''}{why}"
    )


def _check_weights(options: Options, result: SourceData) -> None:
    unknown = sorted(options.weights.keys() - result.account.book_names)
    if unknown:
        raise SourceError(
            f"no book is named {unknown[0]!r}; the source has {', '.join(sorted(result.account.book_names)) or 'none'}"
        )


def _report(quality: QualityAccount, result: SourceData, files: int, left: tuple[RefusedRows, ...]) -> Quality:
    account = result.account
    return quality.report(
        files=files,
        fixtures=[fixture.kickoff_ts_ms for fixture in result.fixtures],
        messages=account.messages,
        refused=(*account.refused_rows(), *left),
        notes=account.notes,
        books=account.books,
        book_overround_bps=account.overround_bps,
        margin_fallbacks=account.margin_fallbacks,
    )


def _unread_files(paths: Sequence[Path], read: Iterable[Path]) -> tuple[RefusedRows, ...]:
    below = {file for path in paths if path.is_dir() for file in path.rglob("*") if file.is_file()}
    unread = [file for file in sorted(below - set(read)) if not is_archive(file)]
    contents = [(file.name, content_of(file)) for file in unread[:_LOOKED_AT]]
    return left_files([*contents, *((file.name, "files that were not looked at") for file in unread[_LOOKED_AT:])])


# A pack of a capture keeps the segments, so that anyone can make its ticks from them again.


def pack_capture(
    segments: Sequence[Path], folder: Path, options: Options | None = None, proofs: Path | None = None
) -> PackManifest:
    """Make a pack of an ended capture's segments in ``folder``, whose name becomes the pack id.

    ``proofs`` has the provider's proofs of its messages, if it gave any.

    Raises
    ------
    SourceError
        There is no segment, one can't be read, or all segments together have no tick.
    PackFormatError
        The folder exists.
    """
    files = {path.name: path for path in segments}
    header = next(records_of(segments[0]), None) if segments else None
    if not isinstance(header, Header):
        raise SourceError(f"no segment of a capture for {str(folder)!r}")
    if header.feed not in SOURCES:
        raise SourceError(f"captures of {header.feed!r} can't be read: they are of one of {', '.join(SOURCES)}")
    return import_files(files, SOURCES[header.feed].normalise, folder, options, proofs=proofs)[0]


_OURS = ("reading_rule", "chunk_rows")
OPTIONS = tuple(one.name for one in fields(Options) if one.name not in _OURS)
"""Names of the options that a caller may give."""


def import_options(*, mapping: Mapping[str, Any] | str | Path | None = None, **named: Any) -> Options:
    """Return the options of an import by name; ``lenient`` unless set otherwise.

    Raises
    ------
    ArgumentError
        An option is unknown, or its value has the wrong type.
    OddsError
        An unknown margin method or odds format.
    SourceError
        A mapping file can't be read, or a value is not a mapping.
    WindowError
        ``max_close_age_s`` is not a positive number of seconds.
    """
    for name in named:
        if name not in OPTIONS:
            raise ArgumentError(no_argument("import_odds", name, OPTIONS))
    columns = read_mapping(Path(mapping)) if isinstance(mapping, str | Path) else mapping
    return Options(**{"lenient": True} | named, mapping=columns)


def import_from(source: Any, paths: Any, folder: Path, options: Options) -> ImportReport:
    """Import files, or a frame as the file ``frame.csv``; see ``import_source`` and ``frame_csv``."""
    if not isinstance(source, str | None):
        raise SourceError(f"a source is named by a text, such as 'csv', not {type(source).__name__}: the source comes first")
    if not is_frame(paths):
        return import_source(source, paths_of(paths), folder, options)
    if source is None:
        raise SourceError("a frame does not tell its source: name it, such as 'csv'")
    content = frame_csv(paths, source, options.mapping)
    if options.mapping is not None:
        options = replace(options, mapping={name: value for name, value in options.mapping.items() if name != "delimiter"})
    with scratch_folder() as scratch:
        file = Path(scratch) / FRAME_FILE
        file.write_bytes(content)
        return import_source("csv" if source == "parquet" else source, [file], folder, options)


def paths_of(value: Any) -> list[Path]:
    """Return one path or several as a list.

    Raises
    ------
    SourceError
        A value is not a path.
    """
    if isinstance(value, str | Path):
        return [Path(value)]
    if isinstance(value, Mapping):
        raise SourceError("a dictionary is no frame: give polars.DataFrame(...) of it, or the paths of files")
    paths = list(value) if isinstance(value, Iterable) else [value]
    strange = [one for one in paths if not isinstance(one, str | Path)]
    if strange:
        raise SourceError(f"odds are given as paths of files or folders, or as one frame, not as {strange[0]!r:.80}")
    return [Path(path) for path in paths]


# Several imports, each into a pack of its own, on any executor.


@dataclass(frozen=True, slots=True)
class Import:
    """Files or folders of a source, and the folder of their pack."""

    source: str
    paths: tuple[Path, ...]
    folder: Path
    options: Options


def import_all(imports: Sequence[Import], executor: Executor | None = None) -> Iterator[Path]:
    """Make packs in order, and yield each folder; the content does not depend on the executor.

    Packs that were made before another failed are kept.

    Raises
    ------
    PackFormatError
        Two packs have one folder; nothing was read.
    ExecutorError, ClvlabError
        As ``parallel_map`` and ``import_source``.
    """
    places = Counter(one.folder.resolve() for one in imports)
    twice = next((one.folder for one in imports if places[one.folder.resolve()] > 1), None)
    if twice is not None:
        raise PackFormatError(f"two packs would stand in {str(twice)!r}: give each a folder of its own")
    quiet = (replace(one, options=replace(one.options, progress=silent)) for one in imports)  # their lines would mix
    return parallel_map(Work(_here, _here, _target), quiet, len(imports), executor)


def _here(imports: Sequence[Import]) -> list[Path]:
    for one in imports:
        import_source(one.source, one.paths, one.folder, one.options)
    return [one.folder for one in imports]


def _target(one: Import) -> str:
    return f"of the import to {str(one.folder)!r}"
