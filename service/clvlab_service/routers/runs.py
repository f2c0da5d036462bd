"""``/runs``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from pydantic import BeforeValidator

from clvlab.api.runs import (
    DecisionListResponse,
    InspectorRecord,
    JobState,
    ProofArtifactResponse,
    RunKind,
    RunListResponse,
    RunStatus,
    VerifyResponse,
)
from clvlab.arena.application import Application
from clvlab.arena.runs.decisions import DecisionFilter, Order, Reason
from clvlab.arena.runs.runs import Part, RunFilter
from clvlab.arena.tables import PAGE
from clvlab.report.browser.page import page_policy, verifier_page
from clvlab_service.bodies import shortened
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep, CursorQuery, NameQuery, PageSizeQuery, ProofPool
from clvlab_service.json_lists import ReadPlace
from clvlab_service.negotiation import (
    TABLE,
    Form,
    FormDep,
    ImmutableRoute,
    Responses,
    RevalidatedRoute,
    RowsQuery,
    arrow_response,
)
from clvlab_service.openapi import problems

router = APIRouter(prefix="/runs", tags=["runs"])
cards = APIRouter(prefix="/runs", tags=["runs"], route_class=RevalidatedRoute)
sealed = APIRouter(prefix="/runs", tags=["runs"], route_class=ImmutableRoute)

_PLAIN: Mapping[str, str] = {}
_LINES = "application/x-ndjson"
_BYTES = "application/octet-stream"
_GZIP = re.compile(r"(?:^|[,\s])gzip(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)
_AS_BYTES = re.compile(r"application/octet-stream(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)  # by name, and not refused


_Seq = Annotated[int, BeforeValidator(shortened), Path(description="Number of the decision in the run's event log.")]


def _file(media_type: str, kind: str = "string") -> Responses:
    # Bytes come first: generated clients take the first type that they know, and decoded text does not have the digest.
    content = {_BYTES: {"schema": {"type": "string", "format": "binary"}}}
    if media_type != _BYTES:
        content[media_type] = {"schema": {"type": kind}}
    return {200: {"description": "The bytes as sealed", "content": content}} | problems(
        410, s404="Unknown run, or not sealed yet"
    )


@router.get("", operation_id="listRuns", responses=problems(422))
def runs(
    application: ApplicationDep,
    kind: Annotated[RunKind | None, Query(description="What asked for the run.")] = None,
    status: Annotated[RunStatus | None, Query(description="Where the run is between launch and seal.")] = None,
    agent_id: Annotated[str | None, Query(max_length=200, description="An agent that the leaderboard counted.")] = None,
    pack_id: Annotated[str | None, Query(max_length=200, description="The pack that the run replays.")] = None,
    owner: Annotated[
        str | None, Query(max_length=300, description="DID that committed to the run; `anonymous` without a token.")
    ] = None,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = 50,
) -> RunListResponse:
    """List runs, newest first. Filters combine: a run must meet all of them."""
    return application.runs.page(cursor, limit, RunFilter(kind, status, agent_id, pack_id, owner))


@cards.get("/{run_id}", operation_id="getRun", responses=problems(410, s404="Unknown run"))
async def card(run_id: str, application: ApplicationDep) -> ProofArtifactResponse:
    """Read a proof card. It exists from the start of a run; checks are pending until the seal."""
    return await run_in_threadpool(application.runs.card, run_id)


@router.get("/{run_id}/progress", operation_id="getProgress", responses=problems(s404="Unknown run"))
def progress(run_id: str, application: ApplicationDep) -> JobState:
    """Read the progress of a run. The WebSocket of the same path sends every change."""
    return application.jobs.state(run_id)


@cards.post("/{run_id}/verify", operation_id="verifyRun", responses=problems(410, s404="Unknown run"))
async def verify(run_id: str, application: ApplicationDep, pool: ProofPool) -> VerifyResponse:
    """Recompute the proof from the stored bytes (hashes, scores, manifest, seven checks). Sealed bytes do not change."""
    return await pool.share_next(run_id, application.runs.verify, run_id)


@sealed.get(
    "/{run_id}/actions/{seq}",
    operation_id="inspectDecision",
    responses=problems(410, 422, s404="Unknown run, or no decision at `seq`"),
)
def decision(run_id: str, seq: _Seq, application: ApplicationDep) -> InspectorRecord:
    """Read one sealed decision: the market state, the action, the score, and the agent's own claims."""
    return application.runs.inspect(run_id, seq)


@sealed.get(
    "/{run_id}/decisions",
    operation_id="listDecisions",
    response_model=DecisionListResponse,
    responses=TABLE | problems(406, 410, 422, s404="Unknown run, or not sealed yet"),
)
async def decisions(
    run_id: str,
    request: Request,
    form: FormDep,
    application: ApplicationDep,
    place: ReadPlace,
    *,
    agent_id: NameQuery = None,
    fixture_id: Annotated[int | None, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER)] = None,
    market: Annotated[str | None, Query(max_length=200, description="Prefix of the market key.")] = None,
    side: NameQuery = None,
    reason: Annotated[Reason | None, Query(description="Reason of the score.")] = None,
    valid: bool | None = None,
    sort: Annotated[Order, Query(description="By CLV, ties go by `seq`; decisions without a CLV come last.")] = Order.SEQ,
    cursor: CursorQuery = None,
    limit: RowsQuery = None,
) -> DecisionListResponse | Response:
    """List sealed decisions with their scores, 100 per page. Pages after the first are fast, because the run is read once."""
    wanted = DecisionFilter(agent_id, fixture_id, market, side, reason, valid)
    if form is Form.ARROW:
        table = await place.run(application.decisions.as_arrow, run_id, wanted, sort, cursor, limit)
        return arrow_response(request, table)
    return await place.run(application.decisions.page, run_id, wanted, sort, cursor, limit or PAGE)


@sealed.get("/{run_id}/evidence", operation_id="getEvidence", response_class=Response, responses=_file(_LINES))
async def evidence(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Download `events.jsonl`. Its SHA-256 is the evidence hash."""
    return await place.run(_part, request, application, run_id, Part.EVENTS)


@sealed.get("/{run_id}/scores", operation_id="getScores", response_class=Response, responses=_file(_LINES))
async def scores(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Download `scores.jsonl`, one row per decision."""
    return await place.run(_part, request, application, run_id, Part.SCORES)


@sealed.get(
    "/{run_id}/manifest", operation_id="getManifest", response_class=Response, responses=_file("application/json", "object")
)
async def manifest(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Download `manifest.json`. Its SHA-256 is the manifest hash."""
    run = await place.run(application.runs.sealed_run, run_id)
    return _download(request, run.manifest, "manifest.json", "application/json")


@cards.get("/{run_id}/bundle", operation_id="getBundle", response_class=Response, responses=_file(_BYTES))
async def bundle(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Download the proof bundle for `clv_verify.py`: all sealed files, with the anchor and log proofs that exist."""
    return _download(request, await place.run(application.runs.bundle, run_id), f"{run_id}.clv", _BYTES)


def _part(request: Request, application: Application, run_id: str, part: Part) -> Response:
    """Answer with a part of a run; a client that accepts gzip gets the stored bytes."""
    takes = _GZIP.search(request.headers.get("accept-encoding", ""))
    packed = application.runs.gzipped(run_id, part) if takes else None
    if packed is not None:
        return _download(request, packed, f"{part}.jsonl", _LINES, {"Content-Encoding": "gzip"})
    return _download(request, getattr(application.runs.sealed_run(run_id), part), f"{part}.jsonl", _LINES)


def _download(request: Request, content: bytes, name: str, media_type: str, coding: Mapping[str, str] = _PLAIN) -> Response:
    """Answer with sealed bytes; if ``Accept`` names bytes, their type is bytes, and the content is the same."""
    sent_type = _BYTES if _AS_BYTES.search(request.headers.get("accept", "")) else media_type
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept", **coding}
    return Response(content, headers=headers, media_type=sent_type)


# ``/verify.html``.


verifier_router = APIRouter(route_class=RevalidatedRoute, include_in_schema=False)


@verifier_router.get("/verify.html")
def page() -> HTMLResponse:
    """Read the verifier as one page; it asks nobody, and works as well when it is saved and opened from a disk."""
    safe = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return HTMLResponse(verifier_page(), headers={"Content-Security-Policy": page_policy()} | safe)
