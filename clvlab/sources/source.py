"""The interface of importers: options in, ticks and fixtures out, and an account of rows and files."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from clvlab.base.names import did_you_mean, printable
from clvlab.errors import ArgumentError, OddsError, SourceError
from clvlab.law.schema import ODDS_MILLI, TICKS, ClosingPolicy
from clvlab.law.tape import check_close_age
from clvlab.odds.consensus import Consensus
from clvlab.odds.formats import OddsFormat
from clvlab.odds.margin import Margin
from clvlab.packs.ladders import sorted_ladders
from clvlab.packs.manifest import MAX_LEAGUE, Capture, Fixture, KickoffKind, TimeRule
from clvlab.packs.quality import RefusedRows

NO_ODDS = f"no price, or not one of {ODDS_MILLI[0] / 1000} to {ODDS_MILLI[1] // 1000:,} as decimal odds"
_LARGEST = 10  # overround; a larger value must be a percentage
_EXAMPLES = 5
_BREAKS_OFF = "a file can't be read to its end"
_PLACE = re.compile(r"^(:\d+)?: ")
_MAX_TEXT = 300
_MOST_REASONS = 20
_OTHERS = "files are left out for other reasons"


def silent(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an import; each importer uses those that apply to it.

    Attributes
    ----------
    lenient
        Count unreadable rows and continue, instead of stopping at the first.
    margin
        Method that removes a book's margin.
    min_books, max_age_s, weights
        Rules that turn books into one price, see ``Consensus``; the source's own default if ``None``.
    max_overround
        Overround above which a book's message is suspended, and counted; no limit if ``None``.
    odds_format
        Format of prices; detected if ``None``.
    time_zone
        IANA zone of times without a zone; such times are refused if ``None``.
    books
        Keep each book's prices besides the consensus.
    ladders
        Keep the offers on each side, level by level, of a source that has depth.
    closing
        football-data: preference of closing columns.
    mapping
        csv and parquet: the meaning of columns; kalshi, pmxt and trades: the market and side of each asset.
    max_close_age_s
        Oldest closing message that a market is scored by; no limit if ``None``.
    reading_rule
        Rule for times of history; rule 1 is for reading a pack again that does not name a rule.
    chunk_rows
        Most rows in memory at once.
    progress
        Called with a line of text now and then.
    """

    lenient: bool = False
    margin: Margin = Margin.POWER
    min_books: int | None = None
    max_age_s: int | None = None
    weights: Mapping[str, int] = field(default_factory=dict)
    max_overround: float | None = None
    odds_format: str | None = None
    time_zone: str | None = None
    books: bool = False
    ladders: bool = False
    closing: tuple[str, ...] | None = None
    mapping: Mapping[str, Any] | None = None
    max_close_age_s: int | None = None
    reading_rule: int = 2
    chunk_rows: int = 100_000
    progress: Callable[[str], None] = silent

    def __post_init__(self) -> None:
        if self.margin not in list(Margin):
            meant = did_you_mean(self.margin, Margin)
            raise OddsError(f"unknown margin method {self.margin!r:.80}: use one of {', '.join(Margin)}{meant}")
        if self.odds_format is not None and self.odds_format not in list(OddsFormat):
            meant = did_you_mean(self.odds_format, OddsFormat)
            raise OddsError(f"unknown odds format {self.odds_format!r:.80}: use one of {', '.join(OddsFormat)}{meant}")
        for name, number, least in (("min_books", self.min_books, 1), ("max_age_s", self.max_age_s, 0)):
            if number is not None and (type(number) is not int or number < least):
                raise OddsError(f"{name} must be a whole number of at least {least}, not {number!r:.80}")
        most = self.max_overround
        if most is not None and not (type(most) in (int, float) and 0 < most <= _LARGEST):
            raise OddsError(f"max_overround is a share of at most {_LARGEST}, such as 0.3 for 30 %, not {most!r:.80}")
        if self.weights is not None and not isinstance(self.weights, Mapping):
            raise OddsError(
                f"weights is a mapping from books to whole numbers, such as {{'pinnacle': 2}}, not {self.weights!r:.80}"
            )
        if self.closing is not None and (isinstance(self.closing, str) or not isinstance(self.closing, Iterable)):
            raise OddsError(f"closing is a list of sources, such as ['pinnacle', 'average'], not {self.closing!r:.80}")
        if self.time_zone is not None and not isinstance(self.time_zone, str):
            raise SourceError(f"time_zone is the IANA name of a zone, such as 'Europe/London', not {self.time_zone!r:.80}")
        for name, flag in (("lenient", self.lenient), ("books", self.books), ("ladders", self.ladders)):
            if type(flag) is not bool:
                raise ArgumentError(f"{name} is True or False, not {flag!r:.80}")
        if not callable(self.progress):
            problem = f"progress is called with a line of text now and then, such as print; {self.progress!r:.80} can't be"
            raise ArgumentError(problem)
        if self.mapping is not None and not isinstance(self.mapping, Mapping):
            problem = f"a mapping says what columns mean, as {{'columns': {{'time': 'when'}}}}, not {self.mapping!r:.80}"
            raise SourceError(problem)
        check_close_age(self.max_close_age_s)
        object.__setattr__(self, "margin", Margin(self.margin))
        object.__setattr__(self, "weights", dict(self.weights or {}))
        object.__setattr__(self, "closing", None if self.closing is None else tuple(self.closing))

    def rules(self, default: Consensus) -> Consensus:
        """Return a source's rules of consensus with the caller's changes."""
        return Consensus(
            min_books=default.min_books if self.min_books is None else self.min_books,
            max_age_s=default.max_age_s if self.max_age_s is None else self.max_age_s,
            weights=self.weights,
        )


@dataclass(frozen=True, slots=True)
class RefusedRow:
    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return printable(f"{self.file}:{self.line}: {self.reason}")


def reason_of(error: Exception) -> str:
    """Return the reason why a value can't be read; the text of a ``KeyError`` would be only a name."""
    return f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)


@dataclass(slots=True)
class ImportStats:
    """Account of an import: refused rows and files, notes, books and their overround.

    Attributes
    ----------
    refused, examples
        Counts by reason, and first examples: rows with their place and reason, files by name.
    broken
        Problem of the first refused file.
    """

    lenient: bool = False
    messages: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    broken: SourceError | None = None
    notes: Counter[str] = field(default_factory=Counter)
    books: Counter[int] = field(default_factory=Counter)
    overround_bps: Counter[int] = field(default_factory=Counter)
    margin_fallbacks: int = 0
    book_names: set[str] = field(default_factory=set)
    _reasons: set[str] = field(default_factory=set)

    def refuse(self, file: str, line: int, reason: str, kind: str = "can't be read") -> None:
        """Count a bad row; ``kind`` is the reason without its values.

        Raises
        ------
        SourceError
            When strict.
        """
        refused = RefusedRow(file, line, reason)
        if not self.lenient:
            raise SourceError(f"{refused} (lenient reading would count it and go on)")
        self._count(kind, str(refused))

    def _count(self, kind: str, example: str) -> None:
        self.refused[kind] += 1
        known = self.examples.setdefault(kind, [])
        if len(known) < _EXAMPLES:
            known.append(example)

    def refuse_file(self, file: str, error: SourceError, reason: str = _BREAKS_OFF) -> None:
        """Count a file that can't be read to its end, by its problem.

        Raises
        ------
        SourceError
            When strict; the same error.
        """
        if not self.lenient:
            raise error
        message = _PLACE.sub("", printable(str(error)).removeprefix(printable(file)))
        kind = f"a file {message}" if message.startswith(_BREAKS_OFF.removeprefix("a file ")) else f"{reason}: {message}"
        self.leave_file(file, kind)
        self.broken = self.broken or error

    def leave_file(self, file: str, reason: str) -> None:
        """Count a file that is left out under its reason; with too many reasons, count it with all others."""
        kind = reason[:_MAX_TEXT]
        self._reasons.add(kind if len(self._reasons) < _MOST_REASONS else _OTHERS)
        self._count(kind if kind in self._reasons else _OTHERS, printable(file))

    def note(self, what: str, count: int = 1) -> None:
        """Count a finding for readers of the pack; a count of zero is dropped."""
        if count:
            self.notes[what] += count

    def refused_rows(self) -> tuple[RefusedRows, ...]:
        """Return the refused rows by reason, most frequent first."""
        return tuple(
            RefusedRows(reason=kind, count=count, examples=tuple(self.examples[kind]))
            for kind, count in self.refused.most_common()
        )


def left_files(left: Iterable[tuple[str, str]]) -> tuple[RefusedRows, ...]:
    """Return files left out (name, reason) as ``ImportStats.refuse_file`` counts them."""
    account = ImportStats(lenient=True)
    for name, why in left:
        account.leave_file(name, why)
    return account.refused_rows()


class SourcePart(NamedTuple):
    """Whole fixtures of a source: ``TICKS``, and ``BOOKS`` and ``LADDERS`` if kept."""

    ticks: pl.DataFrame
    books: pl.DataFrame | None = None
    ladders: pl.DataFrame | None = None


@dataclass(frozen=True, slots=True)
class SourceData:
    """The content of a source.

    Attributes
    ----------
    parts
        Whole fixtures in ascending order of fixture_id, made lazily: a ``SourcePart``, or ``TICKS`` alone.
    fixtures
        Fixtures with names and kickoffs if known.
    account
        Complete once the parts were taken.
    kickoff
        Kind of the kickoffs; ``None`` if they were announced beforehand.
    capture
        When and how the messages were captured; ``None`` if unknown.
    results
        ``RESULTS``; ``None`` without any.
    reading
        Rule by which times were read; ``None`` for the first rule, and where both rules agree.
    keep_raw
        Whether the pack keeps the source's files.
    """

    parts: Iterable[pl.DataFrame | SourcePart]
    fixtures: tuple[Fixture, ...]
    account: ImportStats
    provenance: str
    normaliser: str
    margin: str
    consensus: str
    closing_source: str = "consensus"
    closing_policy: ClosingPolicy = ClosingPolicy.LAST_STATE
    kickoff: KickoffKind | None = None
    capture: Capture | None = None
    results: pl.DataFrame | None = None
    reading: TimeRule | None = None
    keep_raw: bool = False

    @property
    def ticks(self) -> pl.DataFrame:
        return self.whole.ticks

    @property
    def whole(self) -> SourcePart:
        """All parts as one, with ``LADDERS`` sorted if kept and without books."""
        parts = [as_part(part) for part in self.parts]
        kept = [part.ladders for part in parts if part.ladders is not None]
        ticks = pl.concat([pl.DataFrame(schema=TICKS), *(part.ticks for part in parts)])
        return SourcePart(ticks, ladders=sorted_ladders(pl.concat(kept)) if kept else None)


def as_part(part: pl.DataFrame | SourcePart) -> SourcePart:
    return part if isinstance(part, SourcePart) else SourcePart(part)


def ticks_frame(rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    """Return ``TICKS`` from tuples in the schema's column order."""
    return pl.DataFrame(list(rows), schema=TICKS, orient="row")


def fixture_id_of(source_id: str) -> int:
    """Return the first 52 bits of the SHA-256 of a source's own id."""
    return int.from_bytes(hashlib.sha256(source_id.encode()).digest()[:7]) >> 4


def league_named(text: object, column: str) -> str | None:
    """Return the league that a source names, or ``None``.

    Raises
    ------
    ValueError
        The value is not a text, or too long for a pack.
    """
    if text in (None, ""):
        return None
    if not isinstance(text, str):
        raise ValueError(f"{column} {text!r:.80} is no name of a league")
    if len(text) > MAX_LEAGUE:
        raise ValueError(f"{column} {text!r:.80} has {len(text):,} letters, a league has {MAX_LEAGUE} at most")
    return text


def fixture_ids_of(source_ids: Iterable[str]) -> dict[str, int]:
    """Number fixtures that have no integer id.

    Raises
    ------
    SourceError
        Two ids get the same number.
    """
    numbers: dict[int, str] = {}
    for source_id in sorted(set(source_ids)):
        known = numbers.setdefault(fixture_id_of(source_id), source_id)
        if known != source_id:
            raise SourceError(f"fixtures {known!r} and {source_id!r} have the same number; import them as two packs")
    return {source_id: number for number, source_id in numbers.items()}


def files_below(paths: Sequence[Path], endings: Sequence[str], named_so: re.Pattern[str] | None = None) -> dict[str, Path]:
    """Return files by name: the given files, and files in given folders with the endings or names, by path below the folder.

    Raises
    ------
    SourceError
        There is no file, or two have one name.
    """
    named: dict[str, Path] = {}
    for path in paths:
        below = (
            [path]
            if path.is_file()
            else [
                file
                for file in sorted(path.rglob("*"))
                if file.is_file() and (file.name.endswith(tuple(endings)) or (named_so and named_so.fullmatch(file.name)))
            ]
        )
        found = {printable(file.name if file == path else file.relative_to(path).as_posix()): file for file in below}
        if len(found) < len(below):
            raise SourceError(f"two files of {printable(str(path))!r} have names that are printed alike: rename one")
        twice = sorted(named.keys() & found.keys())
        if twice:
            raise SourceError(f"two files are named {twice[0]!r}: {named[twice[0]]} and {found[twice[0]]}")
        named |= found
    if not named:
        raise SourceError(f"no file that ends in {', '.join(endings)} in {', '.join(str(path) for path in paths)}")
    return named
