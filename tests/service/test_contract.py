"""What the OpenAPI document promises, held against the running service by programs that know the document only."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.serving import BACKTEST, BOUND, FIXTURE, api, make_entry

pytestmark = pytest.mark.long

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,ensure_resource_availability,use_after_free"
)


@pytest.fixture(scope="module")
def served(store, keys):
    with api(keys, store, public_queue=100) as found:
        found.started()
        yield found


def test_generated_requests_get_declared_answers_only(served, tmp_path):
    """Examples, edge cases, random bodies, and sequences of calls that feed each other."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json", "--checks", CHECKS]
    limits = ["--max-examples", "8", "--max-time", "15", "--generation-deterministic", "--no-shrink", "--warnings", "off"]
    token = ["--header", f"Authorization: Bearer {served.token()}"]

    done = subprocess.run([*command, *limits, *token], cwd=tmp_path, capture_output=True, text=True, check=False)

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
    left_out = re.findall("WARNING parsing (.*) within", done.stdout + done.stderr)
    assert left_out == ["GET /runs/{run_id}/evidence", "GET /runs/{run_id}/scores"], "it can't read JSON lines, and all else"
    sys.path.insert(0, str(folder))
    yield "generated_client"
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "generated_client"]:
        del sys.modules[name]


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
