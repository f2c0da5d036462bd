"""Selections of decisions by league, market, side, fixture, or date of the close."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from clvlab.errors import StatisticsError
from clvlab.packs.manifest import league_of
from clvlab.packs.reader import Pack
from clvlab.words import counted, market_name


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of decisions; by default it is all of them.

    Attributes
    ----------
    leagues
        Leagues as the source names them: the first part of the source id of a fixture.
    markets
        Prefixes of market keys, as in a window.
    sides
        Sides that were backed.
    fixtures
        Fixture ids.
    since, until
        First and last day, UTC, of the close.
    """

    leagues: tuple[str, ...] = ()
    markets: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    fixtures: tuple[int, ...] = ()
    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        for name in ("leagues", "markets", "sides", "fixtures"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise StatisticsError(f"{name} is a list, as {name}=[{value!r:.80}]")
            object.__setattr__(self, name, tuple(value))
        for name in ("since", "until"):
            object.__setattr__(self, name, as_day(name, getattr(self, name)))
        if self.since and self.until and self.until < self.since:
            raise StatisticsError(f"no day lies between {self.since} and {self.until}: since is the first, until the last")

    @classmethod
    def of(cls, *values: Any) -> Selection:
        """Return the selection of values in the order of the attributes."""
        return cls(*values)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return not any(getattr(self, one.name) for one in fields(self))

    @property
    def words(self) -> str:
        """The selection in words; empty for all."""
        parts = [
            *([f"league {' or '.join(self.leagues)}"] if self.leagues else []),
            *([f"market {' or '.join(map(market_name, self.markets))}"] if self.markets else []),
            *([f"side {' or '.join(self.sides)}"] if self.sides else []),
            *([counted(len(self.fixtures), "named fixture")] if self.fixtures else []),
            *([f"closed on {self.since} or later"] if self.since else []),
            *([f"closed on {self.until} or before"] if self.until else []),
        ]
        return ", ".join(parts)

    def matching(self, pack: Pack) -> pl.Expr:
        """Return the expression of selected rows, over ``fixture_id``, ``market_key``, ``side`` and ``close_ts_ms``."""
        conditions = [pl.col("fixture_id").is_not_null()]
        if self.leagues:
            conditions.append(pl.col("fixture_id").is_in(_fixtures_of(pack, self.leagues)))
        if self.markets:
            conditions.append(pl.any_horizontal([pl.col("market_key").str.starts_with(prefix) for prefix in self.markets]))
        if self.sides:
            conditions.append(pl.col("side").is_in(list(self.sides)))
        if self.fixtures:
            pack.check_known(self.fixtures)
            conditions.append(pl.col("fixture_id").is_in(list(self.fixtures)))
        if self.since:
            conditions.append(pl.col("close_ts_ms") >= _midnight_ms(self.since))
        if self.until:
            conditions.append(pl.col("close_ts_ms") < _midnight_ms(self.until + timedelta(days=1)))
        return pl.all_horizontal(conditions).fill_null(value=False)


def _fixtures_of(pack: Pack, leagues: tuple[str, ...]) -> list[int]:
    known = {fixture.fixture_id: league_of(fixture) for fixture in pack.manifest.fixtures}
    names = {league for league in known.values() if league is not None}
    wrong = [league for league in leagues if league not in names]
    if wrong:
        hint = (
            f"its leagues are {', '.join(sorted(names)[:20])}" if names else "its fixtures name none: select by fixtures=[...]"
        )
        raise StatisticsError(f"pack {pack.pack_id!r} has no league {wrong[0]!r:.80}; {hint}")
    return [fixture_id for fixture_id, league in known.items() if league in leagues]


def as_day(name: str, value: object) -> date | None:
    """Return the day of a date, a time or an ISO text; `None` for `None`.

    Examples
    --------
    >>> as_day("since", "2026-01-31")
    datetime.date(2026, 1, 31)
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).date() if value.tzinfo else value.date()
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError as error:
        raise StatisticsError(f"{name} is a day, as 2026-01-31, not {value!r:.80}") from error


def _midnight_ms(day: date) -> int:
    return int(1000 * datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
