"""What the OpenAPI document promises, held against the running service by programs that know the document only."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Event

import pytest

from clvlab.arena import run_jobs
from clvlab.arena.uploads import uploads
from tests.length import length
from tests.service.serving import BACKTEST, BOUND, DEPLOY, FIXTURE, api, make_entry
from tests.service.test_uploads import ODDS
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.long

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,ensure_resource_availability,use_after_free,unsupported_method,missing_required_header,"
    "ignored_auth,negative_data_rejection"
)
TYPED = """
import type { components, paths } from "./api";

type Schemas = components["schemas"];
const params: Schemas["CumulativeDriftParams"] = { min_drift_micro_logits: 1000 };
const entry: Schemas["AgentEntry"] = { agent_id: "a", strategy: "cumulative-drift", config: params };
const other: Schemas["AgentEntry"] = { agent_id: "b", strategy: "mine", config: { colour: "vermilion" } };
const deploy: Schemas["DeployConfig"] = { strategy: "cumulative-drift", source_mode: "replay", pack_id: null };
const backtest: Schemas["BacktestRunRequest"] = { pack_id: "p", fixture_id: 1, window_id: "w", market_allowlist: [""] };
type Answers<P extends keyof paths> = paths[P] extends { get: { responses: { 200: { content: infer C } } } } ? C : never;
const bytes: Answers<"/runs/{run_id}/evidence">["application/octet-stream"] = "";
const note: Answers<"/log/checkpoint">["text/plain"] = "";
const faults = (problem: Schemas["Problem"]): string[] =>
  [...(problem.errors ?? []).map((fault) => fault.msg), ...(problem.checks ?? []).map((check) => check.message)];
// @ts-expect-error  a market is named by a text
const wrong: Schemas["BacktestRunRequest"] = { pack_id: "p", fixture_id: 1, window_id: "w", market_allowlist: [1] };
export { entry, other, deploy, backtest, bytes, note, faults, wrong };
"""


over_stores = pytest.mark.parametrize("store", length(["postgresql"], ["memory", "postgresql"]), indirect=True)


@pytest.fixture(scope="module")
def served(store, keys, tmp_path_factory):
    with api(keys, store, public_queue=100, uploads=tmp_path_factory.mktemp("uploads")) as found:
        found.started()
        yield found


@over_stores
def test_generated_requests_get_declared_answers_only(served, tmp_path):
    """Examples, edge cases and random bodies."""
    limits = ["--max-examples", length("4", "8"), "--max-time", length("8", "60")]

    checked(served, tmp_path, *limits, "--phases", "examples,coverage,fuzzing")


@over_stores
def test_generated_sequences_of_linked_calls_get_declared_answers_only(served, tmp_path):
    """Calls that feed each other along the links of the document."""
    served.competition()
    for path, body in (("/agents/deploy", DEPLOY), ("/backtests", BACKTEST)):
        served.post(path, body)
    limits = ["--max-examples", length("10", "30"), "--max-time", length("20", "120")]

    done = checked(served, tmp_path, *limits, "--phases", "stateful")

    covered = re.search(r"API Links: +([0-9]+) covered", done.stdout)
    assert int(covered[1]) >= length(5, 25), done.stdout[-6000:]


REFUSALS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 415, 422, 428, 429, 431, "5xx"]
"""  # its own, and 431 for a value that makes the address too long


def checked(served, folder, *options):
    (folder / "schemathesis.toml").write_text(REFUSALS)
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json", "--checks", CHECKS]
    how = ["--generation-deterministic", "--no-shrink", "--warnings", "off"]
    token = ["--header", f"Authorization: Bearer {served.token()}"]
    done = subprocess.run([*command, *how, *token, *options], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    return done


@pytest.fixture(scope="module")
def generated(served, tmp_path_factory):
    """The client that openapi-python-client writes of the document."""
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_bytes(served.nobody.get("/openapi.json").content)
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(document), "--meta", "none"]
    done = subprocess.run(
        [*command, "--output-path", str(folder / "generated_client")],
        cwd=folder,
        env={"PATH": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr, "it can't read something of the document"
    sys.path.insert(0, str(folder))
    yield "generated_client"
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "generated_client"]:
        del sys.modules[name]


class Generated:
    """Calls through a generated client: ``client("runs.get_run", run_id)``; its status and parsed answer must be declared."""

    def __init__(self, package, served):
        client = importlib.import_module(f"{package}.client")
        self.package, self.models = package, importlib.import_module(f"{package}.models")
        self.client = client.AuthenticatedClient(served.url, served.token(), raise_on_unexpected_status=True)

    def __enter__(self):
        self.client.__enter__()
        return self

    def __exit__(self, *error):
        self.client.__exit__(*error)

    def __call__(self, operation, *ids, expect=200, **options):
        answer = importlib.import_module(f"{self.package}.api.{operation}").sync_detailed(*ids, client=self.client, **options)
        assert answer.status_code == expect, answer.content
        return answer.parsed

    def body(self, model, value):
        return getattr(self.models, model).from_dict(value)

    def refused(self, operation, *ids, status):
        problem = self(operation, *ids, expect=status)
        assert isinstance(problem, self.models.Problem)
        return problem


@pytest.fixture
def client(served, generated):
    with Generated(generated, served) as found:
        yield found


def watched(client, run_id, status="sealed"):
    """The progress of a run once it is over."""
    return until(lambda: (found := client("runs.get_progress", run_id)).status == status and found)


@over_stores
def test_a_generated_client_walks_the_life_of_a_competition(client):
    create = partial(client, "competitions.create_competition", body=client.body("CompetitionConfig", BOUND), expect=201)
    created = create().competition_id
    for entry in (make_entry(), make_entry("cumulative-drift"), make_entry(agent_id="leaves")):
        client("competitions.register_agent", created, body=client.body("AgentEntry", entry), expect=201)
    client("competitions.withdraw_agent", created, "leaves", expect=204)
    assert client("competitions.open_competition", created).status == "open"

    asked = client("competitions.start_competition", created, prefer="wait=60")
    assert watched(client, asked.run_id).competition_id == created
    state = client("competitions.get_competition", created)
    events = client("competitions.list_competition_events", created, since_seq=-1)
    decision = client("runs.list_decisions", asked.run_id, limit=1).decisions[0]

    assert (state.status, [entry.agent_id for entry in state.roster]) == ("finalized", ["baseline", "cumulative-drift"])
    assert [events[0].kind, events[-1].kind] == ["COMPETITION_STARTED", "COMPETITION_FINALIZED"]
    assert client("runs.inspect_decision", asked.run_id, decision.seq).agent_id == decision.agent_id
    assert client("runs.verify_run", asked.run_id).verified is True
    assert client("competitions.complete_competition", created).status == "completed"
    for operation in ("start_competition", "cancel_competition", "delete_competition"):
        problem = client.refused(f"competitions.{operation}", created, status=409)
        assert problem.documentation_url.startswith("/problems#")
    other = create().competition_id
    client("competitions.delete_competition", other, expect=204)
    client.refused("competitions.get_competition", other, status=404)


@over_stores
def test_a_generated_client_walks_the_life_of_a_deploy(client):
    body = client.body("DeployConfig", DEPLOY)
    deployed = client("agents.deploy_agent", body=body, idempotency_key="walk", expect=201)
    assert client("agents.deploy_agent", body=body, idempotency_key="walk") == deployed

    assert watched(client, deployed.run_id).instance_id == deployed.instance_id
    assert client("agents.get_instance", deployed.instance_id).run_status == "sealed"
    assert client("agents.list_runtime_events", deployed.instance_id).events[0].type_ == "RUN_QUEUED"
    assert deployed.instance_id in [one.instance_id for one in client("agents.list_instances").instances]
    client.refused("agents.cancel_instance", deployed.instance_id, status=409)
    client("agents.delete_instance", deployed.instance_id, expect=204)
    client.refused("agents.get_instance", deployed.instance_id, status=404)
    assert client("runs.get_run", deployed.run_id).run.status == "sealed"


@over_stores
def test_a_generated_client_walks_the_life_of_a_backtest(client):
    body = client.body("BacktestRunRequest", BACKTEST | {"window_id": "walk"})
    made = client("backtests.run_backtest", body=body, expect=201)
    assert client("backtests.run_backtest", body=body) == made

    report = client("backtests.get_backtest", made.backtest_id)
    assert (report.fixture_id, report.window.end_rule) == (FIXTURE, "pre_match")
    assert "<html" in client("backtests.get_tear_sheet", made.backtest_id)
    assert made.backtest_id in [one.backtest_id for one in client("backtests.list_backtests").backtests]
    client.refused("backtests.cancel_backtest", made.backtest_id, status=409)


@over_stores
def test_a_generated_client_walks_the_life_of_an_upload(client, generated):
    types = importlib.import_module(f"{generated}.types")
    send = partial(client, "uploads.upload_pack", pack_id="odds", source="csv", column=["book=bookmaker"])

    assert send(body=types.File(BytesIO(ODDS)), expect=201) == send(body=types.File(BytesIO(ODDS)))
    state = send(body=types.File(BytesIO(ODDS)), prefer="respond-async", expect=202)
    over = until(lambda: (found := client("uploads.get_upload", state.upload_id)).status == "sealed" and found)
    assert (over.pack_id, over.run_id) == ("odds", None)
    assert [one.pack_id for one in client("uploads.list_uploaded_packs").packs] == ["odds"]
    client.refused("uploads.cancel_upload", state.upload_id, status=409)
    assert client("uploads.get_uploaded_pack", "odds").fixtures
    client("uploads.delete_uploaded_pack", "odds", expect=204)
    client.refused("uploads.get_uploaded_pack", "odds", status=404)


def test_a_generated_client_cancels_every_kind_of_job(keys, generated, monkeypatch, tmp_path):
    go_on, verified = Event(), uploads.verified_upload
    monkeypatch.setattr(run_jobs, "perform", lambda *job, do=run_jobs.perform: go_on.wait(PATIENCE_S) and do(*job))
    monkeypatch.setattr(uploads, "verified_upload", lambda *job: go_on.wait(PATIENCE_S) and verified(*job))
    with api(keys, uploads=tmp_path / "uploads") as served, Generated(generated, served) as client:
        at_once = {"prefer": "respond-async", "expect": 202}
        try:
            created = served.competition(agents=("baseline",))
            client("competitions.start_competition", created, **at_once)
            deployed = client("agents.deploy_agent", body=client.body("DeployConfig", DEPLOY), **at_once)
            asked = client("backtests.run_backtest", body=client.body("BacktestRunRequest", BACKTEST), **at_once)
            file = importlib.import_module(f"{generated}.types").File(BytesIO(ODDS))
            sent = client("uploads.upload_pack", body=file, pack_id="odds", source="csv", **at_once)

            assert client("backtests.get_backtest", asked.backtest_id, expect=202).status in ("queued", "running")
            ended = [
                client("agents.cancel_instance", deployed.instance_id),
                client("backtests.cancel_backtest", asked.backtest_id, idempotency_key=asked.key),
                client("uploads.cancel_upload", sent.upload_id),
            ]
            assert client("competitions.cancel_competition", created).status == "draft"
        finally:
            go_on.set()
        assert [(one.status, one.cause) for one in ended] == [("failed", "cancelled")] * 3
        client("competitions.delete_competition", created, expect=409)
        client("agents.delete_instance", deployed.instance_id, expect=204)


@over_stores
@pytest.mark.parametrize("file", ["evidence", "scores", "manifest"])
def test_a_generated_client_has_sealed_files_as_bytes(served, generated, file):
    run_id = served.get("/runs", limit=1)["runs"][0]["run_id"]
    client = importlib.import_module(f"{generated}.client").Client(served.url)

    with client:
        read = importlib.import_module(f"{generated}.api.runs.get_{file}").sync(run_id, client=client)

    assert read.payload.read() == served.nobody.get(f"/runs/{run_id}/{file}").content


@over_stores
def test_a_generated_client_has_a_bundle_as_bytes_and_metrics_as_text(served, generated):
    run_id = served.get("/runs", limit=1)["runs"][0]["run_id"]
    client = importlib.import_module(f"{generated}.client").Client(served.url)

    with client:
        bundle = importlib.import_module(f"{generated}.api.runs.get_bundle").sync(run_id, client=client)
        measured = importlib.import_module(f"{generated}.api.operations.metrics").sync(client=client)

    assert bundle.payload.read(2) == served.nobody.get(f"/runs/{run_id}/bundle").content[:2]
    assert "clvlab_http_request_seconds" in measured


@pytest.fixture(scope="module")
def typescript(served, tmp_path_factory):
    """A folder with the types that openapi-typescript writes, and its compiler; with installed packages of npm only."""
    tools = [shutil.which(name) for name in ("openapi-typescript", "tsc", "node")]
    if None in tools:
        pytest.skip("no openapi-typescript, tsc and node on the path: npm install --global openapi-typescript typescript")
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "openapi.json").write_bytes(served.nobody.get("/openapi.json").content)
    performed(folder, tools[0], "openapi.json", "--output", "api.d.ts")
    return folder


def performed(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@over_stores
def test_types_that_openapi_typescript_writes_without_options_fit_a_program(typescript):
    (typescript / "program.ts").write_text(TYPED)

    performed(typescript, "tsc", "--strict", "--noEmit", "program.ts")


@over_stores
def test_a_program_with_the_types_of_openapi_typescript_walks_every_life(served, typescript):
    shutil.copy(Path(__file__).with_name("walk.mts"), typescript)
    bound = json.dumps({"pack_id": "starter", "fixture_id": FIXTURE})

    performed(typescript, "tsc", "--strict", "--target", "es2022", "--module", "nodenext", "walk.mts")
    performed(typescript, "node", "walk.mjs", served.url, served.token(), bound, ODDS.decode())
