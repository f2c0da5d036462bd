"""A method per endpoint; each gives the JSON of the answer, or raises the problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, get_origin
from urllib.parse import quote

import httpx2
import orjson

from clvlab.answers.agents import AgentInstance, DeployResponse, RuntimeEventsResponse
from clvlab.answers.backtests import BacktestListResponse, BacktestReport, BacktestRunResponse
from clvlab.answers.competitions import (
    AgentErrorCause,
    AgentRegisterResponse,
    CompetitionCreateResponse,
    CompetitionEvent,
    CompetitionStartResponse,
    CompetitionStateResponse,
    CompetitionStatusResponse,
    CompetitionSummaryResponse,
)
from clvlab.answers.demo import DemoResponse
from clvlab.answers.leaderboard import LeaderboardResponse
from clvlab.answers.packs import ReplayPackInfo, ReplayPackListResponse
from clvlab.answers.runs import InspectorRecord, ProofArtifactResponse, RunListResponse, VerifyResponse
from clvlab.client.problems import ApiError, raise_for_problem

_T = TypeVar("_T")


class Client:
    r"""Talks to one clvlab service; use it as a context manager, or close it.

    Parameters
    ----------
    base_url
        Where the service is, such as ``http://127.0.0.1:8000``.
    token
        Bearer token for what an owner may do; without one, what is public.
    timeout_s
        How long to wait for an answer; starting a large competition takes as long as it runs.

    Raises
    ------
    ApiError
        By every method: the service refused, with its problem details.
    httpx2.HTTPError
        By every method: the service can't be reached, or did not answer in time.

    Examples
    --------
    With the ``url`` of a service that runs as ``clvlab serve --dev``, and a ``token`` of ``clvlab dev-token``. What anyone may
    ask:

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
    >>> {"baseline"} < {row["agent_id"] for row in client.leaderboard()["rows"]}
    True

    What its owner may do with a competition, and with an instance:

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

    def leaderboard(self) -> LeaderboardResponse:
        """Rank agents over all sealed runs."""
        return self._get(LeaderboardResponse, "leaderboard")

    def create_competition(self, config: Mapping[str, Any] | None = None, **fields: Any) -> CompetitionCreateResponse:
        """Create a competition; fields of CompetitionConfig, as a mapping or by name. Needs a token."""
        return self._post(CompetitionCreateResponse, "competitions", body=dict(config or {}) | fields)

    def competitions(
        self, status: str | None = None, *, owner: str | None = None, pack_id: str | None = None
    ) -> list[CompetitionSummaryResponse]:
        """List competitions; of ``DRAFT``, ``RUNNING``, ``FINALIZED`` or ``COMPLETED`` status, an owner or a pack, if given."""
        return self._get(list[CompetitionSummaryResponse], "competitions", status=status, owner=owner, pack_id=pack_id)

    def competition(self, competition_id: str) -> CompetitionStateResponse:
        """Read a competition whole."""
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
        """Take an agent off the roster of a competition of the caller that was not started yet."""
        self._delete("competitions", competition_id, "agents", agent_id)

    def delete_competition(self, competition_id: str) -> None:
        """Delete a competition of the caller that was never started."""
        self._delete("competitions", competition_id)

    def open_competition(self, competition_id: str) -> CompetitionStatusResponse:
        """Go from draft to open."""
        return self._post(CompetitionStatusResponse, "competitions", competition_id, "open")

    def start(self, competition_id: str) -> CompetitionStartResponse:
        """Run a competition of the caller; returns when it is finalized."""
        return self._post(CompetitionStartResponse, "competitions", competition_id, "start")

    def complete_competition(self, competition_id: str) -> CompetitionStatusResponse:
        """Go from finalized to completed."""
        return self._post(CompetitionStatusResponse, "competitions", competition_id, "complete")

    def events(self, competition_id: str, since_seq: int = 0, limit: int | None = None) -> list[CompetitionEvent]:
        """Read the log after ``since_seq``, or its first ``limit`` entries; -1 gives all of it."""
        return self._get(list[CompetitionEvent], "competitions", competition_id, "events", since_seq=since_seq, limit=limit)

    def agent_errors(self, competition_id: str) -> list[AgentErrorCause]:
        """Read why agents failed in the run of a competition of the caller."""
        return self._get(list[AgentErrorCause], "competitions", competition_id, "agent-errors")

    def stream(self, competition_id: str, since_seq: int = -1) -> Iterator[CompetitionEvent]:
        """Return the entries of the log as they are appended, until nothing can follow.

        Raises
        ------
        websockets.exceptions.InvalidStatus
            The competition is unknown.
        websockets.exceptions.ConnectionClosedError
            The connection broke off: stream again with the last ``seq`` received.
        """
        from websockets.sync.client import connect  # only here: notebooks seldom stream

        base = str(self._http.base_url).rstrip("/").replace("http", "ws", 1)
        with connect(f"{base}{_path('competitions', competition_id, 'arena')}?since_seq={since_seq}") as messages:
            for message in messages:
                yield orjson.loads(message)

    def deploy(
        self, config: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> DeployResponse:
        """Deploy an agent; fields of DeployConfig, as a mapping or by name. Needs a token."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return self._post(DeployResponse, "agents", "deploy", body=dict(config or {}) | fields, headers=headers)

    def instance(self, instance_id: str) -> AgentInstance:
        """Read an instance of the caller."""
        return self._get(AgentInstance, "agents", "instances", instance_id)

    def runtime_events(self, instance_id: str, since: int = 0, limit: int | None = None) -> RuntimeEventsResponse:
        """Read what an instance of the caller did, after the cursor ``since``."""
        return self._get(RuntimeEventsResponse, "agents", "instances", instance_id, "runtime-events", since=since, limit=limit)

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

    def backtests(self, cursor: str | None = None, limit: int = 50) -> BacktestListResponse:
        """List stored backtests, newest first."""
        return self._get(BacktestListResponse, "backtests", cursor=cursor, limit=limit)

    def report(self, backtest_id: str) -> BacktestReport:
        """Read the report of a backtest."""
        return self._get(BacktestReport, "backtests", backtest_id)

    def packs(self) -> ReplayPackListResponse:
        """List the packs of the catalog."""
        return self._get(ReplayPackListResponse, "replay-packs")

    def pack(self, pack_id: str) -> ReplayPackInfo:
        """Read one pack."""
        return self._get(ReplayPackInfo, "replay-packs", pack_id)

    def runs(self, cursor: str | None = None, limit: int = 50) -> RunListResponse:
        """List runs, newest first."""
        return self._get(RunListResponse, "runs", cursor=cursor, limit=limit)

    def run(self, run_id: str) -> ProofArtifactResponse:
        """Read the proof card of a run."""
        return self._get(ProofArtifactResponse, "runs", run_id)

    def verify(self, run_id: str) -> VerifyResponse:
        """Have the proof of a run recomputed."""
        return self._post(VerifyResponse, "runs", run_id, "verify")

    def decision(self, run_id: str, seq: int) -> InspectorRecord:
        """Inspect one decision."""
        return self._get(InspectorRecord, "runs", run_id, "actions", str(seq))

    def evidence(self, run_id: str) -> bytes:
        """Download ``events.jsonl``, whose SHA-256 is the evidence hash."""
        return self._file(run_id, "evidence")

    def scores(self, run_id: str) -> bytes:
        """Download ``scores.jsonl``."""
        return self._file(run_id, "scores")

    def manifest(self, run_id: str) -> bytes:
        """Download ``manifest.json``, whose SHA-256 is the manifest hash."""
        return self._file(run_id, "manifest")

    def demo(self) -> DemoResponse:
        """Run the demo competition."""
        return self._post(DemoResponse, "demo", "run")

    def _get(self, kind: type[_T], *path: str, **query: Any) -> _T:
        asked = {name: value for name, value in query.items() if value is not None}
        return _answer(kind, self._http.get(_path(*path), params=asked))

    def _post(
        self, kind: type[_T], *path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> _T:
        return _answer(kind, self._http.post(_path(*path), json=body, headers=headers))

    def _delete(self, *path: str) -> None:
        raise_for_problem(self._http.delete(_path(*path)))

    def _file(self, run_id: str, name: str) -> bytes:
        response = self._http.get(_path("runs", run_id, name))
        raise_for_problem(response)
        return response.content


def _answer(kind: type[_T], response: httpx2.Response) -> _T:
    """The JSON of an answer; of ``kind`` the service's own tests are the check, here only object and array are told apart."""
    raise_for_problem(response)
    answer: _T = response.json()
    if not isinstance(answer, list if get_origin(kind) is list else dict):
        raise ApiError(response.status_code, {"title": "unexpected answer", "detail": response.text[:200]})
    return answer


def _path(*segments: str) -> str:  # a segment of dots alone would be taken for a step (RFC 3986, section 5.2.4)
    return "/" + "/".join(quote(segment, safe="").replace(".", "%2E") for segment in segments)
