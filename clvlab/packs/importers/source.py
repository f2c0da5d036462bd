"""What every importer gives: ticks, fixtures, and an account of the rows it refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from clvlab.errors import SourceError
from clvlab.law.schema import TICKS
from clvlab.packs.manifest import Capture, Fixture

__all__ = ["Normalised", "Refusals", "Refused", "ticks_frame"]


@dataclass(frozen=True, slots=True)
class Refused:
    """A source row that was not read."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(slots=True)
class Refusals:
    """Refuses bad rows: at once when strict, counted when lenient."""

    lenient: bool
    rows: list[Refused] = field(default_factory=list)

    def refuse(self, file: str, line: int, reason: str) -> None:
        """Take note of a bad row.

        Raises
        ------
        SourceError
            When strict.
        """
        refused = Refused(file, line, reason)
        if not self.lenient:
            raise SourceError(f"{refused} (lenient reading would count it and go on)")
        self.rows.append(refused)


@dataclass(frozen=True, slots=True)
class Normalised:
    """What a source says.

    Attributes
    ----------
    ticks
        ``TICKS``.
    fixtures
        Fixtures with names and kickoffs where the source has them.
    capture
        When and how the messages were captured; null where the source does not say.
    messages
        Source rows read.
    refused
        Source rows not read.
    provenance, margin, closing_source
        Labels of the pack.
    """

    ticks: pl.DataFrame
    fixtures: tuple[Fixture, ...]
    messages: int
    refused: tuple[Refused, ...]
    provenance: str
    normaliser: str
    margin: str
    consensus: str
    closing_source: str
    capture: Capture | None = None


def ticks_frame(rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    """Make ``TICKS`` of tuples in the schema's column order."""
    return pl.DataFrame(list(rows), schema=TICKS, orient="row")
