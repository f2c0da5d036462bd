"""The rule of a view: its fixtures, markets and messages, in one canonical form."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from clvlab.base.names import did_you_mean
from clvlab.base.times import LAST_MS, iso_moment
from clvlab.errors import ViewError
from clvlab.law.schema import MAX_CLOSE_AGE_S
from clvlab.packs.manifest import Fixture, league_of, season_of
from clvlab.words import counted, minute, seconds

OVERROUND, BOOKS = "max_overround", "min_books"
"""Filters that mark messages suspended, by name."""
MARKS = frozenset({"max_overround_bps", BOOKS})
"""Keys of these filters in a payload; with one of them, a view lacks some prices of its parent."""
_SEASON = re.compile(r"(\d{4})(?:[-/](\d{2}|\d{4}))?")
_MOST_OVERROUND = 1000
_MOST_BOOKS = 1_000_000
_MAX_TEXT_BYTES = 200
_LISTED = 20


@dataclass(frozen=True, slots=True)
class RuleStep:
    """The effect of one filter on the fixtures before it.

    ``words`` describes its selection. The filter left out ``fixtures`` of ``of`` fixtures, ``without`` of them because the
    selected property is not known.
    """

    filter: str
    words: str
    fixtures: int
    without: int
    of: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Filters of a view, ``None`` where unused; lists are sorted and without duplicates."""

    # leagues, seasons: names as the pack has them
    leagues: tuple[str, ...] | None = None
    seasons: tuple[str, ...] | None = None
    # kickoffs at or after after_ms, and before before_ms, in UTC milliseconds
    after_ms: int | None = None
    before_ms: int | None = None
    fixtures: tuple[int, ...] | None = None  # fixture ids
    markets: tuple[str, ...] | None = None  # prefixes of market keys
    max_overround_bps: int | None = None  # messages with a larger overround are marked suspended
    min_books: int | None = None  # messages are marked suspended where fewer books have a price on their market
    max_close_age_s: int | None = None  # older closing messages do not count

    def payload(self) -> Mapping[str, object]:
        own = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in own if value is not None}

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Rule:
        """Return the rule of a payload.

        Raises
        ------
        ViewError
            The payload is not a rule in its canonical form.
        """
        try:
            values: Mapping[str, Any] = {name: tuple(own) if isinstance(own, list) else own for name, own in payload.items()}
            found = cls(**values)
            again = rule(
                league=found.leagues,
                season=found.seasons,
                after=found.after_ms,
                before=found.before_ms,
                fixtures=found.fixtures,
                markets=found.markets,
                max_overround=None if found.max_overround_bps is None else found.max_overround_bps / 10_000,
                min_books=found.min_books,
                drop_close_older_than_s=found.max_close_age_s,
            )
        except TypeError as error:
            raise ViewError(f"not a rule of a view: {error}") from error
        if again.payload() != payload:
            raise ViewError(f"not a rule of a view as clvlab writes it: {payload!r:.200}")
        return again

    @property
    def words(self) -> str:
        return ", ".join(
            [
                *([f"league {' or '.join(self.leagues)}"] if self.leagues else []),
                *([f"season {' or '.join(self.seasons)}"] if self.seasons else []),
                *([f"kickoff at or after {minute(self.after_ms)}"] if self.after_ms is not None else []),
                *([f"kickoff before {minute(self.before_ms)}"] if self.before_ms is not None else []),
                *([counted(len(self.fixtures), "named fixture")] if self.fixtures else []),
                *([f"markets {' or '.join(self.markets)}"] if self.markets else []),
                *([f"overround at most {self.max_overround_bps / 100:g} %"] if self.max_overround_bps is not None else []),
                *([f"at least {counted(self.min_books, 'book')}"] if self.min_books is not None else []),
                *([f"closes at most {seconds(self.max_close_age_s)} old"] if self.max_close_age_s is not None else []),
            ]
        )

    def chosen(self, fixtures: Sequence[Fixture], pack_id: str) -> tuple[tuple[Fixture, ...], list[RuleStep]]:
        """Return the remaining fixtures in order, and the effect of each filter.

        Raises
        ------
        ViewError
            The pack lacks a league, season or fixture, or no fixture remains.
        """
        left, steps = tuple(fixtures), list[RuleStep]()
        for name, words, value_of, keep in self._filters(fixtures, pack_id):
            unknown = 0 if value_of is None else sum(value_of(fixture) is None for fixture in left)
            kept = tuple(fixture for fixture in left if (value_of is None or value_of(fixture) is not None) and keep(fixture))
            steps.append(RuleStep(name, words, len(left) - len(kept), unknown, len(left)))
            left = kept
        if not left:
            summary = "; ".join(f"{step.words} leaves out {step.fixtures:,} of {step.of:,}" for step in steps)
            raise ViewError(f"no fixture of {pack_id!r} is left: {summary or 'it has none'}")
        return left, steps

    def _filters(self, fixtures: Sequence[Fixture], pack_id: str) -> Iterator[_Filter]:
        if self.leagues is not None:
            leagues = _among("league", self.leagues, map(league_of, fixtures), pack_id)
            yield "league", Rule(leagues=self.leagues).words, league_of, lambda one: league_of(one) in leagues
        if self.seasons is not None:
            seasons = _among("season", self.seasons, map(season_of, fixtures), pack_id)
            yield "season", Rule(seasons=self.seasons).words, season_of, lambda one: season_of(one) in seasons
        if (after := self.after_ms) is not None:
            yield "after", Rule(after_ms=after).words, _kickoff, lambda one: (one.kickoff_ts_ms or 0) >= after
        if (before := self.before_ms) is not None:
            yield "before", Rule(before_ms=before).words, _kickoff, lambda one: (one.kickoff_ts_ms or 0) < before
        if self.fixtures is not None:
            wanted, known = set(self.fixtures), {fixture.fixture_id for fixture in fixtures}
            missing = sorted(wanted - known)
            if missing:
                raise ViewError(f"fixture {missing[0]} is not in pack {pack_id!r}, which has {len(known):,}")
            yield "fixtures", Rule(fixtures=self.fixtures).words, None, lambda one: one.fixture_id in wanted


_Filter = tuple[str, str, Callable[[Fixture], object] | None, Callable[[Fixture], bool]]


def rule(
    *,
    league: str | Iterable[str] | None = None,
    season: str | int | Iterable[str] | None = None,
    after: date | str | int | None = None,
    before: date | str | int | None = None,
    fixtures: Iterable[int] | None = None,
    markets: str | Iterable[str] | None = None,
    max_overround: float | None = None,
    min_books: int | None = None,
    drop_close_older_than_s: int | None = None,
) -> Rule:
    """Return filters in their hashed form; ``Pack.where`` documents each.

    Raises
    ------
    ViewError
        A value is not valid; the error names its argument.

    Examples
    --------
    >>> rule(league=["E1", "E0", "E1"], season="2025/26", after="2025-08-01").payload()
    {'leagues': ['E0', 'E1'], 'seasons': ['2025-26'], 'after_ms': 1754006400000}
    """
    after_ms, before_ms = _moment("after", after), _moment("before", before)
    if after_ms is not None and before_ms is not None and before_ms <= after_ms:
        raise ViewError(
            f"no kickoff is at or after {minute(after_ms)} and before {minute(before_ms)}: before= is the later one"
        )
    seasons = _texts("season", str(season) if type(season) is int else season)
    prefixes = _texts("markets", markets)
    return Rule(
        leagues=_texts("league", league),
        seasons=None if seasons is None else tuple(sorted(set(map(_season, seasons)))),
        after_ms=after_ms,
        before_ms=before_ms,
        fixtures=_ids(fixtures),
        markets=None if prefixes is None else _shortest(prefixes),
        max_overround_bps=_overround(max_overround),
        min_books=_whole("min_books", "number of books", min_books, _MOST_BOOKS),
        max_close_age_s=_whole("drop_close_older_than_s", "number of seconds", drop_close_older_than_s, MAX_CLOSE_AGE_S),
    )


def _texts(name: str, value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    texts = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else None
    if not texts or not all(isinstance(one, str) and len(one.encode()) <= _MAX_TEXT_BYTES for one in texts):
        raise ViewError(f"{name}= is a text, or a list of texts that is not empty, not {value!r:.80}")
    if name != "markets" and not all(texts):
        raise ViewError(f"{name}= has an empty text: omit {name}= to take all")
    return tuple(sorted(set(texts)))


def _season(text: str) -> str:
    """Return a season in the form of packs."""
    found = _SEASON.fullmatch(text)
    return f"{found[1]}-{found[2][-2:]}" if found and found[2] else text


def _shortest(prefixes: Sequence[str]) -> tuple[str, ...] | None:
    """Leave out prefixes that another one covers; ``None`` if one is empty, and so selects every market."""
    kept = tuple(one for one in prefixes if not any(one != other and one.startswith(other) for other in prefixes))
    return None if kept == ("",) else kept


def _ids(value: Iterable[int] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    chosen = tuple(value) if is_list else ()
    if not chosen or not all(hasattr(one, "__index__") and not isinstance(one, bool) for one in chosen):
        raise ViewError(f"fixtures= is a list of fixture ids that is not empty, not {value!r:.80}")
    return tuple(sorted({operator.index(one) for one in chosen}))


def _moment(name: str, value: Any) -> int | None:
    """Return UTC milliseconds of a day, which begins at midnight UTC, or of a time with its zone; integers pass unchanged."""
    if value is None or type(value) is int:
        if value is not None and not 0 <= value <= LAST_MS:
            raise ViewError(f"{name}= is out of range: {value}")
        return value
    if isinstance(value, str):
        value = _read_time(name, value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ViewError(f"{name}= has no time zone: write {value.isoformat()}Z if {value} is meant in UTC")
        moment = value
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
    else:
        raise ViewError(f"{name}= is a day, as 2026-01-31, or a time with its zone, not {value!r:.80}")
    milliseconds = math.floor(moment.timestamp() * 1000 + 0.5)
    if milliseconds < 0:
        raise ViewError(f"{name}= is before 1970: {moment}")
    return milliseconds


def _read_time(name: str, text: str) -> date | datetime:
    try:
        return date.fromisoformat(text) if len(text) <= len("2026-01-31") else iso_moment(text)
    except ValueError as error:
        raise ViewError(f"{name}= is a day, as 2026-01-31, or a time with its zone, not {text!r:.80}") from error


def _overround(value: Any) -> int | None:
    if value is None:
        return None
    is_number = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    if not is_number or not 0 <= value <= _MOST_OVERROUND:
        raise ViewError(f"max_overround= is a share of at least 0, as 0.15 for 15 %, not {value!r:.80}")
    found: int = round(value * 10_000)
    return found


def _whole(name: str, noun: str, value: Any, most: int) -> int | None:
    if value is None:
        return None
    if type(value) is int and 1 <= value <= most:
        return value
    raise ViewError(f"{name}= is a whole {noun} from 1 on, not {value!r:.80}")


def _among(name: str, wanted: Sequence[str], found: Iterable[str | None], pack_id: str) -> set[str]:
    names = sorted({one for one in found if one is not None})
    wrong = [one for one in wanted if one not in names]
    if wrong:
        more = ", ..." if len(names) > _LISTED else ""
        known = (
            f"it has {', '.join(names[:_LISTED])}{more}" if names else "its fixtures name none: choose by after= and before="
        )
        meant = did_you_mean(wrong[0], names)
        raise ViewError(f"pack {pack_id!r} has no {name} {wrong[0]!r:.80}{meant or ';'} {known}")
    return set(wanted)


def _kickoff(fixture: Fixture) -> int | None:
    return fixture.kickoff_ts_ms
