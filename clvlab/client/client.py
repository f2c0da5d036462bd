"""A client with one method per endpoint; each returns the JSON of the answer, or raises the problem as an error."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import httpx2
import polars as pl

from clvlab.api.backtests import (
    BacktestListResponse,
    BacktestReport,
    BacktestRunResponse,
    StrategyInfo,
    StrategyListResponse,
)
from clvlab.api.competitions import (
    AgentErrorCause,
    AgentInstance,
    AgentRegisterResponse,
    CompetitionCreateResponse,
    CompetitionEvent,
    CompetitionStartResponse,
    CompetitionStateResponse,
    CompetitionStatusResponse,
    CompetitionSummaryResponse,
    DemoResponse,
    DeployResponse,
    InstanceListResponse,
    RuntimeEventsResponse,
)
from clvlab.api.leaderboard import LeaderboardResponse, MeResponse
from clvlab.api.packs import PackFixturesResponse, ReplayPackInfo, ReplayPackListResponse, UploadedPack, UploadedPackList
from clvlab.api.runs import (
    DecisionListResponse,
    ExecutableResponse,
    InspectorRecord,
    JobState,
    LogStanding,
    ProofArtifactResponse,
    RunChecksResponse,
    RunListResponse,
    VerifyResponse,
)
from clvlab.api.seat_competitions import SeatCompetitionInfo, SeatCompetitionListResponse
from clvlab.api.seats import HeldPackList, SeatAnswer, SeatChain, SeatInfo, SeatListResponse, SeatStart
from clvlab.client.http import HttpCaller, path_of, query_of, raise_for_problem

_PIECE = 1 << 20
_POLL_S = 0.2
_MOST_COMPETITIONS, _MOST_PACKS, _MOST_ROWS = 200, 200, 1000  # on one page


class Client(HttpCaller):
    r"""A client of one clvlab service; use it as a context manager, or close it.

    Parameters
    ----------
    base_url
        URL of the service, such as ``http://127.0.0.1:8000``.
    token
        Bearer token of an owner; public methods need none.
    timeout_s
        Seconds to wait for an answer. The start of a large competition takes as long as its run.

    Raises
    ------
    ApiError
        Any method: the service refused the request; the error has the problem details.
    httpx2.HTTPError
        Any method: the service can't be reached, or did not answer in time.

    Examples
    --------
    With the ``url`` of a service that runs as ``clvlab service serve --dev``, and a ``token`` of
    ``clvlab service dev-token``. Public methods:

    >>> import clvlab as cl
    >>> client = cl.Client(url, token)
    >>> [pack["pack_id"] for pack in client.packs()["packs"]], client.pack("starter")["provenance"]
    (['season', 'starter'], 'synthetic-clvlab')
    >>> made = client.backtest("starter", 90000000)
    >>> client.report(made["backtest_id"])["n_fixtures"], len(client.backtests(limit=1)["backtests"])
    (1, 1)
    >>> run_id = made["run_id"]
    >>> client.run(run_id)["checks"]["manifest_bound"], client.verify(run_id)["verified"], len(client.runs(limit=1)["runs"])
    ('pass', True, 1)
    >>> client.decision(run_id, 1)["agent_id"], len(client.demo()["leaderboard"])
    ('baseline', 2)
    >>> client.evidence(run_id).count(b"\n") > client.scores(run_id).count(b"\n"), client.manifest(run_id)[:15]
    (True, b'{"commit_index"')
    >>> "baseline" in {row["agent_id"] for row in client.leaderboard()["rows"]}
    True
    >>> client.decisions(run_id, limit=2, sort="-clv")["total"] == client.decision_frame(run_id).height
    True
    >>> len(client.bundle(run_id)) > len(client.evidence(run_id)) / 20
    True
    >>> page = client.fixtures("starter", limit=2)
    >>> page["total"] == client.fixture_frame("starter").height, len(page["fixtures"])
    (True, 2)
    >>> [one["strategy"] for one in client.strategies()["strategies"]][0], client.strategy("llm")["strategy"]
    ('baseline', 'llm')

    A template over a whole pack; a request that takes more than a second continues in the background:

    >>> whole = client.backtest_pack("starter", strategy="cumulative-drift", params={"stake": 50})
    >>> report = client.wait_for_report(whole["backtest_id"])
    >>> report["n_fixtures"], report["statistics"]["clv_bps"]["n_clusters"], "<svg" in client.tear_sheet(whole["backtest_id"])
    (12, 12, True)
    >>> client.executable(report["run_id"], stake=25, commission="betfair")["basis"]
    'quoted price, size unknown'
    >>> client.progress(report["run_id"])["status"], [told["status"] for told in client.follow(report["run_id"])]
    ('sealed', ['sealed'])
    >>> claim = client.log_standing(report["run_id"])["claim"]
    >>> client.checks(report["run_id"])["checks"]["evidence_integrity"], claim["abandoned"]
    ('pass', 0)
    >>> client.cancel_backtest(whole["backtest_id"], "a key of nobody")
    Traceback (most recent call last):
    clvlab.client.http.ApiError: 409 Conflict: backtest ... is sealed: there is nothing to cancel

    Methods of an owner for a competition and an instance:

    >>> config = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "pack_id": "starter"}
    >>> ours = client.create_competition(config, roster_size=2)["competition_id"]
    >>> client.open_competition(ours)["status"], client.register(ours, "b", "baseline")["proof_mode"]
    ('open', 'reproducible')
    >>> client.register(ours, "..", "baseline")["agent_id"], client.withdraw(ours, "..")
    ('..', None)
    >>> client.delete_competition(client.create_competition(config, roster_size=2)["competition_id"])
    >>> client.start(ours)["status"], client.complete_competition(ours)["status"]
    ('finalized', 'completed')
    >>> client.competition(ours)["leaderboard"][0]["agent_id"]
    'b'
    >>> ours in [one["competition_id"] for one in client.competitions("COMPLETED")]
    True
    >>> client.events(ours, -1)[0]["kind"], next(client.stream(ours))["kind"], client.agent_errors(ours)
    ('COMPETITION_STARTED', 'COMPETITION_STARTED', [])
    >>> deployed = client.deploy(strategy="baseline", source_mode="replay", pack_id="starter")["instance_id"]
    >>> client.instance(deployed)["template"], "events" in client.runtime_events(deployed, limit=1)
    ('baseline', True)
    >>> [told["status"] for told in client.follow(client.instance(deployed)["run_id"])][-1]
    'sealed'
    >>> client.cancel_instance(deployed)
    Traceback (most recent call last):
    clvlab.client.http.ApiError: 409 Conflict: the run of instance ... is sealed: there is nothing to cancel
    >>> theirs = client.create_competition(config, roster_size=2)["competition_id"]
    >>> begun = client.register(theirs, "b", "baseline") and client.start_async(theirs)
    >>> [told["status"] for told in client.follow(begun["run_id"])][-1]
    'sealed'
    >>> client.cancel_competition(theirs)
    Traceback (most recent call last):
    clvlab.client.http.ApiError: 409 Conflict: competition ... is finalized: there is nothing to cancel
    >>> client.me()["competitions"] > 1, len(client.instances(strategy="baseline")["instances"]) > 0
    (True, True)
    >>> client.delete_instance(deployed)

    A seat, for an agent that answers past prices tick by tick:

    >>> start = client.take_seat("me", pack_id="starter", fixture_ids=[90000003])
    >>> seat_id, tick = start["seat_id"], start["next"]
    >>> while tick:
    ...     tick = client.act(seat_id, tick["view"]["tick"])["next"]
    >>> [told["status"] for told in client.follow(start["run_id"])][-1], client.seat(seat_id)["status"]
    ('sealed', 'sealed')
    >>> len(client.seat_chain(seat_id)["ticks"]) == client.seats(limit=1)["seats"][0]["answered"]
    True
    >>> client.withdraw_seat(client.take_seat("me", pack_id="starter")["seat_id"])

    A competition of seats, whose rules are those of each seat in it:

    >>> made = client.create_seat_competition("Spring", pack_id="starter", max_stake=500)["competition_id"]
    >>> client.withdraw_seat(client.take_seat("me", competition_id=made)["seat_id"])
    >>> client.close_seat_competition(made)["status"], client.seat_competitions(limit=1)["competitions"][0]["entrants"]
    ('closed', 1)
    >>> [(one["agent_id"], one["seats"]["abandoned"]) for one in client.seat_competition(made)["standing"]]
    [('me', 1)]

    Uploads of packs, where the operator accepts them; ``pack.zip`` is a pack:

    >>> kept = client.upload_pack("pack.zip")["pack_id"]
    >>> [own["pack_id"] for own in client.uploaded_packs()["packs"]] == [kept], client.uploaded_pack(kept)["admitted"]
    (True, False)
    >>> client.delete_uploaded_pack(kept)
    >>> upload_id = client.upload_pack_async("pack.zip")["upload_id"]
    >>> while client.upload(upload_id)["status"] in ("queued", "running"):
    ...     pass
    >>> client.cancel_upload(upload_id)
    Traceback (most recent call last):
    clvlab.client.http.ApiError: 409 Conflict: upload ... is sealed: there is nothing to cancel
    >>> client.close()
    """

    def __init__(self, base_url: str, token: str | None = None, *, timeout_s: float = 120) -> None:
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx2.Client(base_url=base_url, headers=self._headers, timeout=timeout_s)

    def __repr__(self) -> str:
        who = "with a token" if self._headers else "without a token"
        return f"<Client of {self._http.base_url} {who}: try .leaderboard(), .packs(), .demo()>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def me(self) -> MeResponse:
        """Read the owner of the token, its belongings, and its limits."""
        return self._get(MeResponse, "me")

    def create_competition(self, config: Mapping[str, Any] | None = None, **fields: Any) -> CompetitionCreateResponse:
        """Create a competition from fields of CompetitionConfig, as a mapping or by name; needs a token."""
        return self._post(CompetitionCreateResponse, "competitions", body=dict(config or {}) | fields)

    def competitions(
        self, status: str | None = None, *, owner: str | None = None, pack_id: str | None = None
    ) -> list[CompetitionSummaryResponse]:
        """List competitions, newest first; optionally of a status, an owner or a pack.

        Statuses are ``DRAFT``, ``RUNNING``, ``FINALIZED`` and ``COMPLETED``.
        """
        filters = {"status": status, "owner": owner, "pack_id": pack_id}
        pages = self._pages(list[CompetitionSummaryResponse], "competitions", limit=_MOST_COMPETITIONS, **filters)
        return [one for page in pages for one in page]

    def competition(self, competition_id: str) -> CompetitionStateResponse:
        """Read a competition with its roster and leaderboard."""
        return self._get(CompetitionStateResponse, "competitions", competition_id)

    def register(
        self,
        competition_id: str,
        agent_id: str,
        strategy: str,
        config: Mapping[str, Any] | None = None,
        *,
        proof_mode: str = "reproducible",
        instance_id: str | None = None,
    ) -> AgentRegisterResponse:
        """Put an agent on the roster of a competition of the caller."""
        entry = {"agent_id": agent_id, "strategy": strategy, "config": dict(config or {}), "proof_mode": proof_mode}
        return self._post(
            AgentRegisterResponse, "competitions", competition_id, "agents", body=entry | {"instance_id": instance_id}
        )

    def withdraw(self, competition_id: str, agent_id: str) -> None:
        """Remove an agent from the roster of a competition of the caller that has not started."""
        self._delete("competitions", competition_id, "agents", agent_id)

    def delete_competition(self, competition_id: str) -> None:
        """Delete a competition of the caller that was never started."""
        self._delete("competitions", competition_id)

    def open_competition(self, competition_id: str) -> CompetitionStatusResponse:
        """Change a competition from draft to open."""
        return self._post(CompetitionStatusResponse, "competitions", competition_id, "open")

    def start(self, competition_id: str) -> CompetitionStartResponse:
        """Run a competition of the caller, and return when it is finalized."""
        return self._post(CompetitionStartResponse, "competitions", competition_id, "start")

    def start_async(self, competition_id: str) -> JobState:
        """Start a competition of the caller without waiting; ``follow`` its run, or read the competition again."""
        headers = {"Prefer": "respond-async"}
        return self._post(JobState, "competitions", competition_id, "start", headers=headers)

    def cancel_competition(self, competition_id: str) -> CompetitionStatusResponse:
        """Cancel the run of a running competition of the caller; the competition returns to its status before the start."""
        return self._post(CompetitionStatusResponse, "competitions", competition_id, "cancel")

    def complete_competition(self, competition_id: str) -> CompetitionStatusResponse:
        """Change a competition from finalized to completed."""
        return self._post(CompetitionStatusResponse, "competitions", competition_id, "complete")

    def events(self, competition_id: str, since_seq: int = 0, limit: int | None = None) -> list[CompetitionEvent]:
        """Read log entries after ``since_seq``, up to ``limit``; -1 returns all."""
        return self._get(list[CompetitionEvent], "competitions", competition_id, "events", since_seq=since_seq, limit=limit)

    def agent_errors(self, competition_id: str) -> list[AgentErrorCause]:
        """Read why agents failed in a competition of the caller."""
        return self._get(list[AgentErrorCause], "competitions", competition_id, "agent-errors")

    def stream(self, competition_id: str, since_seq: int = -1) -> Iterator[CompetitionEvent]:
        """Return the entries of the log as they are appended, until the log is complete.

        Raises
        ------
        websockets.exceptions.InvalidStatus
            The competition is unknown.
        websockets.exceptions.ConnectionClosedError
            The connection broke: stream again from the last ``seq`` received.
        """
        return self._messages("competitions", competition_id, "arena", since_seq=since_seq)

    def deploy(
        self, config: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> DeployResponse:
        """Deploy an agent from fields of DeployConfig, as a mapping or by name; needs a token."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return self._post(DeployResponse, "agents", "deploy", body=dict(config or {}) | fields, headers=headers)

    def instance(self, instance_id: str) -> AgentInstance:
        """Read an instance of the caller."""
        return self._get(AgentInstance, "agents", "instances", instance_id)

    def cancel_instance(self, instance_id: str) -> JobState:
        """Cancel the run of an instance of the caller, also one that follows a match."""
        return self._post(JobState, "agents", "instances", instance_id, "cancel")

    def delete_instance(self, instance_id: str) -> None:
        """Delete an instance of the caller whose run is over, and its runtime events; the run stays verifiable."""
        self._delete("agents", "instances", instance_id)

    def instances(self, cursor: str | None = None, limit: int = 50, *, strategy: str | None = None) -> InstanceListResponse:
        """List the caller's instances, newest first."""
        return self._get(InstanceListResponse, "agents", "instances", cursor=cursor, limit=limit, strategy=strategy)

    def runtime_events(self, instance_id: str, since: int = 0, limit: int | None = None) -> RuntimeEventsResponse:
        """Read the runtime events of an instance of the caller after the cursor ``since``."""
        return self._get(RuntimeEventsResponse, "agents", "instances", instance_id, "runtime-events", since=since, limit=limit)

    def take_seat(self, agent_id: str, **fields: Any) -> SeatStart:
        """Take a seat and get its first tick; fields of SeatRequest by name. It needs a token, like all methods of seats."""
        return self._post(SeatStart, "arena", "seats", body={"agent_id": agent_id} | fields)

    def act(self, seat_id: str, tick: int, decisions: Sequence[Mapping[str, Any]] = ()) -> SeatAnswer:
        """Answer the open tick of a seat by decisions, or by none, and get the next one; repeating an answer is safe."""
        body = {"tick": tick, "decisions": list(decisions)}
        return self._post(SeatAnswer, "arena", "seats", seat_id, "actions", body=body)

    def seat(self, seat_id: str, wait_s: int | None = None) -> SeatInfo:
        """Read a seat of the caller, with its open tick; wait up to ``wait_s`` seconds for that of a live seat."""
        return self._get(SeatInfo, "arena", "seats", seat_id, wait_s=wait_s)

    def seats(self, cursor: str | None = None, limit: int = 50) -> SeatListResponse:
        """List the seats of the caller, newest first."""
        return self._get(SeatListResponse, "arena", "seats", cursor=cursor, limit=limit)

    def seat_chain(self, seat_id: str) -> SeatChain:
        """Read the whole chain of a sealed seat of the caller."""
        return self._get(SeatChain, "arena", "seats", seat_id, "chain")

    def held_packs(self) -> HeldPackList:
        """List the packs that are or were held back for seats.

        Examples
        --------
        >>> client.held_packs()
        {'packs': []}
        """
        return self._get(HeldPackList, "arena", "held-packs")

    def held_fixtures(self, pack_id: str) -> bytes:
        """Read the salted list of a pack's fixtures once it is opened; its SHA-256 is in the run log.

        Examples
        --------
        >>> from hashlib import sha256
        >>> for pack in client.held_packs()["packs"]:  # doctest: +SKIP
        ...     sha256(client.held_fixtures(pack["pack_id"])).hexdigest() == pack["fixtures_hash"][7:]
        """
        return self._bytes("arena", "held-packs", pack_id, "fixtures")

    def create_seat_competition(self, name: str, **fields: Any) -> SeatCompetitionInfo:
        """Open a competition of seats, in which seats are taken by its id; fields of SeatCompetitionRequest by name."""
        return self._post(SeatCompetitionInfo, "arena", "competitions", body={"name": name} | fields)

    def seat_competition(self, competition_id: str) -> SeatCompetitionInfo:
        """Read a competition of seats: its rules, and its entrants by rank."""
        return self._get(SeatCompetitionInfo, "arena", "competitions", competition_id)

    def seat_competitions(self, cursor: str | None = None, limit: int = 50) -> SeatCompetitionListResponse:
        """List competitions of seats, newest first."""
        return self._get(SeatCompetitionListResponse, "arena", "competitions", cursor=cursor, limit=limit)

    def close_seat_competition(self, competition_id: str) -> SeatCompetitionInfo:
        """Close a competition of seats of the caller: no seat can be taken in it, and those that play go on."""
        return self._post(SeatCompetitionInfo, "arena", "competitions", competition_id, "close")

    def withdraw_seat(self, seat_id: str) -> None:
        """Give up a seat of the caller; the run log keeps that."""
        self._delete("arena", "seats", seat_id)

    def backtest(
        self,
        pack_id: str,
        fixture_id: int,
        *,
        window_id: str = "full",
        market_allowlist: list[str] | None = None,
        **fields: Any,
    ) -> BacktestRunResponse:
        """Backtest the agent ``baseline`` over a fixture; further fields of BacktestRunRequest by name."""
        markets = [""] if market_allowlist is None else market_allowlist
        body = {"pack_id": pack_id, "fixture_id": fixture_id, "window_id": window_id, "market_allowlist": markets}
        return self._post(BacktestRunResponse, "backtests", body=body | fields)

    def backtest_pack(
        self,
        pack_id: str,
        fixture_ids: Sequence[int] | None = None,
        *,
        strategy: str = "baseline",
        params: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> BacktestRunResponse | JobState:
        """Backtest a template over several fixtures of a pack, or all; further fields of PackBacktestRequest by name.

        A request that takes more than a second continues on the service: its answer has a ``status``, and a ``key`` by which
        ``cancel_backtest`` withdraws it. ``wait_for_report`` returns the report in either case.
        """
        own = {"strategy": strategy, "params": dict(params or {}), "policy": None if policy is None else dict(policy)}
        body = {"pack_id": pack_id, "fixture_ids": None if fixture_ids is None else list(fixture_ids)} | own | fields
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return cast("BacktestRunResponse | JobState", self._post(dict, "backtests", body=body, headers=headers))

    def wait_for_report(self, backtest_id: str) -> BacktestReport:
        """Wait until a backtest is sealed, and return its report.

        Raises
        ------
        ApiError
            The backtest is unknown, failed, or was cancelled; the problem says which.
        """
        while True:
            found = self._get(dict, "backtests", backtest_id)
            if "checks" in found:
                return cast("BacktestReport", found)
            time.sleep(_POLL_S)

    def cancel_backtest(self, backtest_id: str, key: str | None = None) -> JobState:
        """Withdraw a request for a backtest by its key, or without one all requests of the token's owner.

        The backtest is cancelled unless another caller requested it too.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        return self._post(JobState, "backtests", backtest_id, "cancel", headers=headers)

    def backtests(self, cursor: str | None = None, limit: int = 50) -> BacktestListResponse:
        """List stored backtests, newest first."""
        return self._get(BacktestListResponse, "backtests", cursor=cursor, limit=limit)

    def report(self, backtest_id: str) -> BacktestReport:
        """Read the report of a backtest."""
        return self._get(BacktestReport, "backtests", backtest_id)

    def tear_sheet(self, backtest_id: str) -> str:
        """Read the tear sheet of a backtest: one page of HTML, without requests."""
        return self._bytes("backtests", backtest_id, "tear-sheet").decode()

    def executable(self, run_id: str, agent_id: str | None = None, **how: float | str) -> ExecutableResponse:
        """Read the profit of an agent's decisions from taking offers, which is not a score.

        ``how`` is ``stake``, ``delay_s``, ``commission`` (a rate or a venue) and ``max_age_s``.
        """
        return self._get(ExecutableResponse, "runs", run_id, "executable", agent_id=agent_id, **how)

    def packs(self) -> ReplayPackListResponse:
        """List the packs of the catalog."""
        pages = self._pages(ReplayPackListResponse, "replay-packs", limit=_MOST_PACKS)
        return {"packs": [pack for page in pages for pack in page["packs"]]}

    def pack(self, pack_id: str) -> ReplayPackInfo:
        """Read one pack."""
        return self._get(ReplayPackInfo, "replay-packs", pack_id)

    def fixtures(self, pack_id: str, cursor: str | None = None, limit: int = 100, **filters: Any) -> PackFixturesResponse:
        """List one page of a pack's fixtures; filters are ``market`` (a prefix) and kickoff ``after`` and ``before``."""
        return self._get(PackFixturesResponse, "replay-packs", pack_id, "fixtures", cursor=cursor, limit=limit, **filters)

    def fixture_frame(self, pack_id: str, **filters: Any) -> pl.DataFrame:
        """Return all fixtures of a pack as a frame, with the filters of ``fixtures``."""
        return self._frame("replay-packs", pack_id, "fixtures", **filters)

    def strategies(self) -> StrategyListResponse:
        """List the strategy templates."""
        return self._get(StrategyListResponse, "strategies")

    def strategy(self, name: str) -> StrategyInfo:
        """Read the algorithm of a template, and the JSON Schema of its parameters."""
        return self._get(StrategyInfo, "strategies", name)

    def upload_pack(self, path: str | Path, **about: Any) -> UploadedPack:
        """Upload an archive of a pack; or a file of odds, with ``source``, ``pack_id`` and options of the import."""
        return cast("UploadedPack", self._upload(path, about, {}))

    def _upload(self, path: str | Path, about: Mapping[str, Any], headers: Mapping[str, str]) -> object:
        def pieces() -> Iterator[bytes]:
            with Path(path).open("rb") as file:
                while piece := file.read(_PIECE):
                    yield piece

        sent = {"Content-Type": "application/octet-stream", **headers}
        response = self._http.post(path_of("me", "packs"), params=query_of(about), content=pieces(), headers=sent)
        raise_for_problem(response)
        return response.json()

    def upload(self, upload_id: str) -> JobState:
        """Read the progress of the verification of an upload, which was sent with ``Prefer: respond-async``."""
        return self._get(JobState, "me", "uploads", upload_id)

    def cancel_upload(self, upload_id: str) -> JobState:
        """Cancel the verification of an upload of the caller, and delete the upload."""
        return self._post(JobState, "me", "uploads", upload_id, "cancel")

    def upload_pack_async(self, path: str | Path, **about: Any) -> JobState:
        """Upload like ``upload_pack``, and return without waiting for the verification; ``upload`` reads its state."""
        return cast("JobState", self._upload(path, about, {"Prefer": "respond-async"}))

    def uploaded_packs(self) -> UploadedPackList:
        """List the caller's own packs."""
        return self._get(UploadedPackList, "me", "packs")

    def uploaded_pack(self, pack_id: str) -> UploadedPack:
        """Read one of the caller's own packs."""
        return self._get(UploadedPack, "me", "packs", pack_id)

    def delete_uploaded_pack(self, pack_id: str) -> None:
        """Delete one of the caller's own packs."""
        self._delete("me", "packs", pack_id)

    def leaderboard(self, after_rank: int = 0, limit: int | None = None, **filters: Any) -> LeaderboardResponse:
        """Rank agents over all sealed runs; all rows by default, and with ``limit`` one page.

        ``filters`` are ``causality`` and ``knowledge``; with ``grouped=True`` agents of one owner that decide alike share a
        row.
        """
        if limit is not None:
            return self._get(LeaderboardResponse, "leaderboard", after_rank=after_rank, limit=limit, **filters)
        pages = self._pages(LeaderboardResponse, "leaderboard", after_rank=after_rank, limit=_MOST_ROWS, **filters)
        return {"rows": [row for page in pages for row in page["rows"]]}

    def runs(self, cursor: str | None = None, limit: int = 50, **filters: Any) -> RunListResponse:
        """List runs, newest first, optionally by ``kind``, ``status``, ``agent_id``, ``pack_id`` or ``owner``."""
        return self._get(RunListResponse, "runs", cursor=cursor, limit=limit, **filters)

    def run(self, run_id: str) -> ProofArtifactResponse:
        """Read the proof card of a run."""
        return self._get(ProofArtifactResponse, "runs", run_id)

    def checks(self, run_id: str) -> RunChecksResponse:
        """Read the newest recorded verification of a run, and its time."""
        return self._get(RunChecksResponse, "runs", run_id, "checks")

    def log_standing(self, run_id: str) -> LogStanding:
        """Read the log's commitment to a run, and the counts of the owner's other commitments."""
        return self._get(LogStanding, "runs", run_id, "log")

    def progress(self, run_id: str) -> JobState:
        """Read the progress of a run."""
        return self._get(JobState, "runs", run_id, "progress")

    def follow(self, run_id: str) -> Iterator[JobState]:
        """Return the progress of a run at each change, until it is sealed or has failed.

        Raises
        ------
        websockets.exceptions.InvalidStatus
            The run is unknown.
        websockets.exceptions.ConnectionClosedError
            The connection broke: follow again.
        """
        return self._messages("runs", run_id, "progress")

    def verify(self, run_id: str) -> VerifyResponse:
        """Recompute the proof of a run on the service."""
        return self._post(VerifyResponse, "runs", run_id, "verify")

    def decision(self, run_id: str, seq: int) -> InspectorRecord:
        """Read one decision."""
        return self._get(InspectorRecord, "runs", run_id, "actions", str(seq))

    def decisions(self, run_id: str, cursor: str | None = None, limit: int = 100, **filters: Any) -> DecisionListResponse:
        """List one page of sealed decisions with their scores.

        ``filters`` are ``agent_id``, ``fixture_id``, ``market`` (a prefix), ``side``, ``reason``, ``valid``, and ``sort``
        (``seq``, ``clv`` or ``-clv``).
        """
        return self._get(DecisionListResponse, "runs", run_id, "decisions", cursor=cursor, limit=limit, **filters)

    def decision_frame(self, run_id: str, **filters: Any) -> pl.DataFrame:
        """Return all sealed decisions with their scores, one row each, with the filters of ``decisions``."""
        return self._frame("runs", run_id, "decisions", **filters)

    def evidence(self, run_id: str) -> bytes:
        """Download ``events.jsonl``, whose SHA-256 is the evidence hash."""
        return self._bytes("runs", run_id, "evidence")

    def scores(self, run_id: str) -> bytes:
        """Download ``scores.jsonl``."""
        return self._bytes("runs", run_id, "scores")

    def manifest(self, run_id: str) -> bytes:
        """Download ``manifest.json``, whose SHA-256 is the manifest hash."""
        return self._bytes("runs", run_id, "manifest")

    def bundle(self, run_id: str) -> bytes:
        """Download the proof bundle: all of the above, and the existing proofs of anchor and log."""
        return self._bytes("runs", run_id, "bundle")

    def demo(self) -> DemoResponse:
        """Run the demo competition."""
        return self._post(DemoResponse, "demo", "run")
