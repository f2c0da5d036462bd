"""What the OpenAPI document promises, held against the running service by programs that know the document only."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.length import length
from tests.service.serving import BACKTEST, BOUND, FIXTURE, api, make_entry

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
const deploy: Schemas["DeployConfig"] = { strategy: "cumulative-drift", pack_id: null };
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
def served(store, keys):
    with api(keys, store, public_queue=100) as found:
        found.started()
        yield found


@over_stores
def test_generated_requests_get_declared_answers_only(served, tmp_path):
    """Examples, edge cases, random bodies, and sequences of calls that feed each other."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json", "--checks", CHECKS]
    limits = ["--max-examples", length("4", "8"), "--max-time", length("8", "15")]
    how = ["--generation-deterministic", "--no-shrink", "--warnings", "off"]
    token = ["--header", f"Authorization: Bearer {served.token()}"]

    done = subprocess.run([*command, *limits, *how, *token], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-6000:]


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


@over_stores
def test_a_generated_client_runs_a_competition_and_a_backtest(served, generated):
    def module(name):
        return importlib.import_module(f"{generated}.{name}")

    models = module("models")
    client = module("client").AuthenticatedClient(served.url, served.token(), raise_on_unexpected_status=True)

    with client:
        config = models.CompetitionConfig.from_dict(BOUND)
        created = module("api.competitions.create_competition").sync(client=client, body=config)
        entry = models.AgentEntry.from_dict(make_entry())
        module("api.competitions.register_agent").sync(created.competition_id, client=client, body=entry)
        started = module("api.competitions.start_competition").sync(created.competition_id, client=client)
        verified = module("api.runs.verify_run").sync(started.run_id, client=client)
        backtest = module("api.backtests.run_backtest").sync(client=client, body=models.BacktestRunRequest.from_dict(BACKTEST))
        report = module("api.backtests.get_backtest").sync(backtest.backtest_id, client=client)
        refused = module("api.competitions.start_competition").sync(created.competition_id, client=client)

    assert verified.verified is True
    assert report.fixture_id == FIXTURE
    assert refused.status == 409


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


def test_types_that_openapi_typescript_writes_without_options_fit_a_program(api_in_memory, tmp_path):
    """With the packages of npm that are installed; this installs none."""
    tools = [shutil.which(name) for name in ("openapi-typescript", "tsc")]
    if None in tools:
        pytest.skip("no openapi-typescript and tsc on the path: npm install --global openapi-typescript typescript")
    (tmp_path / "openapi.json").write_bytes(api_in_memory.nobody.get("/openapi.json").content)
    (tmp_path / "program.ts").write_text(TYPED)

    for command in ([tools[0], "openapi.json", "--output", "api.d.ts"], [tools[1], "--strict", "--noEmit", "program.ts"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
