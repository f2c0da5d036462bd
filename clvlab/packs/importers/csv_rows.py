"""Rows of a CSV whose source is known, so that its columns need no mapping; whichever delimiter it was saved with."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from clvlab.errors import SourceError
from clvlab.packs.files import MAX_LINE_BYTES, lines_of
from clvlab.packs.importers.source import Account

DELIMITERS = ",;\t|"


class _Reader(Protocol):
    """What ``csv.reader`` gives."""

    @property
    def line_num(self) -> int: ...
    def __iter__(self) -> Iterator[list[str]]: ...


class CsvRow(NamedTuple):
    """A row by column, empty cells left out; ``line`` counts as the file does."""

    line: int
    cells: dict[str, str]


def delimiter_of(header: str) -> str:
    """Return what separates the cells of a header.

    Examples
    --------
    >>> delimiter_of("date;home;away"), delimiter_of("one column")
    (';', ',')
    """
    return max(DELIMITERS, key=header.count)


def header_of(line: str) -> list[str]:
    """Return the columns that a header names; none where it can't be read as one."""
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter_of(line)), [])]
    except csv.Error:
        return []


def opened_csv(name: str, path: Path, account: Account) -> tuple[list[str], Iterator[CsvRow]]:
    """Return the header and the rows; one of another width than the header is refused.

    Raises
    ------
    SourceError
        No header, or it names a column twice; a file that can't be read to its end; when strict, a row that can't be read.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))  # a cell may hold a list of books
    lines = _text_lines(name, path, account)
    first = next((line for line in lines if line.strip()), "")
    header = header_of(first)
    if not any(header) or len(set(header)) != len(header):
        raise SourceError(f"{name}:1: the header {header} is empty or names a column twice")
    return header, _rows(name, header, csv.reader(lines, delimiter=delimiter_of(first), strict=True), account)


def _rows(name: str, header: list[str], reader: _Reader, account: Account) -> Iterator[CsvRow]:
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            line = reader.line_num + 1
            if len(row) != len(header):
                text = f"{len(row)} cells under a header of {len(header)}"
                account.refuse(name, line, text, "a row is too wide or narrow")
                continue
            yield CsvRow(line, {column: cell.strip() for column, cell in zip(header, row, strict=True) if cell.strip()})
    except csv.Error as error:
        raise SourceError(f"{name}:{reader.line_num + 1}: no CSV from here on: {error}") from error


def _text_lines(name: str, path: Path, account: Account) -> Iterator[str]:
    """Return every line, an empty one for what is blank or refused, so that the reader counts as the file does."""
    given = 0
    for number, line in lines_of(path):
        yield from ["\n"] * (number - given - 1)
        given = number
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            account.refuse(name, number, f"no UTF-8: {error.reason} at byte {error.start}", "a row is no UTF-8")
            yield "\n"
