"""The backend at a service; runs are read back as sealed bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn

import httpx2
from websockets.exceptions import ConnectionClosed

from clvlab.agents.registry import TEMPLATES, TRANSCRIBED, names_template
from clvlab.api.runs import JobState
from clvlab.arena import packs
from clvlab.arena.deploys.config import DeployConfig
from clvlab.base.names import no_argument
from clvlab.client import ApiError, Client
from clvlab.errors import (
    ArgumentError,
    DecisionError,
    EvidenceError,
    RunFailedError,
    ServiceUnreachableError,
    UnknownPackError,
    UnknownRunError,
    UnsupportedError,
)
from clvlab.lab.laboratory.backend import pages, run_tables
from clvlab.lab.laboratory.lists import Listing, list_packs, list_runs, list_standings
from clvlab.lab.laboratory.requests import AgentSpec, RunRequest
from clvlab.lab.progress import state_display
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import VerificationResult, verification_of
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.views.derivation import DerivedPack
from clvlab.proof.anchor import Anchor
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.runs.live.request import LiveRequest
from clvlab.runs.live.view import LiveView
from clvlab.runs.run import Run
from clvlab.runs.spec import resolve
from clvlab.runs.verdicts import VerdictRecord, VerdictRecords, failed_checks
from clvlab.words import counted

if TYPE_CHECKING:
    from clvlab.sql import Table  # loads a database

_MIN_ROSTER = 2
_UNDER_WAY = ("queued", "running")
_PAUSE_S = 1.0


class HttpBackend:
    """A service; it refuses unsupported calls, and the error names an alternative."""

    def __init__(self, url: str, token: str | None) -> None:
        self.where = url
        self._client = Client(url, token)
        self._verdicts = VerdictRecords()

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _connection(self) -> Iterator[Client]:
        try:
            yield self._client
        except httpx2.HTTPError as error:
            raise ServiceUnreachableError(f"the service at {self.where} can't be reached: {error}") from error

    def packs(self) -> Listing:
        with self._connection() as client:
            found = client.packs()["packs"]
        rows = (
            (own["pack_id"], own["provenance"], own["grade"], len(own["fixtures"]), None, own["content_hash"]) for own in found
        )
        return list_packs(rows, self.where)

    def import_odds(self, *_: Any) -> NoReturn:
        raise UnsupportedError(
            f"{self.where} serves the packs of its operator: import in a Lab() here, or send the odds with Client.upload_pack()"
        )

    def capture(self, *_: Any) -> NoReturn:
        raise UnsupportedError(f"{self.where} listens to its own feeds: capture in a Lab() here")

    def sweep(self, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(f"{self.where} scores no grids: search in a Lab() here, and enter the best in .compete()")

    walk = plan = sweep

    def grade_bets(self, *_: Any) -> NoReturn:
        raise UnsupportedError(f"{self.where} grades no bets, which stay on this machine: grade them in a Lab() here")

    def _check_audited(self, request: RunRequest) -> None:
        if not request.audit:
            raise UnsupportedError(f"{self.where} decides itself about audits: audit=False is for a Lab() here")

    def backtest(self, request: RunRequest, agent: AgentSpec) -> Result:
        strategy = self._template(agent, "backtest")
        if strategy in TRANSCRIBED:
            raise UnsupportedError(f"{self.where} backtests no transcript: enter it in .compete(), or backtest in a Lab() here")
        self._check_audited(request)
        window: Mapping[str, Any] = request.window.payload()
        with self._connection() as client:
            made = client.backtest_pack(
                _named_pack(request),
                request.fixtures,
                strategy=strategy,
                params=agent.params,
                policy=_limits(request.policy),
                **window,
            )
            try:
                client.wait_for_report(made["backtest_id"])
            except KeyboardInterrupt:
                client.cancel_backtest(made["backtest_id"], str(made.get("key")))
                raise
        return self.open_run(str(made["run_id"]))

    def backtests(self, requests: Sequence[RunRequest], agent: AgentSpec, executor: Executor | None) -> tuple[Result, ...]:
        if executor is not None:
            raise UnsupportedError(f"{self.where} computes where it is: an executor is for a Lab() here")
        return tuple(self.backtest(request, agent) for request in requests)

    def deploy(self, request: RunRequest, agent: AgentSpec, settings: Mapping[str, Any]) -> Result:
        strategy = self._template(agent, "deploy")
        pack_id = _named_pack(request)
        with self._connection() as client:
            config = {"strategy": strategy, "source_mode": "replay", "pack_id": pack_id, "fixture_id": _only(request.fixtures)}
            own = config | {"params": dict(agent.params)}
            further = [name for name in DeployConfig.model_fields if name not in (*own, "fixture_ids")]
            for name in settings:
                if name not in further:
                    raise ArgumentError(no_argument("deploy", name, further))
            run_id = client.deploy(own | dict(settings))["run_id"]
            ending = list(client.follow(run_id))[-1]
        if ending["status"] == "failed":
            raise RunFailedError(run_id, str(ending["cause"]))
        return self.open_run(run_id)

    def live(self, request: LiveRequest, agents: Sequence[AgentSpec], *, progress: Callable[[LiveView], None] | bool) -> Result:
        """Deploy one template on the service's feed, or let several compete; an interrupt does not end the run."""
        own = _changed_fields(replace(request, fixture=None), LiveRequest())
        if own:
            raise UnsupportedError(
                f"{self.where} follows its own feed, with its own rules and times: give {own} to a Lab() here"
            )
        for agent in agents:
            self._template(agent, "follow")
        names = _names(agents)
        with self._connection() as client:
            if len(agents) == 1:
                config = {"strategy": str(agents[0].agent), "source_mode": "live", "fixture_id": request.fixture}
                run_id = client.deploy(config, params=dict(agents[0].params), agent_id=agents[0].agent_id)["run_id"]
            else:
                run_id = self._start_run(client, {"source_mode": "live", "fixture_id": request.fixture}, names, agents)
            look_on: Callable[[Any], None] | bool = progress
            with state_display(f"Live run at {self.where}", "sealed", progress=look_on) as look:
                ending = _follow(client, run_id, look)
                if ending["status"] != "sealed":
                    raise RunFailedError(run_id, str(ending["cause"]))
        return self.open_run(run_id)

    def _template(self, agent: AgentSpec, verb: str) -> str:
        """Check the parameters of an agent, and return the name of its template."""
        if not names_template(agent.agent):
            raise UnsupportedError(
                f"{self.where} runs its own templates, and {_agent_text(agent)} is code of yours: {verb} in a Lab() here"
            )
        if agent.agent in TEMPLATES:
            resolve(agent.agent, agent.params)  # a service ignores unknown parameters
        return agent.agent

    def compete(self, request: RunRequest, agents: Sequence[AgentSpec]) -> Result:
        self._check_audited(request)
        own = _changed_fields(request, RunRequest(request.pack, request.fixtures))
        if own:
            raise UnsupportedError(f"{self.where} runs competitions by its own window and policy: give {own} to a Lab() here")
        for agent in agents:
            self._template(agent, "compete")
        names, pack_id = _names(agents), _named_pack(request)
        with self._connection() as client:
            fixture_ids = "all" if request.fixtures is None else list(request.fixtures)
            config = {"source_mode": "replay", "pack_id": pack_id, "fixture_ids": fixture_ids}
            return self.open_run(self._start_run(client, config, names, agents))

    def _start_run(self, client: Client, config: Mapping[str, Any], names: Sequence[str], agents: Sequence[AgentSpec]) -> str:
        """Create and start a competition of the agents; return the run id."""
        shape = {"competition_type": "arena", "market_scope": "all", "roster_size": max(_MIN_ROSTER, len(agents))}
        made = client.create_competition(config, **shape)["competition_id"]
        for name, agent in zip(names, agents, strict=True):
            client.register(made, name, str(agent.agent), agent.params)
        return str(client.start(made)["run_id"])

    def runs(self, limit: int | None = None) -> Listing:
        with self._connection() as client:
            return list_runs(pages(client.runs, limit), client.run, self._record, self.where)

    def _record(self, card: Mapping[str, Any]) -> VerdictRecord | None:
        """Return the record of a verification by the service, of the hashes that it states now."""
        return self._verdicts.get(card["run"]["run_id"], lambda: _stated_hashes(card["evidence"]))

    def open_run(self, run_id: str) -> Result:
        try:
            with self._connection() as client:
                anchor = client.run(run_id)["anchor"]
                parts = read_bundle(client.bundle(run_id))
        except ApiError as error:
            raise _unknown(error, run_id) from error
        sealed = run_of(parts)
        if sealed.run_id != run_id:
            raise EvidenceError(f"{self.where} gives run {sealed.run_id!r:.80} under the id {run_id!r}")
        return Result(Run(sealed, parts.get("receipts.jsonl", b""), packs.bundled_catalog().packs(), Anchor(**anchor)))

    def verify(self, run_id: str) -> VerificationResult:
        try:
            with self._connection() as client:
                found = verification_of(client.verify(run_id))
        except ApiError as error:
            raise _unknown(error, run_id) from error
        hashes = {"evidence_hash": found.source.evidence_hash, "manifest_hash": found.source.manifest_hash}
        by = {"service": self.where}
        self._verdicts.keep(run_id, _stated_hashes(hashes), failed_checks(found.source.checks), by, passed=found.passed)
        return found

    def leaderboard(self) -> Listing:
        with self._connection() as client:
            return list_standings(client.leaderboard()["rows"], self.where)

    def tables(self) -> dict[str, Callable[[], Table]]:
        return {"packs": lambda: self.packs().frame} | run_tables(self.runs, self.open_run)


def _stated_hashes(evidence: Mapping[str, Any]) -> str:
    return f"{evidence['evidence_hash']} {evidence['manifest_hash']}"


def _changed_fields(request: RunRequest | LiveRequest, default: RunRequest | LiveRequest) -> str:
    names = [one.name for one in fields(request)]
    return ", ".join(name for name in names if getattr(request, name) != getattr(default, name))


def _unknown(error: ApiError, run_id: str) -> Exception:
    return UnknownRunError(f"no sealed run {run_id!r}: {error}") if error.status == 404 else error


def _named_pack(request: RunRequest) -> str:
    if isinstance(request.pack, str):
        return request.pack
    if isinstance(request.pack, Pack) and isinstance(request.pack.source, DerivedPack):
        made = request.pack.pack_id
        raise UnsupportedError(f"a service replays the packs of its catalog, and {made!r} is made here of others")
    if isinstance(request.pack, Pack):
        return request.pack.pack_id
    raise UnknownPackError(f"a service knows packs by id, not by path: {str(request.pack)!r}")


def _limits(policy: PolicyEnvelope) -> dict[str, Any] | None:
    own, defaults = asdict(policy), asdict(PolicyEnvelope())
    return {name: value for name, value in own.items() if value != defaults[name]} or None


@dataclass(frozen=True, slots=True)
class LiveProgress:
    """Progress of a live run at a service."""

    messages: int

    @property
    def line(self) -> str:
        return counted(self.messages, "message")

    @property
    def facts(self) -> dict[str, str]:
        return {"messages": f"{self.messages:,}"}

    outcome = facts


def _follow(client: Client, run_id: str, look: Callable[[LiveProgress], None]) -> JobState:
    try:
        while (state := client.progress(run_id))["status"] in _UNDER_WAY:
            try:
                for state in client.follow(run_id):
                    look(LiveProgress(state["done"] or 0))
            except ConnectionClosed:
                time.sleep(_PAUSE_S)
    except KeyboardInterrupt as error:
        error.add_note(f"The service continues the run: .open_run({run_id!r}) reads it once it is sealed.")
        raise
    return state


def _names(agents: Sequence[AgentSpec]) -> list[str]:
    """Return the ids under which agents enter a run."""
    names = [agent.agent_id or str(agent.agent) for agent in agents]
    if not names or len(set(names)) != len(names):
        raise DecisionError(f"a run needs agents with unique ids, not {names}")
    return names


def _only(fixtures: Sequence[int] | None) -> int:
    (fixture,) = fixtures or ()  # the verb takes one
    return fixture


def _agent_text(agent: AgentSpec) -> str:
    name = repr(agent.agent if isinstance(agent.agent, str) else agent.agent.identity.agent_id)
    return f"{name} with {dict(agent.params)}" if agent.params else name
