"""Making packs: of a provider's files, or of a synthetic recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clvlab.errors import OddsError
from clvlab.odds.formats import OddsFormat
from clvlab.odds.margin import Margin
from clvlab.packs.importers.mapping import read_mapping
from clvlab.packs.importers.source import Options, silent


def import_options(
    *,
    lenient: bool = False,
    margin: str = Margin.POWER,
    min_books: int | None = None,
    max_age_s: int | None = None,
    weights: Mapping[str, int] | None = None,
    odds_format: str | None = None,
    time_zone: str | None = None,
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
        A mapping file that can't be read.
    WindowError
        A ``max_close_age_s`` that is no positive number of seconds.
    """
    if margin not in list(Margin):
        raise OddsError(f"unknown margin method {margin!r}: use one of {', '.join(Margin)}")
    if odds_format is not None and odds_format not in list(OddsFormat):
        raise OddsError(f"unknown odds format {odds_format!r}: use one of {', '.join(OddsFormat)}")
    columns = read_mapping(Path(mapping)) if isinstance(mapping, str | Path) else mapping
    return Options(
        lenient=lenient,
        margin=Margin(margin),
        min_books=min_books,
        max_age_s=max_age_s,
        weights=dict(weights or {}),
        odds_format=odds_format,
        time_zone=time_zone,
        closing=None if closing is None else tuple(closing),
        mapping=columns,
        max_close_age_s=max_close_age_s,
        progress=progress,
    )
