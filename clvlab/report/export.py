"""The common base of results: data under ``.frame``, and export to files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.errors import FileError, MissingLibraryError, StatisticsError
from clvlab.report.html import Html, page


def optional(library: str, what: str) -> Any:
    """Import an optional library; the error for a missing one says what it is for.

    A thread imports it: an interrupt in the middle of an import, as of matplotlib, would leave it broken for the session.
    """
    try:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(import_module, library).result()
    except ImportError as error:
        raise MissingLibraryError(library.partition(".")[0], what) from error


def for_marimo(content: str) -> Any:
    """Return HTML that marimo shows; it takes plain text only, none of our own type."""
    return optional("marimo", "a cell of marimo").Html(str(content))


def check_settings(level: float, seed: int = 0, **counts: int) -> None:
    """Refuse a level outside 0..1, a seed below 0 and counts below 1."""
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise StatisticsError(f"the level of an interval lies between 0 and 1, as 0.95 does, not {level!r:.80}")
    if type(seed) is not int or seed < 0:
        raise StatisticsError(f"a seed is a whole number of at least 0, not {seed!r:.80}")
    for name, count in counts.items():
        if type(count) is not int or count < 1:
            raise StatisticsError(f"{name} must be a whole number of at least 1, not {count!r}")


def writable(path: object) -> Path:
    """Return the path of a file that can be written; raise ``FileError`` for a folder, or a file in none."""
    if not isinstance(path, str | Path):
        raise FileError(f"a file is named by its path, such as 'result.csv', not {path!r:.80}")
    found = Path(path)
    if found.is_dir():
        raise FileError(f"{str(path)!r:.300} is a folder: name the file in it")
    if not found.parent.is_dir():
        raise FileError(f"there is no folder {str(found.parent)!r:.300} to write {found.name!r:.80} in: make it first")
    return found


class Exportable(ABC):
    """A result with a card, a frame and exports."""

    @property
    @abstractmethod
    def frame(self) -> pl.DataFrame:
        """The data."""

    @abstractmethod
    def _repr_html_(self) -> Html: ...

    def _display_(self) -> Any:
        """Return the card for marimo, which prefers this method to all others."""
        return for_marimo(self._repr_html_())

    def to_pandas(self) -> Any:
        """Return ``.frame`` as a pandas ``DataFrame``.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        optional("pandas", "to_pandas()")
        return self.frame.to_pandas()

    def to_parquet(self, path: str | Path) -> Path:
        """Write ``.frame`` as Parquet and return the path."""
        self.frame.write_parquet(writable(path))
        return Path(path)

    def to_csv(self, path: str | Path) -> Path:
        """Write ``.frame`` as CSV and return the path; lists become text with blanks."""
        lists = [name for name, dtype in self.frame.schema.items() if dtype == pl.List]
        self.frame.with_columns(pl.col(lists).cast(pl.List(pl.String)).list.join(" ")).write_csv(writable(path))
        return Path(path)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained HTML page and return the path."""
        writable(path).write_text(page(repr(self).partition("; next:")[0], self._repr_html_()), encoding="utf-8")
        return Path(path)
