"""What the service answers: to every operation of its document what succeeds and what is refused, and every page.

The clock of its store stands still and ids are counted, so that runs, hashes, the log and pages are the same each time.
"""

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

from fastapi.routing import iter_route_contexts
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from clvlab.packs.synthetic import Recipe, build
from tests.architecture.faces import (
    AUDIENCE,
    ISSUER,
    Application,
    IncomingUpload,
    Settings,
    UploadJobs,
    create_app,
    dev_token,
    public_key_file,
)
from tests.architecture.outlines import Placeholders, hashed, outline
from tests.waiting import PATIENCE_S, settled, until

ALICE, BOB, NOBODY = "did:key:alice", "did:key:bob", None
FIXTURE = 90000000
BACKTEST = {"pack_id": "starter", "fixture_id": FIXTURE, "window_id": "full", "market_allowlist": [""]}
SEVERAL = {"pack_id": "starter", "fixture_ids": None, "strategy": "cumulative-drift"}
CONFIG = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 2}
BOUND = CONFIG | {"pack_id": "starter", "fixture_id": FIXTURE}
DEPLOY = {"strategy": "cumulative-drift", "source_mode": "replay", "pack_id": "starter", "fixture_id": FIXTURE}
ODDS = b"fixture,kickoff,time,market,side,odds,bookmaker\n" + b"".join(
    b"x,2025-01-01T20:00:00Z,2025-01-01T1%d:00:00Z,ML,%s,%s,b\n" % (hour, side, odds)
    for hour in range(5)
    for side, odds in ((b"home", b"2.0"), (b"away", b"1.9"))
)
TABLE = {"pack_id": "odds", "source": "csv", "column": "book=bookmaker"}
LOG_KEY = "PRIVATE+KEY+log.example+b252d0cf+AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n"
ASYNC = {"Prefer": "respond-async"}
PATIENT = {"Prefer": "wait=60"}
BROWSER = {"Accept": "text/html"}
GONE = "no-such-thing"
HEADERS = (
    "content-type", "cache-control", "location", "retry-after", "etag", "link", "allow", "content-disposition",
    "preference-applied", "accept-ranges", "content-range", "www-authenticate", "content-security-policy", "content-encoding",
    "vary", "idempotent-replayed",
)  # fmt: skip

FILES = dict.fromkeys(("ticks_sha256", "results_sha256", "quality_sha256", "books_sha256"), "hash of a file")
"""Members that hold hashes of files, of which libraries may write other bytes once they are newer."""

TIME_MS = 2_000_000_000_000
_PROMETHEUS = "text/plain; version="
_LONG = 300
_ERROR = 400
_ANY = "any"
_RELEASE = Placeholders({f"clvlab {version('clvlab')}": "clvlab <version>", f'"version":"{version("clvlab")}"': "<version>"})
_PLACEHOLDERS = Placeholders(members=FILES | {"bytes": "size"})


_REQUEST = {"X-Request-ID": "snapshot", "Accept-Encoding": "identity"}
_PATIENT = {"upload_timeout_s": int(PATIENCE_S), "read_send_timeout_s": PATIENCE_S, "shutdown_s": int(PATIENCE_S)}
Come = Callable[[Any], bool]


def _any(_: Any) -> bool:
    return True


def _counted_ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{next(numbers):032x}"


@dataclass
class Service:
    """A service, and what it answered to each operation.

    Attributes
    ----------
    client
        Asks it.
    operations
        Method and path of each operation.
    tokens
        Of whoever asks.
    is_idle
        Whether its jobs are performed: then each answer is waited for until all of them are over.
    """

    client: TestClient
    operations: Mapping[str, tuple[str, str]]
    tokens: Mapping[str, str]
    is_idle: bool = True
    answers: dict[str, list[str]] = field(default_factory=dict)
    succeeded: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    last: str = "nothing"

    def ask(self, operation: str, by: str | None = NOBODY, /, **options: Any) -> Any:
        """Ask for an operation, and write down what came of it.

        Parameters
        ----------
        operation, by
            Its name in the document, and who asks.
        **options
            Parts of the path by name, and what ``get`` takes.
        """
        method, template = self.operations[operation]
        parts = {name: options.pop(name) for name in list(options) if f"{{{name}}}" in template}
        answer = self.note(method, template.format(**parts), by, operation=operation, **options)
        (self.succeeded if answer.status_code < _ERROR else self.refused).add(operation)
        return answer

    def note(self, method: str, path: str, by: str | None = NOBODY, /, *, operation: str = _ANY, **options: Any) -> Any:
        """Ask for a path, and write down what came of it."""
        answer = self.get(method, path, by, **options)
        self.last = "\n".join([*_asked(answer, by, options), *_answered(answer), ""])
        self.answers.setdefault(operation, []).append(self.last)
        return answer

    def get(self, method: str, path: str, by: str | None = NOBODY, /, *, come: Come = _any, **options: Any) -> Any:
        """Ask for a path, again until what must come has come, and until all jobs are over."""
        headers = _REQUEST | options.pop("headers", {}) | ({} if by is None else {"Authorization": f"Bearer {self.tokens[by]}"})

        def asked() -> Any:
            answer = self.client.request(method, path, headers=headers, **options)
            return answer if come(answer) else None

        answer = until(asked)
        if self.is_idle:
            settled(self.client.app.state.application)
        return answer

    def competition(self, config: Mapping[str, Any] = BOUND, agents: Sequence[str] = ("baseline", "cumulative-drift")) -> str:
        """Return the id of a new competition of Alice's with a roster."""
        made = self.ask("createCompetition", ALICE, json=config).json()["competition_id"]
        for agent in agents:
            self.ask("registerAgent", ALICE, competition_id=made, json=_entry(agent))
        return made


def _entry(strategy: str, **fields: Any) -> dict[str, Any]:
    return {"agent_id": strategy, "strategy": strategy, "config": {}, "proof_mode": "reproducible"} | fields


def _asked(answer: Any, by: str | None, options: Mapping[str, Any]) -> Iterator[str]:
    yield f"> {answer.request.method} {answer.request.url.raw_path.decode()} by {by or 'nobody'}"
    for name, value in options.get("headers", {}).items():
        yield f"> {name}: {value}"
    if "json" in options:
        body = json.dumps(options["json"])
        yield f"> {body if len(body) <= _LONG else hashed(body.encode())}"
    if "content" in options:
        yield f"> {hashed(options['content'])}"


def _answered(answer: Any) -> Iterator[str]:
    yield from _head(answer)
    if answer.headers.get("content-type", "").startswith(_PROMETHEUS):
        yield from _measurements(answer.text)
    else:
        yield from outline(answer.content, _PLACEHOLDERS)


def _measurements(text: str) -> Iterator[str]:
    """Return what is measured, and by which labels: how often and how long is not the same twice."""
    for line in sorted({re.sub(r'="[^"]*"', "", line.rpartition(" ")[0]) for line in text.splitlines() if line[0] != "#"}):
        yield f"{line} <number>"


def _head(answer: Any) -> Iterator[str]:
    yield str(answer.status_code)
    for name in HEADERS:
        if name in answer.headers:
            value = "<there>" if name == "etag" else answer.headers[name]
            yield f"{name}: {value if len(value) <= _LONG else hashed(value.encode())}"


@contextmanager
def served(folder: Path, **settings: Any) -> Iterator[Service]:
    """Have a service over a store in memory, in which time stands still and ids are counted."""
    keys = folder / "keys"
    trust = {"jwt_public_key_file": public_key_file(keys), "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    tokens = {did: dev_token(keys, did, 3600) for did in (ALICE, BOB)}
    app = create_app(Settings(log_level="error", **trust, **_PATIENT, **settings))
    operations = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
    }
    still = {"clock": lambda: TIME_MS, "new_id": _counted_ids()}
    with patch.dict(Application.__init__.__kwdefaults__, still), TestClient(app, base_url="http://service") as client:
        service = Service(client, operations, tokens)
        try:
            yield service
        except Exception as error:
            error.add_note(f"the last answer:\n{service.last}")
            raise


def answers(folder: Path) -> tuple[str, str]:
    """Return what is answered to each operation, in the order of the document, and each page.

    Raises
    ------
    AssertionError
        An operation never succeeded here, or was never refused, or a page was not looked at.
    """
    (folder / "log.key").write_text(LOG_KEY)
    with served(folder, log_key_file=folder / "log.key", uploads=folder / "uploads") as service:
        _competitions(service)
        _deploys(service)
        several = _backtests(service)
        _runs(service, several)
        _packs(service)
        _uploads(service, folder)
        _rest(service)
        pages = list(_pages(service, several))
        _refused_alike(service)
    with served(folder, uploads=folder / "uploads") as queued:
        pages += _under_way(queued)
    with served(folder, max_owner_drafts=1, max_public_run_bytes=0, max_owner_run_bytes=0) as bare:
        _without(bare)
    with served(folder, log_key_file=folder / "log.key") as seated:
        _seats(seated)
        _held_packs(seated, folder)
    told = [service, queued, bare, seated]
    for came in ("succeeded", "refused"):
        missing = set(service.operations).difference(*(getattr(one, came) for one in told))
        assert not missing, f"{', '.join(sorted(missing))} never {came}: ask for it in {Path(__file__).name}"
    by_operation = (
        "\n".join([f"===== {operation}: {' '.join(way)}\n", *(line for one in told for line in one.answers.get(operation, ()))])
        for operation, way in service.operations.items()
    )
    return "\n".join([*by_operation, "===== any\n", *service.answers[_ANY]]), "\n".join(pages)


def _competitions(service: Service) -> None:
    ask = service.ask
    ask("getLeaderboard")
    made = service.competition()
    ask("registerAgent", ALICE, competition_id=made, json=_entry("llm"))
    ask("registerAgent", ALICE, competition_id=made, json=_entry("baseline", proof_mode="honest"))
    ask("registerAgent", ALICE, competition_id=made, json=_entry("baseline"))
    ask("registerAgent", ALICE, competition_id=made, json=_entry("nobody-wrote-this"))
    ask("registerAgent", ALICE, competition_id=made, json=_entry("baseline", config={"stake": "lots"}))
    ask("withdrawAgent", ALICE, competition_id=made, agent_id="llm")
    ask("startCompetition", BOB, competition_id=made)
    ask("cancelCompetition", ALICE, competition_id=made)
    ask("completeCompetition", ALICE, competition_id=made)
    ask("getCompetition", competition_id=made)
    ask("openCompetition", ALICE, competition_id=made)
    ask("openCompetition", ALICE, competition_id=made)
    ask("startCompetition", ALICE, competition_id=made)
    ask("startCompetition", ALICE, competition_id=made)
    ask("registerAgent", ALICE, competition_id=made, json=_entry("late"))
    ask("withdrawAgent", ALICE, competition_id=made, agent_id="baseline")
    ask("deleteCompetition", ALICE, competition_id=made)
    ask("getCompetition", competition_id=made)
    ask("listCompetitionEvents", competition_id=made, params={"since_seq": -1})
    ask("listCompetitionEvents", competition_id=made, params={"since_seq": 1, "limit": 1})
    ask("listAgentErrors", ALICE, competition_id=made)
    ask("listAgentErrors", BOB, competition_id=made)
    ask("completeCompetition", ALICE, competition_id=made)
    ask("createCompetition", ALICE, json=CONFIG | {"pack_id": GONE})
    ask("createCompetition", ALICE, json=BOUND | {"roster_size": 1})
    ask("createCompetition", ALICE, json=BOUND | {"scoring_window": "PT0S"})
    draft = service.competition(CONFIG, ())
    ask("startCompetition", ALICE, competition_id=draft)
    ask("deleteCompetition", BOB, competition_id=draft)
    ask("listCompetitions")
    ask("listCompetitions", params={"limit": 1})
    ask("listCompetitions", params={"status": "DRAFT", "owner": ALICE})
    ask("listCompetitions", params={"status": "GONE"})
    ask("listCompetitions", params={"cursor": "garbage", "limit": 1})
    ask("registerAgent", ALICE, competition_id=draft, json=_entry("baseline"))
    ask("withdrawAgent", ALICE, competition_id=draft, agent_id="baseline")
    ask("deleteCompetition", ALICE, competition_id=draft)
    ask("getLeaderboard")
    ask("getLeaderboard", params={"limit": 1, "after_rank": 1, "grouped": "true"})
    ask("getLeaderboard", params={"limit": 0})


def _deploys(service: Service) -> None:
    ask, once = service.ask, {"Idempotency-Key": "once"}
    made = ask("deployAgent", ALICE, json=DEPLOY, headers=once).json()
    ask("deployAgent", ALICE, json=DEPLOY, headers=once)
    ask("deployAgent", ALICE, json=DEPLOY | {"strategy": "baseline"}, headers=once)
    ask("deployAgent", ALICE, json=DEPLOY | {"stake": -5, "sizing": "x"})
    ask("deployAgent", ALICE, json=DEPLOY | {"pack_id": GONE})
    ask("listInstances", ALICE)
    ask("listInstances", ALICE, params={"limit": 0})
    ask("getInstance", ALICE, instance_id=made["instance_id"])
    ask("getInstance", BOB, instance_id=made["instance_id"])
    ask("listRuntimeEvents", ALICE, instance_id=made["instance_id"], params={"limit": 3})
    ask("listRuntimeEvents", ALICE, instance_id=made["instance_id"], params={"since": -1})
    ask("getMe", ALICE)


def _seats(service: Service) -> None:
    ask, one = service.ask, {"agent_id": "me", "pack_id": "starter", "fixture_ids": [FIXTURE]}
    with patch("secrets.token_bytes", bytes):  # as many zeros
        start = ask("takeSeat", ALICE, json=one).json()
        other = ask("takeSeat", ALICE, json=one | {"blind": "open", "colour": "red"}).json()
    ask("takeSeat", ALICE, json=one | {"pack_id": GONE})
    ask("takeSeat", json=one)
    own, tick = {"seat_id": start["seat_id"]}, start["next"]
    ask("getSeat", ALICE, **own)
    ask("getSeat", BOB, **own)
    back = {"tick": 1, "action": "BACK", "side": tick["view"]["sides"][0][0]}
    first = ask("actInSeat", ALICE, json=back, **own).json()
    ask("actInSeat", ALICE, json={"tick": 1}, **own)
    ask("actInSeat", ALICE, json={"tick": 7}, **own)
    ask("actInSeat", ALICE, json={"tick": 2, "action": "BACK", "side": GONE}, **own)
    ask("actInSeat", ALICE, json={"tick": 2, "action": "LAY"}, **own)
    ask("getSeatChain", ALICE, **own)
    ask("withdrawSeat", ALICE, seat_id=other["seat_id"])
    ask("withdrawSeat", ALICE, seat_id=other["seat_id"])
    tick = first["next"]
    while tick:
        body = {"tick": tick["view"]["tick"]}
        tick = service.get("POST", f"/arena/seats/{start['seat_id']}/actions", ALICE, json=body).json()["next"]
    ask("getSeat", ALICE, **own)
    ask("getSeatChain", ALICE, **own)
    ask("listSeats", ALICE)
    ask("listSeats", ALICE, params={"limit": 0})
    rules = {"name": "Spring", "pack_id": "starter", "fixture_ids": [FIXTURE], "blind": "open"}
    created = ask("createSeatCompetition", ALICE, json=rules | {"colour": "red"}).json()
    ask("createSeatCompetition", ALICE, json=rules | {"blind": "aliased"})
    ask("createSeatCompetition", json=rules)
    among = {"competition_id": created["competition_id"]}
    ask("takeSeat", BOB, json={"agent_id": "me", "blind": "aliased", **among})
    with patch("secrets.token_bytes", bytes):
        ask("takeSeat", BOB, json={"agent_id": "me", **among})
    ask("closeSeatCompetition", BOB, **among)
    ask("closeSeatCompetition", ALICE, **among)
    ask("closeSeatCompetition", ALICE, **among)
    ask("takeSeat", BOB, json={"agent_id": "me", **among})
    ask("getSeatCompetition", **among)
    ask("getSeatCompetition", competition_id=GONE)
    ask("listSeatCompetitions")
    ask("listSeatCompetitions", params={"limit": 0})


def _held_packs(service: Service, folder: Path) -> None:
    ask, held = service.ask, service.client.app.state.application.seats.held
    build(Recipe(seed=3, fixtures=1, messages=20), folder / "vault")
    with patch("secrets.token_bytes", bytes):
        held.hold_back(folder / "vault")
        ask("takeSeat", ALICE, json={"agent_id": "me", "blind": "held-back"})
        ask("takeSeat", ALICE, json={"agent_id": "me", "blind": "held-back"})
    ask("listHeldPacks")
    ask("listHeldPacks", params={"colour": "red"})
    ask("listHeldFixtures", pack_id="vault")
    held.release("vault")
    ask("listHeldFixtures", pack_id="vault")


def _backtests(service: Service) -> str:
    ask, sealed = service.ask, lambda answer: answer.status_code in (200, 201)
    made = ask("runBacktest", json=BACKTEST, headers=PATIENT, come=sealed).json()
    several = ask("runBacktest", json=SEVERAL, headers=PATIENT | {"Idempotency-Key": "several"}, come=sealed).json()
    ask("runBacktest", json=BACKTEST, headers={"Idempotency-Key": "several"})
    ask("runBacktest", json=BACKTEST | {"pack_id": GONE})
    ask("runBacktest", json=BACKTEST | {"fixture_id": 5})
    ask("runBacktest", json=BACKTEST | {"end_rule": "never"})
    ask("runBacktest", json=BACKTEST | {"colour": "red"})
    ask("runBacktest", json=SEVERAL | {"policy": {"max_orders": -1}})
    ask("runBacktest", json=SEVERAL | {"strategy": "nobody-wrote-this"})
    ask("listBacktests")
    ask("listBacktests", params={"limit": 1})
    ask("listBacktests", params={"cursor": "garbage"})
    for one in (made, several):
        ask("getBacktest", backtest_id=one["backtest_id"])
    ask("getTearSheet", backtest_id=several["backtest_id"])
    ask("cancelBacktest", backtest_id=several["backtest_id"], headers={"Idempotency-Key": "several"})
    ask("cancelBacktest", backtest_id=several["backtest_id"], headers={"Idempotency-Key": "other"})
    return several["run_id"]


def _runs(service: Service, several: str) -> None:
    ask = service.ask
    ask("listRuns")
    ask("listRuns", params={"kind": "backtest", "limit": 1})
    ask("listRuns", params={"kind": "gamble"})
    (run,) = [one for one in _json(service, "/runs")["runs"] if one["kind"] == "competition"]
    for run_id in (run["run_id"], several):
        for operation in (
            "getRun", "getChecks", "getLogStanding", "getProgress", "verifyRun", "getBundle", "getEvidence", "getScores",
            "getManifest", "listDecisions", "getExecutable",
        ):  # fmt: skip
            ask(operation, run_id=run_id)
    ask("listDecisions", run_id=run_id, params={"limit": 2, "valid": "true", "sort": "-clv_bps"})
    ask("listDecisions", run_id=run_id, params={"sort": "colour"})
    ask("listDecisions", run_id=run_id, headers={"Accept": "image/png"})
    ask("getEvidence", run_id=run_id, headers={"Accept": "application/octet-stream"})
    ask("getEvidence", run_id=run_id, headers={"Range": "bytes=0-9"})
    ask("getEvidence", run_id=run_id, headers={"Range": "bytes=1000000000-"})
    first = _json(service, f"/runs/{run_id}/decisions?limit=1")["decisions"][0]
    ask("inspectDecision", run_id=run_id, seq=first["seq"])
    ask("inspectDecision", run_id=run_id, seq=10**6)
    ask("inspectDecision", run_id=run_id, seq="first")


def _json(service: Service, path: str) -> Any:
    return service.get("GET", path).json()


def _packs(service: Service) -> None:
    ask = service.ask
    ask("listReplayPacks")
    ask("getReplayPack", pack_id="starter")
    ask("listPackFixtures", pack_id="starter")
    ask("listPackFixtures", pack_id="starter", params={"limit": 1, "market": "1X2"})
    ask("listPackFixtures", pack_id="starter", params={"after": "noon"})
    ask("listStrategies")
    ask("getStrategy", strategy="cumulative-drift")


def _uploads(service: Service, folder: Path) -> None:
    ask = service.ask
    ask("listUploadedPacks", ALICE)
    ask("uploadPack", ALICE, content=ODDS, params=TABLE)
    ask("uploadPack", ALICE, content=ODDS, params=TABLE)
    ask("uploadPack", ALICE, content=ODDS.replace(b"2.0", b"2.2"), params=TABLE)
    ask("uploadPack", ALICE, content=ODDS, params=TABLE | {"margin": "magic"})
    ask("uploadPack", ALICE, content=_archive(folder / "uploads"))
    ask("listUploadedPacks", ALICE)
    ask("getUploadedPack", ALICE, pack_id="odds")
    ask("getUploadedPack", BOB, pack_id="odds")
    ask("createCompetition", ALICE, json=CONFIG | {"pack_id": "odds"})
    ask("deleteUploadedPack", ALICE, pack_id="odds")
    (draft,) = [one for one in _json(service, "/competitions") if one["config"]["pack_id"] == "odds"]
    ask("deleteCompetition", ALICE, competition_id=draft["competition_id"])
    ask("deleteUploadedPack", ALICE, pack_id="odds")


def _archive(uploads: Path) -> bytes:
    """Return a zip of the only pack below a folder, in which its ticks were changed."""
    (described,) = uploads.rglob("datapackage.json")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(described.parent.rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                changed = content[:-1] if path.name == "ticks.parquet" else content
                archive.writestr(zipfile.ZipInfo(path.relative_to(described.parent).as_posix()), changed)
    return packed.getvalue()


def _rest(service: Service) -> None:
    ask = service.ask
    first = service.get("GET", "/replay-packs/starter")
    service.note("GET", "/replay-packs/starter", headers={"If-None-Match": first.headers["etag"]})
    service.note("GET", "/strategies", headers={"Accept-Encoding": "gzip"})
    for method, path in (("HEAD", "/runs"), ("OPTIONS", "/runs"), ("DELETE", "/leaderboard"), ("GET", f"/{GONE}")):
        service.note(method, path)
    run, competition = (_json(service, path) for path in ("/runs?kind=competition&limit=1", "/competitions?limit=1"))
    for path in (
        f"/runs/{run['runs'][0]['run_id']}/progress",
        f"/competitions/{competition[0]['competition_id']}/arena",
        f"/competitions/{competition[0]['competition_id']}/arena?since_seq=first",
        f"/competitions/{GONE}/arena",
    ):
        service.answers[_ANY].append("\n".join([f"> WEBSOCKET {path}", *_streamed(service, path), ""]))
    ask("getLog")
    ask("getCheckpoint")
    ask("getTilesCheckpoint")
    ask("getTile", tile="0/000.p/2")
    ask("getTile", tile="0/7")
    ask("getTilesRestarts")
    ask("listLogEntries", params={"since": 1, "limit": 2})
    ask("listLogEntries", params={"limit": 0})
    ask("getConsistency", params={"first": 1, "second": 3})
    ask("getConsistency", params={"first": 3, "second": 1})
    ask("runDemo")
    ask("getIndex")
    ask("listProblems")
    ask("health")
    ask("readiness", come=lambda answer: answer.status_code == 200)  # within a second, which a busy machine may take
    ask("metrics", come=lambda answer: "clvlab_store_up 1.0" in answer.text)


def _pages(service: Service, several: str) -> Iterator[str]:
    """Look at every address that has a page: where a document has operations, and elsewhere."""
    alone, *_ = [one["run_id"] for one in _json(service, "/runs")["runs"] if one["kind"] == "competition"]
    seq = _json(service, f"/runs/{several}/decisions?limit=1")["decisions"][0]["seq"]
    done, demo = (one["competition_id"] for one in _json(service, "/competitions")[:2])
    parts = [
        {"run_id": several, "seq": seq, "competition_id": done, "pack_id": "starter", "form": "svg"},
        {"run_id": alone, "seq": 1, "competition_id": demo, "pack_id": "season", "form": "svg"},
    ]
    parts = [{**own, "backtest_id": own["run_id"].replace("run_", "bt_", 1)} for own in parts]
    paths = sorted({route.path for route in iter_route_contexts(service.client.app.routes) if _is_page(route)})
    for path in paths:
        for own in parts if "{" in path else parts[:1]:
            yield _page(service, path.format(**own))
    for path in (
        "/runs?limit=1",
        "/leaderboard?limit=1",
        "/leaderboard?limit=0",
        f"/runs/{several}/decisions?limit=2&valid=true",
    ):
        yield _page(service, path)
    for path in (f"/runs/{GONE}", f"/{GONE}", "/openapi.json", *_styles(service)):
        yield _page(service, path)
    yield _document(service.client.app.openapi())


def _styles(service: Service) -> list[str]:
    home = service.get("GET", "/", headers=BROWSER).text
    return sorted(set(re.findall(r'(?:href|src)="(/assets/[^"]+)"', home)))


def _page(service: Service, path: str) -> str:
    """Return what is told of a page: its hash, and those of its parts by their headings."""
    answer = service.get("GET", path, headers=BROWSER)
    whole = _RELEASE.of_text(answer.text)
    lines = [f"===== {path}", *_head(answer), hashed(whole.encode())]
    if answer.headers["content-type"].startswith("text/html"):
        for part in re.split(r"(?=<(?:title|h[1-4])\b)", whole):
            heading = re.match(r"<(\w+)[^>]*>(.*?)</\1>", part, re.DOTALL)
            named = f"{heading[1]} {' '.join(re.sub('<[^>]*>', '', heading[2]).split())!r}" if heading else "before"
            lines.append(f"  {named}: {hashed(part.encode())}")
    return "\n".join([*lines, ""])


def _document(document: Mapping[str, Any]) -> str:
    """Return hashes of what the document says of each operation, and of each shape."""
    said = {f"{method.upper()} {path}": told for path, methods in document["paths"].items() for method, told in methods.items()}
    said |= {name: shape for shapes in document["components"].values() for name, shape in shapes.items()}
    rows = (f"  {name}: {hashed(json.dumps(told).encode())}" for name, told in said.items())
    return "\n".join(["===== /openapi.json, part by part", *rows, ""])


def _is_page(route: Any) -> bool:
    return getattr(route, "include_in_schema", True) is False and not {"{digest}", "openapi.json"} & set(route.path.split("/"))


def _streamed(service: Service, path: str) -> Iterator[str]:
    """Return what is sent over a socket until the service closes it."""
    try:
        with service.client.websocket_connect(path, headers=_REQUEST) as socket:
            sent: list[Any] = []
            try:
                while True:
                    sent.append(socket.receive_json())
            except WebSocketDisconnect as end:
                yield from outline(json.dumps(sent).encode(), _PLACEHOLDERS)
                yield f"closed with {end.code}: {end.reason}"
    except WebSocketDenialResponse as refusal:
        yield from _answered(refusal)


def _refused_alike(service: Service) -> None:
    """Ask for each operation in the ways in which every one of its kind is refused."""
    parts = dict.fromkeys(
        (
            "competition_id",
            "agent_id",
            "instance_id",
            "strategy",
            "backtest_id",
            "pack_id",
            "run_id",
            "upload_id",
            "seat_id",
            "tile",
        ),
        GONE,
    )
    document = service.client.app.openapi()["paths"]
    for operation, (method, path) in service.operations.items():
        described = document[path][method.lower()]
        named = {name: value for name, value in (parts | {"seq": 1}).items() if f"{{{name}}}" in path}
        service.ask(operation, ALICE, params={"colour": "red"}, **named)
        if described.get("security"):
            service.ask(operation, **named)
        if named:
            body = {"json": _entry("baseline")} if "requestBody" in described else {}
            service.ask(operation, ALICE, headers={"Idempotency-Key": "other"}, **named, **body)
        if "application/json" in described.get("requestBody", {}).get("content", ()):
            service.ask(operation, ALICE, json=[], **named)
            service.ask(operation, ALICE, content=b"{}", **named)
            service.ask(operation, ALICE, content=b"{", headers={"Content-Type": "application/json"}, **named)
            service.ask(operation, ALICE, json={"text": 300_000 * "x"}, **named)


def _under_way(service: Service) -> Iterator[str]:
    """Ask a service in which nobody performs jobs; gives pages of what is not over."""
    jobs = service.client.app.state.application.jobs
    jobs.stop()
    jobs.workers, service.is_idle = 0, False
    ask, mine = service.ask, {"Idempotency-Key": "mine"}
    made = ask("runBacktest", json=SEVERAL, headers=ASYNC | mine).json()
    ask("getBacktest", backtest_id=made["backtest_id"])
    ask("getTearSheet", backtest_id=made["backtest_id"])
    ask("getProgress", run_id=made["run_id"])
    ask("getRun", run_id=made["run_id"])
    ask("getEvidence", run_id=made["run_id"])
    yield _page(service, f"/runs/{made['run_id']}")
    ask("cancelBacktest", backtest_id=made["backtest_id"], headers={"Idempotency-Key": "other"})
    ask("cancelBacktest", backtest_id=made["backtest_id"], headers=mine)
    ask("getBacktest", backtest_id=made["backtest_id"])
    yield _page(service, f"/runs/{made['run_id']}")
    started = service.competition()
    yield _page(service, f"/competitions/{started}")
    ask("startCompetition", ALICE, competition_id=started, headers=ASYNC)
    ask("getCompetition", competition_id=started)
    yield _page(service, f"/competitions/{started}")
    ask("startCompetition", ALICE, competition_id=started)
    ask("cancelCompetition", BOB, competition_id=started)
    ask("cancelCompetition", ALICE, competition_id=started)
    ask("getCompetition", competition_id=started)
    owned = ask("runBacktest", ALICE, json=BACKTEST, headers=ASYNC | {"Idempotency-Key": "own"}).json()
    ask("cancelBacktest", BOB, backtest_id=owned["backtest_id"])
    ask("cancelBacktest", ALICE, backtest_id=owned["backtest_id"])
    whole = {"fixture_id": None, "fixture_ids": "all"}
    deployed = ask("deployAgent", ALICE, json=DEPLOY | whole, headers=ASYNC).json()
    ask("deployAgent", ALICE, json=DEPLOY | {"fixture_ids": [FIXTURE], "fixtures": "all"})
    ask("createCompetition", ALICE, json=BOUND | whole)
    ask("createCompetition", ALICE, json=BOUND | {"fixture_ids": [FIXTURE], "fixtures": "all"})
    for operation, by in (
        ("getInstance", ALICE),
        ("deleteInstance", ALICE),
        ("cancelInstance", BOB),
        ("cancelInstance", ALICE),
    ):
        ask(operation, by, instance_id=deployed["instance_id"])
    for operation in ("cancelInstance", "deleteInstance", "getInstance", "deleteInstance"):
        ask(operation, ALICE, instance_id=deployed["instance_id"])
    _under_verification(service)


def _under_verification(service: Service) -> None:
    """Ask about an upload whose verification waits until all is asked."""
    ask, let_go = service.ask, Event()

    def settle(_: object, upload_id: str, incoming: IncomingUpload) -> None:  # noqa: ARG001
        let_go.wait()
        incoming.discard()

    with patch.object(UploadJobs, "settle", settle):
        upload_id = ask("uploadPack", ALICE, content=ODDS, params=TABLE, headers=ASYNC).json()["upload_id"]
        for operation in ("getUpload", "cancelUpload"):
            ask(operation, BOB, upload_id=upload_id)
            ask(operation, ALICE, upload_id=upload_id)
        ask("cancelUpload", ALICE, upload_id=upload_id)
        let_go.set()


def _without(service: Service) -> None:
    """Ask a service without uploads, a key of the log, and room."""
    ask = service.ask
    ask("runBacktest", json=BACKTEST)
    ask("deployAgent", ALICE, json=DEPLOY)
    ask("uploadPack", ALICE, content=ODDS, params=TABLE)
    ask("listUploadedPacks", ALICE)
    ask("getCheckpoint")
    ask("getTilesCheckpoint")
    draft = service.competition(BOUND, ("baseline",))
    ask("startCompetition", ALICE, competition_id=draft)
    ask("createCompetition", ALICE, json=CONFIG)
