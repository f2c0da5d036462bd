"""Which ticker of Kalshi is which side of which market, read from the answers of its REST interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.packs.exchange.shares import MARKET_KEY, match_sides, names_of
from clvlab.packs.importers.source import fixture_id_of
from clvlab.packs.manifest import Fixture
from clvlab.times import of_iso


@dataclass(frozen=True, slots=True)
class Event:
    """An event, or one market of it, that REST describes.

    Attributes
    ----------
    markets
        Market key -> side -> ticker. An event whose markets exclude each other is one market with a side each; any other
        ticker, and one that was asked for by itself, is a market with the sides ``no`` and ``yes`` of the same ticker.
    """

    fixture: Fixture
    markets: Mapping[str, Mapping[str, str]]


def is_description(message: Mapping[str, Any]) -> bool:
    """Whether a message is an answer of ``/events/{event_ticker}`` or of ``/markets/{ticker}``."""
    return "type" not in message and ("event" in message or "market" in message)


def described(answer: Mapping[str, Any]) -> Event:
    """Read an answer.

    Raises
    ------
    ValueError
    """
    try:
        if "market" in answer:
            market = answer["market"]
            return _event(str(market["event_ticker"]), str(market["title"]), [market], exclusive=False)
        event = answer["event"]
        listed = event["markets"] if "markets" in event else answer["markets"]
        exclusive = event.get("mutually_exclusive") is True
        return _event(str(event["event_ticker"]), str(event["title"]), listed, exclusive=exclusive)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no description of an event: {type(error).__name__}: {error}") from error


def _event(ticker: str, title: str, listed: Sequence[Mapping[str, Any]], *, exclusive: bool) -> Event:
    names = _names(title)
    # Not close_time: trading goes on while a match is played, and that time lies days or weeks behind its end.
    starts = [of_iso(market["occurrence_datetime"]) for market in listed if market.get("occurrence_datetime")]
    fixture = Fixture(fixture_id=fixture_id_of(ticker), names=names, source_id=ticker, kickoff_ts_ms=min(starts, default=None))
    tickers = [str(market["ticker"]) for market in listed]
    if not exclusive or len(tickers) < 2:
        return Event(fixture, {f"{own}||": {"no": own, "yes": own} for own in tickers})
    sides = match_sides(names, [str(market.get("yes_sub_title")) for market in listed])
    key = MARKET_KEY if sides and "draw" in sides else f"{ticker}||"
    named = zip(sides or [own.removeprefix(f"{ticker}-") for own in tickers], tickers, strict=True)
    return Event(fixture, {key: dict(sorted(named, key=lambda pair: pair[0].encode()))})


def _names(title: str) -> tuple[str, ...]:
    """The home team first, which ``A at B`` names last; the question that follows the names is left off."""
    plain = title.removesuffix("?").removesuffix(" Winner").strip()
    away, at, home = plain.partition(" at ")
    return (home, away) if at else names_of(plain)
