"""What a pack knows of its fixtures beforehand: names, league, season and the source's own id."""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from clvlab.law.schema import ABOUT
from clvlab.packs.manifest import Fixture

_FIRST_MONTH = 7  # of a season that goes over the turn of the year
_DATED = re.compile(r"[^|]+\|(\d{4})-(\d{2})-\d{2}\|")


def about(fixtures: Iterable[Fixture]) -> pl.DataFrame:
    """Return ``ABOUT`` of some fixtures, in their order."""
    rows = [(one.fixture_id, *_sides(one), league_of(one), season_of(one), one.source_id) for one in fixtures]
    return pl.DataFrame(rows, schema=ABOUT, orient="row")


def league_of(fixture: Fixture) -> str | None:
    """Return the league of a fixture: as the pack says, or as its source's id begins; null where neither names one.

    Examples
    --------
    >>> league_of(Fixture(fixture_id=1, source_id="E0|2025-08-15|Arsenal|Leeds")), league_of(Fixture(fixture_id=2))
    ('E0', None)
    """
    named, bar, _ = (fixture.source_id or "").partition("|")
    return fixture.league or (named if bar and named else None)


def season_of(fixture: Fixture) -> str | None:
    """Return the season of a fixture: as the pack says, or by the date in its source's id; null where neither names one.

    Examples
    --------
    >>> season_of(Fixture(fixture_id=1, source_id="E0|2025-08-15|Arsenal|Leeds"))
    '2025-26'
    """
    dated = _DATED.match(fixture.source_id or "")
    if fixture.season or not dated:
        return fixture.season
    first = int(dated[1]) - (int(dated[2]) < _FIRST_MONTH)
    return f"{first}-{(first + 1) % 100:02}"


def _sides(fixture: Fixture) -> tuple[str | None, str | None]:
    home, away = (*fixture.names, None, None)[:2]
    return home, away
