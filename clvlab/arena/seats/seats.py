"""The use cases of seats: take one, answer its ticks, read it, give it up."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from clvlab.api.answer import ignored, pick
from clvlab.api.seats import (
    SeatAnswer,
    SeatChain,
    SeatInfo,
    SeatListResponse,
    SeatReceipt,
    SeatsTaken,
    SeatStart,
    SeatSummary,
    SeatTick,
)
from clvlab.arena.caps import Budget, Caps
from clvlab.arena.live import payload_of
from clvlab.arena.pages import PAGE, page_of
from clvlab.arena.runs.binding import bind
from clvlab.arena.runs.in_database import enter
from clvlab.arena.seats.commits import GroupCommit
from clvlab.arena.seats.competitions import require_open, require_same, under_its_rules
from clvlab.arena.seats.held import DEALT, HeldPacks, all_dealt, require_free
from clvlab.arena.seats.job import blind_of, require, seat_spec
from clvlab.arena.seats.live import LiveTape, live_seat_spec, message_view
from clvlab.arena.seats.requests import SeatAction, SeatLimits, SeatRequest
from clvlab.arena.seats.tape import SeatMessages, SeatTape, require_short, too_long
from clvlab.arena.uploads.packs import Packs
from clvlab.base.cache import BoundedCache
from clvlab.errors import (
    ClvlabError,
    DecisionError,
    HeldBackError,
    PackTamperedError,
    SeatConflictError,
    SeatTooLongError,
    UnknownSeatError,
)
from clvlab.law.message import Message
from clvlab.log.log import abandon, commit, note_seat
from clvlab.log.note import Signer
from clvlab.log.seats import (
    SECRET_BYTES,
    Blind,
    blind_commitment,
    drawn,
    first_head,
    header,
    next_head,
    receipt,
    tick_digest,
    tick_salt,
)
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import JsonObject, canonical, sha256
from clvlab.proof.manifest import RunStarted, inputs_hash
from clvlab.runs.live.feed import LiveFeed, is_genuine
from clvlab.runs.live.spec import LiveSpec
from clvlab.runs.spec import ReplaySpec
from clvlab.store import held, seats
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import JobPayload
from clvlab.store.runlog import StoredLogRows
from clvlab.store.seats import SeatPlace, SeatRow, SeatStatus, SeatTickRow
from clvlab.store.tables import seats as seat_table

logger = logging.getLogger("clvlab.seats")
_TAPES_BYTES = 256 << 20
_SEATS = 4_096
_LIVE_SEAT_S = 366 * 86_400  # a live seat that nobody answers misses its ticks, and is not abandoned
_LOOK_S, _LONGEST_S = 0.002, 0.064  # between two looks for the answer to a live tick
WITHDRAWN, LEFT_ALONE = "withdrawn", "left alone"


class SteadyClock:
    """UTC milliseconds of the deadlines: a system clock at the start, and then a clock that never jumps."""

    def __init__(self, clock: Callable[[], int], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._start_ms = clock() - round(1000 * monotonic())

    def __call__(self) -> int:
        return self._start_ms + round(1000 * self._monotonic())


@dataclass(slots=True)
class _SeatHint:
    """What this process saw last of a seat, as a hint: its answered ticks, and ticks and time of the last head in the log.

    ``newest`` is the tick that left last.
    """

    ticks: int
    logged_ticks: int
    logged_ts_ms: int
    newest: SeatTick | None = None


@dataclass(frozen=True, slots=True)
class _Taker:
    """Who takes a seat, within which limits, and whether its run may be on a leaderboard."""

    owner: str
    caps: Caps
    ranked: bool


@dataclass(frozen=True, slots=True)
class _Seat:
    """What never changes of a seat, read from its row, and a hint of what does."""

    row: SeatRow
    blind: Blind
    tape_key: tuple[str, str]
    seen: _SeatHint

    @property
    def secret(self) -> bytes:
        return self.row["secret"]


@dataclass(frozen=True, slots=True)
class SeatAct:
    """An answer that waits for its transaction. ``fault`` refuses it if its tick is open, ``started`` is of the last tick."""

    known: _Seat
    tape: SeatMessages
    tick: int
    decisions: list[JsonObject] = field(default_factory=list)
    digest: str = ""
    fault: ClvlabError | None = None
    started: RunStarted | None = None

    @property
    def seat_id(self) -> str:
        return self.known.row["seat_id"]


class Seats:
    """All use cases of seats. Answers may come from any thread or process: the store alone says which tick is open."""

    def __init__(
        self,
        database: Database,
        catalog: Packs,
        clock: Callable[[], int],
        new_id: Callable[[], str],
        budget: Budget,
        caps: Caps,
        limits: SeatLimits,
        signer: Signer | None = None,
        steady: Callable[[], int] | None = None,
        live: LiveFeed | None = None,
        cancel: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._database, self._catalog, self._clock, self._new_id = database, catalog, clock, new_id
        self._budget, self._caps, self._limits, self._signer = budget, caps, limits, signer
        self.held = HeldPacks(database, catalog, clock)
        self._now = steady or SteadyClock(clock)
        self._tapes: BoundedCache[SeatTape] = BoundedCache(_TAPES_BYTES, lambda tape: tape.size_bytes)
        self._live, self._cancel = live or LiveFeed(None, clock), cancel
        self._live_tapes: BoundedCache[LiveTape] = BoundedCache(_SEATS, lambda tape: 1)  # noqa: ARG005
        self._seats: BoundedCache[_Seat] = BoundedCache(_SEATS, lambda known: 1)  # noqa: ARG005
        self._acts: GroupCommit[SeatAct, SeatAnswer] = GroupCommit(self._commit, self.sweep)

    def start(self) -> None:
        """Look now and then for seats that were left alone."""
        self._acts.start()

    def stop(self) -> None:
        self._acts.stop()

    # Taking a seat.

    def take(self, owner: str, request: SeatRequest, *, caps: Caps | None = None, ranked: bool = True) -> SeatStart:
        """Take a seat, commit to its run in the log, and return its first tick.

        ``caps`` replaces the limits of owners; a run that is not ``ranked`` is on no leaderboard.

        Raises
        ------
        OwnerLimitError, StorageSpentError
            The owner has as many seats, names or bytes as allowed.
        SeatTooLongError
            The fixtures have more messages than a seat may have.
        HeldBackError
            The pack is no longer held back, or each of its fixtures was dealt.
        UnknownPackError, UnknownFixtureError, HeldOutError, WindowError
            The pack, a fixture or the window can't be used.
        UnknownCompetitionError, TransitionError, SeatRulesError
            There is no such competition of seats, or it is closed, or has another rule than the request names.
        PackTamperedError
            The pack is not the one that the competition was opened over.
        """
        taker = _Taker(owner, caps or self._caps, ranked=ranked)
        with self._database.read() as connection:
            self._require_room(connection, taker, None)
            named = request.competition_id
            competition = None if named is None else require_open(connection, named, self._clock())
        if competition is not None:
            request = under_its_rules(competition, request)
        secret, seat_id = secrets.token_bytes(SECRET_BYTES), "seat_" + self._new_id()
        if request.blind is Blind.HELD_BACK:
            pack = self.held.chosen(request.pack_id)
            require_same(competition, pack)
            return self._dealt(taker, request, pack, seat_id, secret)
        if request.blind is Blind.LIVE:
            return self._followed(taker, request, seat_id, secret)
        bound = bind(self._catalog.seen_by(owner), request.pack_id, None, request.fixture_ids or "all")
        require_same(competition, bound.pack)
        fixture_ids = list(bound.fixtures)
        if request.fixture_ids is None:
            fixture_ids = [fixture_ids[drawn(secret, len(fixture_ids))]]
        return self._start(taker, request, bound.pack, fixture_ids, seat_id, secret, ranked=bound.ranked)

    def _dealt(self, taker: _Taker, request: SeatRequest, pack: Pack, seat_id: str, secret: bytes) -> SeatStart:
        """Take a seat over a fixture of a held-back pack that the secret draws among those that no seat got."""
        left = self.held.undealt(pack)
        while left:
            fixture_ids = [left.pop(drawn(secret, len(left)))]
            try:
                return self._start(taker, request, pack, fixture_ids, seat_id, secret, ranked=True)
            except SeatTooLongError:
                continue
            except HeldBackError as error:  # of two seats that drew one fixture, the second draws another
                if error.reason != DEALT:
                    raise
        raise all_dealt(pack)

    def _followed(self, taker: _Taker, request: SeatRequest, seat_id: str, secret: bytes) -> SeatStart:
        """Take a seat over a match on the feed, whose run is entered at once; its first tick comes with the first message."""
        fixture = self._live.fixture(next((one for one in request.fixture_ids or () if isinstance(one, int)), None))
        tick_s = min(request.tick_s or self._limits.live_s, self._limits.live_s)
        feed, made = self._live.idle_feed(), request.model_copy(update={"tick_s": tick_s, "seat_s": _LIVE_SEAT_S})
        spec = live_seat_spec(made, feed, fixture, seat_id, secret)
        row = self._store(taker, made, spec, seat_id, secret, None, ranked=is_genuine(feed))
        return self._started(row, made, None, request.ignored)

    def ask(self, seat_id: str, tick: int, message: Message, received_ts_ms: int) -> list[JsonObject]:
        """Show a message to a live seat as its next tick, and return the decisions recorded: those in time, or none.

        They are due within the deadline of the seat from the arrival of the message, so that a seat that answers late can't
        fall behind the match, and see elsewhere what comes next.

        Raises
        ------
        SeatConflictError
            The seat is over.
        """
        known = self._seats.get(seat_id, lambda: self._read(seat_id))
        with self._database.write() as connection:
            row = require(seats.row(connection, seat_id), seat_id)
            if (
                row["status"] == SeatStatus.PLAYING
                and tick > row["ticks"]
                and not seats.live_views(connection, seat_id, tick - 1)
            ):
                late_ms = max(0, self._clock() - received_ts_ms)
                seats.show(connection, seat_id, tick, message_view(tick, message), self._now() - late_ms)
        pause_s = _LOOK_S
        while True:
            with self._database.read() as connection:
                link, row = seats.tick(connection, seat_id, tick), require(seats.row(connection, seat_id), seat_id)
            if link is not None:
                return link["decisions"]
            if row["status"] != SeatStatus.PLAYING:
                raise SeatConflictError("over", f"seat {seat_id} is {row['status']}")
            if self._now() - row["served_ts_ms"] > 1000 * row["tick_s"]:
                tape = self._tape_of(known)
                missed = _tick(tape, tick, known.blind, known.secret)
                digest = tick_digest(missed["salt"], missed["view"])
                self._acts.submit(SeatAct(known, tape, tick, digest=digest)).result()
            else:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_S)

    def _start(
        self,
        taker: _Taker,
        request: SeatRequest,
        pack: Pack,
        fixture_ids: list[int],
        seat_id: str,
        secret: bytes,
        *,
        ranked: bool,
    ) -> SeatStart:
        """Commit to a seat's run, and return its first tick."""
        require_short(pack, fixture_ids, self._limits.ticks)
        unread, request = request.ignored, request.within(self._limits).model_copy(update={"pack_id": pack.pack_id})
        spec = seat_spec(request, pack, fixture_ids, seat_id, secret)
        key = _tape_key(pack.content_hash, fixture_ids)
        tape = self._tapes.get(key, lambda: SeatTape.of(pack, fixture_ids))
        if not 1 <= tape.ticks <= self._limits.ticks:
            raise too_long(self._limits.ticks)
        row = self._store(taker, request, spec, seat_id, secret, tape.ticks, ranked=ranked)
        return self._started(row, request, _tick(tape, 1, request.blind, secret), unread)

    def _started(self, row: SeatRow, request: SeatRequest, first: SeatTick | None, unread: Iterable[str]) -> SeatStart:
        seat_id, secret = row["seat_id"], row["secret"]
        before: SeatTickRow = {
            "seat_id": seat_id, "tick": 0, "digest": "", "decisions": [], "missed": False, "head": row["head"], "ts_ms": 0,
        }  # fmt: skip
        start = {"seat_id": seat_id, "answered": self._receipt(seat_id, before), "done": False}
        start |= {"next": first, "run_id": row["run_id"], **({"waiting": True} if first is None else {})}
        start |= {"blind": request.blind.value, "blind_commitment": blind_commitment(secret)}
        start |= {"tick_s": row["tick_s"], "seat_s": row["seat_s"], **ignored(unread)}
        return cast("SeatStart", start)

    def _store(
        self,
        taker: _Taker,
        request: SeatRequest,
        spec: ReplaySpec | LiveSpec,
        seat_id: str,
        secret: bytes,
        ticks: int | None,
        *,
        ranked: bool,
    ) -> SeatRow:
        started, owner, ranked = spec.started, taker.owner, ranked and taker.ranked
        run_id, content_hash = started["run_id"], started["binding"]["content_hash"]
        fixture_ids = started["binding"]["fixture_ids"]
        head, now, served = first_head(header(seat_id, request.agent_id, run_id, secret)), self._clock(), self._now()
        with self._database.write() as connection:
            log = StoredLogRows(connection, writing=True)  # before anything is counted, so that of two seats one is too many
            self._require_room(connection, taker, request.agent_id if ranked else None)
            if request.competition_id is not None:  # it may have been closed while the pack was read
                require_open(connection, request.competition_id, now)
            dealt = spec.pack if request.blind is Blind.HELD_BACK and isinstance(spec, ReplaySpec) else None
            if dealt is not None:
                require_free(connection, dealt, fixture_ids[0], owner, self._limits.held_fixtures)
            if isinstance(spec, LiveSpec):
                taker.caps.require_live(connection, owner)
            index = commit(log, run_id, owner, inputs_hash(started), content_hash, now, sources=[None], of_seat=True)
            note_seat(log, run_id, 0, head, now)
            row: SeatRow = {
                "seat_id": seat_id,
                "owner": owner,
                "agent_id": request.agent_id,
                "run_id": run_id,
                "pack_id": spec.pack_id if isinstance(spec, LiveSpec) else spec.pack.pack_id,
                "content_hash": content_hash or "",
                "fixture_ids": list(fixture_ids),
                "ranked": ranked,
                "request": request.model_dump(mode="json"),
                "competition_id": request.competition_id,
                "tape_ticks": ticks,
                "secret": secret,
                "commit_index": index,
                "status": SeatStatus.PLAYING,
                "cause": None,
                "ticks": 0,
                "head": head,
                "served_ts_ms": served,
                "tick_s": request.tick_s or self._limits.tick_s,
                "seat_s": request.seat_s or self._limits.seat_s,
                "logged_ticks": 0,
                "logged_ts_ms": served,
                "decision_bytes": 0,
                "created_ts_ms": now,
                "updated_ts_ms": now,
            }
            seats.add(connection, row)
            if dealt is not None:
                held.deal(connection, dealt.content_hash, fixture_ids[0], seat_id, owner)
            if isinstance(spec, LiveSpec):
                enter(connection, started, owner, now, ranked=ranked, payload=payload_of(seat_id, spec.fixture))
        return row

    def _require_room(self, connection: Connection, taker: _Taker, agent_id: str | None) -> None:
        own = seats.playing(connection, taker.owner)
        taker.caps.require_seat(len(own))
        self._budget.require_room(connection, taker.owner)
        if agent_id is not None:
            taker.caps.require_names(connection, taker.owner, {*own, agent_id})

    # Answers to ticks.

    def act(self, caller: str, seat_id: str, action: SeatAction) -> SeatAnswer:
        """Record the answer to the open tick, and return the next one, which leaves once the answer is on the disk.

        The same answer to an answered tick returns what it returned before. An answer after the deadline of its tick is not
        recorded: the tick is missed, and the answer says so.

        Raises
        ------
        UnknownSeatError
            The caller has no such seat.
        SeatConflictError
            The tick has another answer, has not left yet, or the seat is over.
        DecisionError
            A decision names what the seat has not shown, or repeats another.
        SeatTooLongError
            The decisions of the seat take too many bytes.
        """
        return self._acts.submit(self.prepared(caller, seat_id, action)).result()

    def prepared(self, caller: str, seat_id: str, action: SeatAction) -> SeatAct:
        """Return what ``act`` records, for ``answer``. Nothing is read from a disk if ``is_known``."""
        known = self._of(caller, seat_id)
        tape, tick = self._tape_of(known), action.tick
        if tick > min(known.seen.ticks + 1, tape.ticks):  # perhaps another process answered since
            with self._database.read() as connection:
                row = require(seats.row(connection, seat_id), seat_id)
            # Nothing is made of a tick that has not left: the time that it takes would say where the tape ends.
            if (refused := _unserved(row, tick, self._now())) is not None:
                raise refused
            known.seen.ticks = row["ticks"]
        if tick > tape.ticks:
            raise SeatConflictError("unserved", f"tick {tick} of seat {seat_id} has not come yet")
        market = tape.market_name(tick, known.blind, known.secret)
        decisions = [one.recorded(one.market or market) for one in action.proposals]
        opened = known.seen.newest
        if opened is None or opened["view"]["tick"] != tick:
            opened = _tick(tape, tick, known.blind, known.secret)
        digest = tick_digest(opened["salt"], opened["view"])
        fault: ClvlabError | None = None
        try:
            tape.check(tick, decisions, known.blind, known.secret, known.row["request"].get("max_stake"))
        except DecisionError as error:  # raised only if the tick is open: its text names what was shown by then
            fault = error
        started = self._spec(known).started if tick == tape.ticks and known.blind is not Blind.LIVE else None
        return SeatAct(known, tape, tick, decisions, digest, fault, started)

    def answer(self, act: SeatAct) -> asyncio.Future[SeatAnswer]:
        """Record what was prepared, from an event loop, and return the future of what ``act`` returns."""
        return self._acts.answer(act)

    def is_known(self, seat_id: str, tick: int) -> bool:
        """Whether this process has in memory what the answer to a tick needs; the last tick needs the pack."""
        if seat_id not in self._seats:
            return False
        known = self._seats.get(seat_id, lambda: self._read(seat_id))
        return tick <= known.seen.ticks + 1 and known.tape_key in self._tapes and tick < self._tape_of(known).ticks

    def _commit(self, acts: Sequence[SeatAct]) -> list[SeatAnswer | Exception]:
        """Record answers in one transaction.

        1. Lock the run log if a head is due, then the seats: every transaction that locks both does so in this order. 2. Judge
        each answer by the place of its seat. 3. Write heads, ticks and places. 4. After the commit, make the answers.
        """
        now, stamp = self._now(), self._clock()
        moved: dict[str, tuple[SeatPlace, SeatAct]] = {}
        new: dict[tuple[str, int], SeatTickRow] = {}
        made: list[SeatTickRow | ClvlabError] = []
        with self._database.write() as connection:
            log = StoredLogRows(connection, writing=True) if any(self._may_be_due(act, now) for act in acts) else None
            places = seats.hold(connection, {act.seat_id for act in acts})
            for act in acts:
                place = places[act.seat_id]
                outcome = _judged(connection, act, place, new, now, self._limits)
                if outcome is None:
                    outcome = _moved(act, place, now, stamp)
                    moved[act.seat_id] = place, act
                    new[act.seat_id, act.tick] = outcome
                made.append(outcome)
            if log is not None:
                for place, act in moved.values():
                    self._note(connection, log, place, act, now, stamp)
            seats.move(connection, [place for place, _ in moved.values()], list(new.values()), stamp)
        for place, act in moved.values():
            seen = act.known.seen
            seen.ticks, seen.logged_ticks, seen.logged_ts_ms = place["ticks"], place["logged_ticks"], place["logged_ts_ms"]
        for seat_id, place in places.items():
            if _is_left_alone(place, now):
                self._abandon_if_possible(seat_id)
        return [one if isinstance(one, Exception) else self._answer(act, one) for act, one in zip(acts, made, strict=True)]

    def _may_be_due(self, act: SeatAct, now_ms: int) -> bool:
        seen = act.known.seen
        return act.started is not None or self._is_due(act.tick - seen.logged_ticks, now_ms - seen.logged_ts_ms)

    def _is_due(self, ticks: int, passed_ms: int) -> bool:
        return ticks >= self._limits.log_ticks or passed_ms >= 1000 * self._limits.log_s

    def _note(
        self, connection: Connection, log: StoredLogRows, place: SeatPlace, act: SeatAct, now_ms: int, stamp_ms: int
    ) -> None:
        """Record the head of a chain if it is due, and enter the run of a seat whose last tick is answered."""
        run_id, is_over = act.known.row["run_id"], place["status"] == SeatStatus.FINISHED
        passed = place["ticks"] - place["logged_ticks"], now_ms - place["logged_ts_ms"]
        if not is_over and not self._is_due(*passed):
            return
        note_seat(log, run_id, place["ticks"], place["head"], stamp_ms)
        place["logged_ticks"], place["logged_ts_ms"] = place["ticks"], now_ms
        if is_over and act.started is not None:
            row = act.known.row
            payload: JobPayload = {"origin_id": row["seat_id"]}
            enter(connection, act.started, row["owner"], stamp_ms, ranked=row["ranked"], payload=payload)

    def _answer(self, act: SeatAct, link: SeatTickRow) -> SeatAnswer:
        known, tick = act.known, link["tick"]
        following = None if tick == act.tape.ticks else _tick(act.tape, tick + 1, known.blind, known.secret)
        known.seen.newest = following
        answered, waits = self._receipt(act.seat_id, link), following is None and known.blind is Blind.LIVE
        answer: SeatAnswer = {"seat_id": act.seat_id, "answered": answered, "done": following is None, "next": following}
        return {**answer, "done": False, "waiting": waits} if known.blind is Blind.LIVE else answer

    def _receipt(self, seat_id: str, link: SeatTickRow) -> SeatReceipt:
        tick, head = link["tick"], link["head"]
        signed = None if self._signer is None else receipt(self._signer, seat_id, tick, head)
        facts = {"missed": link["missed"], "decisions": link["decisions"]}
        return cast("SeatReceipt", {"tick": tick, "head": head, **facts, "receipt": signed})

    # Reading seats, and giving them up.

    def seat(self, caller: str, seat_id: str) -> SeatInfo:
        """Return a seat of the caller, with its open tick while it plays; its secret and fixtures once it is sealed."""
        known = self._of(caller, seat_id)
        with self._database.read() as connection:
            row = require(seats.row(connection, seat_id), seat_id)
            taken = _taken(connection, row)
        is_open = not known.blind.hides or row["status"] == SeatStatus.SEALED
        following = None
        tape = self._tape_of(known) if row["status"] == SeatStatus.PLAYING else None
        if tape is not None and row["ticks"] < tape.ticks:
            following = _tick(tape, row["ticks"] + 1, known.blind, known.secret)
        facts = {
            **_summary(row),
            "blind_commitment": blind_commitment(row["secret"]),
            "next": following,
            "taken": taken,
            "content_hash": row["content_hash"] or None,
            "secret": row["secret"].hex() if row["status"] == SeatStatus.SEALED else None,
            "fixture_ids": row["fixture_ids"] if is_open else None,
        }
        return pick(SeatInfo, row | facts)

    def taken(self, run_id: str) -> SeatsTaken | None:
        """Return how many seats the owner of a seat's run took, by this store; ``None`` for another run."""
        with self._database.read() as connection:
            row = seats.of_run(connection, run_id)
            return None if row is None else _taken(connection, row)

    def page(self, caller: str, cursor: str | None = None, limit: int = PAGE) -> SeatListResponse:
        """List the seats of the caller, newest first."""
        with self._database.read() as connection:
            own = [seat_table.c.owner == caller]
            found, next_cursor = page_of(connection, seat_table, SeatRow, "seat_id", cursor, limit, own)
        return {"seats": [_summary(row) for row in found], "next_cursor": next_cursor}

    def chain(self, caller: str, seat_id: str) -> SeatChain:
        """Return the whole chain of a sealed seat of the caller; its entries are proved in the present run log."""
        self._of(caller, seat_id)
        with self._database.read() as connection:
            row = require(seats.row(connection, seat_id), seat_id)
            if row["status"] != SeatStatus.SEALED:
                detail = f"seat {seat_id} is {row['status']}: its chain is opened once its run is sealed"
                raise SeatConflictError("unsealed", detail, _open_tick(row))
            return cast("SeatChain", seats.chain_of(connection, row))

    def withdraw(self, caller: str, seat_id: str) -> None:
        """Give up a seat of the caller, on the record; ``SeatConflictError`` if it is over."""
        known = self._of(caller, seat_id)
        if known.blind is Blind.LIVE and self._cancel is not None:
            is_withdrawn = self._cancel(known.row["run_id"], WITHDRAWN)
        else:
            is_withdrawn = self._abandon(seat_id, WITHDRAWN)
        if not is_withdrawn:
            raise SeatConflictError("over", f"seat {seat_id} is over: there is nothing to withdraw")

    def sweep(self) -> None:
        """Abandon the seats that were left alone."""
        with self._database.read() as connection:
            late = seats.left_alone(connection, self._now())
        for seat_id in late:
            self._abandon_if_possible(seat_id)

    def _abandon_if_possible(self, seat_id: str) -> None:
        try:
            self._abandon(seat_id, LEFT_ALONE)
        except ClvlabError as error:  # the next look finds it again
            logger.warning("seat %s was left alone, and can't be abandoned now: %s", seat_id, error)

    def _abandon(self, seat_id: str, cause: str) -> bool:
        """Abandon a seat on the log, with its last head; False if it is over, or was answered meanwhile."""
        with self._database.write() as connection:
            log = StoredLogRows(connection, writing=True)
            place = seats.hold(connection, [seat_id])[seat_id]
            late = cause != LEFT_ALONE or _is_left_alone(place, self._now())
            if place["status"] != SeatStatus.PLAYING or not late:
                return False
            run_id = require(seats.row(connection, seat_id), seat_id)["run_id"]
            note_seat(log, run_id, place["ticks"], place["head"], self._clock())
            abandon(log, run_id, cause, self._clock())
            seats.end(connection, seat_id, SeatStatus.ABANDONED, self._clock(), cause)
        return True

    def _of(self, caller: str, seat_id: str) -> _Seat:
        known = self._seats.get(seat_id, lambda: self._read(seat_id))
        if known.row["owner"] != caller:
            raise UnknownSeatError(f"unknown seat {seat_id!r:.200}")
        return known

    def _read(self, seat_id: str) -> _Seat:
        with self._database.read() as connection:
            row = require(seats.row(connection, seat_id), seat_id)
        key = _tape_key(row["content_hash"], row["fixture_ids"])
        return _Seat(row, blind_of(row), key, _SeatHint(row["ticks"], row["logged_ticks"], row["logged_ts_ms"]))

    def _tape_of(self, known: _Seat) -> SeatMessages:
        if known.blind is Blind.LIVE:
            tape, seat_id = self._live_tapes.get(known.row["seat_id"], LiveTape), known.row["seat_id"]
            with self._database.read() as connection:
                tape.extend(seats.live_views(connection, seat_id, tape.ticks))
            return tape
        return self._tapes.get(known.tape_key, lambda: SeatTape.of(self._pack(known), known.row["fixture_ids"]))

    def _pack(self, known: _Seat) -> Pack:
        pack = self.held.of_seat(known.row)
        if pack.content_hash != known.row["content_hash"]:
            raise PackTamperedError(f"pack {pack.pack_id!r} of a seat", known.row["content_hash"], pack.content_hash)
        return pack

    def _spec(self, known: _Seat) -> ReplaySpec:
        row = known.row
        request = SeatRequest.model_validate(row["request"])
        return seat_spec(request, self._pack(known), row["fixture_ids"], row["seat_id"], row["secret"])


def _judged(
    connection: Connection,
    act: SeatAct,
    place: SeatPlace,
    new: Mapping[tuple[str, int], SeatTickRow],
    now_ms: int,
    limits: SeatLimits,
) -> SeatTickRow | ClvlabError | None:
    """Return what an answer was told before, why it is refused, or ``None`` for the answer to the open tick.

    ``new`` are the links of this transaction, which are not written yet.
    """
    open_tick = _open_tick(place)
    if act.tick <= place["ticks"]:
        link = new.get((act.seat_id, act.tick)) or seats.tick(connection, act.seat_id, act.tick)
        if link is None or not (link["missed"] or link["decisions"] == act.decisions):
            detail = f"tick {act.tick} of seat {act.seat_id} has another answer, which stays; open is {open_tick or 'none'}"
            return SeatConflictError("answered", detail, open_tick)
        return link
    if (refused := _unserved(place, act.tick, now_ms)) is not None:
        return refused
    if act.fault is not None:
        return act.fault
    if act.decisions and place["decision_bytes"] + len(canonical(act.decisions)) > limits.decision_bytes:
        return SeatTooLongError(
            f"the decisions of seat {act.seat_id} would take more than {limits.decision_bytes:,} bytes: give shorter reasons"
        )
    return None


def _unserved(place: SeatPlace | SeatRow, tick: int, now_ms: int) -> SeatConflictError | None:
    """Return why a tick can't be answered, or ``None`` if it is open or answered."""
    if tick <= place["ticks"]:
        return None
    if place["status"] != SeatStatus.PLAYING or _is_left_alone(place, now_ms):
        state = place["status"] if place["status"] != SeatStatus.PLAYING else f"abandoned: it was {LEFT_ALONE}"
        return SeatConflictError("over", f"seat {place['seat_id']} is {state}")
    open_tick = _open_tick(place)
    if tick != open_tick:
        return SeatConflictError("unserved", f"tick {tick} has not left yet: open is {open_tick}", open_tick)
    return None


def _moved(act: SeatAct, place: SeatPlace, now_ms: int, stamp_ms: int) -> SeatTickRow:
    """Move a place by the answer to its open tick, and return the new link of its chain."""
    missed = now_ms - place["served_ts_ms"] > 1000 * place["tick_s"]
    recorded = [] if missed else act.decisions
    place["head"] = next_head(place["head"], act.digest, recorded, missed=missed)
    place["ticks"], place["served_ts_ms"] = act.tick, now_ms
    place["decision_bytes"] += len(canonical(recorded)) if recorded else 0
    if act.tick == act.tape.ticks and act.known.blind is not Blind.LIVE:
        place["status"] = SeatStatus.FINISHED
    return {
        "seat_id": act.seat_id,
        "tick": act.tick,
        "digest": act.digest,
        "decisions": recorded,
        "missed": missed,
        "head": place["head"],
        "ts_ms": stamp_ms,
    }


def _is_left_alone(place: SeatPlace | SeatRow, now_ms: int) -> bool:
    return place["status"] == SeatStatus.PLAYING and now_ms - place["served_ts_ms"] > 1000 * place["seat_s"]


def _open_tick(place: SeatPlace | SeatRow) -> int | None:
    return place["ticks"] + 1 if place["status"] == SeatStatus.PLAYING else None


def _tick(tape: SeatMessages, tick: int, blind: Blind, secret: bytes) -> SeatTick:
    return cast("SeatTick", {"view": tape.view(tick, blind, secret), "salt": tick_salt(secret, tick)})


def _summary(row: SeatRow) -> SeatSummary:
    return pick(SeatSummary, row | {"blind": blind_of(row).value, "answered": row["ticks"]})


def _taken(connection: Connection, row: SeatRow) -> SeatsTaken:
    over_pack, abandoned, of_owner, packs = seats.counts(connection, row["owner"], row["content_hash"])
    return {"over_pack": over_pack, "abandoned": abandoned, "of_owner": of_owner, "packs": packs}


def _tape_key(content_hash: str, fixture_ids: Sequence[int]) -> tuple[str, str]:
    return content_hash, sha256(canonical(sorted(fixture_ids)))
