"""Live seats: an agent elsewhere answers each message of a match that is still to be played, within seconds of its arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from clvlab.arena.jobs import fenced
from clvlab.arena.live import Happening
from clvlab.arena.run_jobs import Sealing
from clvlab.arena.runs.in_database import give_up
from clvlab.arena.seats.job import require
from clvlab.arena.seats.requests import SeatRequest
from clvlab.arena.seats.tape import SeatMessages
from clvlab.engine.agent import Identity, register
from clvlab.errors import AgentError
from clvlab.law.actions import Decision
from clvlab.law.closing import Window
from clvlab.law.message import Message
from clvlab.law.schema import Causality
from clvlab.law.tape import Tape
from clvlab.log.log import note_seat
from clvlab.log.seats import KIND, STRATEGY, STRATEGY_VERSION, Blind, sealed_config
from clvlab.packs.manifest import Fixture
from clvlab.proof.canonical import JsonObject
from clvlab.runs.live.spec import LiveSpec
from clvlab.runs.run import Run
from clvlab.runs.spec import settings_in
from clvlab.sources.capture.feed import Feed
from clvlab.store import seats
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job
from clvlab.store.runlog import StoredLogRows
from clvlab.store.seats import SeatStatus

Ask = Callable[[str, int, Message, int], Sequence[JsonObject]]
"""Shows a message to a seat as its next tick, and returns the decisions recorded; gets when the message arrived."""


def message_view(tick: int, message: Message) -> JsonObject:
    """Return what the entrant sees of a message; the kickoff is left out, as some feeds move it."""
    sides = [list(side) for side in zip(message.sides, message.prob_bps, message.odds_milli, strict=True)]
    return {
        "tick": tick,
        "fixture": message.fixture_id,
        "market": message.market_key,
        "sides": sides,
        "suspended": message.suspended,
        "in_running": message.in_running,
        "time_ms": message.ts_ms,
        "tick_seq": message.tick_seq,
    }


@dataclass
class LiveTape(SeatMessages):
    """The messages that a live seat was shown so far."""

    _views: list[JsonObject] = field(default_factory=list)
    _known: dict[int, dict[str, tuple[int, tuple[str, ...]]]] = field(default_factory=dict)

    @property
    def ticks(self) -> int:
        return len(self._views)

    def extend(self, views: Iterable[JsonObject]) -> None:
        for view in views:
            if view["tick"] != self.ticks + 1:  # another thread has added it
                continue
            self._views.append(view)
            sides = tuple(name for name, _, _ in view["sides"])
            self._known.setdefault(view["fixture"], {}).setdefault(view["market"], (view["tick"], sides))

    def markets(self) -> dict[int, dict[str, tuple[int, tuple[str, ...]]]]:
        return self._known

    def message(self, tick: int) -> tuple[int, int]:
        view = self._views[tick - 1]
        return view["fixture"], view["tick_seq"]

    def view(self, tick: int, blind: Blind, secret: bytes) -> JsonObject:  # noqa: ARG002
        return self._views[tick - 1]

    def market_name(self, tick: int, blind: Blind, secret: bytes) -> str:  # noqa: ARG002
        return str(self._views[tick - 1]["market"])


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LiveSeatAgent:
    """An agent that answers from elsewhere while the match is played."""

    identity: Identity
    seat_id: str
    ask: Ask | None = None

    def decide(self, tape: Tape) -> pl.DataFrame:  # noqa: ARG002
        raise AgentError(f"agent {self.identity.agent_id!r} answered from elsewhere, and can't be asked again")

    @contextmanager
    def following(self, fixtures: pl.DataFrame) -> Iterator[_SeatFollower]:  # noqa: ARG002
        if self.ask is None:
            raise AgentError(f"seat {self.seat_id} is not followed here")
        yield _SeatFollower(self.ask, self.seat_id)


@dataclass
class _SeatFollower:
    ask: Ask
    seat_id: str
    tape: LiveTape = field(default_factory=LiveTape)

    def take(self, message: Message) -> Sequence[Decision]:  # noqa: ARG002
        raise AgentError(f"seat {self.seat_id} is shown messages with the time of their arrival")

    def take_at(self, message: Message, received_ts_ms: int) -> Sequence[Decision]:
        tick = self.tape.ticks + 1
        self.tape.extend([message_view(tick, message)])
        decisions = self.ask(self.seat_id, tick, message, received_ts_ms)
        return list(self.tape.opened(tick, decisions, Blind.LIVE, b""))


def live_seat_spec(
    request: SeatRequest, feed: Feed, fixture: Fixture, seat_id: str, secret: bytes, grace_s: int = 0, ask: Ask | None = None
) -> LiveSpec:
    """Return the specification of a live seat's run, whose id does not depend on ``grace_s``."""
    config = sealed_config(seat_id, request.blind, secret)
    identity = Identity(request.agent_id, STRATEGY, STRATEGY_VERSION, config, proof_mode="verified", causality=Causality.LIVE)
    return LiveSpec(
        feed=feed,
        fixture=fixture,
        agents=[register(LiveSeatAgent(identity, seat_id, ask))],
        origin_id=seat_id,
        window=settings_in(request, Window),
        kind=KIND,
        grace_s=grace_s,
    )


@dataclass(frozen=True)
class LiveSeatOrigin:
    database: Database
    clock: Callable[[], int]
    ask: Ask

    def spec(self, job: Job, feed: Feed, fixture: Fixture, grace_s: int) -> LiveSpec:
        seat_id = job.payload["origin_id"]
        with self.database.read() as connection:
            row = require(seats.row(connection, seat_id), seat_id)
        request = SeatRequest.model_validate(row["request"])
        return live_seat_spec(request, feed, fixture, seat_id, row["secret"], grace_s, self.ask)

    def report_start(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Report nothing: a seat says how far it is by its ticks."""

    def report_events(self, connection: Connection, job: Job, happenings: Sequence[Happening], now_ms: int) -> None:
        """Report nothing: the decisions of a seat are its owner's until the seal."""

    def seal_report(self, job: Job, run: Run) -> Sealing:
        """Record the last head before the result, and return the report of the seal."""
        seat_id, content_hash = job.payload["origin_id"], run.pack.content_hash
        with fenced(self.database, job) as connection:
            log = StoredLogRows(connection, writing=True)
            place = seats.hold(connection, [seat_id])[seat_id]
            note_seat(log, job.run_id, place["ticks"], place["head"], self.clock())
            seats.end(connection, seat_id, SeatStatus.FINISHED, self.clock())

        def report(connection: Connection, anchor: Any, now_ms: int) -> None:  # noqa: ARG001
            seats.end(connection, seat_id, SeatStatus.SEALED, now_ms)
            seats.capture(connection, seat_id, content_hash)

        return report

    def record_failure(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        seat_id = job.payload["origin_id"]
        log = StoredLogRows(connection, writing=True)
        place = seats.hold(connection, [seat_id])[seat_id]
        if place["status"] in (SeatStatus.PLAYING, SeatStatus.FINISHED):
            note_seat(log, job.run_id, place["ticks"], place["head"], now_ms)
        give_up(connection, job.run_id, cause, now_ms)
        seats.end(connection, seat_id, SeatStatus.ABANDONED, now_ms, cause)
