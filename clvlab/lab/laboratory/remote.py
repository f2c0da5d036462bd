"""A laboratory at a service: what is made and kept there, and read back as sealed bytes."""

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
from clvlab.api.runs import RunProgress
from clvlab.arena import packs
from clvlab.arena.deploys.config import DeployConfig
from clvlab.base.naming import no_argument
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
from clvlab.lab.laboratory.asked import AgentSpec, LiveRequest, Question
from clvlab.lab.laboratory.listing import Listing, list_packs, list_runs, list_standings
from clvlab.lab.laboratory.place import pages, run_tables
from clvlab.lab.progress import shown_state
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import Run, VerificationResult, verification_of
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.views.derivation import DerivedPack
from clvlab.proof.anchor import Anchor
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.runs import backtests
from clvlab.words import counted

if TYPE_CHECKING:
    from clvlab.sql import Table  # loads a database

_MIN_ROSTER = 2
_STARTED = "COMPETITION_STARTED"
_UNDER_WAY = ("queued", "running")
_PAUSE_S = 1.0


class HttpBackend:
    """Asks a service; what it can't do is refused with what to do instead.

    Parameters
    ----------
    url
        Where the service is.
    token
        Bearer token, which ``compete`` and ``deploy`` need.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self.where = url
        self._client = Client(url, token)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _asking(self) -> Iterator[Client]:
        try:
            yield self._client
        except httpx2.HTTPError as error:
            raise ServiceUnreachableError(f"the service at {self.where} can't be reached: {error}") from error

    def packs(self) -> Listing:
        with self._asking() as client:
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

    def _check_audited(self, question: Question) -> None:
        if not question.audit:
            raise UnsupportedError(f"{self.where} audits as it sees fit: audit=False is for a Lab() here")

    def backtest(self, question: Question, entry: AgentSpec) -> Result:
        strategy = self._template(entry, "backtest")
        if strategy in TRANSCRIBED:
            raise UnsupportedError(f"{self.where} backtests no transcript: enter it in .compete(), or backtest in a Lab() here")
        self._check_audited(question)
        window: Mapping[str, Any] = question.window.payload()
        with self._asking() as client:
            made = client.backtest_pack(
                _named_pack(question),
                question.fixtures,
                strategy=strategy,
                params=entry.params,
                policy=_limits(question.policy),
                **window,
            )
            try:
                client.wait_for_report(made["backtest_id"])
            except KeyboardInterrupt:
                client.cancel_backtest(made["backtest_id"], str(made.get("key")))
                raise
        return self.open_run(made["run_id"])

    def backtests(self, questions: Sequence[Question], entry: AgentSpec, executor: Executor | None) -> tuple[Result, ...]:
        if executor is not None:
            raise UnsupportedError(f"{self.where} computes where it is: an executor is for a Lab() here")
        return tuple(self.backtest(question, entry) for question in questions)

    def deploy(self, question: Question, entry: AgentSpec, settings: Mapping[str, Any]) -> Result:
        strategy = self._template(entry, "deploy")
        pack_id = _named_pack(question)
        with self._asking() as client:
            fixture_id = _only(question.fixtures or client.pack(pack_id)["fixtures"])
            config = {"strategy": strategy, "source_mode": "replay", "pack_id": pack_id, "fixture_id": fixture_id}
            own = config | {"params": dict(entry.params)}
            further = [name for name in DeployConfig.model_fields if name not in own]
            for name in settings:
                if name not in further:
                    raise ArgumentError(no_argument("deploy", name, further))
            run_id = client.deploy(own | dict(settings))["run_id"]
            told = list(client.follow(run_id))[-1]
        if told["status"] == "failed":
            raise RunFailedError(run_id, str(told["cause"]))
        return self.open_run(run_id)

    def live(self, request: LiveRequest, entries: Sequence[AgentSpec]) -> Result:
        """Deploy a template on the feed of the service, or let several compete; an interrupt ends the waiting, not the run."""
        own = _differing(replace(request, fixture=None, progress=True), LiveRequest())
        if own:
            raise UnsupportedError(
                f"{self.where} follows its own feed, by rules and times of its own: give {own} to a Lab() here"
            )
        for entry in entries:
            self._template(entry, "follow")
        names = _names(entries)
        with self._asking() as client:
            if len(entries) == 1:
                asked = {"strategy": str(entries[0].agent), "source_mode": "live", "fixture_id": request.fixture}
                run_id = client.deploy(asked, params=dict(entries[0].params), agent_id=entries[0].agent_id)["run_id"]
            else:
                run_id = self._started(client, {"source_mode": "live", "fixture_id": request.fixture}, names, entries)
            progress: Callable[[Any], None] | bool = request.progress
            with shown_state(f"Live run at {self.where}", "sealed", progress=progress) as look:
                told = _followed(client, run_id, look)
                if told["status"] != "sealed":
                    raise RunFailedError(run_id, str(told["cause"]))
        return self.open_run(run_id)

    def _template(self, entry: AgentSpec, verb: str) -> str:
        """Return the template that an entry names, whose parameters are sound.

        Raises
        ------
        UnsupportedError
            Code of one's own.
        UnknownAgentError, AgentError
        """
        if not names_template(entry.agent):
            raise UnsupportedError(
                f"{self.where} runs its own templates, and {_said(entry)} is code of yours: {verb} in a Lab() here"
            )
        if entry.agent in TEMPLATES:
            backtests.resolve(entry.agent, entry.params)  # a service passes over parameters that it doesn't know
        return entry.agent

    def compete(self, question: Question, entries: Sequence[AgentSpec]) -> Result:
        self._check_audited(question)
        own = _differing(question, Question(question.pack, question.fixtures))
        if own:
            raise UnsupportedError(f"{self.where} runs competitions by its own window and policy: give {own} to a Lab() here")
        for entry in entries:
            self._template(entry, "compete")
        names, pack_id = _names(entries), _named_pack(question)
        with self._asking() as client:
            fixture_id = _only(question.fixtures or client.pack(pack_id)["fixtures"])
            config = {"source_mode": "replay", "pack_id": pack_id, "fixture_id": fixture_id}
            return self.open_run(self._started(client, config, names, entries))

    def _started(self, client: Client, config: Mapping[str, Any], names: Sequence[str], entries: Sequence[AgentSpec]) -> str:
        """Create a competition, enter the agents, and start it; returns the run id, of a live one at once."""
        shape = {"competition_type": "arena", "market_scope": "all", "roster_size": max(_MIN_ROSTER, len(entries))}
        made = client.create_competition(config, **shape)["competition_id"]
        for name, entry in zip(names, entries, strict=True):
            client.register(made, name, str(entry.agent), entry.params)
        begun = client.start(made)["run_id"]
        return begun or next(str(event["run_id"]) for event in client.events(made, -1) if event["kind"] == _STARTED)

    def runs(self, limit: int | None = None) -> Listing:
        with self._asking() as client:
            return list_runs(pages(client.runs, limit), client.run, self.where)

    def open_run(self, run_id: str) -> Result:
        try:
            with self._asking() as client:
                anchor = client.run(run_id)["anchor"]
                parts = read_bundle(client.bundle(run_id))
        except ApiError as error:
            raise _unknown(error, run_id) from error
        sealed = run_of(parts)
        if sealed.run_id != run_id:
            raise EvidenceError(f"{self.where} gives run {sealed.run_id!r:.80} under the id {run_id!r}")
        run = Run(sealed, parts.get("receipts.jsonl", b""), Anchor(**anchor))
        return Result(run, packs.bundled_catalog().packs())

    def verify(self, run_id: str) -> VerificationResult:
        try:
            with self._asking() as client:
                return verification_of(client.verify(run_id))
        except ApiError as error:
            raise _unknown(error, run_id) from error

    def leaderboard(self) -> Listing:
        with self._asking() as client:
            return list_standings(client.leaderboard()["rows"], self.where)

    def tables(self) -> dict[str, Callable[[], Table]]:
        return {"packs": lambda: self.packs().frame} | run_tables(self.runs, self.open_run)


def _differing(given: Question | LiveRequest, default: Question | LiveRequest) -> str:
    """Name the fields that say something else."""
    names = [one.name for one in fields(given)]
    return ", ".join(name for name in names if getattr(given, name) != getattr(default, name))


def _unknown(error: ApiError, run_id: str) -> Exception:
    return UnknownRunError(f"no sealed run {run_id!r}: {error}") if error.status == 404 else error


def _named_pack(question: Question) -> str:
    if isinstance(question.pack, str):
        return question.pack
    if isinstance(question.pack, Pack) and isinstance(question.pack.source, DerivedPack):
        made = question.pack.pack_id
        raise UnsupportedError(f"a service replays the packs of its catalog, and {made!r} is made here of others")
    if isinstance(question.pack, Pack):
        return question.pack.pack_id
    raise UnknownPackError(f"a service knows packs by id, not by path: {str(question.pack)!r}")


def _limits(policy: PolicyEnvelope) -> dict[str, Any] | None:
    """Return the limits that differ from the defaults."""
    own, defaults = asdict(policy), asdict(PolicyEnvelope())
    return {name: value for name, value in own.items() if value != defaults[name]} or None


@dataclass(frozen=True, slots=True)
class Told:
    """A live run at a service, as far as its progress tells."""

    messages: int

    @property
    def line(self) -> str:
        return counted(self.messages, "message")

    @property
    def facts(self) -> dict[str, str]:
        return {"messages": f"{self.messages:,}"}

    outcome = facts


def _followed(client: Client, run_id: str, look: Callable[[Told], None]) -> RunProgress:
    """Wait until a run is over, however long a match lasts; return how it ended."""
    try:
        while (told := client.progress(run_id))["status"] in _UNDER_WAY:
            try:
                for told in client.follow(run_id):
                    look(Told(told["done"] or 0))
            except ConnectionClosed:
                time.sleep(_PAUSE_S)
    except KeyboardInterrupt as error:
        error.add_note(f"The service goes on with it: .open_run({run_id!r}) reads it once it is sealed.")
        raise
    return told


def _names(entries: Sequence[AgentSpec]) -> list[str]:
    """Return the ids under which agents are entered.

    Raises
    ------
    DecisionError
        No agent, or two of one name.
    """
    names = [entry.agent_id or str(entry.agent) for entry in entries]
    if not names or len(set(names)) != len(names):
        raise DecisionError(f"a run needs agents with unique ids, not {names}")
    return names


def _only(fixtures: Sequence[int]) -> int:
    if len(fixtures) != 1:
        raise UnsupportedError(
            f"a service competes and deploys on one fixture at a time, not {len(fixtures)}: "
            f"name it, as fixtures=[{min(fixtures, default=0)}]"
        )
    return fixtures[0]


def _said(entry: AgentSpec) -> str:
    name = repr(entry.agent if isinstance(entry.agent, str) else entry.agent.identity.agent_id)
    return f"{name} with {dict(entry.params)}" if entry.params else name
