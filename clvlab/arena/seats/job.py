"""The run of a seat: its decisions under the names of the tape, sealed by a job like any other run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from clvlab.arena.run_jobs import Sealing
from clvlab.arena.runs.in_database import give_up
from clvlab.arena.seats.held import HeldPacks
from clvlab.arena.seats.requests import SeatRequest
from clvlab.arena.seats.tape import SeatTape
from clvlab.engine.agent import Identity, register
from clvlab.errors import UnknownSeatError
from clvlab.law.actions import Decision, decisions_of
from clvlab.law.closing import Window
from clvlab.law.schema import Causality, Reason
from clvlab.law.tape import Tape
from clvlab.log.seats import KIND, STRATEGY, STRATEGY_VERSION, Blind, sealed_config
from clvlab.packs.reader import Pack
from clvlab.proof.anchor import Anchor
from clvlab.runs.run import Run
from clvlab.runs.spec import ReplaySpec, settings_in
from clvlab.store import seat_competitions, seats
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job
from clvlab.store.seat_competitions import FixtureScore
from clvlab.store.seats import SeatRow, SeatStatus


@dataclass(frozen=True, slots=True, weakref_slot=True)
class SeatAgent:
    """An agent that answered from elsewhere, with its answers."""

    identity: Identity
    decisions: Sequence[Decision] = ()

    def decide(self, tape: Tape) -> pl.DataFrame:
        there = set(tape.fixtures["fixture_id"])
        return decisions_of([one for one in self.decisions if one[0] in there], self.identity.agent_id)


def seat_spec(
    request: SeatRequest,
    pack: Pack,
    fixture_ids: Sequence[int],
    seat_id: str,
    secret: bytes,
    decisions: Sequence[Decision] = (),
) -> ReplaySpec:
    """Return the specification of a seat's run, whose id does not depend on the decisions."""
    config = sealed_config(seat_id, request.blind, secret, request.competition_id)
    identity = Identity(request.agent_id, STRATEGY, STRATEGY_VERSION, config, proof_mode="verified", causality=Causality.ASKED)
    return ReplaySpec(
        kind=KIND,
        origin_id=seat_id,
        pack=pack,
        fixtures=fixture_ids,
        agents=[register(SeatAgent(identity, decisions))],
        window=settings_in(request, Window),
    )


def _scores_of(run: Run) -> list[FixtureScore]:
    clv = pl.col("clv_bps").cast(pl.Int64)
    timed = run.scores.with_columns(run.evidence.decisions["ts_ms"].cast(pl.Int64))  # both in order of seq
    scored = timed.filter(pl.col("reason") == Reason.SCORED).group_by("fixture_id")
    sums = scored.agg(clv.sum(), pl.len(), (clv * clv).sum().alias("squares"), pl.col("ts_ms").max())
    return sums.sort("fixture_id").rows()


def require(row: SeatRow | None, seat_id: str) -> SeatRow:
    if row is None:
        raise UnknownSeatError(f"unknown seat {seat_id!r}")
    return row


def blind_of(row: SeatRow) -> Blind:
    return Blind(row["request"]["blind"])


@dataclass(frozen=True)
class SeatOrigin:
    database: Database
    packs: HeldPacks
    clock: Callable[[], int]

    def spec(self, job: Job) -> ReplaySpec:
        seat_id = job.payload["origin_id"]
        with self.database.read() as connection:
            row = require(seats.row(connection, seat_id), seat_id)
            answered = seats.ticks(connection, seat_id)
        pack = self.packs.of_seat(row)
        blind, secret = blind_of(row), row["secret"]
        deciding = [tick for tick in answered if tick["decisions"]]
        tape = SeatTape.of(pack, row["fixture_ids"]) if deciding else None
        decisions = [one for tick in deciding if tape for one in tape.opened(tick["tick"], tick["decisions"], blind, secret)]
        request = SeatRequest.model_validate(row["request"])
        return seat_spec(request, pack, row["fixture_ids"], seat_id, secret, decisions)

    def report_start(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Report nothing: a seat says how far it is by its status."""

    def seal_report(self, job: Job, run: Run) -> Sealing:
        seat_id, scores = job.payload["origin_id"], _scores_of(run)

        def report(connection: Connection, anchor: Anchor, now_ms: int) -> None:  # noqa: ARG001
            seats.end(connection, seat_id, SeatStatus.SEALED, now_ms)
            seat_competitions.score(connection, seat_id, scores)

        return report

    def record_failure(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        give_up(connection, job.run_id, cause, now_ms)
        seats.end(connection, job.payload["origin_id"], SeatStatus.ABANDONED, now_ms, cause)
