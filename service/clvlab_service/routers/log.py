"""``/log``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from clvlab.answers.log import ConsistencyResponse, LogEntriesResponse, LogResponse
from clvlab.application.log.public import MAX_ENTRIES
from clvlab_service.deps import ApplicationDep
from clvlab_service.openapi import problems
from clvlab_service.reading import ReadPlace

router = APIRouter(prefix="/log", tags=["log"])

_NOTE: dict[int | str, dict[str, Any]] = {
    200: {"description": "A C2SP checkpoint", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
_SIZE = Annotated[int, Query(ge=0, le=2**53 - 1, description="Number of entries.")]


@router.get("", operation_id="getLog", responses=problems())
async def state(application: ApplicationDep, place: ReadPlace) -> LogResponse:
    """Read size and root of the log, and how many runs each owner committed to, sealed and abandoned."""
    return await place.run(application.log.state)


@router.get(
    "/checkpoint",
    operation_id="getCheckpoint",
    response_class=Response,
    responses=_NOTE | problems(s404="The log has no key"),
)
def checkpoint(application: ApplicationDep) -> Response:
    """Sign the present state: what a witness keeps, and proofs of a bundle are under."""
    return Response(application.log.checkpoint(), media_type="text/plain; charset=utf-8")


@router.get("/entries", operation_id="listLogEntries", responses=problems(422))
async def entries(
    application: ApplicationDep,
    place: ReadPlace,
    since: _SIZE = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES, description="Entries of a page.")] = 100,
) -> LogEntriesResponse:
    """Read entries from an index on, to rebuild the tree and count for yourself."""
    return await place.run(application.log.entries, since, limit)


@router.get("/consistency", operation_id="getConsistency", responses=problems(422))
def consistency(first: _SIZE, second: _SIZE, application: ApplicationDep) -> ConsistencyResponse:
    """Prove that the log of `second` entries extends the one of `first`."""
    return application.log.consistency(first, second)
