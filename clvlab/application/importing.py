"""Making packs: of a provider's files, or of a synthetic recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clvlab.errors import ArgumentError, OddsError, SourceError
from clvlab.naming import did_you_mean, no_argument
from clvlab.odds.formats import OddsFormat
from clvlab.odds.margin import Margin
from clvlab.packs.importers.frames import FRAME_FILE, frame_csv, is_frame
from clvlab.packs.importers.importing import ImportReport, import_source
from clvlab.packs.importers.mapping import read_mapping
from clvlab.packs.importers.source import Options, silent

_LARGEST = 10  # overround; what is more is a percentage


def import_options(
    *,
    lenient: bool = True,
    margin: str = Margin.POWER,
    min_books: int | None = None,
    max_age_s: int | None = None,
    weights: Mapping[str, int] | None = None,
    max_overround: float | None = None,
    odds_format: str | None = None,
    time_zone: str | None = None,
    books: bool = False,
    closing: Sequence[str] | None = None,
    mapping: Mapping[str, Any] | str | Path | None = None,
    max_close_age_s: int | None = None,
    progress: Callable[[str], None] = silent,
) -> Options:
    """Return the options of an import; what is null is left to the source.

    Raises
    ------
    OddsError
        An unknown margin method or odds format.
    SourceError
        A mapping file that can't be read, or a value that is no mapping.
    ArgumentError
        A value of another kind than it must be.
    WindowError
        A ``max_close_age_s`` that is no positive number of seconds.
    """
    if margin not in list(Margin):
        raise OddsError(f"unknown margin method {margin!r:.80}: use one of {', '.join(Margin)}{did_you_mean(margin, Margin)}")
    if odds_format is not None and odds_format not in list(OddsFormat):
        meant = did_you_mean(odds_format, OddsFormat)
        raise OddsError(f"unknown odds format {odds_format!r:.80}: use one of {', '.join(OddsFormat)}{meant}")
    for name, number, least in (("min_books", min_books, 1), ("max_age_s", max_age_s, 0)):
        if number is not None and (type(number) is not int or number < least):
            raise OddsError(f"{name} must be a whole number of at least {least}, not {number!r:.80}")
    if max_overround is not None and not (type(max_overround) in (int, float) and 0 < max_overround <= _LARGEST):
        raise OddsError(f"max_overround is a share of at most {_LARGEST}, such as 0.3 for 30 %, not {max_overround!r:.80}")
    if weights is not None and not isinstance(weights, Mapping):
        raise OddsError(f"weights is a mapping from books to whole numbers, such as {{'pinnacle': 2}}, not {weights!r:.80}")
    if closing is not None and (isinstance(closing, str) or not isinstance(closing, Iterable)):
        raise OddsError(f"closing is a list of sources, such as ['pinnacle', 'average'], not {closing!r:.80}")
    if time_zone is not None and not isinstance(time_zone, str):
        raise SourceError(f"time_zone is the IANA name of a zone, such as 'Europe/London', not {time_zone!r:.80}")
    for name, flag in (("lenient", lenient), ("books", books)):
        if type(flag) is not bool:
            raise ArgumentError(f"{name} is True or False, not {flag!r:.80}")
    if not callable(progress):
        raise ArgumentError(f"progress is called with a line of text now and then, such as print; {progress!r:.80} can't be")
    columns = read_mapping(Path(mapping)) if isinstance(mapping, str | Path) else mapping
    if columns is not None and not isinstance(columns, Mapping):
        raise SourceError(f"a mapping says what columns mean, as {{'columns': {{'time': 'when'}}}}, not {columns!r:.80}")
    return Options(
        lenient=lenient,
        margin=Margin(margin),
        min_books=min_books,
        max_age_s=max_age_s,
        weights=dict(weights or {}),
        max_overround=max_overround,
        odds_format=odds_format,
        time_zone=time_zone,
        books=books,
        closing=None if closing is None else tuple(closing),
        mapping=columns,
        max_close_age_s=max_close_age_s,
        progress=progress,
    )


def options_named(named: Mapping[str, Any]) -> Options:
    """Return the options of an import that are given by name.

    Raises
    ------
    ArgumentError
        There is no option of that name.
    OddsError, SourceError, WindowError
        As ``import_options``.
    """
    known = list(signature(import_options).parameters)
    for name in named:
        if name not in known:
            raise ArgumentError(no_argument("import_odds", name, known))
    return import_options(**named)


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
