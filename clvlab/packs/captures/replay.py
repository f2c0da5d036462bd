"""The messages of a replay: a tick each, in a plain form of our own, so that the ticks of the pack come back as they were."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from clvlab.packs.captures.normalising import Source
from clvlab.packs.captures.reader import StateReader
from clvlab.packs.exchange import State
from clvlab.packs.manifest import Fixture


class ReplayReader(StateReader):
    """Reads ticks, with the names of their fixtures and the kickoffs as announced."""

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:  # noqa: ARG002
        """Return the state of a tick's market."""
        try:
            raw = orjson.loads(text)
            state = State(
                raw["fixture_id"], raw["market_key"], raw["ts_ms"], raw["in_running"],
                *(tuple(raw[key]) for key in ("sides", "prob_bps", "odds_milli")),
            )  # fmt: skip
            fixture = Fixture(fixture_id=state.fixture_id, names=tuple(raw["names"]), kickoff_ts_ms=raw["kickoff_ts_ms"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"no tick of a replay: {type(error).__name__}") from error
        self._fixtures[state.fixture_id] = fixture
        self._known.add((state.fixture_id, state.market_key))
        return (state,)


SOURCE = Source(
    feed="replay",
    new_reader=lambda _live: ReplayReader(),
    margin="as-delivered",
    consensus="as-delivered",
    bounds_times=False,
)
