"""``/leaderboard``."""

from __future__ import annotations

import hashlib
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator, TypeAdapter

from clvlab.api.leaderboard import ConsistencyResponse, LeaderboardResponse, LogEntriesResponse, LogResponse
from clvlab.arena.leaderboard import CAUSALITIES, KNOWLEDGE, RowQuery
from clvlab.arena.log.public import MAX_ENTRIES
from clvlab.arena.pages import PAGE
from clvlab.base.cache import BoundedCache
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep, CursorQuery
from clvlab_service.json_lists import ReadPlace
from clvlab_service.negotiation import FINAL, LIST, REVALIDATED, Responses, kept_tag, link_next, unless_kept
from clvlab_service.openapi import problems

_ANSWER = TypeAdapter(LeaderboardResponse)

router = APIRouter(prefix="/leaderboard", tags=["leaderboard"])


def _one_of(*values: str) -> AfterValidator:

    def check(value: str | None) -> str | None:
        if value is not None and value not in values:
            raise ValueError(f"{value!r:.200} is not one of {', '.join(values)}")
        return value

    return AfterValidator(check)


@router.get("", operation_id="getLeaderboard", response_model=LeaderboardResponse, responses=LIST | problems(422))
def leaderboard(
    request: Request,
    application: ApplicationDep,
    after_rank: Annotated[int, Query(ge=0, le=SAFE_INTEGER, description="Rank of the last row of the previous page.")] = 0,
    cursor: CursorQuery = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Rows per page.")] = PAGE,
    causality: Annotated[
        str | None, _one_of(*CAUSALITIES), Query(description=f"Only rows with this causality: {', '.join(CAUSALITIES)}.")
    ] = None,
    knowledge: Annotated[
        str | None, _one_of(*KNOWLEDGE), Query(description=f"Only rows with this knowledge: {', '.join(KNOWLEDGE)}.")
    ] = None,
    owner: Annotated[str | None, Query(max_length=500, description="Only rows of this owner, a DID.")] = None,
    *,
    grouped: Annotated[bool, Query(description="Show only the first of an owner's rows with the same decisions.")] = False,
) -> Response:
    """Rank agents over all sealed runs by mean CLV. With filters, ranks are among the remaining rows.

    The header `Link` has the next page. It continues after the last row of this page, even if rows were added meanwhile.
    """
    wanted = RowQuery(causality, knowledge, grouped, owner=owner)
    # Read before the rows: so rows may be newer than the tag, which costs one more request, but never older.
    key = application.leaderboard.revision(), cursor, after_rank, limit, wanted
    tag = f'W/"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": REVALIDATED}
    if kept_tag(request, tag) is not None:
        return unless_kept(request, Response(headers=headers))
    boards: BoundedCache[Board] = request.app.state.boards
    board = boards.get(key, lambda: _board(*application.leaderboard.page(cursor, after_rank, limit, wanted)))
    response = Response(board.body, headers=headers, media_type="application/json")
    link_next(request, response, replaced="after_rank", cursor=board.next_cursor)
    return response


class Board(NamedTuple):
    """A page of the leaderboard as JSON."""

    body: bytes
    next_cursor: str | None


def _board(answer: LeaderboardResponse, next_cursor: str | None) -> Board:
    return Board(_ANSWER.dump_json(_ANSWER.validate_python(answer)), next_cursor)


# ``/log``.


log_router = APIRouter(prefix="/log", tags=["log"])

_NOTE: Responses = {200: {"description": "A C2SP checkpoint", "content": {"text/plain": {"schema": {"type": "string"}}}}}
_SIZE = Annotated[int, Query(ge=0, le=2**53 - 1, description="Number of entries.")]


@log_router.get("", operation_id="getLog", responses=problems())
async def state(application: ApplicationDep, place: ReadPlace) -> LogResponse:
    """Read the size and root of the log, and each owner's counts of committed, sealed and abandoned runs."""
    return await place.run(application.log.state)


@log_router.get(
    "/checkpoint",
    operation_id="getCheckpoint",
    response_class=Response,
    responses=_NOTE | problems(s404="The log has no key"),
)
def checkpoint(application: ApplicationDep) -> Response:
    """Read a signed checkpoint of the log. Witnesses keep it, and the proofs in a bundle refer to it."""
    return Response(application.log.checkpoint(), media_type="text/plain; charset=utf-8")


@log_router.get("/entries", operation_id="listLogEntries", responses=LIST | problems(422))
async def entries(
    request: Request,
    response: Response,
    application: ApplicationDep,
    place: ReadPlace,
    since: _SIZE = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES, description="Entries per page.")] = PAGE,
) -> LogEntriesResponse:
    """Read entries from an index. You can rebuild the tree and count runs with them."""
    found, following = await place.run(application.log.page, since, limit)
    link_next(request, response, since=following)
    return found


@log_router.get("/consistency", operation_id="getConsistency", responses=problems(422))
def consistency(first: _SIZE, second: _SIZE, application: ApplicationDep) -> ConsistencyResponse:
    """Prove that the log of `second` entries extends the log of `first` entries."""
    return application.log.consistency(first, second)


_TILE: Responses = {
    200: {
        "description": "Hashes, or entries with their lengths",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_TILE_PATH = Path(
    max_length=100,
    description="Level or `entries`, number in groups of three digits, width.",
    examples=["0/000.p/1"],  # every log that is not empty has it
)


@log_router.get(
    "/tiles/checkpoint",
    operation_id="getTilesCheckpoint",
    response_class=Response,
    responses=_NOTE | problems(s404="The log has no key"),
)
def tiles_checkpoint(application: ApplicationDep) -> Response:
    """Read the checkpoint of the log's tiles (C2SP tlog-tiles): the newest one that was sent to the witnesses."""
    headers = {"Cache-Control": REVALIDATED}
    return Response(application.log.tiles_checkpoint(), headers=headers, media_type="text/plain; charset=utf-8")


@log_router.get(
    "/tiles/restarts.json",
    operation_id="getTilesRestarts",
    response_class=Response,
    responses=problems(),
)
def tiles_restarts(application: ApplicationDep) -> Response:
    """Read the restarts of a restored log. Readers of its tiles need them before its entries."""
    return Response(application.log.restarts(), headers={"Cache-Control": REVALIDATED}, media_type="application/json")


@log_router.get(
    "/tiles/tile/{tile:path}",
    operation_id="getTile",
    response_class=Response,
    responses=_TILE | problems(s404="No such tile yet, or the log has no key"),
)
async def tile(
    tile: Annotated[str, _TILE_PATH],
    application: ApplicationDep,
    place: ReadPlace,
) -> Response:
    """Read a tile of up to 256 hashes, or a bundle of up to 256 entries. Tiles and bundles never change."""
    content = await place.run(application.log.tile, f"tile/{tile}")
    return Response(content, headers={"Cache-Control": FINAL}, media_type="application/octet-stream")
