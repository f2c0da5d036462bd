"""Pages ``/``, ``/leaderboard``, ``/replay-packs`` and of both kinds of competitions, and the files that all pages load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Query, Request, Response

from clvlab import words
from clvlab.api.competitions import CompetitionLeaderboardRow, CompetitionStateResponse, RosterEntry
from clvlab.arena import templates
from clvlab.arena.application import Application
from clvlab.arena.competitions.competitions import CompetitionFilter
from clvlab.arena.competitions.requests import MAX_ROSTER_SIZE, CompetitionStatus
from clvlab.arena.fixtures import FixtureFilter
from clvlab.arena.runs.decisions import DecisionFilter
from clvlab.arena.seats.board import seat_board
from clvlab.arena.tables import MAX_PAGE, PAGE
from clvlab.runs.card import may_hold_past
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep, CursorQuery
from clvlab_service.errors import PROBLEMS
from clvlab_service.json_lists import ReadPlace
from clvlab_service.pages.route import page_router
from clvlab_service.pages.runs import result_of
from clvlab_service.rendering import ASSET_PATH, asset_content, asset_digest, page
from clvlab_service.routers.competitions import StatusFilter
from clvlab_service.routers.operations import problem_table

# Files that pages load: a style, two scripts and a picture, all from this service.


assets_router = APIRouter(include_in_schema=False)

_SCRIPT = "text/javascript; charset=utf-8"
_KINDS = {"style.css": "text/css; charset=utf-8", "times.js": _SCRIPT, "live.js": _SCRIPT, "icon.svg": "image/svg+xml"}
_FOR_EVER, _ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"


@assets_router.get(f"{ASSET_PATH}/{{digest}}/{{name}}")
def asset(digest: str, name: str) -> Response:
    """Send a file. The present file is also sent under the digest of an earlier one, but not cached forever."""
    if name not in _KINDS:
        raise HTTPException(HTTPStatus.NOT_FOUND, "pages load no such file")
    keep = _FOR_EVER if digest == asset_digest(name) else _ASK_AGAIN
    headers = {"Cache-Control": keep, "X-Content-Type-Options": "nosniff"}
    return Response(asset_content(name), headers=headers, media_type=_KINDS[name])


# Pages ``/competitions`` and ``/competitions/{competition_id}``.


router = page_router()

_ROWS = 50
_OVER = ("finalized", "completed")


@router.get("/competitions")
async def competitions(
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    status: Annotated[StatusFilter | None, Query()] = None,
    owner: Annotated[str | None, Query(max_length=500)] = None,
    pack_id: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
    limit: Annotated[int | None, Query(ge=1, le=200)] = None,
) -> Response:
    """List competitions, newest first."""
    wanted = CompetitionFilter(None if status is None else CompetitionStatus(status.value.lower()), owner, pack_id)
    return await place.run(_competitions, request, application, wanted, cursor, limit)


def _competitions(
    request: Request, application: Application, wanted: CompetitionFilter, cursor: str | None, limit: int | None
) -> Response:
    found, next_cursor = application.competitions.page(wanted, cursor, limit or _ROWS)
    status = None if wanted.status is None else wanted.status.value.upper()
    filters = asdict(wanted) | {"status": status, "limit": limit}
    fixtures = application.stories.fixtures(one["competition_id"] for one in found)
    context = {"competitions": found, "fixtures": fixtures, "wanted": filters, "cursor": cursor, "next_cursor": next_cursor}
    return page(request, "competitions.html", {**context, "statuses": list(StatusFilter)})


_ENTRANTS, _DECISIONS, _HAPPENINGS = 50, 25, 15
_Name = Annotated[str | None, Query(max_length=200)]


@router.get("/competitions/{competition_id}")
async def competition(
    competition_id: str,
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    *,
    agent_id: _Name = None,
    market: Annotated[str | None, Query(max_length=1000)] = None,
    action: Annotated[Literal["BACK", "WAIT"] | None, Query()] = None,
    cursor: CursorQuery = None,
    before: Annotated[int | None, Query(ge=0, le=SAFE_INTEGER)] = None,
    entrant: Annotated[int, Query(ge=0, le=MAX_ROSTER_SIZE)] = 0,
) -> Response:
    """Show a competition: match, entrants with their curves, decisions and events, live until its log is complete."""
    wanted = DecisionFilter(agent_id=agent_id, market_key=market, action=action)
    return await place.run(_competition, competition_id, request, application, wanted, cursor, before, entrant)


def _competition(
    competition_id: str,
    request: Request,
    application: Application,
    wanted: DecisionFilter,
    cursor: str | None,
    before: int | None,
    entrant: int,
) -> Response:
    state = application.competitions.state(competition_id)
    story = application.stories.of(competition_id, wanted, cursor, before, _DECISIONS, _HAPPENINGS)
    is_over = state["status"] in _OVER and state["anchor_status"] != "pending"
    root = str(request.scope.get("root_path", "")).rstrip("/")
    stream = f"{root}/competitions/{quote(competition_id, safe='')}/arena?since_seq={state['latest_seq']}"
    entrants = _entrants(state, story.stopped)
    listed = entrants[entrant : entrant + _ENTRANTS]
    results = result_of(application, state["run_id"]) if state["run_id"] else None
    names = [one["agent_id"] for one in listed]
    markets = sorted({*(story.decisions.markets if story.decisions else ()), *filter(None, [wanted.market_key])})
    place = {"agent_id": wanted.agent_id, "market": wanted.market_key, "action": wanted.action}
    context = {
        "state": state,
        "story": story,
        "entrants": listed,
        "next_entrant": entrant + _ENTRANTS if len(entrants) > entrant + _ENTRANTS else None,
        "agents": [(name, name) for name in dict.fromkeys([*names, *filter(None, [wanted.agent_id])])],
        "edges": {} if results is None else {own.agent_id: own.edge for own in results.agents},
        "curves": [] if results is None else [own for own in results.agents if own.by_date and own.agent_id in names],
        "wanted": place,
        "place": {**place, "cursor": cursor, "before": before, "entrant": entrant or None},
        "markets": words.market_names(markets),
        "speed": application.live.settings and application.live.settings.speed,
    }
    return page(request, "competition.html", context, stream=None if is_over else stream)


class _Entrant(RosterEntry):
    """An agent of a roster with its row of the standings, if it has one."""

    score: CompetitionLeaderboardRow | None
    error: str | None
    doubtful: bool


def _entrants(state: CompetitionStateResponse, stopped: Mapping[str, str]) -> list[_Entrant]:
    """Return the agents of a competition, ranked ones first; those that may have held past prices are ``doubtful``."""
    card, source_mode = state["proof_card"], state["config"]["source_mode"]
    doubtful = {one["agent_id"] for one in card["lineage"]["agents"] if may_hold_past(one, source_mode)} if card else set()
    scores = {row["agent_id"]: row for row in state["leaderboard"]}
    ranked = sorted(state["roster"], key=lambda one: scores[one["agent_id"]]["rank"] if one["agent_id"] in scores else math.inf)
    return [
        {
            **one,
            "score": scores.get(one["agent_id"]),
            "error": stopped.get(one["agent_id"]),
            "doubtful": one["agent_id"] in doubtful,
        }
        for one in ranked
    ]


# Pages ``/arena/competitions`` and ``/arena/competitions/{competition_id}``, of seats.


@router.get("/arena/competitions")
async def seat_competitions(
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    cursor: CursorQuery = None,
    limit: Annotated[int | None, Query(ge=1, le=200)] = None,
) -> Response:
    """List competitions of seats, newest first."""
    return await place.run(_seat_competitions, request, application, cursor, limit)


def _seat_competitions(request: Request, application: Application, cursor: str | None, limit: int | None) -> Response:
    found = application.seat_competitions.page(cursor, limit or _ROWS)
    return page(request, "seat-competitions.html", {"found": found, "cursor": cursor, "limit": limit})


@router.get("/arena/competitions/{competition_id}")
async def seat_competition(
    competition_id: str,
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    entrant: Annotated[int, Query(ge=0, le=SAFE_INTEGER)] = 0,
) -> Response:
    """Show a competition of seats: who plays, how far, and what the sealed seats show."""
    return await place.run(_seat_competition, competition_id, request, application, entrant)


def _seat_competition(competition_id: str, request: Request, application: Application, entrant: int) -> Response:
    board = seat_board(application.seat_competitions, competition_id, entrant, _ENTRANTS)
    following = entrant + _ENTRANTS if len(board.info["standing"]) > entrant + _ENTRANTS else None
    context = {"board": board, "info": board.info, "entrant": entrant, "following": following}
    return page(request, "seat-competition.html", context)


# Pages ``/`` and ``/leaderboard``.


_HOME_ROWS, _BEST, _NEWEST = 50, 10, 8


@router.get("/")
async def home(request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Show an introduction, the newest runs, and the top of the leaderboard."""
    return await place.run(_home, request, application)


def _home(request: Request, application: Application) -> Response:
    forest, runs = application.forest.page(0, _BEST), application.runs.page(None, _NEWEST)["runs"]
    names = application.names.of_each(one["run_id"] for one in runs)
    return page(request, "home.html", {"forest": forest, "runs": runs, "names": names})


@router.get(PROBLEMS)
def problems(request: Request) -> Response:
    """Describe every kind of problem, each at its own anchor."""
    return page(request, "problems.html", {"problems": problem_table(request)})


@router.get("/leaderboard")
async def leaderboard(
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    owner: Annotated[str | None, Query(max_length=500)] = None,
    after_rank: Annotated[int, Query(ge=0, le=SAFE_INTEGER)] = 0,
    limit: Annotated[int | None, Query(ge=1, le=1000)] = None,
) -> Response:
    """Show the leaderboard, each mean with its interval."""
    return await place.run(_leaderboard, request, application, owner, after_rank, limit or _HOME_ROWS)


def _leaderboard(request: Request, application: Application, owner: str | None, after_rank: int, limit: int) -> Response:
    forest = application.forest.page(after_rank, limit, owner)
    following = after_rank + limit if len(forest.rows) == limit else None
    context = {"forest": forest, "owner": owner, "after_rank": after_rank, "limit": limit, "following": following}
    return page(request, "leaderboard.html", context)


_FIRST = 20
_Time = Annotated[int | None, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]


@router.get("/replay-packs")
def packs(request: Request, application: ApplicationDep) -> Response:
    """List the packs that can be replayed."""
    return page(request, "packs.html", {"packs": application.packs.all()["packs"]})


@router.get("/log")
async def log(request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Show the size and root of the log, and each owner's counts."""
    return page(request, "log.html", {"log": await place.run(application.log.state)})


@router.get("/strategies")
def strategies(request: Request) -> Response:
    """List the strategy templates."""
    return page(request, "strategies.html", {"strategies": templates.strategies()["strategies"]})


@router.get("/replay-packs/{pack_id}")
async def pack(pack_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Show a pack, and its first fixtures."""
    return await place.run(_pack, pack_id, request, application)


def _pack(pack_id: str, request: Request, application: Application) -> Response:
    info = application.packs.info(pack_id)
    found = application.packs.fixtures(pack_id, FixtureFilter(), None, _FIRST)
    return page(request, "pack.html", {"info": info, "found": found, "leagues": application.packs.leagues(pack_id)})


@router.get("/replay-packs/{pack_id}/fixtures")
async def fixtures(
    pack_id: str,
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    market: Annotated[str | None, Query(max_length=200)] = None,
    after: _Time = None,
    before: _Time = None,
    cursor: CursorQuery = None,
    limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE)] = None,
) -> Response:
    """List the fixtures of a pack."""
    return await place.run(_fixtures, pack_id, request, application, FixtureFilter(market, after, before), cursor, limit)


def _fixtures(
    pack_id: str,
    request: Request,
    application: Application,
    wanted: FixtureFilter,
    cursor: str | None,
    limit: int | None,
) -> Response:
    found = application.packs.fixtures(pack_id, wanted, cursor, limit or PAGE)
    filters = {"market": wanted.market, "after": wanted.after, "before": wanted.before, "limit": limit}
    context = {"found": found, "wanted": filters, "cursor": cursor, "leagues": application.packs.leagues(pack_id)}
    return page(request, "fixtures.html", context)
