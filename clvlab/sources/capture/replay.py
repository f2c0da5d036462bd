"""A pack played as a live feed, at its own pace or faster: for demos, and for tests of live runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

import orjson
import polars as pl

from clvlab.errors import FeedError
from clvlab.law.message import Message
from clvlab.law.tape import Tape
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import Pack
from clvlab.sources.capture.feed import FeedMessage, Health, Item, Resumption, Stop, now_ms
from clvlab.sources.capture.source import Source, StateReader
from clvlab.sources.exchange import State

_HEAD = ["fixture_id", "tick_seq", "ts_ms", "in_running", "market_key", "suspended"]


def messages_of(pack: Pack, fixture_ids: Sequence[int] = ()) -> list[Message]:
    """Return the messages of some or all fixtures of a pack, by time, then by fixture.

    Raises
    ------
    FeedError
        The pack does not have a fixture.
    """
    unknown = sorted(set(fixture_ids) - set(pack.fixture_ids))
    if unknown:
        some = ", ".join(map(str, pack.fixture_ids[:3]))
        raise FeedError(f"the pack {pack.pack_id!r} has no fixture {unknown[0]}: it has {len(pack.fixture_ids):,}: {some}, ...")
    rows = message_rows(pack.tape(sorted(set(fixture_ids)) or None)).iter_rows()
    return [Message._make((*row[:5], *map(tuple, row[6:]), row[5])) for row in rows]


def message_rows(tape: Tape) -> pl.DataFrame:
    """Return the messages of a tape by time, fixture and tick: ``_HEAD``, and lists of sides, probabilities and odds."""
    grouped = tape.ticks().collect(engine="in-memory").group_by(_HEAD, maintain_order=True)
    return grouped.agg("side", "prob_bps", "odds_milli").sort("ts_ms", "fixture_id", "tick_seq")


def announced_fixtures(pack: Pack) -> dict[int, Fixture]:
    """Return the fixtures of a pack with their announced kickoffs."""
    tape = pack.tape()
    kickoffs = dict((tape.fixtures if tape.announced is None else tape.announced).iter_rows())
    return {
        fixture.fixture_id: Fixture(
            fixture_id=fixture.fixture_id,
            names=fixture.names,
            source_id=fixture.source_id,
            kickoff_ts_ms=kickoffs[fixture.fixture_id],
            league=fixture.league,
        )
        for fixture in pack.manifest.fixtures
    }


class ReplayFeed:
    """The ticks of a pack, each as one message.

    Parameters
    ----------
    pack
        Pack to play.
    speed
        Multiple of the original pace; infinity plays as fast as possible.
    shift
        Whether times are moved so that the first message is now.

    Raises
    ------
    FeedError
        The speed is not above 0.
    """

    name = "replay"
    provenance = "synthetic-replay"

    def __init__(self, *, pack: Pack, speed: float = 1.0, shift: bool = False) -> None:
        if not speed > 0:
            raise FeedError(f"CLVLAB_REPLAY_SPEED must be above 0, not {speed}")
        self.pack, self._speed, self._shift = pack, speed, shift
        self._shift_ms: int | None = None if shift else 0
        self.health = Health()

    def fixtures(self) -> Sequence[Fixture]:
        """Return the fixtures of the pack, by kickoff."""
        shift_ms = self._offset_ms(self._first_ms())
        found = [_shift_start(fixture, shift_ms) for fixture in announced_fixtures(self.pack).values()]
        return sorted(found, key=lambda one: (one.kickoff_ts_ms or 0, one.fixture_id))

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        """Return the ticks in order, and end after the last; a mark continues with the tick after its own."""
        messages, fixtures = messages_of(self.pack, fixture_ids), announced_fixtures(self.pack)
        at = 0
        if after is not None:
            at, self._shift_ms = _read_mark(after)
            yield Resumption(now_ms(), replayed=True)
        shift_ms = self._offset_ms(self._first_ms())
        start_s, first_ms = monotonic(), messages[at].ts_ms if at < len(messages) else 0
        self.health.connected = True
        for n, message in enumerate(messages[at:], at + 1):
            if stop.wait(max(0.0, start_s + (message.ts_ms - first_ms) / 1000 / self._speed - monotonic())):
                break
            text = _text(message._replace(ts_ms=message.ts_ms + shift_ms), _shift_start(fixtures[message.fixture_id], shift_ms))
            received = FeedMessage(text, now_ms(), message.ts_ms + shift_ms, f"{n}:{shift_ms}")
            self.health.note(received)
            yield received
        self.health.connected = False

    def _first_ms(self) -> int:
        first: int = self.pack.tape().rows["ts_ms"].min()  # type: ignore[assignment]
        return first or 0

    def _offset_ms(self, first_ms: int) -> int:
        """Return how far times are moved, fixed by the first call."""
        if self._shift_ms is None:
            self._shift_ms = now_ms() - first_ms
        return self._shift_ms


def _text(message: Message, fixture: Fixture) -> bytes:
    raw = {
        "fixture_id": message.fixture_id, "names": fixture.names, "kickoff_ts_ms": fixture.kickoff_ts_ms,
        "ts_ms": message.ts_ms, "in_running": message.in_running, "market_key": message.market_key,
        "sides": message.sides, "prob_bps": message.prob_bps, "odds_milli": message.odds_milli,
        **({} if fixture.league is None else {"league": fixture.league}),
    }  # fmt: skip
    return orjson.dumps(raw)


def _shift_start(fixture: Fixture, shift_ms: int) -> Fixture:
    kickoff = fixture.kickoff_ts_ms
    return fixture if kickoff is None else fixture.model_copy(update={"kickoff_ts_ms": kickoff + shift_ms})


def _read_mark(mark: str) -> tuple[int, int]:
    number, _, shift_ms = mark.partition(":")
    try:
        return int(number), int(shift_ms)
    except ValueError as error:
        raise FeedError(f"{mark!r} is no mark of a replay: start it again") from error


# Each message of a replay is a tick, in a plain form of our own that gives back the same ticks.


class ReplayReader(StateReader):
    """Reads ticks, with the names and announced kickoffs of their fixtures."""

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:  # noqa: ARG002
        """Return the state of a tick's market."""
        try:
            raw = orjson.loads(text)
            state = State(
                raw["fixture_id"], raw["market_key"], raw["ts_ms"], raw["in_running"],
                *(tuple(raw[key]) for key in ("sides", "prob_bps", "odds_milli")),
            )  # fmt: skip
            fixture = Fixture(
                fixture_id=state.fixture_id, names=tuple(raw["names"]), kickoff_ts_ms=raw["kickoff_ts_ms"],
                league=raw.get("league"),
            )  # fmt: skip
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
