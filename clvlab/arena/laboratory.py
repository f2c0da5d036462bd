"""Backtests and graded bets for a caller who is named, kept in the store; and for anybody, kept in memory for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from clvlab.api.seats import SeatStart
from clvlab.arena.caps import Budget, Caps
from clvlab.arena.report_requests import PackBacktestRequest
from clvlab.arena.reports import BacktestReports
from clvlab.arena.runs.binding import open_catalogued
from clvlab.arena.runs.in_database import DatabaseRecorder
from clvlab.arena.runs.runs import StoredRuns, not_sealed, require
from clvlab.arena.seats.requests import SeatRequest
from clvlab.arena.seats.seats import Seats
from clvlab.arena.uploads.packs import Packs
from clvlab.base.cache import BoundedCache
from clvlab.bets.grades import BetRows, GradingPlan, plan_grading
from clvlab.bets.record import BetsFormat
from clvlab.errors import NotOwnerError, OwnerLimitError, PackError, UnknownPackError, UnknownRunError
from clvlab.log.seats import Blind
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import Pack
from clvlab.proof.bundle import bundle
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.verify import verify
from clvlab.runs.execute import NOWHERE, execute
from clvlab.runs.run import Run, reopen
from clvlab.store import runs
from clvlab.store.database import Database
from clvlab.store.labels import ANYBODY
from clvlab.store.runs import RunStatus
from clvlab.store.seats import of_run

_RUNS_BYTES = 64 << 20
_OVERHEAD_BYTES = 1 << 16
_FRAMES = 4  # of a run that was read, its frames take more than its bytes


@dataclass(frozen=True, slots=True)
class RunProof:
    """The verdict of each check of a run, recomputed from its bytes, and its hashes."""

    run_id: str
    evidence_hash: str
    manifest_hash: str
    checks: dict[str, str]

    @property
    def passed(self) -> bool:
        return Verdict.FAIL.value not in self.checks.values()


class Laboratory(Protocol):
    """What a caller may do with packs and runs. Every method blocks, and raises an error of clvlab for what is not his."""

    def packs(self, caller: str) -> list[Pack]: ...

    def take_seat(self, caller: str, request: SeatRequest) -> SeatStart: ...

    def seat_owner(self, caller: str) -> str: ...

    def backtest(self, caller: str, request: PackBacktestRequest) -> Run: ...

    def grade(self, caller: str, pack_id: str, bets: bytes, how: BetsFormat) -> tuple[Run, BetRows]: ...

    def run(self, caller: str, run_id: str) -> Run: ...

    def verify(self, caller: str, run_id: str) -> RunProof: ...

    def bundle(self, caller: str, run_id: str) -> bytes: ...


def smallest(packs: Sequence[Pack]) -> Pack:
    """Return the pack with the fewest rows.

    Raises
    ------
    UnknownPackError
        The catalog has no pack.
    """
    if not packs:
        raise UnknownPackError("the catalog has no verified pack")
    return min(packs, key=lambda pack: (sum(one.rows for one in pack.manifest.fixtures), pack.pack_id))


@dataclass(frozen=True)
class StoredLaboratory:
    """The laboratory of owners: runs are committed to in the log, and kept in the store. Any sealed run can be read."""

    database: Database
    catalog: Packs
    backtests: BacktestReports
    stored: StoredRuns
    seats: Seats
    clock: Callable[[], int]
    budget: Budget

    def packs(self, caller: str) -> list[Pack]:
        return self.catalog.seen_by(caller).packs()

    def take_seat(self, caller: str, request: SeatRequest) -> SeatStart:
        return self.seats.take(caller, request)

    def seat_owner(self, caller: str) -> str:
        return caller

    def backtest(self, caller: str, request: PackBacktestRequest) -> Run:
        wanted = self.backtests.ask(request, owner=caller)
        if not wanted.known:
            self.backtests.enter(wanted, at_once=True)
            self.backtests.settle(wanted)
        return self.run(caller, wanted.run_id)

    def grade(self, caller: str, pack_id: str, bets: bytes, how: BetsFormat) -> tuple[Run, BetRows]:
        """Grade bets as a run of the caller, which is not ranked: bets that were placed are no agent."""
        plan = plan_grading(bets, open_catalogued(self.catalog.seen_by(caller), pack_id), how)
        with self.database.read() as connection:
            row = runs.row(connection, plan.spec.run_id)
            self.budget.require_room(connection, caller)
        if row is not None and row["status"] == RunStatus.SEALED:
            done = self._reopened(plan.pack, plan.spec.run_id)
        else:
            done = execute(plan.spec, DatabaseRecorder(self.database, caller, self.clock, ranked=False))
        return done, plan.rows(done)

    def run(self, caller: str, run_id: str) -> Run:
        with self.database.read() as connection:
            row = require(runs.row(connection, run_id), run_id)
            if row["status"] != RunStatus.SEALED:
                raise not_sealed(connection, run_id)
            seat = of_run(connection, run_id)
        if seat is not None and seat["owner"] == caller:  # its pack may be held back, and is open to nobody else
            return self._reopened(self.seats.held.of_seat(seat), run_id)
        return self._reopened(open_catalogued(self.catalog.seen_by(caller), str(row["pack_id"])), run_id)

    def _reopened(self, pack: Pack, run_id: str) -> Run:
        sealed = self.stored.sealed_run(run_id)
        with self.database.read() as connection:
            receipts = runs.receipt_lines(connection, run_id)
        return reopen(pack, sealed, receipts)

    def verify(self, caller: str, run_id: str) -> RunProof:  # noqa: ARG002
        found = self.stored.verify(run_id, record=False)
        checks = {str(name): str(verdict) for name, verdict in found["checks"].items()}
        return RunProof(run_id, found["evidence_hash"], found["manifest_hash"], checks)

    def bundle(self, caller: str, run_id: str) -> bytes:  # noqa: ARG002
        return self.stored.bundle(run_id)


@dataclass(frozen=True, slots=True)
class PracticeLimits:
    """Limits of practice.

    Attributes
    ----------
    seats
        Seats of practice that may play at once, of all callers together.
    client_seats
        Seats that one caller may take within ``seat_s``.
    tick_s, seat_s
        Longest deadlines in seconds: of one tick, and of a seat without an answer.
    """

    seats: int = 64
    client_seats: int = 8
    tick_s: int = 60
    seat_s: int = 300


@dataclass(frozen=True)
class PracticeLaboratory:
    """The laboratory of callers without a token: over packs of the generator, and apart from everything that is anybody's.

    Backtests and graded bets are sealed, and kept in the memory of this process for a while. Seats are in the store under
    ``ANYBODY``, are never ranked, and have short deadlines. No run or seat of an owner can be reached.
    """

    database: Database
    catalog: Catalog
    stored: StoredRuns
    seats: Seats
    monotonic: Callable[[], float]
    limits: PracticeLimits
    _runs: BoundedCache[Run] = field(
        default_factory=lambda: BoundedCache(_RUNS_BYTES, lambda run: _FRAMES * len(run.sealed.events) + _OVERHEAD_BYTES)
    )
    _taken: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def packs(self, caller: str) -> list[Pack]:  # noqa: ARG002
        return [pack for pack in self.catalog.packs() if _is_for_practice(pack)]

    def take_seat(self, caller: str, request: SeatRequest) -> SeatStart:
        if request.competition_id is not None:
            raise NotOwnerError("practice is outside of competitions: enter one at /mcp, with a token")
        if request.blind not in (Blind.OPEN, Blind.ALIASED):
            raise NotOwnerError(f"practice has no {request.blind} seats: take one at /mcp, with a token")
        if request.pack_id is not None:
            self._pack(request.pack_id)
        else:
            request = request.model_copy(update={"pack_id": smallest(self.packs(caller)).pack_id})
        bounds = {name: min(getattr(request, name) or most, most) for name, most in self._deadlines.items()}
        self._count(caller)
        caps = Caps(seats=self.limits.seats)
        return self.seats.take(ANYBODY, request.model_copy(update=bounds), caps=caps, ranked=False)

    @property
    def _deadlines(self) -> dict[str, int]:
        return {"tick_s": self.limits.tick_s, "seat_s": self.limits.seat_s}

    def _count(self, caller: str) -> None:
        """Count a seat of a caller, unless he took as many of late as he may."""
        now = self.monotonic()
        with self._lock:
            recent = [at for at in self._taken.pop(caller, []) if now - at < self.limits.seat_s]
            is_full = len(recent) >= self.limits.client_seats
            self._taken[caller] = recent if is_full else [*recent, now]
            while self._taken and now - next(iter(self._taken.values()))[-1] >= self.limits.seat_s:
                self._taken.popitem(last=False)
        if is_full:
            wait_s = round(self.limits.seat_s - (now - recent[0])) + 1
            raise OwnerLimitError(
                f"practice gives one address {self.limits.client_seats} seats in {self.limits.seat_s} s: wait, or use a token",
                wait_s,
            )

    def seat_owner(self, caller: str) -> str:  # noqa: ARG002
        return ANYBODY

    def _pack(self, pack_id: str) -> Pack:
        try:
            pack = self.catalog.open(pack_id)
        except PackError:
            pack = None
        if pack is None or not _is_for_practice(pack):
            known = ", ".join(one.pack_id for one in self.packs(""))
            raise UnknownPackError(f"practice has no pack {pack_id!r:.80}; there are: {known}")
        return pack

    def backtest(self, caller: str, request: PackBacktestRequest) -> Run:  # noqa: ARG002
        return self._keep(execute(request.spec(self._pack(request.pack_id)), NOWHERE))

    def grade(self, caller: str, pack_id: str, bets: bytes, how: BetsFormat) -> tuple[Run, BetRows]:  # noqa: ARG002
        plan: GradingPlan = plan_grading(bets, self._pack(pack_id), how)
        done = self._keep(execute(plan.spec, NOWHERE))
        return done, plan.rows(done)

    def _keep(self, done: Run) -> Run:
        return self._runs.get(done.run_id, lambda: done)

    def run(self, caller: str, run_id: str) -> Run:  # noqa: ARG002
        if run_id in self._runs:
            return self._runs.get(run_id, lambda: self._of_seat(run_id))
        return self._of_seat(run_id)

    def _of_seat(self, run_id: str) -> Run:
        with self.database.read() as connection:
            row = runs.row(connection, run_id)
            is_here = row is not None and row["owner"] == ANYBODY and row["kind"] == "seat"
            if row is None or not is_here or row["status"] != RunStatus.SEALED:
                raise UnknownRunError(f"practice has no run {run_id!r:.80}: it keeps its runs for a while only")
            receipts = runs.receipt_lines(connection, run_id)
        return reopen(self._pack(str(row["pack_id"])), self.stored.sealed_run(run_id), receipts)

    def verify(self, caller: str, run_id: str) -> RunProof:
        done = self.run(caller, run_id)
        found = verify(done.sealed, done.receipts)
        checks: dict[str, Check] = dict(found.checks)
        return RunProof(
            run_id, found.evidence_hash, found.manifest_hash, {name: check.verdict.value for name, check in checks.items()}
        )

    def bundle(self, caller: str, run_id: str) -> bytes:
        done = self.run(caller, run_id)
        return bundle(done.sealed, done.receipts) if run_id in self._runs else self.stored.bundle(run_id)


def _is_for_practice(pack: Pack) -> bool:
    return pack.provenance.startswith("synthetic-")
