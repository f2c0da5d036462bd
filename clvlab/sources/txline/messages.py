"""TxLINE's stable-price messages: each has the whole state of a market, with de-margined probabilities as delivered.

A message whose ``Pct`` are all "NA", or that names its sides without prices, suspends its market.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple, TypedDict

import orjson

from clvlab.base.times import LAST_MS
from clvlab.law.schema import ODDS_MILLI, SAFE_INTEGER
from clvlab.odds.integers import WHOLE_BPS, half_up
from clvlab.packs.invariants import MAX_NAME_BYTES, is_name
from clvlab.packs.manifest import Fixture
from clvlab.sources.capture.source import Source, StateReader
from clvlab.sources.clock import AGAINST_ARRIVAL
from clvlab.sources.exchange import State
from clvlab.sources.source import league_stated

BOOKMAKER = "TXLineStablePriceDemargined"
_SUM_TOLERANCE_BPS = 50


class StableMessage(TypedDict, total=False):
    """Fields read of TxLINE's messages: any may be missing or of another type until checked."""

    FixtureId: int
    Ts: int
    InRunning: bool
    MessageId: str
    SuperOddsType: str
    MarketPeriod: str | None
    MarketParameters: str | None
    Bookmaker: str
    PriceNames: Sequence[str]
    Prices: Sequence[int]
    Pct: Sequence[str]


_KINDS: Mapping[Literal["FixtureId", "Ts", "InRunning", "MessageId", "SuperOddsType"], type] = {
    "FixtureId": int, "Ts": int, "InRunning": bool, "MessageId": str, "SuperOddsType": str,
}  # fmt: skip


def stable_price(raw: StableMessage) -> State:
    """Return the state in a message.

    Raises
    ------
    ValueError, KeyError, TypeError, ArithmeticError
        The message is not one of TxLINE's, or breaks a rule of a pack.
    """
    for name, kind in _KINDS.items():
        if type(raw[name]) is not kind:
            raise ValueError(f"{name} must be {kind.__name__}, not {raw[name]!r}")
    if abs(raw["FixtureId"]) > SAFE_INTEGER or not 0 <= raw["Ts"] <= SAFE_INTEGER:
        raise ValueError(f"FixtureId {raw['FixtureId']} or Ts {raw['Ts']} is out of range")
    if raw["Bookmaker"] != BOOKMAKER:
        raise ValueError(f"Bookmaker {raw['Bookmaker']!r} is not the stable price")
    sides, prices, percents = raw["PriceNames"], raw["Prices"], raw["Pct"]
    if not all(isinstance(text, str) for text in (*sides, *percents)):
        raise ValueError(f"PriceNames {sides} and Pct {percents} must be texts")
    if len(set(sides)) != len(sides) or len(sides) < 2 or len(prices) != len(percents) or len(prices) not in (0, len(sides)):
        raise ValueError(f"PriceNames {sides}, Prices {prices} and Pct {percents} do not belong together")
    key = "|".join([raw["SuperOddsType"], raw["MarketPeriod"] or "", raw["MarketParameters"] or ""])
    if not all(map(is_name, (key, *sides))):
        raise ValueError(f"{key!r:.80} and {sides!r:.80} must have 1 to {MAX_NAME_BYTES} bytes and no control character")
    if not prices:
        nothing = (None,) * len(sides)
        return State(raw["FixtureId"], key, raw["Ts"], raw["InRunning"], tuple(sorted(sides)), nothing, nothing)
    odds = [_odds(price) for price in prices]
    probs = [None if percent == "NA" else _bps(percent) for percent in percents]
    total = sum(prob or 0 for prob in probs)
    if None not in probs and abs(total - WHOLE_BPS) > _SUM_TOLERANCE_BPS:
        raise ValueError(f"Pct {percents} sum to {total} basis points, not 10000 +- {_SUM_TOLERANCE_BPS}")
    return State(
        raw["FixtureId"], key, raw["Ts"], raw["InRunning"], *zip(*sorted(zip(sides, probs, odds, strict=True)), strict=True)
    )


def _bps(percent: str) -> int:
    bps = half_up(Decimal(percent) * 100)
    if not 0 <= bps <= WHOLE_BPS:
        raise ValueError(f"Pct {percent} is not 0 to 100")
    return bps


def _odds(price: int) -> int:
    if type(price) is not int or not ODDS_MILLI[0] <= price <= ODDS_MILLI[1]:
        raise ValueError(f"price {price!r} is not decimal odds x 1000, {ODDS_MILLI[0]} to {ODDS_MILLI[1]}")
    return price


class TxLineReader(StateReader):
    """Reads stable-price messages, which have no names and kickoffs; a message that was read before is refused.

    The ids of each market's newest time are kept: an older message leaves no tick, whatever its id.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[int, str], tuple[int, set[str]]] = {}

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:  # noqa: ARG002
        """Return the state of the market that the message is about."""
        try:
            raw = orjson.loads(text)
            state = stable_price(raw)
        except orjson.JSONDecodeError as error:
            raise ValueError("no JSON") from error
        except KeyError as error:
            raise ValueError(f"no stable-price message: it lacks {error}") from error
        except (TypeError, ArithmeticError) as error:
            raise ValueError(f"no stable-price message: {type(error).__name__}") from error
        if state.ts_ms > LAST_MS:
            raise ValueError("its Ts is after all times")
        if not self.clock.holds(state.ts_ms):
            raise ValueError(AGAINST_ARRIVAL)
        market = state.fixture_id, state.market_key
        newest_ms, ids = self._seen.get(market, (-1, set[str]()))
        if state.ts_ms == newest_ms and raw["MessageId"] in ids:
            raise ValueError("its MessageId was seen before")
        if state.ts_ms > newest_ms:
            self._seen[market] = state.ts_ms, {raw["MessageId"]}
        elif state.ts_ms == newest_ms:
            ids.add(raw["MessageId"])
        self._known.add(market)
        self._fixtures.setdefault(state.fixture_id, Fixture(fixture_id=state.fixture_id))
        return (state,)


SOURCE = Source(feed="txline", new_reader=lambda _live: TxLineReader(), margin="as-delivered", consensus="txline-stable-price")


class About(NamedTuple):
    """Facts a message states about itself; ``None`` if missing."""

    message_id: str | None = None
    ts_ms: int | None = None
    fixture_id: int | None = None


def about(text: bytes) -> About:
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError:
        return About()
    if not isinstance(raw, dict):
        return About()
    message_id, ts_ms, fixture_id = raw.get("MessageId"), raw.get("Ts"), raw.get("FixtureId")
    return About(
        message_id if isinstance(message_id, str) else None,
        ts_ms if type(ts_ms) is int else None,
        fixture_id if type(fixture_id) is int else None,
    )


def fixture_of(text: str) -> Fixture:
    """Return a fixture from its description, or from a message."""
    raw = orjson.loads(text)
    names = tuple(raw[key] for key in ("Participant1", "Participant2") if isinstance(raw.get(key), str))
    kickoff = raw.get("StartTime")
    return Fixture(
        fixture_id=raw["FixtureId"],
        names=names if len(names) == 2 else (),
        kickoff_ts_ms=kickoff if type(kickoff) is int else None,
        league=league_stated(raw.get("Competition")),
    )
