"""TxLINE's messages: each is the whole state of a market."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from clvlab.base.times import LAST_MS
from clvlab.packs.captures.normalising import Source
from clvlab.packs.captures.reader import AGAINST_ARRIVAL, StateReader
from clvlab.packs.exchange import State
from clvlab.packs.importers.txline import stable_price
from clvlab.packs.manifest import Fixture


class TxLineReader(StateReader):
    """Reads stable-price messages; one that was read before is refused. They say no names and no kickoffs.

    Of each market the ids of its newest time are kept: a message that is older leaves no tick, whoever it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[int, str], tuple[int, set[str]]] = {}

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:  # noqa: ARG002
        """Return the state of the market that the message is about."""
        try:
            raw = orjson.loads(text)
            message = stable_price(raw)
        except orjson.JSONDecodeError as error:
            raise ValueError("no JSON") from error
        except KeyError as error:
            raise ValueError(f"no stable-price message: it lacks {error}") from error
        except (TypeError, ArithmeticError) as error:
            raise ValueError(f"no stable-price message: {type(error).__name__}") from error
        if message.ts_ms > LAST_MS:
            raise ValueError("its Ts is after all times")
        if not self.clock.holds(message.ts_ms):
            raise ValueError(AGAINST_ARRIVAL)
        market = message.fixture_id, message.market_key
        newest_ms, ids = self._seen.get(market, (-1, set[str]()))
        if message.ts_ms == newest_ms and raw["MessageId"] in ids:
            raise ValueError("its MessageId was seen before")
        if message.ts_ms > newest_ms:
            self._seen[market] = message.ts_ms, {raw["MessageId"]}
        elif message.ts_ms == newest_ms:
            ids.add(raw["MessageId"])
        self._known.add(market)
        self._fixtures.setdefault(message.fixture_id, Fixture(fixture_id=message.fixture_id))
        sides, prob_bps, odds_milli = zip(
            *sorted(zip(message.sides, message.prob_bps, message.odds_milli, strict=True)), strict=True
        )
        return (State(message.fixture_id, message.market_key, message.ts_ms, message.in_running, sides, prob_bps, odds_milli),)


SOURCE = Source(feed="txline", new_reader=lambda _live: TxLineReader(), margin="as-delivered", consensus="txline-stable-price")
