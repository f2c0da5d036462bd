"""Which share of Polymarket is which side of which market, read from the answers of its gamma API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from clvlab.law.markets import spelled_key
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.exchange.shares import MARKET_KEY, match_sides, names_of
from clvlab.packs.manifest import Fixture
from clvlab.times import of_iso

_YES_NO = ["yes", "no"]


@dataclass(frozen=True, slots=True)
class Event:
    """An event that gamma describes.

    Attributes
    ----------
    in_play
        Whether it was, when the answer was given.
    markets
        Market key -> side -> asset. Several yes/no markets of one event that exclude each other are one market with a side
        each, ``1X2_PARTICIPANT_RESULT||`` where they are the outcomes of a match. Markets that are closed are left out.
    """

    fixture: Fixture
    in_play: bool
    markets: Mapping[str, Mapping[str, str]]


def is_description(message: object) -> bool:
    """Whether a message is an answer of gamma's ``/events``."""
    return isinstance(message, list) and bool(message) and isinstance(message[0], dict) and "markets" in message[0]


def events_of(answer: Sequence[Any]) -> list[Event]:
    """Read an answer of ``/events``.

    Raises
    ------
    ValueError
    """
    try:
        return [_event(entry) for entry in answer]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no description of events: {type(error).__name__}: {error}") from error


def _event(entry: Mapping[str, Any]) -> Event:
    number, title = int(entry["id"]), str(entry["title"])
    if not 0 <= number <= SAFE_INTEGER:
        raise ValueError(f"the id of an event is {number}")
    open_markets = [market for market in entry["markets"] if market.get("clobTokenIds") and not market.get("closed")]
    # Not endDate, by which an event is to be resolved: a close at that time may know the result.
    starts = (entry.get("startTime"), *(market.get("gameStartTime") for market in open_markets))
    kickoff = next((start for start in starts if start), None)
    names = _names(title, entry.get("teams") or ())
    fixture = Fixture(
        fixture_id=number,
        names=names,
        source_id=str(entry["slug"]),
        kickoff_ts_ms=None if kickoff is None else of_iso(kickoff),
    )
    return Event(fixture, entry.get("live") is True, _markets(entry, open_markets, names))


def _names(title: str, teams: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The home team first: titles of American sports name it last, and only ``teams`` tells."""
    names = names_of(title)
    home = {team.get(key) for team in teams if team.get("ordering") == "home" for key in ("name", "alias")}
    return names[::-1] if len(names) == 2 and names[1] in home else names


def _markets(entry: Mapping[str, Any], listed: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, dict[str, str]]:
    markets: dict[str, dict[str, str]] = {}
    exclusive = [
        market
        for market in listed
        if [name.lower() for name in _texts(market["outcomes"])] == _YES_NO
        and (entry.get("negRisk") or market.get("sportsMarketType") == "moneyline")
    ]
    if len(exclusive) > 1:
        outcomes = [str(market.get("groupItemTitle") or market["question"]) for market in exclusive]
        sides = match_sides(names, outcomes)
        key = MARKET_KEY if sides and "draw" in sides else f"{entry['slug']}||"
        markets[key] = _paired(sides or outcomes, [_texts(market["clobTokenIds"])[0] for market in exclusive])
        listed = [market for market in listed if market not in exclusive]
    for market in listed:
        outcomes = _texts(market["outcomes"])
        kind, line = market.get("sportsMarketType"), market.get("line")
        key = spelled_key(str(kind), line=None if line is None else str(line))
        if not kind or key in markets:
            key = f"{market['slug']}||"
        of_match = match_sides(names, outcomes)
        markets[key] = _paired(of_match or [outcome.lower() for outcome in outcomes], _texts(market["clobTokenIds"]))
    return markets


def _paired(sides: Sequence[str], assets: Sequence[str]) -> dict[str, str]:
    if len(set(sides)) < len(sides) or len(sides) != len(assets) or len(sides) < 2:
        raise ValueError(f"the sides {list(sides)} do not belong to {len(assets)} assets")
    return dict(sorted(zip(sides, assets, strict=True), key=lambda pair: pair[0].encode()))


def _texts(value: object) -> list[str]:
    """Gamma writes lists as JSON within a text."""
    found = orjson.loads(value) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise TypeError(f"{value!r:.80} is no list")
    return [str(entry) for entry in found]
