"""The tools: one function each over the application, with the types of what it takes and gives; they know no protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, ParamSpec, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from clvlab.api.answer import JsonObject, pick
from clvlab.api.seats import SeatAnswer, SeatTick
from clvlab.arena.application import Application
from clvlab.arena.laboratory import Laboratory, RunProof, smallest
from clvlab.arena.report_requests import PackBacktestRequest
from clvlab.arena.reports import statistics_of
from clvlab.arena.seats.requests import SeatAction, SeatRequest
from clvlab.bets.record import BetsFormat
from clvlab.errors import SeatConflictError
from clvlab.report.headline import headline_of
from clvlab.runs.run import Run

_P = ParamSpec("_P")
_T = TypeVar("_T")
_PAGE = 5
_LONGEST_WAIT_S, _LOOK_S = 25.0, 0.1  # for the next tick of a live seat
_DONE: JsonObject = {"tick": None, "fixture": None, "market": None, "sides": []}


class Dispatch(Protocol):
    """Calls a function that blocks away from the event loop, on a pool of its name, where there are pools."""

    async def __call__(self, pool: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T: ...


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a caller's calls go.

    Attributes
    ----------
    caller
        Owner of seats and runs; in practice the address of the client, which is only counted.
    """

    application: Application
    laboratory: Laboratory
    caller: str
    work: Dispatch

    @property
    def seat_owner(self) -> str:
        return self.laboratory.seat_owner(self.caller)


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Id = Annotated[str, Field(max_length=200)]
_Seat = Annotated[str, Field(max_length=200, description="As enter returns it.")]

# The arena.


class Enter(_Request):
    agent: Annotated[str, Field(max_length=200, description="Name of the agent.")]
    pack_id: Annotated[_Id | None, Field(description="By default the smallest pack.")] = None
    fixture_ids: Annotated[list[int] | Literal["all"] | None, Field(description="By default one, drawn.")] = None
    blind: Annotated[
        Literal["aliased", "open", "held-back", "live"] | None,
        Field(description="open hides nothing; live follows a match; by default aliased."),
    ] = None
    competition_id: Annotated[_Id | None, Field(description="Its rules then hold.")] = None


class Act(SeatAction):
    seat: _Seat


class StandingRequest(_Request):
    seat: Annotated[_Id | None, Field(description="Of a seat,")] = None
    competition_id: Annotated[_Id | None, Field(description="or of a competition.")] = None

    @model_validator(mode="after")
    def _one(self) -> StandingRequest:
        if (self.seat is None) == (self.competition_id is None):
            raise ValueError("name a seat or a competition_id")
        return self


class ListCompetitions(_Request):
    cursor: Annotated[str | None, Field(max_length=2000, description="Of the page before.")] = None


class Tick(TypedDict):
    """An open tick, flat; ``sides`` are ``[name, prob_bps, odds_milli]``. After the last tick ``done`` is true.

    ``waiting`` is true if the tick of a live seat has not come yet: an act at it waits on, and records nothing.
    """

    seat: str
    done: bool
    tick: int | None
    fixture: int | str | None
    market: str | None
    sides: list[list[str | int | None]]
    head: str
    suspended: NotRequired[bool]
    in_running: NotRequired[bool]
    time_ms: NotRequired[int]
    tick_seq: NotRequired[int]
    about: NotRequired[JsonObject]
    salt: NotRequired[str]
    missed: NotRequired[bool]
    waiting: NotRequired[bool]
    receipt: NotRequired[str]
    run_id: NotRequired[str]
    blind: NotRequired[str]
    blind_commitment: NotRequired[str]
    result: NotRequired[str]
    more: NotRequired[str]


class Rank(TypedDict):
    rank: int | None
    agent_id: str
    fixtures: int
    mean_clv_bps: float | None
    low: float | None
    high: float | None


class Place(TypedDict):
    """Where a seat stands, or who plays in a competition."""

    status: str
    seat: NotRequired[str]
    answered: NotRequired[int]
    head: NotRequired[str]
    run_id: NotRequired[str]
    open_tick: NotRequired[int | None]
    cause: NotRequired[str]
    result: NotRequired[str]
    competition_id: NotRequired[str]
    standing: NotRequired[list[Rank]]
    more: NotRequired[str]


class CompetitionFacts(TypedDict):
    competition_id: str
    name: str
    pack_id: str
    blind: str
    status: str
    entrants: int


class CompetitionList(TypedDict):
    competitions: list[CompetitionFacts]
    cursor: str | None
    more: NotRequired[str]


def flat_tick(answer: SeatAnswer) -> Tick:
    answered, following = answer["answered"], answer["next"]
    flat = _flat(answer["seat_id"], following, answered["tick"], done=answer["done"]) | {"head": answered["head"]}
    if answered["missed"]:
        flat["missed"] = True
    if answered["receipt"] is not None:
        flat["receipt"] = answered["receipt"]
    return cast("Tick", flat)


def _flat(seat: str, following: SeatTick | None, answered: int, *, done: bool) -> JsonObject:
    flat: JsonObject = {"seat": seat, "done": done}
    if following is not None:
        return flat | following["view"] | {"salt": following["salt"]}
    if done:
        return flat | _DONE | {"result": f"clv://seats/{seat}/result"}
    return flat | _DONE | {"tick": answered + 1, "waiting": True}


async def _waited(desk: Desk, seat: str) -> Tick:
    """Return the open tick of a live seat once it comes, or that it has not come for a while, or the end."""
    until_s = time.monotonic() + _LONGEST_WAIT_S
    while True:
        found = await desk.work("", desk.application.seats.seat, desk.seat_owner, seat)
        is_over = found["status"] != "playing"
        if found["next"] is not None or is_over or time.monotonic() >= until_s:
            flat = _flat(seat, found["next"], found["answered"], done=is_over)
            return cast("Tick", flat | {"head": found["head"]})
        await asyncio.sleep(_LOOK_S)


async def enter(desk: Desk, wanted: Enter) -> Tick:
    """Take a seat, and get its first tick. Then act at every tick until done."""

    def take() -> Tick:
        values = {"agent_id": wanted.agent} | wanted.model_dump(exclude={"agent"}, exclude_none=True)
        if wanted.pack_id is None and wanted.competition_id is None and wanted.blind in (None, "aliased", "open"):
            values["pack_id"] = smallest(desk.laboratory.packs(desk.caller)).pack_id
        start = desk.laboratory.take_seat(desk.caller, SeatRequest.model_validate(values))
        named = {name: start[name] for name in ("run_id", "blind", "blind_commitment")}
        return cast("Tick", flat_tick(start) | named)

    first = await desk.work("", take)
    if not first.pop("waiting", False):
        return first
    return first | await _waited(desk, first["seat"])


async def act(desk: Desk, wanted: Act) -> Tick:
    """Answer the open tick: BACK a side, WAIT, or give decisions. Returns the next tick; the same answer twice is one."""
    seats = desk.application.seats
    action = SeatAction.model_construct(wanted.model_fields_set - {"seat"}, **{k: v for k, v in wanted if k != "seat"})
    try:
        if seats.is_known(wanted.seat, wanted.tick):
            prepared = seats.prepared(desk.seat_owner, wanted.seat, action)
        else:
            prepared = await desk.work("", seats.prepared, desk.seat_owner, wanted.seat, action)
        flat = flat_tick(await seats.answer(prepared))
    except SeatConflictError as error:
        if error.reason != "unserved" or error.open_tick is not None:  # the open tick of a live seat, which has not come yet
            raise
        return await _waited(desk, wanted.seat)
    if not flat.pop("waiting", False):
        return flat
    return flat | await _waited(desk, wanted.seat)


async def standing(desk: Desk, wanted: StandingRequest) -> Place:
    """Say how far a seat is, or who leads a competition."""
    if wanted.competition_id is not None:
        return await desk.work("", competition_standing, desk, wanted.competition_id)
    found = await desk.work("", desk.application.seats.seat, desk.seat_owner, str(wanted.seat))
    place: Place = {
        "status": found["status"],
        "seat": found["seat_id"],
        "answered": found["answered"],
        "head": found["head"],
        "run_id": found["run_id"],
        "open_tick": None if found["next"] is None else found["next"]["view"]["tick"],
    }
    if found["cause"] is not None:
        place["cause"] = found["cause"]
    if found["status"] in ("finished", "sealed"):
        place["result"] = f"clv://seats/{found['seat_id']}/result"
    return place


def competition_standing(desk: Desk, competition_id: str) -> Place:
    found = desk.application.seat_competitions.get(competition_id)
    ranks = [pick(Rank, {name: _rounded(value) for name, value in one.items()}) for one in found["standing"]]
    return {"status": found["status"], "competition_id": competition_id, "standing": ranks}


async def list_competitions(desk: Desk, wanted: ListCompetitions) -> CompetitionList:
    """List competitions of seats, newest first. Enter one by its competition_id."""
    found = await desk.work("", desk.application.seat_competitions.page, wanted.cursor, _PAGE)
    listed = [pick(CompetitionFacts, one) for one in found["competitions"]]
    return {"competitions": listed, "cursor": found["next_cursor"]}


# The laboratory.


class ListPacks(_Request):
    after: Annotated[_Id | None, Field(description="pack_id at the end of the page before.")] = None


class Backtest(_Request):
    pack_id: _Id
    strategy: Annotated[_Id, Field(description="A template.")] = "cumulative-drift"
    params: JsonObject = Field(default={})
    fixture_ids: list[int] | None = None


class OfRun(_Request):
    run_id: _Id


class GradeBets(_Request):
    csv: Annotated[str, Field(description="A header and a row for each bet: time, match, market, selection, odds, stake.")]
    pack_id: _Id
    columns: Annotated[dict[str, str | None] | None, Field(description="Meaning: column, where names don't tell.")] = None
    market: Annotated[_Id | None, Field(description="Of every row.")] = None
    odds_format: Literal["decimal", "american", "fractional", "probability"] | None = None
    time_zone: Annotated[_Id | None, Field(description="IANA, of times without one.")] = None
    time_format: Annotated[_Id | None, Field(description="Of strptime.")] = None


class PackFacts(TypedDict):
    pack_id: str
    fixtures: int
    provenance: str
    content_hash: str


class PackList(TypedDict):
    packs: list[PackFacts]
    after: str | None
    more: NotRequired[str]


class RunVerdict(TypedDict):
    """What a run shows; the interval is of 95 %, over fixtures."""

    run_id: str
    evidence_hash: str
    verdict: str
    mean_clv_bps: float | None
    low: float | None
    high: float | None
    fixtures: int
    mean_edge_pct: float | None
    decisions: int
    rows: NotRequired[int]
    matched: NotRequired[int]
    columns: NotRequired[dict[str, str]]
    notes: NotRequired[list[str]]
    unmatched: NotRequired[dict[str, int]]
    report: str
    bundle: str
    more: NotRequired[str]


class RunChecks(TypedDict):
    """The seven checks of a run, made again from its bytes."""

    run_id: str
    passed: bool
    evidence_hash: str
    manifest_hash: str
    checks: dict[str, str]
    bundle: str


class SheetFigures(TypedDict):
    """Figures are ``[name, value, low, high, unit]``."""

    run_id: str
    verdict: str
    figures: list[list[str | float | None]]
    page: str
    more: NotRequired[str]


def all_packs(desk: Desk) -> list[PackFacts]:
    return [
        {
            "pack_id": pack.pack_id,
            "fixtures": len(pack.fixture_ids),
            "provenance": pack.provenance,
            "content_hash": pack.content_hash,
        }
        for pack in sorted(desk.laboratory.packs(desk.caller), key=lambda pack: pack.pack_id)
    ]


async def list_packs(desk: Desk, wanted: ListPacks) -> PackList:
    """List packs of past odds, which seats, backtests and bets go over."""
    packs = await desk.work("", all_packs, desk)
    listed = [pack for pack in packs if pack["pack_id"] > (wanted.after or "")]
    page = listed[:_PAGE]
    return {"packs": page, "after": page[-1]["pack_id"] if len(listed) > len(page) else None}


def verdict_of(done: Run) -> RunVerdict:
    found = headline_of(done).facts()
    names = ("verdict", "mean_clv_bps", "low", "high", "fixtures", "mean_edge_pct")
    return cast(
        "RunVerdict",
        {
            "run_id": done.run_id,
            "evidence_hash": done.sealed.evidence_hash,
            **{name: _rounded(found[name]) for name in names},
            "decisions": done.scores.height,
            "report": f"clv://runs/{done.run_id}/report",
            "bundle": f"clv://runs/{done.run_id}/bundle",
        },
    )


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value


async def backtest(desk: Desk, wanted: Backtest) -> RunVerdict:
    """Replay a pack through a template, and seal the run. The same request returns the same run."""
    request = PackBacktestRequest(
        pack_id=wanted.pack_id, fixture_ids=wanted.fixture_ids, strategy=wanted.strategy, params=wanted.params
    )

    def run() -> RunVerdict:
        return verdict_of(desk.laboratory.backtest(desk.caller, request))

    return await desk.work("backtests", run)


async def verify(desk: Desk, wanted: OfRun) -> RunChecks:
    """Check the seal of a run, and compute its scores again from its bytes."""
    found: RunProof = await desk.work("proofs", desk.laboratory.verify, desk.caller, wanted.run_id)
    return {
        "run_id": found.run_id,
        "passed": found.passed,
        "evidence_hash": found.evidence_hash,
        "manifest_hash": found.manifest_hash,
        "checks": found.checks,
        "bundle": f"clv://runs/{found.run_id}/bundle",
    }


async def tear_sheet(desk: Desk, wanted: OfRun) -> SheetFigures:
    """Read the figures of a run with their intervals."""

    def sheet() -> SheetFigures:
        done = desk.laboratory.run(desk.caller, wanted.run_id)
        figures = statistics_of(done)["figures"]
        return {
            "run_id": done.run_id,
            "verdict": str(headline_of(done).facts()["verdict"]),
            "figures": [[cast("str | float | None", _rounded(value)) for value in one.values()] for one in figures],
            "page": f"clv://runs/{done.run_id}/tear-sheet",
        }

    return await desk.work("sheets", sheet)


async def grade_bets(desk: Desk, wanted: GradeBets) -> RunVerdict:
    """Say whether placed bets are any good: each is scored against the close of a pack, and all are sealed as a run."""
    how = BetsFormat(wanted.columns, wanted.market, wanted.odds_format, wanted.time_zone, wanted.time_format)

    def grade() -> RunVerdict:
        done, rows = desk.laboratory.grade(desk.caller, wanted.pack_id, wanted.csv.encode(), how)
        facts = {
            "rows": rows.frame.height,
            "matched": rows.matched.height,
            "columns": {str(meaning): name for meaning, name in rows.columns.names.items()},
            "unmatched": rows.reasons,
            "notes": rows.notes,
        }
        return cast("RunVerdict", verdict_of(done) | facts)

    return await desk.work("owner", grade)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool.

    Attributes
    ----------
    reads, repeats
        Whether it changes nothing, and whether the same call twice has the effect of one.
    lengthy, more
        The list of its answer that may be cut, and the resource that has all of it; names in braces are of the answer.
    """

    call: Callable[[Desk, Any], Awaitable[Any]]
    request: type[BaseModel]
    answer: type
    reads: bool
    repeats: bool
    lengthy: str | None = None
    more: str | None = None

    @property
    def name(self) -> str:
        return self.call.__name__


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(enter, Enter, Tick, reads=False, repeats=False, lengthy="sides", more="clv://seats/{seat}"),
        Tool(act, Act, Tick, reads=False, repeats=True, lengthy="sides", more="clv://seats/{seat}"),
        Tool(list_competitions, ListCompetitions, CompetitionList, reads=True, repeats=True, lengthy="competitions"),
        Tool(
            standing,
            StandingRequest,
            Place,
            reads=True,
            repeats=True,
            lengthy="standing",
            more="clv://competitions/{competition_id}",
        ),
        Tool(list_packs, ListPacks, PackList, reads=True, repeats=True, lengthy="packs", more="clv://packs"),
        Tool(backtest, Backtest, RunVerdict, reads=False, repeats=True),
        Tool(verify, OfRun, RunChecks, reads=True, repeats=True),
        Tool(tear_sheet, OfRun, SheetFigures, reads=True, repeats=True, lengthy="figures", more="clv://runs/{run_id}/report"),
        Tool(grade_bets, GradeBets, RunVerdict, reads=False, repeats=True, lengthy="notes", more="clv://runs/{run_id}/report"),
    )
}
