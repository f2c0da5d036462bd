"""``/runs``."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BeforeValidator, TypeAdapter

from clvlab.api.runs import (
    DecisionListResponse,
    ExecutableResponse,
    InspectorRecord,
    JobState,
    LogStanding,
    ProofArtifactResponse,
    RunChecksResponse,
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
from clvlab.report.executable import AGE_S, DELAY_S, MAX_DELAY_S, MAX_STAKE, MOST_AGE_S, STAKE
from clvlab_service.bodies import shortened
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep, CursorQuery, NameQuery, PageSizeQuery, ProofPool, SheetPool
from clvlab_service.json_lists import ReadPlace
from clvlab_service.negotiation import (
    FINAL,
    LIST,
    OF_GZIP,
    REVALIDATED,
    TABLE,
    Form,
    FormDep,
    ImmutableRoute,
    Responses,
    RevalidatedRoute,
    RowsQuery,
    arrow_response,
    final_json,
    in_gzip,
    link_next,
    ranged_response,
    strong_tag,
    takes_gzip,
)
from clvlab_service.openapi import problems

router = APIRouter(prefix="/runs", tags=["runs"])
cards = APIRouter(prefix="/runs", tags=["runs"], route_class=RevalidatedRoute)
sealed = APIRouter(prefix="/runs", tags=["runs"], route_class=ImmutableRoute)

_CARD = TypeAdapter(ProofArtifactResponse)
_LINES = "application/x-ndjson"
_BYTES = "application/octet-stream"
_AS_BYTES = re.compile(r"application/octet-stream(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)  # by name, and not refused


_Seq = Annotated[int, BeforeValidator(shortened), Path(description="Number of the decision in the run's event log.")]


def _file(media_type: str, kind: str = "string") -> Responses:
    # Bytes come first: generated clients take the first type that they know, and decoded text does not have the digest.
    content = {_BYTES: {"schema": {"type": "string", "format": "binary"}}}
    if media_type != _BYTES:
        content[media_type] = {"schema": {"type": kind}}
    headers = {
        "ETag": {"schema": {"type": "string"}, "description": "Strong, for `If-None-Match` and `If-Range`."},
        "Accept-Ranges": {"schema": {"type": "string"}, "description": "`bytes`"},
    }
    ranged = {"Content-Range": {"schema": {"type": "string"}, "description": "`bytes <first>-<last>/<size>`"}}
    return {
        200: {"description": "The bytes as sealed", "content": content, "headers": headers},
        206: {"description": "The bytes that `Range` asks for", "content": content, "headers": headers | ranged},
    } | problems(410, s404="Unknown run, or not sealed yet", s416="`Range` asks for bytes beyond the end")


@router.get("", operation_id="listRuns", responses=LIST | problems(422))
def runs(
    request: Request,
    response: Response,
    application: ApplicationDep,
    kind: Annotated[RunKind | None, Query(description="Kind of request that made the run.")] = None,
    status: Annotated[RunStatus | None, Query(description="Status of the run, between launch and seal.")] = None,
    agent_id: Annotated[str | None, Query(max_length=200, description="An agent that the leaderboard counted.")] = None,
    pack_id: Annotated[str | None, Query(max_length=200, description="The pack that the run replays.")] = None,
    owner: Annotated[str | None, Query(max_length=300, description="DID of the owner; `anonymous` without a token.")] = None,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = PAGE,
) -> RunListResponse:
    """List runs, newest first. Filters combine: a run must meet all of them."""
    found = application.runs.page(cursor, limit, RunFilter(kind, status, agent_id, pack_id, owner))
    link_next(request, response, cursor=found["next_cursor"])
    return found


@cards.get(
    "/{run_id}", operation_id="getRun", response_model=ProofArtifactResponse, responses=problems(410, s404="Unknown run")
)
def card(run_id: str, request: Request, application: ApplicationDep) -> Response:
    """Read a proof card. It exists from the start of a run. Its checks are pending until the seal.

    The card of a run that passes its checks never changes once its anchor is settled, so it is then `immutable`.
    """
    found, is_final = application.runs.card_and_finality(run_id)
    content = _CARD.dump_json(_CARD.validate_python(found))
    return final_json(request, content, FINAL if is_final else REVALIDATED)


@cards.get("/{run_id}/checks", operation_id="getChecks", responses=problems(410, s404="Unknown run"))
def checks(run_id: str, application: ApplicationDep) -> RunChecksResponse:
    """Read the newest recorded verification of a run, and its time."""
    return application.runs.checks(run_id)


@cards.get(
    "/{run_id}/log", operation_id="getLogStanding", responses=problems(410, s404="Unknown run, or no log committed to it")
)
def log_standing(run_id: str, application: ApplicationDep) -> LogStanding:
    """Read the log's commitment to a run, the present size of the log, and counts of the owner's other commitments."""
    return application.runs.log_standing(run_id)


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
    response: Response,
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
    sort: Annotated[
        Order, Query(description="Order. Decisions of equal CLV are in order of `seq`, and those without a CLV come last.")
    ] = Order.SEQ,
    cursor: CursorQuery = None,
    limit: RowsQuery = None,
) -> DecisionListResponse | Response:
    """List sealed decisions with their scores, 100 per page. Later pages are fast, because the run is read once."""
    wanted = DecisionFilter(agent_id, fixture_id, market, side, reason, valid)
    if form is Form.ARROW:
        table = await place.run(application.decisions.as_arrow, run_id, wanted, sort, cursor, limit)
        return arrow_response(request, table)
    found = await place.run(application.decisions.page, run_id, wanted, sort, cursor, limit or PAGE)
    link_next(request, response, cursor=found["next_cursor"])
    return found


@cards.get(
    "/{run_id}/executable",
    operation_id="getExecutable",
    responses=problems(
        410,
        422,
        s400="The commission is neither a rate nor a known venue, or the run has no such agent",
        s404="Unknown run, not sealed yet, or its pack is no longer in the catalog",
    ),
)
async def executable(
    run_id: str,
    application: ApplicationDep,
    pool: SheetPool,
    *,
    stake: Annotated[float, Query(ge=0.01, le=MAX_STAKE, description="Stake of each order, in the unit of the venue.")] = STAKE,
    delay_s: Annotated[float, Query(ge=0, le=MAX_DELAY_S, description="Seconds from decision to execution.")] = DELAY_S,
    commission: Annotated[
        str,
        Query(
            max_length=20,
            description="Commission: a rate on the net winnings of a market, or `betfair`, `kalshi`, `polymarket`.",
        ),
    ] = "0",
    max_age_s: Annotated[
        float, Query(ge=0.001, le=MOST_AGE_S, description="Age in seconds from which the offers of a market are unknown.")
    ] = AGE_S,
    agent_id: Annotated[str | None, Query(max_length=200, description="Optional if the run has one agent.")] = None,
) -> ExecutableResponse:
    """Read the profit of an agent's scored decisions if they had taken the offers of each level. It is not a score."""
    how = {"stake": stake, "delay_s": delay_s, "commission": commission, "max_age_s": max_age_s}
    key = f"executable {run_id} {agent_id!r} {how}"
    return await pool.share(key, application.backtests.executable, run_id, agent_id, **how)  # type: ignore[arg-type]


@router.get("/{run_id}/evidence", operation_id="getEvidence", response_class=Response, responses=_file(_LINES))
async def evidence(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Download `events.jsonl`. Its SHA-256 is the evidence hash."""
    return await place.run(_part, request, application, run_id, Part.EVENTS)


@router.get("/{run_id}/scores", operation_id="getScores", response_class=Response, responses=_file(_LINES))
async def scores(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Download `scores.jsonl`, one row per decision."""
    return await place.run(_part, request, application, run_id, Part.SCORES)


@router.get(
    "/{run_id}/manifest", operation_id="getManifest", response_class=Response, responses=_file("application/json", "object")
)
async def manifest(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Download `manifest.json`. Its SHA-256 is the manifest hash."""
    content = await place.run(application.runs.manifest, run_id)
    return _download(request, content, "manifest.json", "application/json", FINAL)


@router.get("/{run_id}/bundle", operation_id="getBundle", response_class=Response, responses=_file(_BYTES))
async def bundle(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Download the proof bundle for `clv_verify.py`: all sealed files, with the anchor and log proofs that exist."""
    content = await place.run(application.runs.bundle, run_id)
    return await place.run(_download, request, content, f"{run_id}.clv", _BYTES, REVALIDATED)


def _part(request: Request, application: Application, run_id: str, part: Part) -> Response:
    """Answer with a part of a run; a client that accepts gzip gets the stored bytes.

    A range is one of the lines, unless the client continues a download of the stored bytes.
    """
    is_gzip_wanted = "range" not in request.headers or request.headers.get("if-range", "").endswith(OF_GZIP)
    found = application.runs.part(run_id, part, gzipped=is_gzip_wanted and takes_gzip(request))
    tag = f'"{found.manifest_hash.removeprefix("sha256:")[:32]}-{part}"'  # the manifest binds the bytes
    headers = _headers(f"{part}.jsonl", FINAL) | ({"Content-Encoding": "gzip"} if found.is_gzipped else {})

    def read(start: int, stop: int) -> bytes:
        return application.runs.piece(found, start, stop)

    return ranged_response(
        request, in_gzip(tag) if found.is_gzipped else tag, found.size, read, _sent_type(request, _LINES), headers
    )


def _download(request: Request, content: bytes, name: str, media_type: str, cache_control: str) -> Response:
    def read(start: int, stop: int) -> bytes:
        return content[start:stop]

    headers = _headers(name, cache_control)
    return ranged_response(request, strong_tag(content), len(content), read, _sent_type(request, media_type), headers)


def _sent_type(request: Request, media_type: str) -> str:
    """Return the type of sealed bytes: bytes if ``Accept`` names them; the content is the same."""
    return _BYTES if _AS_BYTES.search(request.headers.get("accept", "")) else media_type


def _headers(name: str, cache_control: str) -> dict[str, str]:
    return {"Cache-Control": cache_control, "Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept"}


# ``/verify.html``.


verifier_router = APIRouter(route_class=RevalidatedRoute, include_in_schema=False)


@verifier_router.get("/verify.html")
def page() -> HTMLResponse:
    """Read the verifier as one page; it asks nobody, and works as well when it is saved and opened from a disk."""
    safe = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return HTMLResponse(verifier_page(), headers={"Content-Security-Policy": page_policy()} | safe)
